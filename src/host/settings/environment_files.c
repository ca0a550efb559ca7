// Files that set variables: for everyone (/etc/environment, profiles), and for a service (units of systemd).
#include "host/settings/environment.h"

enum { FILE_MOST = 1 << 14, NAMES_MOST = 1 << 15, DROP_INS_MOST = 16 };

#define UNITS "/etc/systemd/system"

static bool is_unit(struct str path) { return str_starts(path, S(UNITS "/")); }

static void ask(struct host *h, struct probe *ret, size_t *n, const char *directory, struct str name)
{
	if (*n < ENVIRONMENT_FILES)
		ret[(*n)++] = (struct probe){ .path = arena_printf(&h->arena, "%s/" STR_FMT, directory, STR_ARG(name)).p,
					      .size = FILE_MOST };
}

static void ask_each(struct host *h, const struct probe *names, struct str end, struct probe *ret, size_t *n)
{
	struct str rest = probe_text(names);
	while (rest.n) {
		struct str name = str_split(&rest, '\n');
		if (str_ends(name, end))
			ask(h, ret, n, names->path, name);
	}
}

/** The drop-ins of services that the administrator changed. */
static void ask_drop_ins(struct host *h, const struct probe *units, struct probe *ret, size_t *n)
{
	struct probe lists[DROP_INS_MOST];
	struct str rest = probe_text(units);
	size_t found = 0;
	while (rest.n && found < DROP_INS_MOST) {
		struct str name = str_split(&rest, '\n');
		if (str_ends(name, S(".service.d")))
			lists[found++] = (struct probe){ .kind = PROBE_LIST,
							 .path = arena_printf(&h->arena, UNITS "/" STR_FMT, STR_ARG(name)).p };
	}
	if (found)
		host_probe(h, lists, found);
	for (size_t i = 0; i < found; i++)
		ask_each(h, &lists[i], S(".conf"), ret, n);
}

size_t environment_files(struct host *h, struct probe ret[static ENVIRONMENT_FILES])
{
	struct probe names[] = {
		{ .kind = PROBE_LIST, .path = "/etc/profile.d", .size = NAMES_MOST },
		{ .kind = PROBE_LIST, .path = "/etc/environment.d", .size = NAMES_MOST },
		{ .kind = PROBE_LIST, .path = UNITS, .size = NAMES_MOST },
	};
	size_t n = 0;
	ask(h, ret, &n, "/etc", S("environment"));
	ask(h, ret, &n, "/etc", S("profile"));
	host_probe(h, names, sizeof(names) / sizeof(names[0]));
	ask_each(h, &names[0], S(".sh"), ret, &n);
	ask_each(h, &names[1], S(".conf"), ret, &n);
	ask_drop_ins(h, &names[2], ret, &n);
	ask_each(h, &names[2], S(".service"), ret, &n);
	return n;
}

/** The word at the front, in quotes or not, without them. */
static struct str take_word(struct str *line)
{
	*line = str_trim(*line);
	if (line->n && (line->p[0] == '"' || line->p[0] == '\'')) {
		char quote = line->p[0];
		*line = str_from(*line, 1);
		return str_split(line, quote);
	}
	size_t n = 0;
	while (n < line->n && !char_space(line->p[n]) && line->p[n] != ';')
		n++;
	struct str word = str_cut(*line, n);
	*line = str_from(*line, n);
	return word;
}

/** `A=B`, where the quotes may be around B. */
static void take_setting(struct environment_source *s, struct str line, struct str where)
{
	struct str value = line, name = str_split(&value, '=');
	if (name.n == line.n || !know_variable(s->h->know, name))
		return;
	value = value.n && !char_space(value.p[0]) ? take_word(&value) : (struct str){ 0 };
	environment_take(s, arena_printf(&s->h->arena, STR_FMT "=" STR_FMT, STR_ARG(name), STR_ARG(value)), where);
}

/** `Environment="A=B" C=D`. */
static void take_unit_line(struct environment_source *s, struct str line, struct str where)
{
	struct str rest;
	if (!str_behind(line, S("Environment="), &rest))
		return;
	for (size_t n = rest.n + 1; rest.n && rest.n < n;) {
		n = rest.n;
		take_setting(s, take_word(&rest), where);
	}
}

void environment_take_file(struct environment_source *s, const struct probe *p)
{
	struct str text = probe_text(p), path = str_z(p->path);
	bool shell = str_starts(path, S("/etc/profile"));
	s->one = is_unit(path);
	for (size_t number = 1; text.n; number++) {
		struct str line = str_trim(str_split(&text, '\n')), rest = line;
		bool exported = str_starts(line, S("export ")) && str_behind(line, S("export "), &rest);
		struct str where = { 0 };
		if (memchr(line.p, '=', line.n) && (exported || !shell))
			where = arena_printf(&s->h->arena, "%s:%zu", p->path, number);
		if (where.n && s->one)
			take_unit_line(s, line, where);
		else if (where.n)
			take_setting(s, rest, where);
	}
}

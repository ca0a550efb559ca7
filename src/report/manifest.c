#include "report/manifest.h"

#include <time.h>

#include "base/json.h"
#include "base/print.h"

static const char *const states[ITEM_STATES] = {
	[ITEM_RUNNING] = "interrupted", [ITEM_SAVED] = "saved", [ITEM_ABSENT] = "absent", [ITEM_REFUSED] = "refused",
	[ITEM_BLOCKED] = "blocked",     [ITEM_CUT] = "cut",     [ITEM_FAILED] = "failed"
};

static struct str stamp(char *room, size_t size, int64_t seconds)
{
	struct tm tm;
	time_t t = (time_t)seconds;
	return seconds && gmtime_r(&t, &tm) && strftime(room, size, "%Y-%m-%dT%H:%M:%SZ", &tm) ? str_z(room) :
												 (struct str){ 0 };
}

static void put_known(struct json *j, const char *key, struct str value)
{
	jw_key(j, key);
	if (value.n)
		jw_str(j, value);
	else
		jw_null(j);
}

static void put_item(struct json *j, const struct manifest_item *i)
{
	struct str stack = i->stack;
	jw_open(j, '{');
	jw_field(j, "name", i->name);
	jw_field(j, "what", i->what);
	jw_field(j, "state", str_z(states[i->state]));
	put_known(j, "reason", i->reason);
	jw_key(j, "bytes");
	jw_unsigned(j, i->bytes);
	jw_key(j, "took_ms");
	jw_int(j, i->took_ms);
	put_known(j, "at", i->at);
	jw_key(j, "stack");
	jw_open(j, '[');
	while (stack.n)
		jw_str(j, str_split(&stack, '\n'));
	jw_close(j, ']');
	jw_close(j, '}');
}

static void put_replaced(struct json *j, const struct manifest *m)
{
	jw_key(j, "replaced");
	jw_open(j, '[');
	for (size_t i = 0; i < m->nreplaced; i++) {
		jw_open(j, '{');
		jw_field(j, "kind", str_z(m->replaced[i].kind));
		jw_key(j, "names");
		jw_unsigned(j, m->replaced[i].names);
		jw_key(j, "places");
		jw_unsigned(j, m->replaced[i].places);
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

static void put_number(struct json *j, const char *key, int64_t value)
{
	jw_key(j, key);
	jw_int(j, value);
}

void report_manifest(const struct manifest *m, FILE *out)
{
	struct json j = { .out = out };
	char room[32];
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/capture/1"));
	jw_field(&j, "id", m->id);
	jw_field(&j, "state", str_z(m->state));
	put_known(&j, "unhang", m->version);
	put_known(&j, "host", m->host);
	put_known(&j, "boot_id", m->boot_id);
	put_known(&j, "kernel", m->kernel);
	put_known(&j, "began", stamp(room, sizeof(room), m->began));
	put_known(&j, "ended", stamp(room, sizeof(room), m->ended));
	put_number(&j, "uptime_ms", m->uptime_ms);
	put_number(&j, "deadline_ms", m->deadline_ms);
	put_number(&j, "took_ms", m->took_ms);
	jw_field(&j, "user_data", str_z(m->user_data));
	jw_key(&j, "redacted");
	jw_bool(&j, m->redacted);
	put_replaced(&j, m);
	jw_key(&j, "items");
	jw_open(&j, '[');
	for (size_t i = 0; i < m->items.len; i++)
		put_item(&j, &m->items.data[i]);
	jw_close(&j, ']');
	jw_key(&j, "notes");
	jw_open(&j, '[');
	for (size_t i = 0; i < m->notes.len; i++)
		jw_str(&j, m->notes.data[i]);
	jw_close(&j, ']');
	jw_close(&j, '}');
	fputc('\n', out);
}

static size_t count(const struct manifest *m, enum item_state state)
{
	size_t n = 0;
	for (size_t i = 0; i < m->items.len; i++)
		n += m->items.data[i].state == state;
	return n;
}

/** Of what was refused: there is as much as this user may read. */
static size_t count_in_part(const struct manifest *m)
{
	size_t n = 0;
	for (size_t i = 0; i < m->items.len; i++)
		n += m->items.data[i].state == ITEM_REFUSED && m->items.data[i].bytes;
	return n;
}

static void say_lacking(const struct manifest_item *i, FILE *out)
{
	if (i->state == ITEM_SAVED || i->state == ITEM_ABSENT)
		return;
	fputs("  ", out);
	print_safe(out, i->what);
	fprintf(out, ": %s", states[i->state]);
	if (i->reason.n) {
		fputs("; ", out);
		print_safe(out, i->reason);
	}
	fputc('\n', out);
}

static void say_replaced(const struct manifest *m, FILE *out)
{
	bool any = false;
	unsigned long long lines = 0;
	for (size_t i = 0; i < m->nreplaced; i++) {
		const bool is_line = !strcmp(m->replaced[i].kind, "line");
		lines += is_line ? m->replaced[i].places : 0;
		if (!m->replaced[i].names || is_line)
			continue;
		fprintf(out, "%s%s %llu (%llu place%s)", any ? ", " : "Replaced: ", m->replaced[i].kind, m->replaced[i].names,
			m->replaced[i].places, m->replaced[i].places == 1 ? "" : "s");
		any = true;
	}
	if (any)
		fputs(".\n", out);
	if (lines)
		fprintf(out, "Left out: %llu line%s and setting%s that %s not known to be needed.\n", lines, lines == 1 ? "" : "s",
			lines == 1 ? "" : "s", lines == 1 ? "is" : "are");
}

void report_captured(const struct manifest *m, const char *file, uint64_t bytes, FILE *out)
{
	enum { KB = 1024, MB = 1024 * 1024 };
	size_t saved = count(m, ITEM_SAVED) + count(m, ITEM_CUT) + count_in_part(m),
	       lacking = m->items.len - count(m, ITEM_SAVED) - count(m, ITEM_ABSENT);
	fputs("Saved ", out);
	print_safe(out, str_z(file));
	if (bytes >= MB)
		fprintf(out, " (%.1f MB", (double)bytes / MB);
	else
		fprintf(out, " (%llu KB", (unsigned long long)(bytes + KB - 1) / KB);
	fprintf(out, ", %zu item%s, %.1f s).\n", saved, saved == 1 ? "" : "s", (double)m->took_ms / 1000);
	if (lacking)
		fputs("Not all could be saved:\n", out);
	for (size_t i = 0; i < m->items.len; i++)
		say_lacking(&m->items.data[i], out);
	for (size_t i = 0; i < m->notes.len; i++) {
		print_safe(out, m->notes.data[i]);
		fputc('\n', out);
	}
	if (m->redacted)
		say_replaced(m, out);
}

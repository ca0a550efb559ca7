// The machine: reads a scenario as a whole, and answers for what is not a GPU's registers, waves or rings.
#include "emulator/machine.h"

#include <stdlib.h>

// --- scenario and messages ---

static bool read_title(struct cursor *c, void *machine)
{
	((struct emu_machine *)machine)->title = cursor_text(c);
	return true;
}

/** For tests: it is only looked at whether it is one. */
static bool read_expect(struct cursor *c, void *machine)
{
	static const char *const words[] = { "class", "block", "gpu", "exit", "health", "kernel" };
	struct str word = cursor_word(c);
	(void)machine;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (str_is(word, words[i]))
			return cursor_word(c).n || emu_wrong(c, "expect %s: what?", words[i]);
	return emu_wrong(c, "'" STR_FMT "' is none of class, block, gpu, exit, health, kernel", STR_ARG(str_cut(word, 80)));
}

static bool read_lockdown(struct cursor *c, void *machine)
{
	(void)c;
	return ((struct emu_machine *)machine)->lockdown = true;
}
static bool read_user(struct cursor *c, void *machine)
{
	(void)c;
	return ((struct emu_machine *)machine)->user = true;
}
static bool read_no_debugfs(struct cursor *c, void *machine)
{
	(void)c;
	return ((struct emu_machine *)machine)->no_debugfs = true;
}

static bool read_kernel(struct cursor *c, void *machine)
{
	enum { RELEASE_MOST = 64 }; // as in struct utsname
	struct str release = cursor_word(c);
	if (!release.n || release.n > RELEASE_MOST)
		return emu_wrong(c, "kernel: its release is missing, or too long");
	((struct emu_machine *)machine)->kernel = release;
	return true;
}

static bool read_overwritten(struct cursor *c, void *machine)
{
	enum { MOST = 1 << 20 };
	return cursor_unsigned(c, "messages", MOST, &((struct emu_machine *)machine)->overwritten);
}

static const struct emu_statement scenario_statements[] = {
	{ "title", read_title },
	{ "expect", read_expect },
	{ "lockdown", read_lockdown },
	{ "user", read_user },
	{ "no-debugfs", read_no_debugfs },
	{ "kernel", read_kernel },
	{ "overwritten", read_overwritten },
	{ 0 },
};

/** [FACILITY.]LEVEL */
static bool read_level(struct cursor *c, unsigned *ret, unsigned *ret_facility)
{
	static const char *const levels[] = { "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug" };
	struct str word = cursor_word(c), rest = word, facility = str_split(&rest, '.');
	*ret_facility = rest.n ? str_is(facility, "daemon") ? 3 : 1 : 0;
	if (rest.n && (*ret_facility == 3 || str_is(facility, "user")))
		word = rest;
	for (*ret = 0; *ret < ARRAY_SIZE(levels); ++*ret)
		if (str_is(word, levels[*ret]))
			return true;
	*ret = 4;
	return str_is(word, "warn") || emu_wrong(c, "'" STR_FMT "' is no level of messages", STR_ARG(str_cut(word, 80)));
}

static bool read_messages(struct emu_reader *r, const struct emu_block *b)
{
	for (size_t i = 0; i < b->nlines; i++) {
		struct cursor c = { r, b->lines[i].text, b->lines[i].number };
		struct emu_message m;
		if (!cursor_seconds(&c, &m.time) || !read_level(&c, &m.level, &m.facility))
			return false;
		m.text = cursor_text(&c);
		if (!emu_text_right(r, m.text, c.line))
			return false;
		vec_push(&r->m->messages, m);
	}
	return true;
}

struct sorted_message {
	struct emu_message message;
	size_t order;
};

/** In the order of time, and of the text among those of one time. */
static int compare_messages(const void *a, const void *b)
{
	const struct sorted_message *x = a, *y = b;
	if (x->message.time != y->message.time)
		return x->message.time < y->message.time ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static void sort_messages(struct emu_machine *m)
{
	size_t n = m->messages.len;
	struct sorted_message *all = mem_alloc(n * sizeof(*all) + 1);
	for (size_t i = 0; i < n; i++)
		all[i] = (struct sorted_message){ m->messages.data[i], i };
	qsort(all, n, sizeof(*all), compare_messages);
	for (size_t i = 0; i < n; i++)
		m->messages.data[i] = all[i].message;
	free(all);
}

// --- $pid(NAME) ---

/** The next $pid(NAME) or $pasid(NAME): the text before it goes to @ret_before. */
static bool next_name(struct str *text, struct str *ret_before, struct str *ret_name, bool *ret_pasid)
{
	struct str all = *text;
	for (size_t at = 0; at < all.n; at++) {
		struct str rest = str_from(all, at);
		*ret_pasid = str_starts(rest, S("$pasid("));
		const void *end = *ret_pasid || str_starts(rest, S("$pid(")) ? memchr(rest.p, ')', rest.n) : NULL;
		if (!end)
			continue;
		size_t begin = *ret_pasid ? 7 : 5, n = (size_t)((const char *)end - rest.p);
		*ret_before = str_cut(all, at);
		*ret_name = (struct str){ rest.p + begin, n - begin };
		*text = str_from(rest, n + 1);
		return true;
	}
	return false;
}

static const struct emu_process *process_named(const struct emu_machine *m, struct str name)
{
	for (size_t i = 0; i < m->processes.len; i++)
		if (str_eq(m->processes.data[i]->name, name))
			return m->processes.data[i];
	return NULL;
}

bool emu_text_right(struct emu_reader *r, struct str text, unsigned line)
{
	struct cursor c = { r, { 0 }, line };
	struct str before, name;
	bool pasid;
	while (next_name(&text, &before, &name, &pasid))
		if (!process_named(r->m, name))
			return emu_wrong(&c, "there is no process '" STR_FMT "'", STR_ARG(str_cut(name, 80)));
	return true;
}

void emu_expand(const struct emu_machine *m, struct str text, struct text *ret)
{
	struct str before, name;
	bool pasid;
	while (next_name(&text, &before, &name, &pasid)) {
		const struct emu_process *p = process_named(m, name);
		text_add(ret, before);
		text_printf(ret, "%d", !p ? 0 : pasid ? (int)p->pasid : p->pid);
	}
	text_add(ret, text);
}

// --- the whole ---

typedef bool block_fn(struct emu_reader *r, const struct emu_block *b);

static bool read_scenario(struct emu_reader *r, const struct emu_block *b)
{
	return emu_statements(r, b, scenario_statements, r->m);
}

static bool name_process(struct emu_reader *r, const struct emu_block *b)
{
	struct cursor c = { r, { 0 }, b->line };
	if (!b->id.n || b->id.n > 15 || process_named(r->m, b->id))
		return emu_wrong(&c, "a process needs a name of its own, of 15 characters at most");
	if (r->m->processes.len == EMU_PROCESSES_MOST)
		return emu_wrong(&c, "more than %d processes", EMU_PROCESSES_MOST);
	struct emu_process *p = mem_alloc(sizeof(*p));
	p->machine = r->m;
	p->name = b->id;
	vec_push(&r->m->processes, p);
	return true;
}

static bool nothing(struct emu_reader *r, const struct emu_block *b)
{
	(void)r;
	(void)b;
	return true;
}

/** The kinds of blocks in the order in which they are read: a message may name a process, a process names its GPUs. */
static const struct {
	const char *kind;
	block_fn *read;
} passes[] = { { "scenario", read_scenario }, { "part", nothing },     { "process", name_process },
	       { "gpu", emu_gpu_read },       { "kfd", emu_kfd_read }, { "process", emu_process_read },
	       { "messages", read_messages } };

static bool known_kind(struct emu_reader *r, const struct emu_block *b)
{
	struct cursor c = { r, { 0 }, b->line };
	for (size_t i = 0; i < ARRAY_SIZE(passes); i++)
		if (str_is(b->kind, passes[i].kind))
			return true;
	return emu_wrong(&c, "'" STR_FMT "' is none of scenario, gpu, process, kfd, messages, part",
			 STR_ARG(str_cut(b->kind, 80)));
}

/** The built-in texts' blocks behind the scenario's own. */
static bool add_parts(struct emu_reader *r, const struct emu_block *own, size_t nown)
{
	VEC(struct emu_block) all = { 0 };
	const char *file = r->file;
	bool good = true;
	for (size_t i = 0; i < nown; i++)
		if (str_is(own[i].kind, "part"))
			vec_push(&all, own[i]);
	for (const struct emu_builtin *b = emu_texts; b->name && good; b++) {
		struct emu_block *more;
		size_t n;
		r->file = b->name;
		good = emu_blocks(r, (struct str){ b->begin, (size_t)(b->end - b->begin) }, &more, &n);
		for (size_t i = 0; i < n && good; i++)
			vec_push(&all, more[i]);
	}
	r->file = file;
	struct emu_block *kept = arena_alloc(&r->m->arena, all.len * sizeof(*kept) + 1);
	if (all.len)
		memcpy(kept, all.data, all.len * sizeof(*kept));
	r->parts = r->m->mqds = kept;
	r->nparts = r->m->nmqds = all.len;
	vec_free(&all);
	return good;
}

static bool read_machine(struct emu_reader *r, struct str text)
{
	struct emu_block *blocks;
	size_t n;
	struct cursor c = { r, { 0 }, 1 };
	if (text.n > EMU_TEXT_MOST)
		return emu_wrong(&c, "more than %d MB", EMU_TEXT_MOST >> 20);
	// A copy, so that texts live as long as the machine.
	if (!emu_blocks(r, arena_str(&r->m->arena, text), &blocks, &n) || !add_parts(r, blocks, n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!known_kind(r, &blocks[i]))
			return false;
	for (size_t pass = 0; pass < ARRAY_SIZE(passes); pass++)
		for (size_t i = 0; i < n; i++)
			if (str_is(blocks[i].kind, passes[pass].kind) && !passes[pass].read(r, &blocks[i]))
				return false;
	if (!r->m->gpus.len)
		return emu_wrong(&c, "a machine without a block gpu");
	sort_messages(r->m);
	return emu_gpus_number(r) && emu_queues_finish(r);
}

struct uh_error *emu_read(const struct know *k, const char *name, struct str text, struct emu_machine **ret)
{
	struct emu_machine *m = mem_alloc(sizeof(*m));
	struct emu_reader r = { .k = k, .m = m };
	m->k = k;
	m->name = arena_str(&m->arena, str_z(name));
	r.file = arena_z(&m->arena, m->name);
	*ret = NULL;
	if (!read_machine(&r, text)) {
		emu_free(m);
		return r.error;
	}
	*ret = m;
	return NULL;
}

void emu_free(struct emu_machine *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->gpus.len; i++)
		emu_gpu_free(m->gpus.data[i]);
	for (size_t i = 0; i < m->processes.len; i++) {
		struct emu_process *p = m->processes.data[i];
		vec_free(&p->memory.list);
		vec_free(&p->code);
		vec_free(&p->shares);
		text_free(&p->environment);
		free(p);
	}
	for (size_t i = 0; i < m->queues.len; i++)
		vec_free(&m->queues.data[i].mqd);
	vec_free(&m->gpus);
	vec_free(&m->processes);
	vec_free(&m->queues);
	vec_free(&m->messages);
	text_free(&m->plan);
	arena_free(&m->arena);
	free(m);
}

// Every reader of artefacts and documents gets the seeds of its fuzz target (fuzz/seeds) as hostile input: cut at every byte,
// every byte changed, with extreme numbers, names that do not end and lines without end; alone, and all the way to the
// ledger with a second copy as a second source.
#include <dirent.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "diagnose/engine.h"
#include "diagnose/ledger.h"
#include "diagnose/machine.h"
#include "evidence/reader.h"
#include "feed.h"

enum {
	SEEDS_MAX = 64,
	SATURATE = 20000, // lines after which what a reader keeps is full, or grows by a word for each line
	REPEAT = 10000,
	GROWTH_BYTES = 128 << 10, // for REPEAT lines: a word for each, and no more
	READER_BYTES = 20 << 20,  // what a reader may keep at most
	LONG_NAME = 100 << 10,
	LONG_LOG = 400 << 10, // more than is matched line by line
};

static const struct reader {
	const char *seeds;
	const struct artefact_reader *artefact; // NULL: documents
} readers[] = {
	{ "debug-agent", &debug_agent_reader },
	{ "rocgdb", &rocgdb_reader },
	{ "devcoredump", &devcoredump_reader },
	{ "stacks", &stacks_reader },
	{ "kernel-api", &kernel_api_reader },
	{ "fence-info", &fence_info_reader },
	{ "firmware-info", &firmware_info_reader },
	{ "inventory", &inventory_reader },
	{ "error-files", &error_files_reader },
	{ "error-list", &error_list_reader },
	{ "apei", &apei_reader },
	{ "udev-monitor", &udev_monitor_reader },
	{ "umr", &umr_reader },
	{ "document", NULL },
};

struct seed {
	const struct reader *reader;
	char *name;
	struct text text;
};

struct fixture {
	struct know *know;
	size_t n;
	struct seed seeds[SEEDS_MAX];
};

// --- trials ---

struct trial {
	const struct know *know;
	const struct seed *seed;
	size_t events, unbounded;
};

typedef void try_fn(struct trial *t, struct str text);

static void check_event(void *ctx, const struct event *e)
{
	const char *complaint = feed_complaint(e);
	((struct trial *)ctx)->events++;
	if (complaint)
		fail_msg("%s", complaint);
}

static struct artefact_output output(struct trial *t)
{
	return (struct artefact_output){
		.know = t->know, .sink = { check_event, t }, .name = S("nccl_trace_rank_3"), .line = 1
	};
}

/** The reader alone. @text has exactly its size, so that a read behind its end is seen. */
static void try_reader(struct trial *t, struct str text)
{
	const struct artefact_reader *r = t->seed->reader->artefact;
	const struct artefact_output out = output(t);
	if (r)
		feed_lines(r, &out, text);
	else
		document_read(&out, text);
}

struct reading {
	struct ledger ledger;
	struct engine *engine;
	struct machine machine;
};

static void on_event(void *ctx, const struct event *e)
{
	if (e->signature)
		assert_null(feed_complaint(e));
	engine_event(((struct reading *)ctx)->engine, e);
}
static void on_incident(void *ctx, struct incident *i) { ledger_add(&((struct reading *)ctx)->ledger, i); }
static void on_machine(void *ctx, const struct machine *m) { machine_merge(&((struct reading *)ctx)->machine, m); }

static ssize_t read_memory(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	(void)ret_err;
	struct str *left = s->ctx;
	size_t n = size < left->n ? size : left->n;
	if (n)
		memcpy(buffer, left->p, n);
	*left = str_from(*left, n);
	return (ssize_t)n;
}

/** The whole way, with @text as two sources. */
static void try_sources(struct trial *t, struct str text)
{
	struct reading r = { 0 };
	r.engine = engine_new(t->know, (struct incident_sink){ on_incident, on_machine, NULL, &r });
	struct evidence_reader *reader = evidence_reader_new(t->know, (struct event_sink){ on_event, &r });
	for (int copy = 0; copy < 2; copy++) {
		struct str left = text;
		struct source source = { .name = copy ? "b_rank_1" : "a_rank_0", .read = read_memory, .ctx = &left };
		uh_error_free(evidence_read(reader, &source));
		engine_end(r.engine);
	}
	for (size_t i = 0; i < evidence_count(reader); i++)
		t->events += evidence_at(reader, i)->events;
	ledger_join(&r.ledger, t->know, &r.machine, &(struct boot_began){ 0 });
	ledger_sort(&r.ledger);
	for (size_t i = 0; i < r.ledger.incidents.len; i++)
		incident_advise(r.ledger.incidents.data[i], t->know, NULL);
	engine_free(r.engine);
	ledger_free(&r.ledger);
	machine_clear(&r.machine);
	evidence_reader_free(reader);
}

static void try_copy(struct trial *t, struct str text, ptrdiff_t change, char to, try_fn *try)
{
	_cleanup_free_ char *copy = malloc(text.n + !text.n);
	memcpy(copy, text.p, text.n);
	if (change >= 0)
		copy[change] = to;
	try(t, (struct str){ copy, text.n });
}

/** @step: every so many bytes, where one trial is expensive. */
static void each_damage(struct trial *t, size_t step, try_fn *try)
{
	static const char nasty[] = { 0, '\n', '\xff', '[', '"', '0', '9', 'f' };
	struct str text = text_str(&t->seed->text);
	for (size_t n = 0; n <= text.n; n += step)
		try_copy(t, str_cut(text, n), -1, 0, try);
	for (size_t at = 0; at < text.n; at += step)
		for (size_t i = 0; i < 2; i++) // the fuzzers try the others
			try_copy(t, text, (ptrdiff_t)at, nasty[(at + i * 3) % sizeof(nasty)], try);
}

/** The seed with the bytes from @at to @end replaced by @with. */
static void try_replaced(struct trial *t, size_t at, size_t end, struct str with, try_fn *try)
{
	struct str seed = text_str(&t->seed->text);
	struct text text = { 0 };
	text_add(&text, str_cut(seed, at));
	text_add(&text, with);
	text_add(&text, str_from(seed, end));
	try_copy(t, text_str(&text), -1, 0, try);
	text_free(&text);
}

/** The next run of characters that @is accepts, from @at on. */
static bool next_run(struct str text, bool (*is)(char), size_t *at, size_t *ret_end)
{
	while (*at < text.n && !is(text.p[*at]))
		(*at)++;
	*ret_end = *at;
	while (*ret_end < text.n && is(text.p[*ret_end]))
		(*ret_end)++;
	return *ret_end > *at;
}

static bool in_number(char c) { return char_hex(c) || c == 'x' || c == '-'; }

static bool has_digit(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (char_digit(s.p[i]))
			return true;
	return false;
}

static void each_number(struct trial *t, size_t step, try_fn *try)
{
	char long_hex[400] = "0x";
	memset(long_hex + 2, 'f', sizeof(long_hex) - 2);
	const struct str extreme[] = { S("18446744073709551616"),
				       S("18446744073709551615"),
				       S("-9223372036854775808"),
				       S("-1"),
				       S("0"),
				       S("999999999999999999"),
				       S("-999999999999999999"),
				       S("0xffffffffffffffff"),
				       S("0x7fffffffffffffff"),
				       S("0x8000000000000000"),
				       S("ffffffff"),
				       { long_hex, sizeof(long_hex) } };
	struct str text = text_str(&t->seed->text);
	size_t end, number = 0;
	for (size_t at = 0; next_run(text, in_number, &at, &end); at = end) {
		if (!has_digit(str_cut(str_from(text, at), end - at)))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(extreme); i++)
			if (number++ % step == 0)
				try_replaced(t, at, end, extreme[i], try);
	}
	// All at once: what they are added to and subtracted from is as extreme.
	for (size_t i = 0; i < ARRAY_SIZE(extreme); i++) {
		struct text all = { 0 };
		size_t from = 0;
		for (size_t at = 0; next_run(text, in_number, &at, &end); at = end) {
			bool is_number = has_digit(str_cut(str_from(text, at), end - at));
			text_add(&all, str_cut(str_from(text, from), at - from));
			text_add(&all, is_number ? extreme[i] : str_cut(str_from(text, at), end - at));
			from = end;
		}
		text_add(&all, str_from(text, from));
		try_copy(t, text_str(&all), -1, 0, try);
		text_free(&all);
	}
}

static void each_long_name(struct trial *t, size_t step, try_fn *try)
{
	_cleanup_free_ char *name = malloc(LONG_NAME);
	memset(name, 'n', LONG_NAME);
	struct str text = text_str(&t->seed->text);
	size_t end, number = 0;
	for (size_t at = 0; next_run(text, char_word, &at, &end); at = end)
		if (number++ % step == 0) {
			try_replaced(t, at, end, (struct str){ name, LONG_NAME }, try);
			try_replaced(t, end, end, (struct str){ name, LONG_NAME }, try);
			try_replaced(t, at, end, (struct str){ name, 3900 }, try); // nearly as long as a line may be
		}
}

static void each_seed(void **state, void (*one)(struct trial *t))
{
	const struct fixture *f = *state;
	size_t unbounded = 0;
	for (size_t i = 0; i < f->n; i++) {
		struct trial t = { f->know, &f->seeds[i], 0, 0 };
		one(&t);
		unbounded += t.unbounded;
	}
	assert_int_equal(unbounded, 0);
}

// --- tests ---

/** Otherwise the other tests show nothing. */
static void seed_tells(struct trial *t)
{
	struct str text = text_str(&t->seed->text);
	try_reader(t, text);
	if (!t->events)
		fail_msg("%s/%s: the reader finds no event in it", t->seed->reader->seeds, t->seed->name);
	t->events = 0;
	try_sources(t, text);
	if (!t->events)
		fail_msg("%s/%s: it is not recognised", t->seed->reader->seeds, t->seed->name);
}

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/** Harm is what the sanitizers see: the ordinary build tries an eighth. */
static size_t every(size_t step) { return __sanitizer_get_current_allocated_bytes ? step : 8 * step; }

static void damage_reader(struct trial *t) { each_damage(t, every(1), try_reader); }
static void damage_sources(struct trial *t) { each_damage(t, every(37), try_sources); }
static void numbers_reader(struct trial *t) { each_number(t, every(1), try_reader); }
static void numbers_sources(struct trial *t) { each_number(t, every(29), try_sources); }
static void names_reader(struct trial *t) { each_long_name(t, every(1), try_reader); }
static void names_sources(struct trial *t) { each_long_name(t, every(11), try_sources); }

static void long_sources(struct trial *t)
{
	struct text text = { 0 };
	while (text.n < LONG_LOG)
		text_add(&text, text_str(&t->seed->text));
	try_sources(t, text_str(&text));
	text_free(&text);
}

static size_t memory_in_use(void)
{
	if (__sanitizer_get_current_allocated_bytes)
		return __sanitizer_get_current_allocated_bytes();
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

/** The seed up to and with @line, and this line over and over: whether the reader's memory stays bounded. */
static bool repeat_line(struct trial *t, struct str text, unsigned line)
{
	const struct artefact_reader *r = t->seed->reader->artefact;
	const struct artefact_output out = output(t);
	void *self = artefact_open(r, &out);
	LINE_ROOM(room);
	struct str raw = { 0 };
	for (unsigned n = 0; n < line; n++) {
		raw = str_split(&text, '\n');
		feed_line(r, self, t->know, raw, (struct place){ 0, n + 1 });
	}
	struct logline parsed = { 0 };
	line_parse(t->know, line_clean(raw, &room), &parsed);
	size_t before = 0;
	for (unsigned n = 0; n < SATURATE + REPEAT; n++) {
		if (n == SATURATE)
			before = memory_in_use();
		r->line(self, &parsed, (struct place){ 0, line + n });
	}
	size_t after = memory_in_use();
	// It grows: then it must stop before READER_BYTES.
	size_t each = after > before + GROWTH_BYTES ? (after - before) / REPEAT : 0;
	for (size_t n = 0; each && n < 2 * READER_BYTES / each && after <= before + READER_BYTES; n++) {
		r->line(self, &parsed, (struct place){ 0, line + n });
		after = n % REPEAT ? after : memory_in_use();
	}
	artefact_close(r, self);
	if (!each || after <= before + READER_BYTES)
		return true;
	print_error("%s/%s:%u: %zu bytes for each line: " STR_FMT "\n", t->seed->reader->seeds, t->seed->name, line, each,
		    STR_ARG(raw));
	return false;
}

static void bounded_memory(struct trial *t)
{
	struct str text = text_str(&t->seed->text);
	unsigned lines = 0;
	if (!t->seed->reader->artefact)
		return;
	for (size_t i = 0; i < text.n; i++)
		lines += text.p[i] == '\n';
	// Memory is counted in the ordinary build as well, in a fifth of the time: that one tries each line.
	for (unsigned line = 1; line <= lines; line += __sanitizer_get_current_allocated_bytes ? 5 : 1)
		t->unbounded += !repeat_line(t, text, line);
}

static void each_reader_reads_its_seeds(void **state) { each_seed(state, seed_tells); }
static void artefacts_cut_or_changed_at_any_byte_harm_nobody(void **state) { each_seed(state, damage_reader); }
static void sources_cut_or_changed_harm_nobody(void **state) { each_seed(state, damage_sources); }
static void extreme_numbers_in_artefacts_harm_nobody(void **state) { each_seed(state, numbers_reader); }
static void extreme_numbers_in_sources_harm_nobody(void **state) { each_seed(state, numbers_sources); }
static void endless_names_in_artefacts_harm_nobody(void **state) { each_seed(state, names_reader); }
static void endless_names_in_sources_harm_nobody(void **state) { each_seed(state, names_sources); }
static void endless_sources_harm_nobody(void **state) { each_seed(state, long_sources); }
static void endless_artefacts_take_bounded_memory(void **state) { each_seed(state, bounded_memory); }

/** Arrays in arrays, and many members: the parser bounds the one, the readers the other. */
static void odd_documents_harm_nobody(void **state)
{
	struct trial t = { ((struct fixture *)*state)->know, &((struct fixture *)*state)->seeds[0], 0, 0 };
	static const char *const begins[] = { "{\"State\":", "{\"entries\":", "[{\"Id\":", "{\"kind\":\"Pod\",\"status\":" };
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
		struct text deep = { 0 };
		text_add(&deep, str_z(begins[i]));
		for (unsigned n = 0; n < 100000; n++)
			text_add(&deep, n % 2 ? S("[") : S("{\"a\":"));
		try_sources(&t, text_str(&deep));
		text_free(&deep);
	}
	struct text many = { 0 };
	text_add(&many, S("{\"version\":\"2\",\"entries\":["));
	for (unsigned n = 0; n < 3000; n++)
		text_printf(&many, "%s{\"process_group\":[\"%u\",\"\"],\"seq_id\":%u,\"state\":\"started\"}", n ? "," : "", n,
			    n);
	text_add(&many, S("]}"));
	t.events = 0;
	try_sources(&t, text_str(&many));
	assert_in_range(t.events, 2, 1000);
	text_free(&many);
}

static void add_name(struct text *t, const char *name)
{
	text_printf(t, "X%c%c%c%c", (int)strlen(name), 0, 0, 0);
	text_add(t, str_z(name));
}

static void check_size(void *ctx, const struct event *e)
{
	check_event(ctx, e);
	for (size_t i = 0; i < e->nfacts; i++)
		assert_true(e->facts[i].value.n < LONG_NAME);
}

/** A pickle can nest without end, and hold one tuple twice in another, that one twice in the next, and so on. */
static void odd_pickles_harm_nobody(void **state)
{
	enum { DEEP = 3000000, DOUBLINGS = 21 };
	static const char begin[] = "\x80\x04\x95\0\0\0\0\0\0\0\0";
	struct trial t = { ((struct fixture *)*state)->know, &((struct fixture *)*state)->seeds[0], 0, 0 };
	struct artefact_output out = output(&t);
	struct text text = { 0 };
	out.sink.event = check_size;
	text_add(&text, S(begin));
	text_add(&text, S("}("));
	add_name(&text, "function_name");
	add_name(&text, "f");
	add_name(&text, "execution_status");
	add_name(&text, "inputs_saved");
	add_name(&text, "tuples");
	text_add(&text, S("(]q\0"));
	for (int i = 0; i < DOUBLINGS; i++)
		text_printf(&text, "h%ch%c\x86q%c", i, i, i + 1);
	text_add(&text, S("t"));
	add_name(&text, "tensor_details");
	text_add(&text, S("}("));
	add_name(&text, "a");
	text_add(&text, S("}("));
	add_name(&text, "shape");
	text_printf(&text, "h%cuuu.", DOUBLINGS);
	document_read(&out, text_str(&text));
	text_clear(&text);
	text_add(&text, S(begin));
	text_add(&text, S("]"));
	for (int i = 0; i < DEEP; i++)
		text_add(&text, S("\x85"));
	text_add(&text, S("."));
	document_read(&out, text_str(&text));
	text_free(&text);
}

// --- seeds ---

static void add_seed(struct fixture *f, const struct reader *reader, const char *name)
{
	char path[1024], bytes[4096];
	snprintf(path, sizeof(path), "%s/%s/%s", SEEDS, reader->seeds, name);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	assert_true(f->n < SEEDS_MAX);
	struct seed *s = &f->seeds[f->n++];
	*s = (struct seed){ .reader = reader, .name = strdup(name) };
	for (size_t n; (n = fread(bytes, 1, sizeof(bytes), file)) > 0;)
		text_add(&s->text, (struct str){ bytes, n });
	fclose(file);
}

static int setup(void **state)
{
	struct fixture *f = mem_alloc(sizeof(*f));
	f->know = know_load_with("none.know", S(""), &(struct know_problems){ 0 });
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		char path[1024];
		snprintf(path, sizeof(path), "%s/%s", SEEDS, readers[i].seeds);
		DIR *d = opendir(path);
		if (!d)
			return -1;
		for (const struct dirent *entry; (entry = readdir(d));)
			if (entry->d_name[0] != '.')
				add_seed(f, &readers[i], entry->d_name);
		closedir(d);
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i < f->n; i++) {
		free(f->seeds[i].name);
		text_free(&f->seeds[i].text);
	}
	know_free(f->know);
	free(f);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_reader_reads_its_seeds),
		cmocka_unit_test(artefacts_cut_or_changed_at_any_byte_harm_nobody),
		cmocka_unit_test(sources_cut_or_changed_harm_nobody),
		cmocka_unit_test(extreme_numbers_in_artefacts_harm_nobody),
		cmocka_unit_test(extreme_numbers_in_sources_harm_nobody),
		cmocka_unit_test(endless_names_in_artefacts_harm_nobody),
		cmocka_unit_test(endless_names_in_sources_harm_nobody),
		cmocka_unit_test(endless_sources_harm_nobody),
		cmocka_unit_test(odd_documents_harm_nobody),
		cmocka_unit_test(endless_artefacts_take_bounded_memory),
		cmocka_unit_test(odd_pickles_harm_nobody),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

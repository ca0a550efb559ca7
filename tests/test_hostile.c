// Evidence and knowledge are hostile input: every parser gets its samples cut at every byte and with every byte
// changed. The copies have exactly the size of their text, so that AddressSanitizer sees a read behind its end.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "diagnose/engine.h"
#include "diagnose/ledger.h"
#include "diagnose/machine.h"
#include "evidence/log/log.h"
#include "evidence/log/line.h"
#include "evidence/reader.h"
#include "evidence/log/scan.h"
#include "evidence/log/stamp.h"
#include "evidence/log/words.h"
#include "knowledge/know.h"
#include "record_check.h"

enum { MANY = 1000000 };

#define GPU "amdgpu 0000:03:00.0: amdgpu: "

static const char sample_log[] = "[    0.000000] Linux version 6.12.0-1-amd64 (builder@host) #1 SMP\n"
				 "[  100.000001] " GPU "[gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32770)\n"
				 "[  100.000002] " GPU " in process train pid 4242 thread train pid 4242)\n"
				 "[  100.000003] " GPU "  in page starting at address 0x00007f0011220000 from client 10\n"
				 "[  100.000004] " GPU "GCVM_L2_PROTECTION_FAULT_STATUS:0x00301031\n"
				 "[  100.000005] " GPU "\t Faulty UTCL2 client ID: TCP (0x8)\n"
				 "[  100.000006] " GPU "\t RW: 0x0\n"
				 "[  110.000000] " GPU "ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102\n"
				 "[  110.000001] " GPU "Process information: process train pid 4242 thread train:cs0 pid 4250\n"
				 "[  110.000002] " GPU "GPU reset begin!\n"
				 "[  110.500000] " GPU "GPU reset succeeded, trying to resume\n"
				 "[  500.000000] " GPU "ring sdma0 timeout, signaled seq=7, emitted seq=9\n";

static const char sample_knowledge[] = "# a comment\n"
				       "event odd-event\n"
				       "    title  odd\n"
				       "    say    {n} of | {m}\n"
				       "    opens  yes\n"
				       "signature odd-message\n"
				       "    event      odd-event\n"
				       "    subsystem  ring\n"
				       "    level      error\n"
				       "    match      odd thing {n:int} at {m:hex}\n"
				       "               of {why:text}\n"
				       "    set        ring_reset failed\n"
				       "cause ring-timeout-gfx\n"
				       "    from odd-event\n"
				       "    when n > 3 and m != 0x0\n"
				       "    stage scheduler\n"
				       "message ring info quite odd {x:rw}\n"
				       "part 744c c8 gfx1100 A card\n"
				       "names odd-names\n"
				       "    1 one\n"
				       "register ODD\n"
				       "    7:4 field\n";

// --- damage ---

typedef void try_fn(void *ctx, struct str text);

static void try_copy(struct str text, ptrdiff_t change, char to, try_fn *try, void *ctx)
{
	_cleanup_free_ char *copy = malloc(text.n);
	memcpy(copy, text.p, text.n);
	if (change >= 0)
		copy[change] = to;
	try(ctx, (struct str){ copy, text.n });
}

/** @step: every so many bytes, where one trial is expensive. */
static void each_damage(struct str sample, size_t step, try_fn *try, void *ctx)
{
	static const char nasty[] = { 0, '\n', ' ', '\x1b', '{', '"', '9', '\xff' };
	for (size_t n = 0; n <= sample.n; n += step)
		try_copy(str_cut(sample, n), -1, 0, try, ctx);
	for (size_t at = 0; at < sample.n; at += step)
		for (size_t i = 0; i < 2; i++) // the fuzzers try the others
			try_copy(sample, (ptrdiff_t)at, nasty[(at + i * 3) % sizeof(nasty)], try, ctx);
}

static unsigned count_lines(struct str text)
{
	unsigned n = 0;
	while (text.n) {
		str_split(&text, '\n');
		n++;
	}
	return n;
}

// --- knowledge ---

static void check_problem(void *ctx, const char *file, unsigned line, const char *message)
{
	const struct str *text = ctx;
	assert_string_equal(file, "sample.know");
	assert_in_range(line, 1, count_lines(*text));
	assert_true(*message);
	assert_null(strchr(message, '\n'));
}

static void touch_block(void *ctx, const struct know_block *b)
{
	(void)ctx;
	assert_true(b->kind.n);
	for (size_t i = 0; i < b->nkeys; i++) {
		assert_true(b->keys[i].key.n);
		assert_true(b->keys[i].line > b->line);
	}
}

static void try_blocks(void *ctx, struct str text)
{
	(void)ctx;
	struct arena arena = { 0 };
	struct know_problems problems = { .report = check_problem, .ctx = &text };
	know_blocks(&arena, "sample.know", text, &problems, touch_block, NULL);
	arena_free(&arena);
}

static void blocks_of_knowledge_cut_or_changed(void **state)
{
	(void)state;
	each_damage(S(sample_knowledge), 1, try_blocks, NULL);
}

static void try_load(void *ctx, struct str text)
{
	(void)ctx;
	struct know_problems problems = { .report = check_problem, .ctx = &text };
	know_free(know_load_with("sample.know", text, &problems));
}

/** Alone it lacks what unhang itself refers to. */
static void check_problem_alone(void *ctx, const char *file, unsigned line, const char *message)
{
	if (strcmp(file, "unhang") != 0)
		check_problem(ctx, file, line, message);
}

static void try_load_alone(void *ctx, struct str text)
{
	(void)ctx;
	struct know_problems problems = { .report = check_problem_alone, .ctx = &text };
	know_free(know_load_alone("sample.know", text, &problems));
}

static void knowledge_files_cut_or_changed(void **state)
{
	(void)state;
	each_damage(S(sample_knowledge), 1, try_load_alone, NULL);
	// The whole knowledge is loaded each time, which takes a thousand times as long.
	each_damage(S(sample_knowledge), 61, try_load, NULL);
}

static bool any_fact(const void *ctx, struct str name, size_t index, struct str *ret_value)
{
	static const char *const values[] = { "", "7", "0x83", "6.17.9-arch1", "text" };
	(void)ctx;
	if (!name.n || index >= ARRAY_SIZE(values))
		return false;
	*ret_value = str_z(values[index]);
	return true;
}

static void try_condition(void *ctx, struct str text)
{
	(void)ctx;
	struct arena arena = { 0 };
	struct know_problems problems = { 0 };
	struct condition *c = condition_parse(&arena, NULL, text, "sample.know", 1, &problems);
	assert_true(c || problems.count == 1);
	condition_eval(c, &(struct fact_view){ .get = any_fact });
	arena_free(&arena);
}

static void conditions_cut_or_changed(void **state)
{
	(void)state;
	each_damage(
		S("kernel < 6.17.9 and gfx in gfx11* gfx12 and no x and a = $b and b is in c and fw_mes >= 0x83 and pid != -1"),
		1, try_condition, NULL);
}

static void try_phrase(void *ctx, struct str text)
{
	(void)ctx;
	struct text out = { 0 };
	phrase_fill(&out, text, &(struct fact_view){ .get = any_fact });
	text_free(&out);
}

static void sentences_cut_or_changed(void **state)
{
	(void)state;
	each_damage(S("{process} | ({pid}) | , {rw} of {} | page {fault_page}"), 1, try_phrase, NULL);
}

// --- templates ---

static const char odd_template[] =
	"ring {ring} timeout, {a:text} seq={b:int}, at {c:hex} of {d:num} on {e:pci} {{in}} {f:text}";
static const char odd_line[] = "x ring gfx_0.0.0  timeout, signaled seq=-7, at 0x1F of 0x10 on 0000:03:00.0 {in} 1 2";

static void check_match(const struct match *m, struct str line)
{
	assert_true(m->begin <= m->end && m->end <= line.n);
	assert_true(m->ncaptures <= TEMPLATE_VALUES);
	for (size_t i = 0; i < m->ncaptures; i++) {
		struct str text = m->captures[i].text;
		assert_true(text.p >= line.p && text.p + text.n <= line.p + line.n);
	}
}

static void try_match(void *ctx, struct str line)
{
	struct match m = { 0 };
	for (size_t at = 0; at < line.n; at++)
		if (template_match(ctx, line, at, &m))
			check_match(&m, line);
}

static void try_template(void *ctx, struct str text)
{
	(void)ctx;
	struct arena arena = { 0 };
	struct know_problems problems = { 0 };
	struct template *t = template_parse(&arena, text, "sample.know", 1, &problems);
	assert_true(t || problems.count == 1);
	if (t)
		try_match(t, S(odd_line));
	arena_free(&arena);
}

static void templates_and_lines_cut_or_changed(void **state)
{
	(void)state;
	struct arena arena = { 0 };
	struct know_problems problems = { 0 };
	struct template *t = template_parse(&arena, S(odd_template), "sample.know", 1, &problems);
	struct match m = { 0 };
	assert_true(template_match(t, S(odd_line), 2, &m));
	assert_int_equal(m.ncaptures, 7);
	each_damage(S(odd_line), 1, try_match, t);
	each_damage(S(odd_template), 1, try_template, NULL);
	arena_free(&arena);
}

static void a_template_with_too_many_values_is_refused(void **state)
{
	(void)state;
	struct arena arena = { 0 };
	struct text text = { 0 }, line = { 0 };
	struct match m = { 0 };
	for (int n = 1; n <= TEMPLATE_VALUES + 1; n++) {
		struct know_problems problems = { 0 };
		text_printf(&text, "value{v%d:int}", n);
		text_printf(&line, "value%d", n);
		struct template *t = template_parse(&arena, text_str(&text), "sample.know", 1, &problems);
		assert_int_equal(!t, n > TEMPLATE_VALUES);
		assert_int_equal(problems.count, n > TEMPLATE_VALUES);
		if (!t)
			continue;
		assert_true(template_match(t, text_str(&line), 0, &m));
		assert_int_equal(m.ncaptures, n);
		assert_int_equal(m.end, line.n);
	}
	text_free(&text);
	text_free(&line);
	arena_free(&arena);
}

static void matching_ends_at_its_step_limit(void **state)
{
	(void)state;
	struct arena arena = { 0 };
	struct know_problems problems = { 0 };
	struct template *t = template_parse(&arena, S("some {a:text} b{b:text} b{c:text} b{d:text} b{e:text} bend"),
					    "sample.know", 1, &problems);
	char line[LINE_MAX_BYTES];
	struct match m = { 0 };
	memcpy(line, "some", 4);
	for (size_t i = 4; i < sizeof(line); i++)
		line[i] = i % 2 ? 'b' : ' ';
	assert_false(template_match(t, (struct str){ line, sizeof(line) }, 0, &m));
	assert_true(m.steps <= 100000);
	arena_free(&arena);
}

// --- lines ---

static const char *const sample_stamps[] = {
	"[   45.103000] amdgpu",
	"<3>[   45.103000][  T123] amdgpu",
	"[  +0.088166] amdgpu",
	"[Jul24 12:28] amdgpu",
	"[Thu Dec 11 21:07:40 2025] amdgpu",
	"2026-08-27T05:28:27.652671+00:00 host kernel: [ 1.5] amdgpu",
	"Dez 11 21:07:40 host kernel: amdgpu",
	"1753351680.123456 host kernel: amdgpu",
	"3,1234,5678901,-;amdgpu",
	"> | `12:00:01,5 stderr F amdgpu",
};

static void check_stamps(struct stamps s, struct str line)
{
	assert_true(s.end <= line.n);
	if (s.found)
		assert_true(isfinite(s.best.seconds) && fabs(s.best.seconds) < 1e15);
}

static void try_stamps(void *ctx, struct str line) { check_stamps(stamps_read(ctx, line), line); }

static void times_cut_or_changed(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_stamps); i++)
		each_damage(str_z(sample_stamps[i]), 1, try_stamps, *state);
}

/** Numbers of any length stand in evidence. */
static void times_with_endless_digits(void **state)
{
	char digits[400];
	memset(digits, '9', sizeof(digits));
	for (size_t i = 0; i < ARRAY_SIZE(sample_stamps); i++) {
		struct str sample = str_z(sample_stamps[i]);
		for (size_t at = 0; at < sample.n; at++) {
			struct text line = { 0 };
			text_add(&line, str_cut(sample, at));
			text_add(&line, (struct str){ digits, sizeof(digits) });
			text_add(&line, str_from(sample, at));
			try_copy(text_str(&line), -1, 0, try_stamps, *state);
			text_free(&line);
		}
	}
}

static void try_clean(void *ctx, struct str raw)
{
	(void)ctx;
	LINE_ROOM(room);
	struct str clean = line_clean(raw, &room);
	assert_true(clean.n < LINE_MAX_BYTES);
	for (size_t i = 0; i < clean.n; i++)
		assert_true((unsigned char)clean.p[i] >= 0x20 && clean.p[i] != 0x7f);
}

static void colours_and_control_characters_cut_or_changed(void **state)
{
	(void)state;
	static const char line[] = "\x1b[31mred\x1b[0m \x1b]0;title\a \xe2\x80\x99quoted\xe2\x80\x9d \xc2\xa0\x7f\x1b[";
	each_damage(S(line), 1, try_clean, NULL);
	static const char fills[] = { 'x', ' ', '\x1b', '\xe2', 0 };
	char raw[3 * LINE_MAX_BYTES];
	for (size_t i = 0; i < sizeof(fills); i++) {
		memset(raw, fills[i], sizeof(raw));
		for (size_t n = LINE_MAX_BYTES - 4; n < LINE_MAX_BYTES + 4; n++)
			try_copy((struct str){ raw, n }, -1, 0, try_clean, NULL);
		try_copy((struct str){ raw, sizeof(raw) }, -1, 0, try_clean, NULL);
	}
}

static void try_unwrap(void *ctx, struct str line)
{
	(void)ctx;
	LINE_ROOM(room);
	struct logline out = { 0 };
	if (line_unwrap(line, &room, &out))
		assert_true(out.text.n < LINE_MAX_BYTES);
}

static void json_lines_cut_or_changed(void **state)
{
	(void)state;
	each_damage(S("{\"__REALTIME_TIMESTAMP\" : \"1753351680123456\", \"_BOOT_ID\":\"4f1c\", "
		      "\"_SOURCE_MONOTONIC_TIMESTAMP\":\"77\","
		      "\"n\": [1, {\"a\":2}], \"MESSAGE\":\"a\\n\\u0041\\u2019\\\"\\\\b\" }"),
		    1, try_unwrap, NULL);
	char line[3 * LINE_MAX_BYTES];
	memset(line, 'x', sizeof(line));
	memcpy(line, "{\"log\":\"", 8);
	try_copy((struct str){ line, sizeof(line) }, -1, 0, try_unwrap, NULL);
	memset(line + 8, '\\', sizeof(line) - 8);
	try_copy((struct str){ line, sizeof(line) }, -1, 0, try_unwrap, NULL);
}

// --- logs ---

struct memory {
	struct str left;
	size_t step; // bytes of one read; 0: as many as are asked for
};

static ssize_t read_memory(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	(void)ret_err;
	struct memory *m = s->ctx;
	size_t n = size < m->left.n ? size : m->left.n;
	n = m->step && n > m->step ? m->step : n;
	if (n)
		memcpy(buffer, m->left.p, n);
	m->left = str_from(m->left, n);
	return (ssize_t)n;
}

struct reading {
	struct ledger ledger;
	struct engine *engine;
	struct evidence_reader *reader;
};

static void feed_event(void *ctx, const struct event *e) { engine_event(((struct reading *)ctx)->engine, e); }
static void keep_incident(void *ctx, struct incident *i) { ledger_add(&((struct reading *)ctx)->ledger, i); }

static void reading_begin(struct reading *r, const struct know *k)
{
	*r = (struct reading){ .engine = engine_new(k, (struct incident_sink){ .incident = keep_incident, .ctx = r }) };
	r->reader = evidence_reader_new(k, (struct event_sink){ feed_event, r });
}

static void reading_end(struct reading *r)
{
	engine_end(r->engine);
	ledger_sort(&r->ledger);
}

static void reading_free(struct reading *r)
{
	engine_free(r->engine);
	ledger_free(&r->ledger);
	evidence_reader_free(r->reader);
}

static void read_log(struct reading *r, const struct know *k, struct str log, size_t step)
{
	struct memory memory = { log, step };
	struct source source = { .name = "sample.log", .read = read_memory, .ctx = &memory };
	reading_begin(r, k);
	_cleanup_error_ struct uh_error *err = evidence_read(r->reader, &source);
	assert_true(err || log.n);
	reading_end(r);
}

static void try_log(void *ctx, struct str log)
{
	struct reading r;
	read_log(&r, ctx, log, 0);
	reading_free(&r);
}

static void logs_cut_or_changed(void **state)
{
	struct reading r;
	read_log(&r, *state, S(sample_log), 0);
	assert_int_equal(r.ledger.incidents.len, 2);
	reading_free(&r);
	each_damage(S(sample_log), 5, try_log, *state);
}

struct scanning {
	const struct know *know;
	struct scanner *scanner;
	struct log_words *words;
};

static void ignore_event(void *ctx, const struct event *e)
{
	(void)ctx;
	assert_true(e->nfacts <= EVENT_FACTS);
}

/** Each window has its own bytes only: what is read behind them is seen. */
static void try_window(void *ctx, struct str bytes)
{
	const struct scanning *s = ctx;
	for (int every = 0; every < 2; every++) {
		struct log_reader *log =
			log_reader_new(s->know, 0, S("log"), NULL, s->words, (struct event_sink){ ignore_event, NULL });
		struct window w = { .bytes = bytes.p, .size = bytes.n, .from = bytes.n / 3, .to = bytes.n - bytes.n / 4 };
		scan_window(every ? NULL : s->scanner, &w);
		for (size_t i = 0; i < w.candidates.len; i++)
			assert_true(w.candidates.data[i].begin <= w.candidates.data[i].end &&
				    w.candidates.data[i].end <= bytes.n);
		log_reader_window(log, &w, 0);
		log_reader_end(log);
		log_reader_free(log);
		vec_free(&w.candidates);
	}
}

static void windows_of_a_log_cut_or_changed(void **state)
{
	struct scanning s = { *state, scanner_new(*state, S(sample_log)), log_words_new(*state) };
	each_damage(S(sample_log), 3, try_window, &s);
	scanner_free(s.scanner);
	log_words_free(s.words);
}

static void assert_same(const struct reading *a, const struct reading *b)
{
	assert_int_equal(a->ledger.incidents.len, b->ledger.incidents.len);
	for (size_t n = 0; n < a->ledger.incidents.len; n++) {
		const struct incident *x = a->ledger.incidents.data[n], *y = b->ledger.incidents.data[n];
		assert_true(str_eq(x->id, y->id) && str_eq(x->fingerprint, y->fingerprint) && str_eq(x->title, y->title));
		assert_int_equal(x->confidence, y->confidence);
		assert_int_equal(x->events.len, y->events.len);
		for (size_t e = 0; e < x->events.len; e++) {
			assert_true(str_eq(x->events.data[e]->sentence, y->events.data[e]->sentence));
			assert_int_equal(x->events.data[e]->role, y->events.data[e]->role);
			assert_int_equal(x->events.data[e]->at.line, y->events.data[e]->at.line);
		}
	}
}

/** A log at once, byte by byte, and line by line as it happens. */
static void a_log_read_byte_by_byte_is_the_same(void **state)
{
	struct reading whole, bytes, lines;
	read_log(&whole, *state, S(sample_log), 0);
	read_log(&bytes, *state, S(sample_log), 1);
	assert_same(&whole, &bytes);
	reading_begin(&lines, *state);
	struct log_words *words = log_words_new(*state);
	struct log_reader *log = log_reader_new(*state, 0, S("log"), NULL, words, (struct event_sink){ feed_event, &lines });
	log_reader_live(log);
	for (struct str left = S(sample_log); left.n;)
		log_reader_record(
			log, &(struct source_record){ .text = str_split(&left, '\n'), .boot_seconds = -1, .wall_seconds = -1 });
	log_reader_end(log);
	log_reader_free(log);
	log_words_free(words);
	reading_end(&lines);
	assert_same(&whole, &lines);
	reading_free(&whole);
	reading_free(&bytes);
	reading_free(&lines);
}

/** Of /dev/kmsg, with and without a device, of the kernel and of a program. */
static void a_record_cut_or_changed_at_any_byte_is_no_other_writers(void **state)
{
	static const char *const records[] = {
		"3,1,5000000,-;amdgpu 0000:03:00.0: amdgpu: device lost from bus!\n SUBSYSTEM=pci\n DEVICE=+pci:0000:03:00.0\n",
		"3,2,5000000,-,caller=T7;[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=1, "
		"emitted seq=2\n",
		"27,3,5000000,c;amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n SUBSYSTEM=pci\n DEVICE=+pci:0000:03:00.0\n",
		"3,4,5000000,-;traps: VRAM is lost![77] trap divide error ip:55d0 sp:7ffd error:0\n",
	};
	struct log_words *words = log_words_new(*state);
	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		const size_t n = strlen(records[i]);
		for (size_t cut = 0; cut <= n; cut++) {
			char *room = malloc(cut + !cut), *changed = malloc(n);
			memcpy(room, records[i], cut);
			record_check(*state, words, (struct str){ room, cut });
			memcpy(changed, records[i], n);
			changed[cut < n ? cut : 0] ^= 1;
			record_check(*state, words, (struct str){ changed, n });
			free(room);
			free(changed);
		}
	}
	log_words_free(words);
}

// --- memory ---

enum { INCIDENT_BYTES = 512 << 10, SAMPLES_MAX = 32 };

/** Events to be repeated with other values. */
struct samples {
	struct arena arena;
	size_t n;
	struct event events[SAMPLES_MAX];
};

static void keep_sample(void *ctx, const struct event *e)
{
	struct samples *s = ctx;
	if (!e->signature || s->n == SAMPLES_MAX)
		return;
	struct event *copy = &s->events[s->n++];
	*copy = *e;
	copy->device = arena_str(&s->arena, e->device);
	copy->driver = arena_str(&s->arena, e->driver);
	copy->text = arena_str(&s->arena, e->text);
	for (size_t i = 0; i < e->nfacts; i++)
		copy->facts[i].value = arena_str(&s->arena, e->facts[i].value);
}

static void read_samples(struct samples *s, const struct know *k, struct str lines)
{
	struct log_words *words = log_words_new(k);
	struct log_reader *log = log_reader_new(k, 0, S("log"), NULL, words, (struct event_sink){ keep_sample, s });
	log_reader_live(log);
	while (lines.n)
		log_reader_record(log, &(struct source_record){
					       .text = str_split(&lines, '\n'), .boot_seconds = -1, .wall_seconds = -1 });
	log_reader_free(log);
	log_words_free(words);
	assert_true(s->n);
}

/** Numbers and codes change, words stay. */
static void change_facts(struct event *e, unsigned n, char room[static 24])
{
	int length = snprintf(room, 24, "%u", n);
	for (size_t i = 0; i < e->nfacts; i++)
		if (e->facts[i].type == FACT_NUMBER)
			e->facts[i].value = (struct str){ room, (size_t)length };
		else if (e->facts[i].type == FACT_CODE && !str_is(e->facts[i].name, "fault_status"))
			e->facts[i].value = (struct str){ room, (size_t)length };
}

static void check_incident(void *ctx, struct incident *i)
{
	struct ledger *l = ctx;
	assert_true(i->arena.total <= INCIDENT_BYTES);
	ledger_add(l, i);
	assert_true(l->incidents.len < 2 * LEDGER_MAX);
}

/** @pause: seconds after every hundredth event. */
static void feed_many(const struct know *k, struct samples *s, bool change, unsigned gpus, double pause)
{
	struct ledger ledger = { 0 };
	struct engine *g = engine_new(k, (struct incident_sink){ .incident = check_incident, .ctx = &ledger });
	double seconds = 1;
	for (unsigned n = 0; n < MANY; n++) {
		struct event e = s->events[n % s->n];
		char room[24], device[16];
		int length = snprintf(device, sizeof(device), "0000:%02x:00.0", n / 16 % gpus);
		if (e.device.n)
			e.device = (struct str){ device, (size_t)length };
		if (change)
			change_facts(&e, n, room);
		seconds += n % 100 ? 0.01 : pause;
		e.time = (struct stamp){ TIME_BOOT, seconds };
		e.at.line = n + 1;
		engine_event(g, &e);
	}
	engine_end(g);
	assert_true(ledger.incidents.len);
	engine_free(g);
	ledger_free(&ledger);
}

static void an_endless_stream_of_events_takes_bounded_memory(void **state)
{
	struct samples s = { 0 };
	read_samples(&s, *state,
		     S(GPU "ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102\n" GPU
			   "Process information: process train pid 4242 thread train:cs0 pid 4250\n" GPU
			   "[gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32770)\n" GPU
			   "  in page starting at address 0x00007f0011220000 from client 10\n" GPU
			   "GCVM_L2_PROTECTION_FAULT_STATUS:0x00301031\n" GPU "\t Faulty UTCL2 client ID: TCP (0x8)\n"));
	feed_many(*state, &s, true, 1, 0.01); // one incident that never ends
	feed_many(*state, &s, true, 40, 200); // many, and more at once than are kept open
	arena_free(&s.arena);
}

/** Lines that only add details, over and over, with nothing new in them. */
static void endless_details_of_an_event_take_bounded_memory(void **state)
{
	struct samples s = { 0 };
	read_samples(&s, *state,
		     S("amdgpu 0000:03:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, "
		       "(Requester ID)\n"
		       "amdgpu 0000:03:00.0:   device [1002:744c] error status/mask=00004000/00000000\n"));
	feed_many(*state, &s, false, 1, 0.01);
	arena_free(&s.arena);
}

static void endless_facts_of_a_machine_take_bounded_memory(void **state)
{
	struct samples s = { 0 };
	struct machine m = { 0 };
	read_samples(&s, *state,
		     S("Linux version 6.12.0-1-amd64 (builder@host) #1 SMP\n"
		       "Command line: root=/dev/sda1 amdgpu.lockup_timeout=1000 iommu=pt\n"));
	for (unsigned n = 0; n < MANY; n++) {
		struct event e = s.events[n % s.n];
		char room[64];
		int length = snprintf(room, sizeof(room), "amdgpu.lockup_timeout=%u", n);
		for (size_t i = 0; i < e.nfacts; i++)
			e.facts[i].value = (struct str){ room, (size_t)length };
		machine_note(&m, *state, &e);
	}
	assert_true(m.facts.len <= MACHINE_FACTS);
	assert_true(m.arena.total <= INCIDENT_BYTES);
	machine_clear(&m);
	arena_free(&s.arena);
}

// --- mistakes in a user's knowledge ---

static void ignore_problem(void *ctx, const char *file, unsigned line, const char *message)
{
	(void)file;
	(void)line;
	(void)message;
	(*(unsigned *)ctx)++;
}

/** A block with a mistake is reported and not used, whatever the log then says. */
static void a_wrong_signature_is_told_once_and_harms_no_log(void **state)
{
	static const char *const wrong[] = {
		"signature mine\n match my own odd message {n:int}\n subsystem ring\n event ring-timeout\n",
		"signature mine\n match my own odd message {n:int}\n subsystem ring\n level error\n event no-such-event\n",
		"signature mine\n match my own odd message {n:int}\n subsystem ring\n level error\n detail no-such-event\n",
		"signature mine\n match my own odd message {n:no-such-table}\n subsystem ring\n level error\n event "
		"ring-timeout\n",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		unsigned count = 0;
		struct know_problems problems = { .report = ignore_problem, .ctx = &count };
		struct know *k = know_load_with("sample.know", str_z(wrong[i]), &problems);
		assert_int_equal(count, 1);
		try_log(k, S("[ 10.0] " GPU "my own odd message 5\n"));
		know_free(k);
	}
}

static int setup(void **state)
{
	*state = know_load_with("none.know", S(""), &(struct know_problems){ 0 });
	return 0;
}

static int teardown(void **state)
{
	know_free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_knowledge_cut_or_changed),
		cmocka_unit_test(knowledge_files_cut_or_changed),
		cmocka_unit_test(conditions_cut_or_changed),
		cmocka_unit_test(sentences_cut_or_changed),
		cmocka_unit_test(templates_and_lines_cut_or_changed),
		cmocka_unit_test(a_template_with_too_many_values_is_refused),
		cmocka_unit_test(matching_ends_at_its_step_limit),
		cmocka_unit_test(times_cut_or_changed),
		cmocka_unit_test(times_with_endless_digits),
		cmocka_unit_test(colours_and_control_characters_cut_or_changed),
		cmocka_unit_test(json_lines_cut_or_changed),
		cmocka_unit_test(logs_cut_or_changed),
		cmocka_unit_test(windows_of_a_log_cut_or_changed),
		cmocka_unit_test(a_log_read_byte_by_byte_is_the_same),
		cmocka_unit_test(a_record_cut_or_changed_at_any_byte_is_no_other_writers),
		cmocka_unit_test(an_endless_stream_of_events_takes_bounded_memory),
		cmocka_unit_test(endless_details_of_an_event_take_bounded_memory),
		cmocka_unit_test(endless_facts_of_a_machine_take_bounded_memory),
		cmocka_unit_test(a_wrong_signature_is_told_once_and_harms_no_log),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

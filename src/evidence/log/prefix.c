#include "evidence/log/prefix.h"

#include "knowledge/know_opening.h"

enum { NAME_MAX_BYTES = 64 };

static size_t digits(struct str s) { return str_run(s, char_digit); }

/** Length of a name of letters, digits and @more at the front of @s. */
static size_t name_length(struct str s, const char *more)
{
	size_t n = 0;
	while (n < s.n && n < NAME_MAX_BYTES && (char_word(s.p[n]) || char_among(s.p[n], more)))
		n++;
	return n;
}

static size_t with_space(struct str line, size_t n)
{
	while (n < line.n && line.p[n] == ' ')
		n++;
	return n;
}

/** The number behind `TP` in `Worker_TP2`, `VllmWorker TP2`, `TP2 PP0`. */
static struct str parallel_rank(struct str s)
{
	for (size_t i = 0; i + 2 < s.n; i++) {
		bool begins = i == 0 || !char_alpha(s.p[i - 1]);
		if (begins && (s.p[i] == 'T' || s.p[i] == 't') && (s.p[i + 1] == 'P' || s.p[i + 1] == 'p')) {
			struct str number = str_from(s, i + 2);
			return str_cut(number, digits(number));
		}
	}
	return (struct str){ 0 };
}

void prefix_in_bracket(struct str inside, struct writer *w)
{
	struct str rank = parallel_rank(inside);
	if (rank.n && !w->rank.n)
		w->rank = rank;
}

/** `(Worker_TP2 pid=4283)`, `(RayWorkerWrapper pid=123, ip=10.0.0.2)` */
static size_t read_worker(struct str line, struct writer *w)
{
	ptrdiff_t close = line.n && line.p[0] == '(' ? str_find(str_cut(line, 2 * NAME_MAX_BYTES), S(")")) : -1;
	if (close < 0)
		return 0;
	struct str inside = { line.p + 1, (size_t)close - 1 };
	ptrdiff_t at = str_find(inside, S("pid="));
	struct str pid = at < 0 ? (struct str){ 0 } : str_from(inside, (size_t)at + 4);
	pid = str_cut(pid, digits(pid));
	if (!pid.n)
		return 0;
	struct str name = str_trim(str_cut(inside, (size_t)at));
	ptrdiff_t rank = str_find(name, S(" rank="));
	if (rank > 0) { // (VllmWorker rank=3 pid=812)
		struct str number = str_from(name, (size_t)rank + 6);
		w->rank = str_cut(number, digits(number));
		name = str_cut(name, (size_t)rank);
	}
	ptrdiff_t ip = str_find(inside, S("ip="));
	w->pid = pid;
	w->worker = name.n ? name : w->worker;
	prefix_in_bracket(name, w);
	if (ip >= 0)
		w->host = str_from(inside, (size_t)ip + 3);
	return with_space(line, (size_t)close + 1);
}

/** `[rank1]:`, `[default3]:`, `[Rank 5]`, `[1,3]<stderr>:`, `[pod/name/container]` */
static size_t read_bracket(struct str line, struct writer *w)
{
	static const char *const names[] = { "rank", "Rank ", "default", "RANK " };
	ptrdiff_t close = line.n && line.p[0] == '[' ? str_find(str_cut(line, 2 * NAME_MAX_BYTES), S("]")) : -1;
	if (close < 0)
		return 0;
	struct str inside = { line.p + 1, (size_t)close - 1 };
	size_t end = (size_t)close + 1;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!str_starts(inside, str_z(names[i])))
			continue;
		struct str number = str_from(inside, strlen(names[i]));
		if (!number.n || digits(number) != number.n)
			continue;
		w->rank = number;
		end += end < line.n && line.p[end] == ':';
		return with_space(line, end);
	}
	if (str_starts(inside, S("pid:"))) { // HIP's own log: `[pid:196431 tid:0x7f2301dff640]`
		w->pid = str_cut(str_from(inside, 4), digits(str_from(inside, 4)));
		return w->pid.n ? with_space(line, end) : 0;
	}
	size_t job = digits(inside);
	if (job && job < inside.n && inside.p[job] == ',' && end < line.n && line.p[end] == '<') { // mpirun --tag-output
		struct str number = str_from(inside, job + 1);
		ptrdiff_t stream = str_find(str_cut(str_from(line, end), 16), S(">:"));
		if (stream > 0 && digits(number) == number.n && number.n) {
			w->rank = number;
			return with_space(line, end + (size_t)stream + 2);
		}
	}
	if (str_starts(inside, S("pod/"))) {
		w->worker = str_from(inside, 4);
		return with_space(line, end);
	}
	return 0;
}

/** srun -l: `3: ` */
static size_t read_task(struct str line, struct writer *w)
{
	size_t n = digits(line);
	if (!n || n > 5 || n + 1 >= line.n || line.p[n] != ':' || line.p[n + 1] != ' ')
		return 0;
	// Older logs of HIP have the process there: `21870: [tid:0x7f6733eff640] `
	if (str_starts(str_from(line, n + 2), S("[tid:"))) {
		ptrdiff_t close = str_find(str_cut(line, 2 * NAME_MAX_BYTES), S("] "));
		w->pid = str_cut(line, n);
		return with_space(line, close > 0 ? (size_t)close + 1 : n + 1);
	}
	w->rank = str_cut(line, n);
	w->numbered = true;
	return with_space(line, n + 1);
}

/** syslog: `host ollama[51180]: ` */
static size_t read_syslog(struct str line, struct writer *w)
{
	size_t at = 0;
	for (int words = 0; words < 2; words++) {
		size_t n = name_length(str_from(line, at), "-.:/");
		struct str name = str_cut(str_from(line, at), n), rest = str_from(line, at + n);
		size_t number = rest.n && rest.p[0] == '[' ? digits(str_from(rest, 1)) : 0;
		struct str message = str_from(rest, number + 4);
		// The kernel names a process in the same way: `game[812]: segfault at 0 ip ...`
		bool kernel = str_starts(message, S("segfault at ")) || str_starts(message, S("trap "));
		if (n && number && !kernel && str_starts(str_from(rest, number + 1), S("]: "))) {
			w->worker = name;
			w->pid = str_cut(str_from(rest, 1), number);
			return with_space(line, at + n + number + 3);
		}
		if (!n || !rest.n || rest.p[0] != ' ')
			return 0;
		at = with_space(line, at + n);
	}
	return 0;
}

/** docker compose: `vllm-1  | ` */
static size_t read_service(struct str line, struct writer *w)
{
	size_t n = name_length(line, "-.");
	size_t bar = with_space(line, n);
	if (n < 3 || bar == n || bar + 1 >= line.n || line.p[bar] != '|' || line.p[bar + 1] != ' ')
		return 0;
	w->worker = str_cut(line, n);
	return with_space(line, bar + 1);
}

/** `brax.0 [stderr] ` */
static size_t read_stream(struct str line, struct writer *w)
{
	size_t n = name_length(line, "-./");
	struct str rest = str_from(line, n);
	if (!n || (!str_starts(rest, S(" [stderr] ")) && !str_starts(rest, S(" [stdout] "))))
		return 0;
	w->worker = str_cut(line, n);
	return with_space(line, n + 10);
}

/** NCCL and RCCL: `host:11143:11150 [0] `, with a time or not */
static size_t read_nccl(struct str line, struct writer *w)
{
	size_t host = name_length(line, "-.");
	if (!host || host >= line.n || line.p[host] != ':')
		return 0;
	struct str pid = str_from(line, host + 1);
	pid = str_cut(pid, digits(pid));
	size_t at = host + 1 + pid.n;
	if (!pid.n || at >= line.n || line.p[at] != ':')
		return 0;
	size_t tid = digits(str_from(line, at + 1));
	at += 1 + tid;
	if (!tid || at + 2 >= line.n || line.p[at] != ' ' || line.p[at + 1] != '[')
		return 0;
	ptrdiff_t close = str_find(str_cut(str_from(line, at), 12), S("] "));
	if (close < 0)
		return 0;
	w->host = str_cut(line, host);
	w->pid = pid;
	return with_space(line, at + (size_t)close + 1);
}

size_t prefix_read(struct str line, struct writer *w)
{
	size_t colour = 1; // whose escape character was lost: `[1;36m`
	while (colour < line.n && line.p[0] == '[' && colour < 12 && (char_digit(line.p[colour]) || line.p[colour] == ';'))
		colour++;
	if (colour > 1 && colour < line.n && line.p[colour] == 'm')
		return colour + 1;
	static size_t (*const forms[])(struct str, struct writer *) = { read_worker, read_bracket, read_task,  read_service,
									read_stream, read_nccl,    read_syslog };
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		size_t n = forms[i](line, w);
		if (n)
			return n;
	}
	return 0;
}

struct str prefix_rank_of_name(struct str path)
{
	static const char word[] = "rank";
	const struct str name = str_base(path);
	struct str found = { 0 };
	for (size_t i = 0; i + sizeof(word) <= name.n; i++) {
		size_t at = i, k = 0;
		while (k < sizeof(word) - 1 && char_lower(name.p[at]) == word[k]) {
			at++;
			k++;
		}
		if (k < sizeof(word) - 1 || (i && char_alpha(name.p[i - 1])))
			continue;
		at += char_among(name.p[at], "-_.=");
		const struct str rest = str_from(name, at), number = str_cut(rest, digits(rest));
		if (found.n && number.n && !str_eq(found, number)) // rank0-rank7.log
			return (struct str){ 0 };
		found = number.n ? number : found;
	}
	return found;
}

enum { TASK_NAME = 15 }; // the most characters of a process's name, which users choose and some lines begin with

static size_t prefix_skip_spaces(struct str s, size_t at) { return at + str_run(str_from(s, at), char_space); }

/** Whether the kernel noted the device that the line names. */
static bool attests(const struct know_opening *o, const struct match *m, const struct source_note *by)
{
	struct str noted = { 0 };
	if (by->writer != WRITER_KERNEL || !o->subsystem.n || !str_eq(by->subsystem, o->subsystem))
		return false;
	for (size_t i = 0; i < m->ncaptures; i++)
		if (str_is(m->captures[i].piece->name, "device") &&
		    (!str_behind(by->device, S("+pci:"), &noted) || !str_eq(noted, m->captures[i].text)))
			return false;
	return true;
}

/** The longest opening at @at of @text; 0: none, else where it ends. */
static size_t prefix_longest(const struct know *k, struct str text, size_t at, const struct source_note *by, struct opening *to)
{
	size_t end = 0;
	struct opening of = { 0 };
	for (size_t i = 0; i < k->openings.len; i++) {
		const struct know_opening *o = k->openings.data[i];
		for (size_t t = 0; t < o->ntemplates; t++) {
			struct match m = { 0 };
			const struct str first = o->templates[t]->pieces[0].literal;
			if ((first.n && (at >= text.n || text.p[at] != first.p[0])) ||
			    !template_match(o->templates[t], text, at, &m) || m.end <= end)
				continue;
			end = m.end;
			of = (struct opening){ .attested = attests(o, &m, by), .own = o->own, .brief = o->brief };
		}
	}
	// What a line begins with says who wrote it; behind that a user's words may follow.
	to->attested |= !to->n && of.attested;
	to->brief |= !to->n && of.brief;
	if (end)
		to->own = of.own && (to->own || !to->n);
	return end;
}

struct opening opening_read(const struct know *k, struct str text, const struct source_note *by)
{
	struct opening o = { .live = by->writer == WRITER_KERNEL };
	size_t at = o.begins[0] = prefix_skip_spaces(text, 0);
	while (o.live && o.n < OPENINGS_MOST && (at = prefix_longest(k, text, at, by, &o)))
		o.begins[++o.n] = at = prefix_skip_spaces(text, at);
	return o;
}

static bool allows(const void *ctx, const struct match *m)
{
	const struct opening *o = ctx;
	const struct know_signature *s = match_signature(m);
	const bool no_name = m->weight > TASK_NAME; // what is no longer may be a name
	bool at_front = false;
	if (s->program)
		return false;
	for (size_t i = 0; i <= o->n; i++)
		at_front |= m->begin == o->begins[i];
	if (at_front && ((no_name && (o->n || s->bare)) || (o->own && m->begin + m->weight > TASK_NAME)))
		return true;
	if (o->own && no_name && (o->attested || o->begins[o->n] > TASK_NAME))
		return true;
	return o->brief && m->begin == o->begins[0];
}

bool opening_match(const struct know *k, const struct opening *o, struct str text, struct match *ret)
{
	const struct match_rule rule = { allows, o };
	return know_match_by(k, text, &rule, ret);
}

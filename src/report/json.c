// The JSON of DESIGN.md; docs/diagnosis.schema.json describes it.
#include "base/cleanup.h"
#include "report/report.h"
#include "report/sheet.h"

static void write_time(struct sheet *s, const char *key, struct stamp time)
{
	jw_key(&s->json, key);
	if (time.clock == TIME_NONE)
		jw_null(&s->json);
	else
		jw_decimal(&s->json, time.seconds, 6);
}

static void write_place(struct sheet *s, struct place at)
{
	sheet_open(s, "at", '{');
	sheet_put(s, "source", v_int(at.source));
	sheet_put(s, "line", v_if(at.line, v_int((int64_t)at.line))); // a core has none
	sheet_close(s, '}');
}

static void write_fact(struct sheet *s, const struct fact *f, int64_t event)
{
	int64_t number;
	sheet_open(s, NULL, '{');
	sheet_put(s, "name", v_text(f->name));
	sheet_put(s, "value",
		  f->type == FACT_TRUE                                    ? v_bool(true) :
		  f->type == FACT_NUMBER && str_number(f->value, &number) ? v_int(number) :
									    v_text(f->value));
	sheet_put(s, "event", v_if(event, v_int(event)));
	write_place(s, f->at);
	sheet_close(s, '}');
}

static void write_facts(struct sheet *s, const struct incident *i)
{
	sheet_open(s, "facts", '[');
	for (size_t n = 0; n < i->machine.len; n++)
		write_fact(s, &i->machine.data[n], 0);
	for (size_t n = 0; n < i->events.len; n++)
		for (size_t f = 0; f < i->events.data[n]->nfacts; f++)
			write_fact(s, &i->events.data[n]->facts[f], (int64_t)n + 1);
	sheet_close(s, ']');
}

static void write_gpu(struct sheet *s, const struct diag_gpu *gpu, struct str role)
{
	sheet_open(s, NULL, '{');
	sheet_put(s, "pci", v_if(pci_length(gpu->device), v_known(gpu->device)));
	sheet_put(s, "name", v_known(gpu->name));
	sheet_put(s, "gfx", v_known(gpu->gfx));
	sheet_put(s, "serial", v_known(gpu->serial));
	sheet_put(s, "unique_id", v_known(gpu->unique_id));
	sheet_put(s, "role", v_text(role));
	sheet_close(s, '}');
}

static void write_gpus(struct sheet *s, const struct incident *i)
{
	sheet_open(s, "gpus", '[');
	write_gpu(s, &i->gpu, S("origin"));
	for (size_t n = 0; n < i->other_gpus.len; n++)
		write_gpu(s, &i->other_gpus.data[n], S("affected"));
	sheet_close(s, ']');
}

static void write_ranks(struct sheet *s, const struct incident *i)
{
	int64_t number;
	sheet_open(s, "ranks", '[');
	for (size_t n = 0; n < i->ranks.len; n++) {
		const struct diag_rank *r = &i->ranks.data[n];
		sheet_open(s, NULL, '{');
		sheet_put(s, "rank", v_count(str_number(r->rank, &number) ? number : -1));
		sheet_put(s, "worker", v_known(r->worker));
		sheet_put(s, "pid", v_count(str_number(r->pid, &number) ? number : -1));
		sheet_put(s, "gpu_node", v_count(str_number(r->node, &number) ? number : -1));
		sheet_put(s, "group", v_known(r->group));
		sheet_put(s, "collective", v_known(r->collective));
		sheet_put(s, "seq", v_count(r->seq));
		sheet_put(s, "enqueued", v_count(r->enqueued));
		sheet_put(s, "completed", v_count(r->completed));
		write_time(s, "time", r->first->time);
		sheet_put(s, "role", v_known(str_z(r->role)));
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

/** Registers, rings and memory, as the evidence holds them. */
static void write_values(struct sheet *s, const struct values *v, size_t event)
{
	enum { NUMBERS_MAX = 4096 };
	char room[24];
	sheet_open(s, NULL, '{');
	sheet_put(s, "event", v_int((int64_t)event));
	sheet_put(s, "group", v_known(v->group));
	sheet_put(s, "name", v_text(v->name));
	sheet_put(s, "address", v_if(v->address, v_known(code_text(v->address, room))));
	sheet_put(s, "count", v_int((int64_t)v->n));
	sheet_open(s, "values", '[');
	for (size_t n = 0; n < v->n && n < NUMBERS_MAX; n++) {
		if (v->n > 1 && v->data[n] == UINT64_MAX)
			jw_null(&s->json); // a lane that the dump does not have
		else
			jw_str(&s->json, code_text(v->data[n], room));
	}
	sheet_close(s, ']');
	sheet_close(s, '}');
}

static void write_register(struct sheet *s, const struct wave_register *r, size_t event)
{
	const struct values v = { .group = r->group, .name = r->name, .n = r->n, .data = r->data };
	write_values(s, &v, event);
}

static void write_access(struct sheet *s, const struct wave_access *x, size_t event)
{
	static const char *const groups[] = {
		[ACCESS_KNOWN] = "access", [ACCESS_MAYBE] = "access-maybe", [ACCESS_LDS] = "lds"
	};
	const struct values v = { .group = str_z(groups[x->trust]),
				  .name = x->instruction,
				  .address = x->pc,
				  .n = WAVE_LANES,
				  .data = x->addresses };
	write_values(s, &v, event);
}

/** The ranges as their begins and their ends. */
static void write_map(struct sheet *s, const struct dump *d, size_t event)
{
	_cleanup_free_ uint64_t *numbers = mem_alloc(2 * d->nmap * sizeof(*numbers) + 1);
	for (size_t i = 0; i < d->nmap; i++) {
		numbers[i] = d->map[i].begin;
		numbers[d->nmap + i] = d->map[i].end;
	}
	for (size_t end = 0; d->nmap && end < 2; end++) {
		const struct values v = {
			.group = S("memory"), .name = end ? S("end") : S("begin"), .n = d->nmap, .data = numbers + end * d->nmap
		};
		write_values(s, &v, event);
	}
}

static void write_dumps(struct sheet *s, const struct incident *i)
{
	sheet_open(s, "dumps", '[');
	for (size_t n = 0; n < i->events.len; n++) {
		const struct dump *d = &i->events.data[n]->dump;
		for (size_t r = 0; r < d->registers.len; r++)
			write_register(s, &d->registers.data[r], n + 1);
		for (size_t v = 0; v < d->nvalues; v++)
			write_values(s, &d->values[v], n + 1);
		for (size_t x = 0; x < d->naccesses; x++)
			write_access(s, &d->accesses[x], n + 1);
		write_map(s, d, n + 1);
	}
	sheet_close(s, ']');
}

static void write_cause(struct sheet *s, const struct incident *i)
{
	sheet_open(s, "cause", '{');
	sheet_put(s, "class", v_text(i->cause->head.id));
	sheet_put(s, "title", v_text(i->title));
	jw_key(&s->json, "confidence");
	jw_decimal(&s->json, i->confidence / 100.0, 2);
	sheet_put(s, "explanation", v_text(i->explanation));
	sheet_put(s, "evidence", v_known(i->sure));
	sheet_put(s, "last_work", v_known(i->last_work));
	sheet_put(s, "before_log", v_bool(i->before_log));
	sheet_close(s, '}');
	sheet_texts(s, "also", i->also.data, i->also.len);
}

static void write_processes(struct sheet *s, const struct incident *i)
{
	int64_t pid;
	sheet_open(s, "processes", '[');
	for (size_t n = 0; n < i->processes.len; n++) {
		sheet_open(s, NULL, '{');
		sheet_put(s, "name", v_text(i->processes.data[n].name));
		sheet_put(s, "pid", str_number(i->processes.data[n].pid, &pid) ? v_int(pid) : v_null());
		sheet_put(s, "role", v_word(i->processes.data[n].role));
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

/** The sheet, and the lines that every incident has behind its facts. */
struct json_report {
	struct sheet sheet; // first: callbacks take it for the whole
	const struct lines *lines;
};

static void on_begin(void *ctx, const struct diagnosis *d)
{
	sheet_begin(ctx, "unhang/diagnosis/1", NULL);
	sheet_put(ctx, "host", v_known(d->host));
}

static void write_line(struct json_report *r, struct place at, struct place *last)
{
	const struct str line = lines_at(r->lines, at);
	if (!line.n || (last->source == at.source && last->line == at.line))
		return;
	*last = at;
	sheet_open(&r->sheet, NULL, '{');
	sheet_put(&r->sheet, "source", v_int(at.source));
	sheet_put(&r->sheet, "line", v_int((int64_t)at.line));
	sheet_put(&r->sheet, "text", v_text(line));
	sheet_close(&r->sheet, '}');
}

/** A line may stand there more than once: what is told of it may be, too. */
static void write_lines(struct json_report *r, const struct incident *i)
{
	struct place last = { 0 };
	sheet_open(&r->sheet, "lines", '[');
	for (size_t n = 0; n < i->events.len; n++) {
		write_line(r, i->events.data[n]->at, &last);
		for (size_t f = 0; f < i->events.data[n]->nfacts; f++)
			write_line(r, i->events.data[n]->facts[f].at, &last);
	}
	for (size_t n = 0; n < i->machine.len; n++)
		write_line(r, i->machine.data[n].at, &last);
	sheet_close(&r->sheet, ']');
}

static void on_machine(void *ctx, const struct machine_observation *m) { report_machine(m, ctx, NULL); }

static void on_open(void *ctx, enum report_list list, const struct incident *i)
{
	static const char *const keys[] = {
		"sources", "incidents", "timeline", "known", "remedies", "settings", "next", "notes"
	};
	(void)i;
	sheet_open(ctx, keys[list], '[');
}

static void on_close(void *ctx, enum report_list list, const struct incident *i)
{
	(void)list;
	(void)i;
	sheet_close(ctx, ']');
}

static void on_source(void *ctx, const struct evidence *e)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_int(e->id));
	sheet_put(s, "path", v_text(e->path));
	sheet_put(s, "kind", v_word(e->kind));
	sheet_open(s, "contains", '[');
	for (size_t n = 0; n < e->nkinds; n++)
		jw_str(&s->json, str_z(e->kinds[n]));
	sheet_close(s, ']');
	sheet_put(s, "bytes", v_int((int64_t)e->bytes));
	sheet_put(s, "lines", v_int((int64_t)e->lines));
	sheet_close(s, '}');
}

static void on_incident(void *ctx, const struct incident *i)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_text(i->id));
	sheet_put(s, "fingerprint", v_text(i->fingerprint));
	sheet_put(s, "state", v_text(i->open ? S("open") : S("closed")));
	sheet_put(s, "host", v_known(i->host));
	sheet_put(s, "history", v_bool(i->history));
	sheet_put(s, "boot_id", v_known(i->boot_id));
	write_gpus(s, i);
	write_time(s, "begin", i->begin);
	write_time(s, "end", i->end);
	sheet_put(s, "clock", v_word(clock_name(i->begin.clock)));
	sheet_put(s, "times", v_int(i->times));
	write_cause(s, i);
	sheet_open(s, "action", '{');
	sheet_put(s, "do", v_text(i->action->action));
	sheet_put(s, "fault", v_text(i->fault));
	sheet_put(s, "fit", v_text(incident_fit(i)));
	sheet_put(s, "text", v_text(i->action_text));
	sheet_close(s, '}');
	write_processes(s, i);
	write_ranks(s, i);
	write_facts(s, i);
	if (((struct json_report *)ctx)->lines)
		write_lines(ctx, i);
	write_dumps(s, i);
}

static void on_event(void *ctx, const struct diag_event *e, size_t id)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_int((int64_t)id));
	write_time(s, "time", e->time);
	sheet_put(s, "event", v_text(e->kind->head.id));
	sheet_put(s, "role", v_word(role_name(e->role)));
	sheet_put(s, "rule", v_known(e->lead ? e->lead->head.id : (struct str){ 0 }));
	sheet_put(s, "text", v_text(e->sentence));
	sheet_put(s, "count", v_int(e->count));
	write_time(s, "last", e->last);
	if (e->unattested)
		sheet_put(s, "unattested", v_bool(true));
	write_place(s, e->at);
	sheet_close(s, '}');
}

static void on_known(void *ctx, const struct know_bad *b)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_text(b->head.id));
	sheet_put(s, "title", v_text(b->title));
	sheet_put(s, "good", v_known(b->good));
	sheet_put(s, "grade", v_text(b->grade));
	sheet_put(s, "source", v_text(b->source));
	sheet_close(s, '}');
}

static void on_remedy(void *ctx, const struct diag_remedy *r, size_t number)
{
	(void)number;
	struct sheet *s = ctx;
	const struct know_remedy *k = r->remedy;
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_text(k->head.id));
	sheet_put(s, "kind", v_text(k->kind));
	sheet_put(s, "title", v_text(k->title));
	sheet_commands(s, "do", r->steps.list, r->steps.n);
	sheet_put(s, "here", v_known(r->numbers));
	sheet_put(s, "undo", v_command(r->steps.undo));
	sheet_put(s, "cost", v_command(r->steps.cost));
	sheet_put(s, "risk", v_command(r->steps.risk));
	sheet_put(s, "grade", v_text(k->grade));
	sheet_put(s, "source", v_text(k->source));
	sheet_put(s, "until", v_command(r->steps.until));
	sheet_put(s, "if", v_if(!r->certain, v_command(r->steps.condition)));
	sheet_put(s, "verify", v_command(r->steps.verify));
	sheet_put(s, "takes", v_word(remedy_takes_name(k->takes)));
	sheet_put(s, "state", v_word(remedy_state_name(r->verdict.state)));
	sheet_put(s, "because", v_known(r->verdict.because));
	sheet_put(s, "why", v_known(r->why));
	sheet_put(s, "shown", v_bool(r->shown));
	sheet_close(s, '}');
}

static void on_setting(void *ctx, const struct diag_setting *g)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_text(g->id));
	sheet_put(s, "text", v_text(g->text));
	sheet_put(s, "grade", v_text(g->grade));
	sheet_put(s, "source", v_text(g->source));
	sheet_close(s, '}');
}

static void on_next(void *ctx, const struct diag_next *n)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_put(s, "why", v_text(n->why));
	sheet_put(s, "run", v_command(n->run));
	sheet_close(s, '}');
}

static void on_note(void *ctx, const struct note *n)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_put(s, "event", v_text(n->event));
	sheet_put(s, "text", v_text(n->text));
	write_place(s, n->at);
	sheet_close(s, '}');
}

static void on_incident_end(void *ctx, const struct incident *i)
{
	(void)i;
	sheet_close(ctx, '}');
}

static void on_end(void *ctx, const struct diagnosis *d)
{
	sheet_put(ctx, "verdict", v_word(verdict_name(d->verdict)));
	sheet_put(ctx, "expected_gpus", v_if(d->expected, v_number(d->expected)));
	sheet_put(ctx, "omitted", v_int((int64_t)d->ledger->omitted));
	sheet_put(ctx, "earlier", v_int((int64_t)d->earlier));
	sheet_close(ctx, '}');
}

void report_json(const struct diagnosis *d, FILE *out)
{
	static const struct report_writer writer = {
		.begin = on_begin,
		.machine = on_machine,
		.open = on_open,
		.source = on_source,
		.incident = on_incident,
		.event = on_event,
		.known = on_known,
		.remedy = on_remedy,
		.setting = on_setting,
		.next = on_next,
		.note = on_note,
		.close = on_close,
		.incident_end = on_incident_end,
		.end = on_end,
	};
	struct json_report r = { sheet_on(true, out), d->lines };
	report_walk(d, &writer, &r);
}

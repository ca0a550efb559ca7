// The JSON of DESIGN.md; docs/diagnosis.schema.json describes it.
#include "base/cleanup.h"
#include "base/json.h"

#include "report/report.h"

static void text_or_null(struct json *j, const char *key, struct str value)
{
	jw_field(j, key, value.n ? value : (struct str){ 0 });
}

static void write_time(struct json *j, const char *key, struct stamp time)
{
	jw_key(j, key);
	if (time.clock == TIME_NONE)
		jw_null(j);
	else
		jw_decimal(j, time.seconds, 6);
}

static void write_place(struct json *j, struct place at)
{
	jw_key(j, "at");
	jw_open(j, '{');
	jw_key(j, "source");
	jw_int(j, at.source);
	jw_key(j, "line");
	if (at.line)
		jw_int(j, (int64_t)at.line);
	else
		jw_null(j); // a core has none
	jw_close(j, '}');
}

static void write_fact(struct json *j, const struct fact *f, int64_t event)
{
	int64_t number;
	jw_open(j, '{');
	jw_field(j, "name", f->name);
	jw_key(j, "value");
	if (f->type == FACT_TRUE)
		jw_bool(j, true);
	else if (f->type == FACT_NUMBER && str_number(f->value, &number))
		jw_int(j, number);
	else
		jw_str(j, f->value);
	jw_key(j, "event");
	if (event)
		jw_int(j, event);
	else
		jw_null(j);
	write_place(j, f->at);
	jw_close(j, '}');
}

static void write_facts(struct json *j, const struct incident *i)
{
	jw_key(j, "facts");
	jw_open(j, '[');
	for (size_t n = 0; n < i->machine.len; n++)
		write_fact(j, &i->machine.data[n], 0);
	for (size_t n = 0; n < i->events.len; n++)
		for (size_t f = 0; f < i->events.data[n]->nfacts; f++)
			write_fact(j, &i->events.data[n]->facts[f], (int64_t)n + 1);
	jw_close(j, ']');
}

static void write_gpu(struct json *j, const struct diag_gpu *gpu, struct str role)
{
	jw_open(j, '{');
	text_or_null(j, "pci", pci_length(gpu->device) ? gpu->device : (struct str){ 0 });
	text_or_null(j, "name", gpu->name);
	text_or_null(j, "gfx", gpu->gfx);
	text_or_null(j, "unique_id", (struct str){ 0 });
	jw_field(j, "role", role);
	jw_close(j, '}');
}

static void write_gpus(struct json *j, const struct incident *i)
{
	jw_key(j, "gpus");
	jw_open(j, '[');
	write_gpu(j, &i->gpu, S("origin"));
	for (size_t n = 0; n < i->other_gpus.len; n++)
		write_gpu(j, &i->other_gpus.data[n], S("affected"));
	jw_close(j, ']');
}

static void number_or_null(struct json *j, const char *key, int64_t value)
{
	jw_key(j, key);
	if (value < 0)
		jw_null(j);
	else
		jw_int(j, value);
}

static void write_ranks(struct json *j, const struct incident *i)
{
	int64_t number;
	jw_key(j, "ranks");
	jw_open(j, '[');
	for (size_t n = 0; n < i->ranks.len; n++) {
		const struct diag_rank *r = &i->ranks.data[n];
		jw_open(j, '{');
		number_or_null(j, "rank", str_number(r->rank, &number) ? number : -1);
		text_or_null(j, "worker", r->worker);
		number_or_null(j, "pid", str_number(r->pid, &number) ? number : -1);
		number_or_null(j, "gpu_node", str_number(r->node, &number) ? number : -1);
		text_or_null(j, "group", r->group);
		text_or_null(j, "collective", r->collective);
		number_or_null(j, "seq", r->seq);
		number_or_null(j, "enqueued", r->enqueued);
		number_or_null(j, "completed", r->completed);
		write_time(j, "time", r->first->time);
		text_or_null(j, "role", str_z(r->role));
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

/** Registers, rings and memory, as the evidence holds them. */
static void write_values(struct json *j, const struct values *v, size_t event)
{
	enum { NUMBERS_MAX = 4096 };
	char room[24];
	jw_open(j, '{');
	jw_key(j, "event");
	jw_int(j, (int64_t)event);
	text_or_null(j, "group", v->group);
	jw_field(j, "name", v->name);
	text_or_null(j, "address", v->address ? code_text(v->address, room) : (struct str){ 0 });
	jw_key(j, "count");
	jw_int(j, (int64_t)v->n);
	jw_key(j, "values");
	jw_open(j, '[');
	for (size_t n = 0; n < v->n && n < NUMBERS_MAX; n++) {
		if (v->n > 1 && v->data[n] == UINT64_MAX)
			jw_null(j); // a lane that the dump does not have
		else
			jw_str(j, code_text(v->data[n], room));
	}
	jw_close(j, ']');
	jw_close(j, '}');
}

static void write_register(struct json *j, const struct wave_register *r, size_t event)
{
	const struct values v = { .group = r->group, .name = r->name, .n = r->n, .data = r->data };
	write_values(j, &v, event);
}

static void write_access(struct json *j, const struct wave_access *x, size_t event)
{
	static const char *const groups[] = {
		[ACCESS_KNOWN] = "access", [ACCESS_MAYBE] = "access-maybe", [ACCESS_LDS] = "lds"
	};
	const struct values v = { .group = str_z(groups[x->trust]),
				  .name = x->instruction,
				  .address = x->pc,
				  .n = WAVE_LANES,
				  .data = x->addresses };
	write_values(j, &v, event);
}

/** The ranges as their begins and their ends. */
static void write_map(struct json *j, const struct dump *d, size_t event)
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
		write_values(j, &v, event);
	}
}

static void write_dumps(struct json *j, const struct incident *i)
{
	jw_key(j, "dumps");
	jw_open(j, '[');
	for (size_t n = 0; n < i->events.len; n++) {
		const struct dump *d = &i->events.data[n]->dump;
		for (size_t r = 0; r < d->registers.len; r++)
			write_register(j, &d->registers.data[r], n + 1);
		for (size_t v = 0; v < d->nvalues; v++)
			write_values(j, &d->values[v], n + 1);
		for (size_t x = 0; x < d->naccesses; x++)
			write_access(j, &d->accesses[x], n + 1);
		write_map(j, d, n + 1);
	}
	jw_close(j, ']');
}

static void write_cause(struct json *j, const struct incident *i)
{
	jw_key(j, "cause");
	jw_open(j, '{');
	jw_field(j, "class", i->cause->head.id);
	jw_field(j, "title", i->title);
	jw_key(j, "confidence");
	jw_decimal(j, i->confidence / 100.0, 2);
	jw_field(j, "explanation", i->explanation);
	text_or_null(j, "evidence", i->sure);
	jw_key(j, "before_log");
	jw_bool(j, i->before_log);
	jw_close(j, '}');
	jw_key(j, "also");
	jw_open(j, '[');
	for (size_t n = 0; n < i->also.len; n++)
		jw_str(j, i->also.data[n]);
	jw_close(j, ']');
}

static void write_processes(struct json *j, const struct incident *i)
{
	int64_t pid;
	jw_key(j, "processes");
	jw_open(j, '[');
	for (size_t n = 0; n < i->processes.len; n++) {
		jw_open(j, '{');
		jw_field(j, "name", i->processes.data[n].name);
		jw_key(j, "pid");
		if (str_number(i->processes.data[n].pid, &pid))
			jw_int(j, pid);
		else
			jw_null(j);
		jw_field(j, "role", str_z(i->processes.data[n].role));
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

static void on_begin(void *ctx, const struct diagnosis *d)
{
	(void)d;
	struct json *j = ctx;
	jw_open(j, '{');
	jw_field(j, "schema", S("unhang/diagnosis/1"));
}

static void on_machine(void *ctx, const struct machine_view *m) { report_machine_json(m, ctx); }

static void on_open(void *ctx, enum report_list list, const struct incident *i)
{
	static const char *const keys[] = {
		"sources", "incidents", "timeline", "known", "remedies", "settings", "next", "notes"
	};
	(void)i;
	jw_key(ctx, keys[list]);
	jw_open(ctx, '[');
}

static void on_close(void *ctx, enum report_list list, const struct incident *i)
{
	(void)list;
	(void)i;
	jw_close(ctx, ']');
}

static void on_source(void *ctx, const struct evidence *e)
{
	struct json *j = ctx;
	jw_open(j, '{');
	jw_key(j, "id");
	jw_int(j, e->id);
	jw_field(j, "path", e->path);
	jw_field(j, "kind", str_z(e->kind));
	jw_key(j, "contains");
	jw_open(j, '[');
	for (size_t n = 0; n < e->nkinds; n++)
		jw_str(j, str_z(e->kinds[n]));
	jw_close(j, ']');
	jw_key(j, "bytes");
	jw_int(j, (int64_t)e->bytes);
	jw_key(j, "lines");
	jw_int(j, (int64_t)e->lines);
	jw_close(j, '}');
}

static void on_incident(void *ctx, const struct incident *i)
{
	struct json *j = ctx;
	jw_open(j, '{');
	jw_field(j, "id", i->id);
	jw_field(j, "fingerprint", i->fingerprint);
	jw_field(j, "state", i->open ? S("open") : S("closed"));
	text_or_null(j, "host", i->host);
	text_or_null(j, "boot_id", i->boot_id);
	write_gpus(j, i);
	write_time(j, "begin", i->begin);
	write_time(j, "end", i->end);
	jw_field(j, "clock", str_z(clock_name(i->begin.clock)));
	jw_key(j, "times");
	jw_int(j, i->times);
	write_cause(j, i);
	jw_key(j, "action");
	jw_open(j, '{');
	jw_field(j, "do", i->action->action);
	jw_field(j, "fault", i->fault);
	jw_field(j, "text", i->action_text);
	jw_close(j, '}');
	write_processes(j, i);
	write_ranks(j, i);
	write_facts(j, i);
	write_dumps(j, i);
}

static void on_event(void *ctx, const struct diag_event *e, size_t id)
{
	struct json *j = ctx;
	jw_open(j, '{');
	jw_key(j, "id");
	jw_int(j, (int64_t)id);
	write_time(j, "time", e->time);
	jw_field(j, "event", e->kind->head.id);
	jw_field(j, "role", str_z(role_name(e->role)));
	text_or_null(j, "rule", e->lead ? e->lead->head.id : (struct str){ 0 });
	jw_field(j, "text", e->sentence);
	jw_key(j, "count");
	jw_int(j, e->count);
	write_time(j, "last", e->last);
	write_place(j, e->at);
	jw_close(j, '}');
}

static void on_known(void *ctx, const struct know_bad *b)
{
	struct json *j = ctx;
	jw_open(j, '{');
	jw_field(j, "id", b->head.id);
	jw_field(j, "title", b->title);
	text_or_null(j, "good", b->good);
	jw_field(j, "grade", b->grade);
	jw_field(j, "source", b->source);
	jw_close(j, '}');
}

static void on_remedy(void *ctx, const struct diag_remedy *r, size_t number)
{
	(void)number;
	struct json *j = ctx;
	const struct know_remedy *k = r->remedy;
	jw_open(j, '{');
	jw_field(j, "id", k->head.id);
	jw_field(j, "kind", k->kind);
	jw_field(j, "title", k->title);
	jw_commands(j, "do", r->steps.list, r->steps.n);
	text_or_null(j, "here", r->numbers);
	jw_command(j, "undo", r->steps.undo);
	jw_command(j, "cost", r->steps.cost);
	jw_command(j, "risk", r->steps.risk);
	jw_field(j, "grade", k->grade);
	jw_field(j, "source", k->source);
	jw_command(j, "until", r->steps.until);
	text_or_null(j, "if", r->certain ? (struct str){ 0 } : k->condition_text);
	jw_command(j, "verify", r->steps.verify);
	jw_field(j, "takes", str_z(remedy_takes_name(k->takes)));
	jw_field(j, "state", str_z(remedy_state_name(r->verdict.state)));
	text_or_null(j, "because", r->verdict.because);
	text_or_null(j, "why", r->why);
	jw_key(j, "shown");
	jw_bool(j, r->shown);
	jw_close(j, '}');
}

static void on_setting(void *ctx, const struct diag_setting *s)
{
	struct json *j = ctx;
	jw_open(j, '{');
	jw_field(j, "id", s->id);
	jw_field(j, "text", s->text);
	jw_field(j, "grade", s->grade);
	jw_field(j, "source", s->source);
	jw_close(j, '}');
}

static void on_next(void *ctx, const struct diag_next *n)
{
	struct json *j = ctx;
	jw_open(j, '{');
	jw_field(j, "why", n->why);
	jw_command(j, "run", n->run);
	jw_close(j, '}');
}

static void on_note(void *ctx, const struct note *n)
{
	struct json *j = ctx;
	jw_open(j, '{');
	jw_field(j, "event", n->event);
	jw_field(j, "text", n->text);
	write_place(j, n->at);
	jw_close(j, '}');
}

static void on_incident_end(void *ctx, const struct incident *i)
{
	(void)i;
	jw_close(ctx, '}');
}

static void on_end(void *ctx, const struct diagnosis *d)
{
	jw_field(ctx, "verdict", str_z(verdict_name(d->verdict)));
	jw_key(ctx, "omitted");
	jw_int(ctx, (int64_t)d->ledger->omitted);
	jw_close(ctx, '}');
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
	struct json json = { .out = out };
	report_walk(d, &writer, &json);
}

// The JSON of a diagnosis; docs/diagnosis.schema.json describes it. Fields are added, never renamed or dropped: programs of operators
// read them (docs/COMPATIBILITY.md).
#include "base/cleanup.h"
#include "report/cases.h"
#include "report/report.h"
#include "report/sheet.h"
#include "report/text/prose.h"

static struct sheet_value v_stamp(struct stamp time) { return v_if(time.clock != TIME_NONE, v_decimal(time.seconds, 6)); }

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
	sheet_fields(s, { "name", v_text(f->name) },
		     { "value", f->type == FACT_TRUE                                    ? v_bool(true) :
				f->type == FACT_NUMBER && str_number(f->value, &number) ? v_int(number) :
											  v_text(f->value) },
		     { "event", v_if(event, v_int(event)) });
	write_place(s, f->at);
	sheet_close(s, '}');
}

static void write_gpu(struct sheet *s, const struct diag_gpu *gpu, struct str role)
{
	sheet_record(s, NULL, { "pci", v_if(pci_length(gpu->device), v_known(gpu->device)) }, { "name", v_known(gpu->name) },
		     { "gfx", v_known(gpu->gfx) }, { "serial", v_known(gpu->serial) }, { "unique_id", v_known(gpu->unique_id) },
		     { "role", v_text(role) });
}

static void write_ranks(struct sheet *s, const struct incident *i)
{
	int64_t number;
	sheet_each (n, s, "ranks", i->ranks.len) {
		const struct diag_rank *r = &i->ranks.data[n];
		sheet_fields(s, { "rank", v_count(str_number(r->rank, &number) ? number : -1) },
			     { "worker", v_known(r->worker) }, { "pid", v_count(str_number(r->pid, &number) ? number : -1) },
			     { "gpu_node", v_count(str_number(r->node, &number) ? number : -1) },
			     { "group", v_known(r->group) }, { "collective", v_known(r->collective) },
			     { "seq", v_count(r->seq) }, { "enqueued", v_count(r->enqueued) },
			     { "completed", v_count(r->completed) }, { "time", v_stamp(r->first->time) },
			     { "role", v_known(str_z(r->role)) });
	}
}

/** The module, what failed in it, and what to do with it. */
struct told_error {
	const struct diag_gpu *gpu;
	struct str host, age, before, before_id, service, source;
};

static void write_error(struct sheet *s, const struct module_error *e, const struct told_error *t)
{
	const struct diag_gpu *g = t->gpu;
	int64_t number;
	sheet_open(s, "hardware", '{');
	sheet_fields(s, { "gpu", v_known(g->device.n ? g->device : e->gpu) }, { "serial", v_known(g->serial.n ? g->serial : e->serial) },
		     { "unique_id", v_known(g->unique_id) }, { "slot", v_known(g->slot) },
		     { "xgmi_position", v_count(g->oam - 1) }, { "host", v_known(t->host) });
	for (size_t n = 0; n < ERROR_FIELDS; n++)
		sheet_put(s, error_fields[n].key,
			  !error_fields[n].number           ? v_known(e->values[n]) :
			  str_number(e->values[n], &number) ? v_int(number) :
							      v_null());
	sheet_fields(s, { "record_age", v_known(t->age) }, { "earlier", str_number(t->before, &number) ? v_int(number) : v_null() },
		     { "earlier_incident", v_known(t->before_id) }, { "service", v_text(t->service) },
		     { "source", v_known(t->source) });
	sheet_close(s, '}');
}

/** Null where no hardware error is told. */
static void write_hardware(struct sheet *s, const struct incident *i)
{
	struct told_error t = { &i->gpu, i->host, i->record_age, .service = i->action->service, .source = i->action->source };
	if (!t.service.n) {
		sheet_put(s, "hardware", v_null());
		return;
	}
	const struct module_error e = incident_module_error(i);
	incident_get(i, S("module_before"), 0, &t.before);
	incident_get(i, S("module_before_id"), 0, &t.before_id);
	write_error(s, &e, &t);
}

/** Registers, rings and memory, as the evidence holds them. */
static void write_values(struct sheet *s, const struct values *v, size_t event)
{
	enum { NUMBERS_MAX = 4096 };
	char room[24];
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "event", v_int((int64_t)event) }, { "group", v_known(v->group) }, { "name", v_text(v->name) },
		     { "address", v_if(v->address, v_known(code_text(v->address, room))) }, { "count", v_int((int64_t)v->n) });
	sheet_values (n, s, "values", v->n < NUMBERS_MAX ? v->n : NUMBERS_MAX) {
		if (v->n > 1 && v->data[n] == UINT64_MAX)
			jw_null(&s->json); // a lane that the dump does not have
		else
			jw_str(&s->json, code_text(v->data[n], room));
	}
	sheet_close(s, '}');
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

/** The sheet, and the lines that every incident has behind its facts. */
struct json_report {
	struct sheet sheet; // first: callbacks take it for the whole
	const struct lines *lines;
};

static void json_on_begin(void *ctx, const struct diagnosis *d)
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
	sheet_record(&r->sheet, NULL, { "source", v_int(at.source) }, { "line", v_int((int64_t)at.line) },
		     { "text", v_text(line) });
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

static void json_on_machine(void *ctx, const struct machine_observation *m) { report_machine(m, ctx, NULL); }

static void json_on_open(void *ctx, enum report_list list, const struct incident *i)
{
	static const char *const keys[] = { "sources", "incidents", "timeline", "changes", "like",
					    "known",   "remedies",  "settings", "next",    "notes" };
	(void)i;
	sheet_open(ctx, keys[list], '[');
}

static void json_on_close(void *ctx, enum report_list list, const struct incident *i)
{
	(void)list;
	(void)i;
	sheet_close(ctx, ']');
}

static void json_on_source(void *ctx, const struct evidence *e)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "id", v_int(e->id) }, { "path", v_text(e->path) }, { "kind", v_word(e->kind) });
	sheet_values (n, s, "contains", e->nkinds)
		jw_str(&s->json, str_z(e->kinds[n]));
	sheet_fields(s, { "bytes", v_int((int64_t)e->bytes) }, { "lines", v_int((int64_t)e->lines) });
	sheet_close(s, '}');
}

/** Seconds since 1970; null where there is no time. */
static struct sheet_value v_since_1970(double seconds) { return v_if(seconds > 0, v_decimal(seconds, 3)); }

static void json_on_change(void *ctx, const struct incident *i, const struct diag_change *c)
{
	struct sheet *s = ctx;
	const struct transaction *t = c->transaction;
	(void)i;
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "role", v_word(change_role_name(c->role)) }, { "time", v_since_1970(t->when) },
		     { "effect", v_since_1970(c->effect) }, { "manager", v_text(t->manager) },
		     { "transaction", v_known(t->id) });
	sheet_each (n, s, "packages", t->changes.len) {
		const struct change *one = &t->changes.data[n];
		sheet_fields(s, { "name", v_text(one->package) }, { "from", v_known(one->from) }, { "to", v_known(one->to) },
			     { "part", v_text(one->kind->head.id) });
	}
	sheet_fields(s, { "others", v_int((int64_t)t->others) }, { "where", v_known(t->where) });
	sheet_close(s, '}');
}

/** What the list of changes means as a whole. */
static void write_changed(struct sheet *s, const struct incident *i)
{
	const struct diag_changes *c = &i->changes;
	const bool blamed = c->list.len && c->list.data[0].role == CHANGE_TO_BLAME;
	_cleanup_text_ struct text text = { 0 };
	prose_changed(i, &text);
	sheet_record(
		s, "changed", { "read", v_bool(c->read) }, { "text", v_known(text_str(&text)) },
		{ "first_seen", v_since_1970(c->first) }, { "boots", v_int(c->seen) }, { "counted", v_int(c->counted) },
		{ "tried", v_int(c->tried) }, { "seen_before", v_bool(c->earlier) },
		{ "chance", v_if(blamed, v_decimal(c->chance, 6)) }, { "hours_after", v_if(blamed, v_decimal(c->after, 2)) },
		{ "hours_since", v_if(blamed, v_decimal(c->since, 2)) }, { "hours", v_if(blamed, v_decimal(c->all, 2)) },
		{ "boots_before", v_if(blamed, v_int((int64_t)c->boots)) },
		{ "boots_unknown", v_if(blamed, v_int((int64_t)c->unknown)) }, { "undone", v_if(blamed, v_bool(c->undone)) });
}

/** All of an incident but its lists of events, remedies and steps, which the walk hands over one by one. */
static void json_on_incident(void *ctx, const struct incident *i)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "id", v_text(i->id) }, { "fingerprint", v_text(i->fingerprint) },
		     { "state", v_text(i->open ? S("open") : S("closed")) }, { "host", v_known(i->host) },
		     { "history", v_bool(i->history) }, { "boot_id", v_known(i->boot_id) });
	sheet_open(s, "gpus", '[');
	write_gpu(s, &i->gpu, S("origin"));
	for (size_t n = 0; n < i->other_gpus.len; n++)
		write_gpu(s, &i->other_gpus.data[n], S("affected"));
	sheet_close(s, ']');
	sheet_fields(s, { "begin", v_stamp(i->begin) }, { "end", v_stamp(i->end) },
		     { "clock", v_word(clock_name(i->begin.clock)) }, { "times", v_int(i->times) });
	sheet_record(s, "cause", { "class", v_text(i->cause->head.id) }, { "title", v_text(i->title) },
		     { "confidence", v_decimal(i->confidence / 100.0, 2) }, { "explanation", v_text(i->explanation) },
		     { "evidence", v_known(i->sure) }, { "last_work", v_known(i->last_work) },
		     { "before_log", v_bool(i->before_log) });
	write_changed(s, i);
	sheet_texts(s, "also", i->also.data, i->also.len);
	sheet_put(s, "work", v_known(i->work));
	sheet_record(s, "action", { "do", v_text(i->action->action) }, { "fault", v_text(i->fault) },
		     { "fault_confidence", v_decimal(i->fault_confidence / 100.0, 2) }, { "fit", v_text(incident_fit(i)) },
		     { "text", v_text(i->action_text) });
	write_hardware(s, i);
	int64_t pid;
	sheet_each (n, s, "processes", i->processes.len) {
		sheet_fields(s, { "name", v_text(i->processes.data[n].name) },
			     { "pid", str_number(i->processes.data[n].pid, &pid) ? v_int(pid) : v_null() },
			     { "role", v_word(i->processes.data[n].role) });
	}
	write_ranks(s, i);
	// Facts of the machine belong to no event: their number is 0.
	sheet_open(s, "facts", '[');
	for (size_t n = 0; n < i->machine.len; n++)
		write_fact(s, &i->machine.data[n], 0);
	for (size_t n = 0; n < i->events.len; n++)
		for (size_t f = 0; f < i->events.data[n]->nfacts; f++)
			write_fact(s, &i->events.data[n]->facts[f], (int64_t)n + 1);
	sheet_close(s, ']');
	if (((struct json_report *)ctx)->lines)
		write_lines(ctx, i);
	// What cores and dumps hold, by the number of the event that has it.
	sheet_open(s, "dumps", '[');
	for (size_t n = 0; n < i->events.len; n++) {
		const struct dump *d = &i->events.data[n]->dump;
		for (size_t r = 0; r < d->registers.len; r++) {
			const struct wave_register *w = &d->registers.data[r];
			write_values(s, &(struct values){ .group = w->group, .name = w->name, .n = w->n, .data = w->data },
				     n + 1);
		}
		for (size_t v = 0; v < d->nvalues; v++)
			write_values(s, &d->values[v], n + 1);
		for (size_t x = 0; x < d->naccesses; x++)
			write_access(s, &d->accesses[x], n + 1);
		// The ranges as their begins and their ends.
		_cleanup_free_ uint64_t *numbers = mem_alloc(2 * d->nmap * sizeof(*numbers) + 1);
		for (size_t k = 0; k < d->nmap; k++) {
			numbers[k] = d->map[k].begin;
			numbers[d->nmap + k] = d->map[k].end;
		}
		for (size_t end = 0; d->nmap && end < 2; end++) {
			const struct values v = { .group = S("memory"),
						  .name = end ? S("end") : S("begin"),
						  .n = d->nmap,
						  .data = numbers + end * d->nmap };
			write_values(s, &v, (n + 1));
		}
	}
	sheet_close(s, ']');
}

static void json_on_event(void *ctx, const struct diag_event *e, size_t id)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "id", v_int((int64_t)id) }, { "time", v_stamp(e->time) }, { "event", v_text(e->kind->head.id) },
		     { "role", v_word(role_name(e->role)) },
		     { "rule", v_known(e->lead ? e->lead->head.id : (struct str){ 0 }) }, { "text", v_text(e->sentence) },
		     { "count", v_int(e->count) }, { "last", v_stamp(e->last) });
	if (e->unattested)
		sheet_put(s, "unattested", v_bool(true));
	write_place(s, e->at);
	sheet_close(s, '}');
}

static void json_on_like(void *ctx, const struct incident *i, const struct diag_like *l)
{
	(void)i;
	like_write(ctx, l);
}

static void json_on_known(void *ctx, const struct know_bad *b)
{
	sheet_record(ctx, NULL, { "id", v_text(b->head.id) }, { "title", v_text(b->title) }, { "good", v_known(b->good) },
		     { "grade", v_text(b->grade) }, { "source", v_text(b->source) });
}

/** A remedy that is not to be tried is there too, with its state: programs count them. */
static void json_on_remedy(void *ctx, const struct diag_remedy *r, size_t number)
{
	(void)number;
	struct sheet *s = ctx;
	const struct know_remedy *k = r->remedy;
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "id", v_text(k->head.id) }, { "kind", v_text(k->kind) }, { "title", v_text(k->title) });
	sheet_commands(s, "do", r->steps.list, r->steps.n);
	sheet_fields(s, { "here", v_known(r->numbers) }, { "undo", v_command(r->steps.undo) },
		     { "cost", v_command(r->steps.cost) }, { "risk", v_command(r->steps.risk) }, { "grade", v_text(k->grade) },
		     { "source", v_text(k->source) }, { "until", v_command(r->steps.until) },
		     { "if", v_if(!r->certain, v_command(r->steps.condition)) }, { "verify", v_command(r->steps.verify) },
		     { "takes", v_word(remedy_takes_name(k->takes)) }, { "state", v_word(remedy_state_name(r->verdict.state)) },
		     { "because", v_known(r->verdict.because) }, { "why", v_known(r->why) }, { "shown", v_bool(r->shown) });
	sheet_close(s, '}');
}

static void json_on_setting(void *ctx, const struct diag_setting *g)
{
	sheet_record(ctx, NULL, { "id", v_text(g->id) }, { "text", v_text(g->text) }, { "grade", v_text(g->grade) },
		     { "source", v_text(g->source) });
}

static void json_on_next(void *ctx, const struct diag_next *n)
{
	sheet_record(ctx, NULL, { "why", v_text(n->why) }, { "run", v_command(n->run) });
}

static void write_reply(struct sheet *s, const struct diag_question *q, const struct diag_reply *r)
{
	_cleanup_text_ struct text answer = { 0 };
	text_printf(&answer, STR_FMT "=" STR_FMT, STR_ARG(q->question->head.id), STR_ARG(r->reply));
	const struct know_remedy *first = r->first ? r->first->remedy : NULL;
	const struct str none = { 0 };
	sheet_fields(s, { "reply", v_text(r->reply) }, { "answer", v_text(text_str(&answer)) },
		     { "likely", v_decimal(r->likely, 2) }, { "changes", v_bool(r->changes) },
		     { "explanation", v_known(r->leads ? r->leads->head.id : none) }, { "do", v_text(r->action->action) },
		     { "text", v_text(r->action_text) }, { "fault", v_text(r->fault) },
		     { "fault_confidence", v_decimal(r->fault_confidence / 100.0, 2) },
		     { "remedy", v_known(first ? first->head.id : none) },
		     { "remedy_title", v_known(first ? first->title : none) });
}

static void json_on_question(void *ctx, const struct diag_question *q)
{
	struct sheet *s = ctx;
	sheet_open(s, "question", '{');
	sheet_fields(s, { "id", v_text(q->question->head.id) }, { "ask", v_text(q->question->ask) },
		     { "why", v_text(q->question->why) }, { "fact", v_text(q->question->fact) });
	sheet_each (n, s, "replies", q->n)
		write_reply(s, q, &q->replies[n]);
	sheet_close(s, '}');
}

/** What may be behind it, and what the user said. */
static void write_explanations(struct sheet *s, const struct incident *i)
{
	sheet_each (n, s, "explanations", i->explanations.len) {
		const struct know_explanation *e = i->explanations.data[n].explanation;
		sheet_fields(s, { "id", v_text(e->head.id) }, { "title", v_text(e->title) }, { "fault", v_text(e->fault) },
			     { "weight", v_decimal(i->explanations.data[n].weight, 2) }, { "leads", v_bool(e == i->leads) });
	}
	sheet_each (n, s, "answers", i->answers.len) {
		const struct know_question *q = i->answers.data[n].question;
		sheet_fields(s, { "question", v_text(q->head.id) }, { "ask", v_text(q->ask) }, { "fact", v_text(q->fact) },
			     { "reply", v_text(i->answers.data[n].reply) });
	}
}

static void json_on_note(void *ctx, const struct note *n)
{
	struct sheet *s = ctx;
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "event", v_text(n->event) }, { "text", v_text(n->text) });
	write_place(s, n->at);
	if (n->error) // what is no incident is watched, and no more
		write_error(s, n->error, &(struct told_error){ &n->gpu, n->host, .service = S("watch") });
	else
		sheet_put(s, "hardware", v_null());
	sheet_close(s, '}');
}

static void json_on_incident_end(void *ctx, const struct incident *i)
{
	write_explanations(ctx, i);
	if (!i->question)
		sheet_put(ctx, "question", v_null());
	sheet_close(ctx, '}');
}

static void json_on_end(void *ctx, const struct diagnosis *d)
{
	sheet_fields(ctx, { "verdict", v_word(verdict_name(d->verdict)) },
		     { "expected_gpus", v_if(d->expected, v_number(d->expected)) },
		     { "omitted", v_int((int64_t)d->ledger->omitted) }, { "earlier", v_int((int64_t)d->earlier) });
	sheet_close(ctx, '}');
}

void report_json(const struct diagnosis *d, FILE *out)
{
	static const struct report_writer writer = {
		.begin = json_on_begin,
		.machine = json_on_machine,
		.open = json_on_open,
		.source = json_on_source,
		.incident = json_on_incident,
		.event = json_on_event,
		.change = json_on_change,
		.like = json_on_like,
		.known = json_on_known,
		.remedy = json_on_remedy,
		.setting = json_on_setting,
		.next = json_on_next,
		.question = json_on_question,
		.note = json_on_note,
		.close = json_on_close,
		.incident_end = json_on_incident_end,
		.end = json_on_end,
	};
	struct json_report r = { sheet_on(true, out), d->lines };
	report_walk(d, &writer, &r);
}

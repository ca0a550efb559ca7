// The queues of a target: where each of them stands, and what it was told to run.
#include "gpu/find/clients.h"
#include "gpu/find/kfd.h"
#include "gpu/packet.h"
#include "gpu/queue_words.h"
#include "report/live/look.h"

// A dispatch and its kernel's arguments.

enum { ARGUMENTS_SHOWN = 64, ARGUMENTS_INDENT = 25 };

void walk_dispatch(struct sheet *s, const char *key, struct look *l, const struct dispatch *d)
{
	static const struct column told[] = { { "told" } };
	const struct code_kernel *k = target_code_kernel(l->code, d->kernel_object);
	const struct str name = k ? code_set_name(&l->code->set, k->name) : (struct str){ 0 };
	struct kernel_argument args[ARGUMENTS_SHOWN];
	_cleanup_arena_ struct arena a = { 0 };
	size_t n = dispatch_arguments(l->target, k, d, args, ARGUMENTS_SHOWN);
	sheet_open(s, key, '{');
	sheet_fields(s, { "packet", v_number(d->packet) }, { "kernel_name", v_text(name) },
		     { "kernel_object", v_hex(d->kernel_object) },
		     { "unnamed", v_if(!name.n, v_hex(d->kernel_object)), TEXT_ONLY }, { "kernarg", v_hex(d->kernarg) });
	sheet_three(s, "grid", d->grid, true);
	sheet_three(s, "workgroup_size", d->workgroup, true);
	sheet_fields(s, { "lds_bytes", v_number(d->lds) }, { "scratch_bytes", v_number(d->scratch) });
	sheet_part(s, COLUMNS_OF({ "packet", "         packet ", -8, .after = " " }, { "kernel_name" },
				 { "unnamed", "kernel at " }));
	sheet_say(s, "   grid %u,%u,%u of %u,%u,%u\n", d->grid[0], d->grid[1], d->grid[2], d->workgroup[0], d->workgroup[1],
		  d->workgroup[2]);
	sheet_each (i, s, "arguments", n) {
		const struct kernel_argument *x = &args[i];
		sheet_fields(s, { "name", v_text(x->what->name) }, { "type", v_text(x->what->type_name) },
			     { "kind", v_text(x->what->value_kind) }, { "offset", v_number(x->what->offset) },
			     { "size", v_number(x->what->size) },
			     { "value", v_if(x->known && x->what->size <= 8, v_hex(x->value)) });
	}
	sheet_note(s, "told", s->as_json || !n ? v_null() : v_text(arguments_say(&a, args, n, NULL, 0)));
	sheet_line(s, ARGUMENTS_INDENT, COLUMNS(told));
	sheet_close(s, '}');
}

// What the schedulers of GPUs without MES were told to run: packets that name processes and queues.

enum { RUNLIST_PACKETS_MOST = 256, RUNLIST_INDENT = 9 };

static void walk_list(struct sheet *s, const struct runlists *r, const struct kfd_runlist *list)
{
	const struct device *d = NULL;
	for (size_t i = 0; i < r->devices->n && !d; i++)
		d = r->devices->list[i].gpu_id == list->gpu_id ? &r->devices->list[i] : NULL;
	const struct packet_stream stream = { r->know, PACKETS_PM4, d ? d->gfx : (struct str){ 0 }, list->words, list->n };
	_cleanup_arena_ struct arena a = { 0 };
	struct packet p = { 0 };
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "gpu_id", v_number(list->gpu_id) }, { "pci", v_text(d ? d->pci : (struct str){ 0 }) });
	sheet_say(s, "\n");
	sheet_line(s, 0,
		   COLUMNS_OF({ "gpu_id", "GPU " },
			      { "pci", " at ", .none = "an unknown place", .after = ": what its scheduler was told to run" }));
	sheet_open(s, "packets", '[');
	// What is behind the last that is known is not one of the list.
	for (size_t at = 0, n = 0; at < list->n && n < RUNLIST_PACKETS_MOST; at += p.words, n++) {
		if (!packet_decode(&stream, &a, at, &p) || !p.known)
			break;
		struct wrapping w = { .out = s->json.out, .margin = RUNLIST_INDENT + 1 };
		sheet_open(s, NULL, '{');
		sheet_put(s, "name", v_text(p.name));
		w.column = sheet_say(s, "%*s", RUNLIST_INDENT, "") + sheet_part(s, COLUMNS_OF({ "name" }));
		walk_packet_fields(s, &p, &w, false);
		sheet_say(s, "\n");
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
	sheet_close(s, '}');
}

// --- descriptors and registers of queues, word by word ---

enum { WORDS_INDENT = 11 };

/** In JSON every word that has a name, or is not 0. A text has those that are not 0; of registers those that are not as in the descriptor, which
 * they were filled from. */
static bool word_counts(const struct sheet *s, const struct queue_words *w, const struct queue_word *one,
			const struct queue_word *described)
{
	if (s->as_json)
		return one->name.n || one->value;
	return w->hqd ? one->name.n && (!described || described->value != one->value) : one->value;
}

static void walk_word(struct sheet *s, const struct queue_word *one, unsigned width)
{
	struct wrapping w = { .out = s->json.out, .width = width, .margin = WORDS_INDENT + 2 };
	const struct register_shown shown = { &one->reg, true, one->value, UINT32_MAX };
	sheet_open(s, NULL, '{');
	sheet_fields(s, { "word", v_number(one->at) }, { "name", v_known(one->name) }, { "value", v_hex(one->value) },
		     { "unnamed", v_if(!one->name.n, v_number(one->at)), TEXT_ONLY });
	w.column = sheet_say(s, "%*s", WORDS_INDENT, "") +
		   sheet_part(s, COLUMNS_OF({ "name" }, { "unnamed", "word " }, { "value", " = ", .digits = 8 }));
	if (s->as_json || !register_is_plain(&one->reg, one->value))
		walk_register_fields(s, &shown, false, &w);
	sheet_say(s, "\n");
	sheet_close(s, '}');
}

static const struct queue_word *word_called(const struct queue_word *words, size_t n, struct str name)
{
	return list_find(words, n, it, name.n && str_eq(it->name, name));
}

/** "descriptors": those in memory, then the registers of each place on the GPU. */
static void walk_queue_words(struct sheet *s, const struct know *k, struct str gfx, const struct queue *q,
			     const struct uh_look_options *o)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct queue_word *described = NULL;
	size_t ndescribed = 0;
	sheet_each (i, s, "descriptors", o->registers ? q->nwords : 0) {
		const struct queue_words *w = &q->words[i];
		const struct queue_word *words;
		const size_t n = queue_words_named(&a, k, gfx, w, &words);
		sheet_fields(s, { "what", v_word(w->hqd ? "hqd" : "mqd") }, { "xcc", v_if(w->hqd, v_number(w->xcc)) },
			     { "copy", v_if(!w->hqd, v_number(w->xcc)) });
		size_t shown = 0;
		for (size_t r = 0; r < n; r++)
			shown += word_counts(s, w, &words[r], word_called(described, ndescribed, words[r].name));
		if (!w->hqd)
			sheet_say(s, "         descriptor in memory (MQD), copy %u:\n", w->xcc);
		else
			sheet_say(s, "         registers on XCC %u (HQD)%s\n", w->xcc,
				  shown ? " that differ from it:" : ": as the descriptor");
		sheet_open(s, "words", '[');
		for (size_t r = 0; r < n; r++)
			if (word_counts(s, w, &words[r], word_called(described, ndescribed, words[r].name)))
				walk_word(s, &words[r], o->width);
		sheet_close(s, ']');
		if (!w->hqd && !described) {
			described = words;
			ndescribed = n;
		}
	}
}

// --- queues and what waits in them ---

enum { PACKETS_SHOWN = 16, PACKETS_MOST = 4096, INDENT = 9 };

struct queues_sheet {
	struct sheet *sheet;
	struct look *look;
	struct arena arena;
};

static bool is_live(const struct target *t) { return !strcmp(t->kind, "process"); }

/** The packets that were not done when the queue stopped, as far as the ring still has them. */
static uint64_t pending(const struct queue *q)
{
	uint64_t ring = q->ring_size / AQL_PACKET;
	if (!q->indexes_known || q->type != QUEUE_AQL || q->write_index < q->read_index)
		return 0;
	uint64_t n = q->write_index - q->read_index;
	return n > ring ? 0 : n;
}

/** @unless: how those end that a text does not show. */
static void walk_exceptions(struct queues_sheet *g, uint64_t status, struct str unless)
{
	struct str names[64], shown = { 0 };
	size_t n = exception_names(g->look->know, status, names);
	sheet_texts(g->sheet, "exceptions", names, n);
	for (size_t i = 0; i < n; i++)
		if (!str_ends(names[i], unless))
			shown = arena_printf(&g->arena, STR_FMT "%s" STR_FMT, STR_ARG(shown), shown.n ? ", " : "",
					     STR_ARG(names[i]));
	sheet_note(g->sheet, "errors", v_known(shown));
}

/** A GPU of the core or process. Firmware and XCCs are 0 where the note does not have them. */
static void walk_agent(struct queues_sheet *g, const struct agent *a)
{
	struct sheet *s = g->sheet;
	char room[24];
	const struct str pci = agent_pci(a, room);
	sheet_fields(s, { "gpu_id", v_number(a->gpu_id) }, { "gfx", v_text(a->gfx) },
		     { "pci", v_if(a->location || a->domain_known, v_text(pci)) }, { "place", v_text(pci), TEXT_ONLY },
		     { "vendor", v_hex(a->vendor) }, { "device", v_hex(a->device) }, { "revision", v_hex(a->revision) },
		     { "firmware", v_number(a->firmware) }, { "xccs", v_number(a->xccs) }, { "simds", v_number(a->simds) },
		     { "waves_per_simd", v_number(a->waves_per_simd) });
	walk_exceptions(g, a->exceptions, S("_NEW"));
	sheet_line(s, 0,
		   COLUMNS_OF({ "gpu_id", "GPU " }, { "gfx", ": ", .none = "unknown part" }, { "place", " at " },
			      { "xccs", ", ", .after = " XCC", .least = 1, .plural = true },
			      { "firmware", ", firmware ", .least = 1 }, { "errors", ", " }));
}

static void walk_runtime(struct queues_sheet *g, const struct target *t)
{
	struct sheet *s = g->sheet;
	bool said = t->kfd_major || t->kfd_minor;
	sheet_record(s, "runtime",
		     { "kfd_version", v_if(said, v_text(arena_printf(&g->arena, "%u.%u", t->kfd_major, t->kfd_minor))) },
		     { "debug_version", v_if(t->runtime_version > 0, v_int(t->runtime_version)) },
		     { "enabled", v_if(said, v_bool(t->runtime_enabled)) });
}

static void walk_signals(struct sheet *s, const struct aql_packet *p)
{
	const char *joint = p->type == AQL_BARRIER_OR ? " or the signal at " : " and the signal at ";
	sheet_each (i, s, "signals", p->nsignals) {
		sheet_fields(s, { "signal", v_hex(p->signals[i].address) },
			     { "value", v_if(p->signals[i].known, v_int(p->signals[i].value)) });
		sheet_part(s, COLUMNS_OF({ "signal", i ? joint : "   waits for the signal at " },
					 { "value", " (", .after = ")" }));
	}
}

/** What a packet is called and waits for. @d: NULL, unless it is a dispatch. */
static void live_queues_walk_packet(struct queues_sheet *g, const struct queue *q, const struct aql_packet *p,
				    const struct dispatch *d)
{
	struct look *l = g->look;
	struct sheet *s = g->sheet;
	_cleanup_arena_ struct arena a = { 0 };
	struct packet is = { 0 };
	const struct packet_stream stream = { l->know, PACKETS_AQL, q->agent ? q->agent->gfx : (struct str){ 0 }, p->words,
					      ARRAY_SIZE(p->words) };
	packet_decode(&stream, &a, 0, &is);
	const struct code_kernel *k = d ? target_code_kernel(l->code, d->kernel_object) : NULL;
	sheet_open(s, s->as_json ? "head" : NULL, '{');
	sheet_fields(s, { "packet", v_number(p->index) }, { "type", v_text(d ? S("kernel_dispatch") : is.name) },
		     { "kernel_name", v_text(k ? code_set_name(&l->code->set, k->name) : (struct str){ 0 }) },
		     { "waits", v_known(is.waits_for) },
		     { "waits_alone", v_if(!p->nsignals, v_known(is.waits_for)), TEXT_ONLY });
	sheet_part(s, COLUMNS_OF({ "packet", "         packet ", -8, .after = " " }, { "type" },
				 { "waits_alone", "   waits for " }));
	walk_signals(s, p);
	sheet_say(s, "\n");
	sheet_fields(s, { "watched_ms", v_if(q->watched_ms, v_int(q->watched_ms)) },
		     { "moved", v_if(q->watched_ms, v_bool(q->moved)) });
	sheet_close(s, '}');
}

/** How much is waiting, in what the queue is made of. */
static struct sheet_value waiting(struct queues_sheet *g, const struct queue *q)
{
	const bool aql = q->type == QUEUE_AQL;
	if (!q->indexes_known || (!aql && !is_live(g->look->target)))
		return v_null();
	return v_text(arena_printf(&g->arena, "%llu%s", (unsigned long long)(aql ? pending(q) : q->write_index - q->read_index),
				   aql                  ? "" :
				   q->type == QUEUE_PM4 ? " words" :
							  " bytes"));
}

/** Why a queue is called so, behind its row. */
static void say_why(struct sheet *s, const struct silicon_state *state)
{
	if (!s->as_json && state)
		wrap_row(s->json.out, &(struct row_style){ .left = INDENT }, "", state->why, 0);
}

/** The rows of a core, and of a process that runs: of several GPUs alike the address tells which. */
static void live_queues_text_row(struct queues_sheet *g, const struct queue *q, const struct silicon_state *state)
{
	static const struct column core[] = { { "id", .width = 6 }, { "gfx", "  ", -8, .none = "?" },
					      { "type", "  ", -9 }, { "waiting", "  ", 8, .none = "?" },
					      { "waves", "  ", 6 }, { "errors", "  ", .none = "-" } };
	static const struct column core_problem[] = { { "problem", "its waves: " } }, problem[] = { { "problem" } };
	struct sheet *s = g->sheet;
	if (!is_live(g->look->target)) {
		sheet_line(s, 0, COLUMNS(core));
		sheet_line(s, INDENT, COLUMNS(core_problem));
		return;
	}
	sheet_line(s, 0,
		   COLUMNS_OF({ "id", .width = 6 }, { "gpu", "  ", -12, .none = "?" }, { "type", "  ", -9 },
			      { "waiting", "  ", 8, .none = "?" }, { "verdict.state", "  " }));
	sheet_line(s, INDENT, COLUMNS(problem));
	say_why(s, state);
	sheet_line(s, INDENT,
		   COLUMNS_OF({ "place.xcc", "on the GPU: XCC " }, { "place.me", ", ME " }, { "place.pipe", ", pipe " },
			      { "place.queue", ", queue " }, { "place.vmid", ", VMID " }));
	if (!q->slot.known && q->active_known && pending(q))
		sheet_say(s, "         not on the GPU at this moment\n");
}

/** One queue: where it is, what waits in it, and whether it moves. JSON has all of it, a text a row. */
static void live_queues_walk_queue(struct queues_sheet *g, const struct queue *q, const struct silicon_state *state)
{
	struct sheet *s = g->sheet;
	char room[24];
	sheet_fields(s, { "id", v_number(q->id) }, { "gpu_id", q->agent ? v_number(q->agent->gpu_id) : v_null() },
		     { "gfx", q->agent ? v_text(q->agent->gfx) : v_null() },
		     { "gpu", q->agent && q->agent->domain_known ? v_text(agent_pci(q->agent, room)) : v_null(), TEXT_ONLY },
		     { "type", v_text(know_name(g->look->know, S("queue-type"), q->type)) });
	walk_exceptions(g, q->exceptions, S("QUEUE_NEW"));
	sheet_fields(s, { "ring", v_hex(q->ring) }, { "ring_bytes", v_number(q->ring_size) },
		     { "read_index", v_if(q->indexes_known, v_number(q->read_index)) },
		     { "write_index", v_if(q->indexes_known, v_number(q->write_index)) },
		     { "waiting", waiting(g, q), TEXT_ONLY }, { "save_area", v_hex(q->save_area) },
		     { "save_area_bytes", v_number(q->save_area_size) }, { "waves", v_number(q->nwaves) },
		     { "active", v_if(q->active_known, v_bool(q->active)) });
	walk_state(s, state);
	if (sheet_object(s, "place", q->slot.known)) {
		sheet_fields(s, { "xcc", v_number(q->slot.xcc) }, { "me", v_number(q->slot.me) },
			     { "pipe", v_number(q->slot.pipe) }, { "queue", v_number(q->slot.queue) },
			     { "vmid", v_number(q->slot.vmid) });
		sheet_close(s, '}');
	}
	sheet_put(s, "problem", v_text(q->problem));
	live_queues_text_row(g, q, state);
	// In JSON the packet that the queue is at, and the dispatches; as text all packets of either kind, but only some.
	struct target *t = g->look->target;
	const uint64_t n = pending(q), most = s->as_json ? PACKETS_MOST : PACKETS_SHOWN;
	struct aql_packet p;
	struct dispatch d;
	if (s->as_json && n && queue_packet(t, q, q->read_index, &p))
		live_queues_walk_packet(g, q, &p, queue_dispatch(t, q, q->read_index, &d) ? &d : NULL);
	else
		sheet_put(s, "head", v_null());
	sheet_open(s, "packets", '[');
	for (uint64_t i = 0; i < n && i < most; i++) {
		if (queue_dispatch(t, q, q->read_index + i, &d))
			walk_dispatch(s, NULL, g->look, &d);
		else if (!s->as_json && queue_packet(t, q, q->read_index + i, &p) && p.type != AQL_INVALID)
			live_queues_walk_packet(g, q, &p, NULL);
	}
	sheet_close(s, ']');
	if (n > PACKETS_SHOWN)
		sheet_say(s, "         and %llu more\n", (unsigned long long)(n - PACKETS_SHOWN));
	walk_queue_words(s, g->look->know, q->agent ? q->agent->gfx : (struct str){ 0 }, q, g->look->options);
}

static void walk_target(struct sheet *s, const struct queues_seen *seen)
{
	struct queues_sheet g = { s, seen->look, { 0 } };
	const struct target *t = seen->look->target;
	sheet_fields(s, { "target", v_text(t->name) }, { "process", v_text(t->process) },
		     { "pid", v_if(t->pid, v_int(t->pid)) }, { "process_pid", v_if(t->process.n, v_int(t->pid)), TEXT_ONLY },
		     { "nqueues", v_number(seen->nqueues), TEXT_ONLY });
	sheet_line(s, 0,
		   COLUMNS_OF({ "target", .after = ": " }, { "process" }, { "process_pid", " (", .after = "); " },
			      { "nqueues", .after = " queue", .plural = true }));
	walk_runtime(&g, t);
	sheet_each (i, s, "agents", seen->nagents)
		walk_agent(&g, &seen->agents[i]);
	sheet_say(s, "%s",
		  is_live(t) ? "\n queue  GPU           type        waiting  verdict\n" :
			       "\n queue  GPU       type        waiting   waves  errors\n");
	sheet_each (i, s, "queues", seen->nqueues)
		live_queues_walk_queue(&g, &seen->queues[i], seen->states ? &seen->states[i] : NULL);
	arena_free(&g.arena);
}

// --- queues of clients of the driver ---

static const char *client_state_of(const struct client_queue *u)
{
	const struct queue *q = &u->queue;
	if (!q->indexes_known || !q->watched_ms)
		return "not known";
	return q->moved ? "moves" : client_queue_waiting(u) ? "stands" : "empty";
}

static void walk_client_queue(struct sheet *s, const struct know *k, const struct client_queue *u,
			      const struct silicon_state *state, const struct uh_look_options *o)
{
	static const char *const types[] = { "graphics", "compute", "SDMA" };
	const struct queue *q = &u->queue;
	char room[48];
	snprintf(room, sizeof(room), "%llu %s", (unsigned long long)client_queue_waiting(u),
		 q->type == QUEUE_AQL ? "packets" :
		 q->type == QUEUE_PM4 ? "words" :
					"bytes");
	sheet_fields(s, { "client", v_number(u->client) }, { "pid", v_if(u->pid, v_int(u->pid)) },
		     { "process", v_known(u->process) }, { "gpu", v_if(u->device, v_text(u->device ? u->device->pci : S(""))) },
		     { "id", v_number(q->id) }, { "type", v_if(u->mqd, v_word(types[u->type % ARRAY_SIZE(types)])) },
		     { "mqd", v_if(u->mqd, v_hex(u->mqd)) }, { "ring", v_if(u->described, v_hex(q->ring)) },
		     { "ring_bytes", v_if(u->described, v_number(q->ring_size)) },
		     { "doorbell", v_if(u->described, v_number(q->doorbell)) },
		     { "read_index", v_if(q->indexes_known, v_number(q->read_index)) },
		     { "write_index", v_if(q->indexes_known, v_number(q->write_index)) },
		     { "waiting", v_if(q->indexes_known, v_word(room)), TEXT_ONLY },
		     { "watched_ms", v_if(q->watched_ms, v_int(q->watched_ms)) },
		     { "moved", v_if(q->watched_ms, v_bool(q->moved)) }, { "state", v_word(client_state_of(u)) },
		     { "problem", v_known(u->problem) });
	walk_state(s, state);
	sheet_line(s, 0,
		   COLUMNS_OF({ "id", .width = 6 }, { "gpu", "  ", -12, .none = "?" }, { "type", "  ", -9, .none = "?" },
			      { "waiting", "  ", 12, .none = "?" }, { "verdict.state", "  ", -9 }, { "process", "  " },
			      { "pid", " (", .after = ")" }, { "client", ", client " }));
	sheet_line(s, INDENT, COLUMNS_OF({ "problem" }));
	if (!u->problem.n)
		say_why(s, state);
	walk_queue_words(s, k, u->device ? u->device->gfx : (struct str){ 0 }, q, o);
}

/** Those that clients of the driver fill themselves, beside KFD's. */
static void walk_client_queues(struct sheet *s, const struct know *k, const struct client_queues *u,
			       const struct silicon_state *states, const struct uh_look_options *o)
{
	if (u->n)
		sheet_say(s, "\nuser queues of the driver's clients\n\n queue  GPU           type           waiting  verdict   "
			     " process\n");
	sheet_each (i, s, "user_queues", u->n)
		walk_client_queue(s, k, &u->list[i], &states[i], o);
}

void report_queues(const struct queues_seen *seen, const struct uh_look_options *o, FILE *out)
{
	struct sheet s = sheet_on(o->json, out);
	sheet_begin(&s, "unhang/queues/1", NULL);
	walk_target(&s, seen);
	sheet_close(&s, '}');
}

void report_queues_of_all(const struct queues_seen *seen, size_t n, const struct runlists *r, const struct uh_look_options *o,
			  FILE *out)
{
	struct sheet s = sheet_on(o->json, out);
	sheet_begin(&s, "unhang/queues/1", NULL);
	sheet_each (i, &s, "targets", n) {
		sheet_say(&s, i ? "\n" : "");
		walk_target(&s, &seen[i]);
	}
	if (!n)
		sheet_say(&s, "no process computes on a GPU of this machine\n");
	walk_client_queues(&s, r->know, r->user, r->states, o);
	// What the schedulers were told to run, which tells queues that are not mapped.
	sheet_open(&s, "runlists", '[');
	for (size_t i = 0; i < r->kfd->nrunlists && (o->json || o->registers); i++)
		if (r->kfd->runlists[i].n)
			walk_list(&s, r, &r->kfd->runlists[i]);
	sheet_close(&s, ']');
	sheet_close(&s, '}');
}

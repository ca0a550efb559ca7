// The queues of a target: where each of them stands, and what it was told to run.
#include "gpu/packet.h"
#include "report/live/look.h"

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

static void walk_agent(struct queues_sheet *g, const struct agent *a)
{
	static const struct column line[] = { { "gpu_id", "GPU " },
					      { "gfx", ": ", .none = "unknown part" },
					      { "place", " at " },
					      { "xccs", ", ", .after = " XCC", .least = 1, .plural = true },
					      { "firmware", ", firmware ", .least = 1 },
					      { "errors", ", " } };
	struct sheet *s = g->sheet;
	char room[24];
	const struct str pci = agent_pci(a, room);
	sheet_open(s, NULL, '{');
	sheet_put(s, "gpu_id", v_number(a->gpu_id));
	sheet_put(s, "gfx", v_text(a->gfx));
	sheet_put(s, "pci", v_if(a->location || a->domain_known, v_text(pci)));
	sheet_note(s, "place", v_text(pci));
	sheet_put(s, "vendor", v_hex(a->vendor));
	sheet_put(s, "device", v_hex(a->device));
	sheet_put(s, "revision", v_hex(a->revision));
	sheet_put(s, "firmware", v_number(a->firmware));
	sheet_put(s, "xccs", v_number(a->xccs));
	sheet_put(s, "simds", v_number(a->simds));
	sheet_put(s, "waves_per_simd", v_number(a->waves_per_simd));
	walk_exceptions(g, a->exceptions, S("_NEW"));
	sheet_line(s, 0, COLUMNS(line));
	sheet_close(s, '}');
}

static void walk_runtime(struct queues_sheet *g, const struct target *t)
{
	struct sheet *s = g->sheet;
	bool said = t->kfd_major || t->kfd_minor;
	sheet_open(s, "runtime", '{');
	sheet_put(s, "kfd_version", v_if(said, v_text(arena_printf(&g->arena, "%u.%u", t->kfd_major, t->kfd_minor))));
	sheet_put(s, "debug_version", v_if(t->runtime_version > 0, v_int(t->runtime_version)));
	sheet_put(s, "enabled", v_if(said, v_bool(t->runtime_enabled)));
	sheet_close(s, '}');
}

static void walk_place(struct sheet *s, const struct queue_slot *slot)
{
	if (!sheet_object(s, "place", slot->known))
		return;
	sheet_put(s, "xcc", v_number(slot->xcc));
	sheet_put(s, "me", v_number(slot->me));
	sheet_put(s, "pipe", v_number(slot->pipe));
	sheet_put(s, "queue", v_number(slot->queue));
	sheet_put(s, "vmid", v_number(slot->vmid));
	sheet_close(s, '}');
}

static void walk_signals(struct sheet *s, const struct aql_packet *p)
{
	const char *joint = p->type == AQL_BARRIER_OR ? " or the signal at " : " and the signal at ";
	sheet_open(s, "signals", '[');
	for (size_t i = 0; i < p->nsignals; i++) {
		const struct column part[] = { { "signal", i ? joint : "   waits for the signal at " },
					       { "value", " (", .after = ")" } };
		sheet_open(s, NULL, '{');
		sheet_put(s, "signal", v_hex(p->signals[i].address));
		sheet_put(s, "value", v_if(p->signals[i].known, v_int(p->signals[i].value)));
		sheet_part(s, COLUMNS(part));
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

/** What a packet is called and waits for. @d: NULL, unless it is a dispatch. */
static void walk_packet(struct queues_sheet *g, const struct queue *q, const struct aql_packet *p, const struct dispatch *d)
{
	static const struct column part[] = { { "packet", "         packet ", -8, .after = " " },
					      { "type" },
					      { "waits_alone", "   waits for " } };
	struct look *l = g->look;
	struct sheet *s = g->sheet;
	struct arena a = { 0 };
	struct packet is = { 0 };
	const struct packet_stream stream = { l->know, PACKETS_AQL, q->agent ? q->agent->gfx : (struct str){ 0 }, p->words,
					      sizeof(p->words) / sizeof(p->words[0]) };
	packet_decode(&stream, &a, 0, &is);
	const struct code_kernel *k = d ? target_code_kernel(&l->code, d->kernel_object) : NULL;
	sheet_open(s, s->as_json ? "head" : NULL, '{');
	sheet_put(s, "packet", v_number(p->index));
	sheet_put(s, "type", v_text(d ? S("kernel_dispatch") : is.name));
	sheet_put(s, "kernel_name", v_text(k ? code_set_name(&l->code.set, k->name) : (struct str){ 0 }));
	sheet_put(s, "waits", v_known(is.waits_for));
	sheet_note(s, "waits_alone", v_if(!p->nsignals, v_known(is.waits_for)));
	sheet_part(s, COLUMNS(part));
	walk_signals(s, p);
	sheet_say(s, "\n");
	sheet_put(s, "watched_ms", v_if(q->watched_ms, v_int(q->watched_ms)));
	sheet_put(s, "moved", v_if(q->watched_ms, v_bool(q->moved)));
	sheet_close(s, '}');
	arena_free(&a);
}

/** In JSON the packet that the queue is at, and the dispatches; as text all packets of either kind, but only some. */
static void walk_packets(struct queues_sheet *g, const struct queue *q)
{
	struct sheet *s = g->sheet;
	struct target *t = g->look->target;
	const uint64_t n = pending(q), most = s->as_json ? PACKETS_MOST : PACKETS_SHOWN;
	struct aql_packet p;
	struct dispatch d;
	if (s->as_json && n && queue_packet(t, q, q->read_index, &p))
		walk_packet(g, q, &p, queue_dispatch(t, q, q->read_index, &d) ? &d : NULL);
	else
		sheet_put(s, "head", v_null());
	sheet_open(s, "packets", '[');
	for (uint64_t i = 0; i < n && i < most; i++) {
		if (queue_dispatch(t, q, q->read_index + i, &d))
			walk_dispatch(s, NULL, g->look, &d);
		else if (!s->as_json && queue_packet(t, q, q->read_index + i, &p) && p.type != AQL_INVALID)
			walk_packet(g, q, &p, NULL);
	}
	sheet_close(s, ']');
	if (n > PACKETS_SHOWN)
		sheet_say(s, "         and %llu more\n", (unsigned long long)(n - PACKETS_SHOWN));
}

static const char *state_of(const struct queue *q)
{
	if (!q->indexes_known || !q->watched_ms)
		return "not known";
	if (q->moved)
		return "moves";
	return q->read_index == q->write_index ? "empty" : "stuck";
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

/** The rows of a core, and of a process that runs: of several GPUs alike the address tells which. */
static void text_row(struct queues_sheet *g, const struct queue *q)
{
	static const struct column core[] = { { "id", .width = 6 }, { "gfx", "  ", -8, .none = "?" },
					      { "type", "  ", -9 }, { "waiting", "  ", 8, .none = "?" },
					      { "waves", "  ", 6 }, { "errors", "  ", .none = "-" } };
	static const struct column running[] = { { "id", .width = 6 },
						 { "gpu", "  ", -12, .none = "?" },
						 { "type", "  ", -9 },
						 { "waiting", "  ", 8, .none = "?" },
						 { "state", "  " } };
	static const struct column core_problem[] = { { "problem", "its waves: " } }, problem[] = { { "problem" } };
	static const struct column place[] = { { "place.xcc", "on the GPU: XCC " },
					       { "place.me", ", ME " },
					       { "place.pipe", ", pipe " },
					       { "place.queue", ", queue " },
					       { "place.vmid", ", VMID " } };
	struct sheet *s = g->sheet;
	if (!is_live(g->look->target)) {
		sheet_line(s, 0, COLUMNS(core));
		sheet_line(s, INDENT, COLUMNS(core_problem));
		return;
	}
	sheet_line(s, 0, COLUMNS(running));
	sheet_line(s, INDENT, COLUMNS(problem));
	sheet_line(s, INDENT, COLUMNS(place));
	if (!q->slot.known && q->active_known && pending(q))
		sheet_say(s, "         not on the GPU at this moment\n");
	if (q->watched_ms && !q->moved && pending(q))
		sheet_say(s,
			  "         it was at packet %llu for the %lld ms that unhang looked; how long before that is not "
			  "known\n",
			  (unsigned long long)q->read_index, (long long)q->watched_ms);
}

static void walk_queue(struct queues_sheet *g, const struct queue *q)
{
	struct sheet *s = g->sheet;
	char room[24];
	sheet_open(s, NULL, '{');
	sheet_put(s, "id", v_number(q->id));
	sheet_put(s, "gpu_id", q->agent ? v_number(q->agent->gpu_id) : v_null());
	sheet_put(s, "gfx", q->agent ? v_text(q->agent->gfx) : v_null());
	sheet_note(s, "gpu", q->agent && q->agent->domain_known ? v_text(agent_pci(q->agent, room)) : v_null());
	sheet_put(s, "type", v_text(know_name(g->look->know, S("queue-type"), q->type)));
	walk_exceptions(g, q->exceptions, S("QUEUE_NEW"));
	sheet_put(s, "ring", v_hex(q->ring));
	sheet_put(s, "ring_bytes", v_number(q->ring_size));
	sheet_put(s, "read_index", v_if(q->indexes_known, v_number(q->read_index)));
	sheet_put(s, "write_index", v_if(q->indexes_known, v_number(q->write_index)));
	sheet_note(s, "waiting", waiting(g, q));
	sheet_put(s, "save_area", v_hex(q->save_area));
	sheet_put(s, "save_area_bytes", v_number(q->save_area_size));
	sheet_put(s, "waves", v_number(q->nwaves));
	sheet_put(s, "active", v_if(q->active_known, v_bool(q->active)));
	sheet_note(s, "state", v_word(state_of(q)));
	walk_place(s, &q->slot);
	sheet_put(s, "problem", v_text(q->problem));
	text_row(g, q);
	walk_packets(g, q);
	sheet_close(s, '}');
}

static void walk_target(struct sheet *s, const struct queues_seen *seen)
{
	static const struct column head[] = { { "target", .after = ": " },
					      { "process" },
					      { "process_pid", " (", .after = "); " },
					      { "nqueues", .after = " queue", .plural = true } };
	struct queues_sheet g = { s, seen->look, { 0 } };
	const struct target *t = seen->look->target;
	sheet_put(s, "target", v_text(t->name));
	sheet_put(s, "process", v_text(t->process));
	sheet_put(s, "pid", v_if(t->pid, v_int(t->pid)));
	sheet_note(s, "process_pid", v_if(t->process.n, v_int(t->pid)));
	sheet_note(s, "nqueues", v_number(seen->nqueues));
	sheet_line(s, 0, COLUMNS(head));
	walk_runtime(&g, t);
	sheet_open(s, "agents", '[');
	for (size_t i = 0; i < seen->nagents; i++)
		walk_agent(&g, &seen->agents[i]);
	sheet_close(s, ']');
	sheet_say(s, "%s",
		  is_live(t) ? "\n queue  GPU           type        waiting  state\n" :
			       "\n queue  GPU       type        waiting   waves  errors\n");
	sheet_open(s, "queues", '[');
	for (size_t i = 0; i < seen->nqueues; i++)
		walk_queue(&g, &seen->queues[i]);
	sheet_close(s, ']');
	arena_free(&g.arena);
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
	sheet_begin(&s, "unhang/queues/1", "targets");
	for (size_t i = 0; i < n; i++) {
		if (i)
			sheet_say(&s, "\n");
		sheet_open(&s, NULL, '{');
		walk_target(&s, &seen[i]);
		sheet_close(&s, '}');
	}
	sheet_close(&s, ']');
	if (!n)
		sheet_say(&s, "no process computes on a GPU of this machine\n");
	walk_runlists(&s, r);
	sheet_close(&s, '}');
}

// The queues of a target: where each of them stands, and what it was told to run.
#include "base/print.h"
#include "gpu/packet.h"
#include "report/live/look.h"

enum { PACKETS_SHOWN = 16, PACKETS_MOST = 4096 };

static bool is_live(const struct target *t) { return !strcmp(t->kind, "process"); }

static struct str type_name(const struct know *k, uint32_t type) { return know_name(k, S("queue-type"), type); }

/** The packets that were not done when the queue stopped, as far as the ring still has them. */
static uint64_t pending(const struct queue *q)
{
	uint64_t ring = q->ring_size / AQL_PACKET;
	if (!q->indexes_known || q->type != QUEUE_AQL || q->write_index < q->read_index)
		return 0;
	uint64_t n = q->write_index - q->read_index;
	return n > ring ? 0 : n;
}

// --- JSON ---

static void jw_address(struct json *j, const char *key, uint64_t v)
{
	jw_key(j, key);
	jw_hex(j, v);
}

static void jw_packets(struct look *l, struct json *j, const struct queue *q)
{
	jw_key(j, "packets");
	jw_open(j, '[');
	for (uint64_t i = 0; i < pending(q) && i < PACKETS_MOST; i++) {
		struct dispatch d;
		if (queue_dispatch(l->target, q, q->read_index + i, &d))
			jw_dispatch(j, l, &d);
	}
	jw_close(j, ']');
}

static void jw_exceptions(struct json *j, const struct know *k, uint64_t status)
{
	struct str names[64];
	size_t n = exception_names(k, status, names);
	jw_key(j, "exceptions");
	jw_open(j, '[');
	for (size_t i = 0; i < n; i++)
		jw_str(j, names[i]);
	jw_close(j, ']');
}

static void jw_agent(struct look *l, struct json *j, const struct agent *g)
{
	char pci[24];
	jw_open(j, '{');
	jw_number(j, "gpu_id", g->gpu_id);
	jw_field(j, "gfx", g->gfx);
	jw_field(j, "pci", g->location || g->domain_known ? agent_pci(g, pci) : (struct str){ 0 });
	jw_address(j, "vendor", g->vendor);
	jw_address(j, "device", g->device);
	jw_address(j, "revision", g->revision);
	jw_number(j, "firmware", g->firmware);
	jw_number(j, "xccs", g->xccs);
	jw_number(j, "simds", g->simds);
	jw_number(j, "waves_per_simd", g->waves_per_simd);
	jw_exceptions(j, l->know, g->exceptions);
	jw_close(j, '}');
}

static void jw_runtime(struct json *j, const struct target *t)
{
	char version[32];
	bool said = t->kfd_major || t->kfd_minor;
	snprintf(version, sizeof(version), "%u.%u", t->kfd_major, t->kfd_minor);
	jw_key(j, "runtime");
	jw_open(j, '{');
	jw_field(j, "kfd_version", said ? str_z(version) : (struct str){ 0 });
	jw_key(j, "debug_version");
	t->runtime_version > 0 ? jw_int(j, t->runtime_version) : jw_null(j);
	jw_key(j, "enabled");
	said ? jw_bool(j, t->runtime_enabled) : jw_null(j);
	jw_close(j, '}');
}

static void jw_place(struct json *j, const struct queue_slot *s)
{
	jw_key(j, "place");
	if (!s->known) {
		jw_null(j);
		return;
	}
	jw_open(j, '{');
	jw_number(j, "xcc", s->xcc);
	jw_number(j, "me", s->me);
	jw_number(j, "pipe", s->pipe);
	jw_number(j, "queue", s->queue);
	jw_number(j, "vmid", s->vmid);
	jw_close(j, '}');
}

static void jw_signals(struct json *j, const struct aql_packet *p)
{
	jw_key(j, "signals");
	jw_open(j, '[');
	for (size_t i = 0; i < p->nsignals; i++) {
		jw_open(j, '{');
		jw_address(j, "signal", p->signals[i].address);
		jw_key(j, "value");
		p->signals[i].known ? jw_int(j, p->signals[i].value) : jw_null(j);
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

/** What a packet is called, and what it waits for. */
static struct packet decoded(struct look *l, struct arena *a, const struct queue *q, const struct aql_packet *p)
{
	struct packet d = { 0 };
	const struct packet_stream s = { l->know, PACKETS_AQL, q->agent ? q->agent->gfx : (struct str){ 0 }, p->words,
					 sizeof(p->words) / sizeof(p->words[0]) };
	packet_decode(&s, a, 0, &d);
	return d;
}

/** The packet that the queue is at. */
static void jw_head(struct look *l, struct json *j, const struct queue *q)
{
	struct aql_packet p;
	struct dispatch d;
	jw_key(j, "head");
	if (!pending(q) || !queue_packet(l->target, q, q->read_index, &p)) {
		jw_null(j);
		return;
	}
	struct arena a = { 0 };
	struct packet is = decoded(l, &a, q, &p);
	bool dispatch = queue_dispatch(l->target, q, q->read_index, &d);
	const struct code_kernel *k = dispatch ? target_code_kernel(&l->code, d.kernel_object) : NULL;
	jw_open(j, '{');
	jw_number(j, "packet", p.index);
	jw_field(j, "type", dispatch ? S("kernel_dispatch") : is.name);
	jw_field(j, "kernel_name", k ? code_set_name(&l->code.set, k->name) : (struct str){ 0 });
	jw_field(j, "waits", is.waits_for.n ? is.waits_for : (struct str){ 0 });
	jw_signals(j, &p);
	jw_key(j, "watched_ms");
	q->watched_ms ? jw_int(j, q->watched_ms) : jw_null(j);
	jw_key(j, "moved");
	q->watched_ms ? jw_bool(j, q->moved) : jw_null(j);
	jw_close(j, '}');
	arena_free(&a);
}

static void jw_queue(struct look *l, struct json *j, const struct queue *q)
{
	jw_open(j, '{');
	jw_number(j, "id", q->id);
	jw_key(j, "gpu_id");
	q->agent ? jw_unsigned(j, q->agent->gpu_id) : jw_null(j);
	jw_field(j, "gfx", q->agent ? q->agent->gfx : (struct str){ 0 });
	jw_field(j, "type", type_name(l->know, q->type));
	jw_exceptions(j, l->know, q->exceptions);
	jw_address(j, "ring", q->ring);
	jw_number(j, "ring_bytes", q->ring_size);
	jw_key(j, "read_index");
	q->indexes_known ? jw_unsigned(j, q->read_index) : jw_null(j);
	jw_key(j, "write_index");
	q->indexes_known ? jw_unsigned(j, q->write_index) : jw_null(j);
	jw_address(j, "save_area", q->save_area);
	jw_number(j, "save_area_bytes", q->save_area_size);
	jw_number(j, "waves", q->nwaves);
	jw_key(j, "active");
	q->active_known ? jw_bool(j, q->active) : jw_null(j);
	jw_place(j, &q->slot);
	jw_field(j, "problem", q->problem);
	jw_head(l, j, q);
	jw_packets(l, j, q);
	jw_close(j, '}');
}

static void jw_target(const struct queues_seen *s, struct json *j)
{
	struct look *l = s->look;
	jw_field(j, "target", l->target->name);
	jw_field(j, "process", l->target->process);
	jw_key(j, "pid");
	l->target->pid ? jw_int(j, l->target->pid) : jw_null(j);
	jw_runtime(j, l->target);
	jw_key(j, "agents");
	jw_open(j, '[');
	for (size_t i = 0; i < s->nagents; i++)
		jw_agent(l, j, &s->agents[i]);
	jw_close(j, ']');
	jw_key(j, "queues");
	jw_open(j, '[');
	for (size_t i = 0; i < s->nqueues; i++)
		jw_queue(l, j, &s->queues[i]);
	jw_close(j, ']');
}

static void queues_json(const struct queues_seen *s, FILE *out)
{
	struct json j = { .out = out };
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/queues/1"));
	jw_target(s, &j);
	jw_close(&j, '}');
}

// --- text ---

static void text_arguments(struct look *l, const struct code_kernel *k, const struct dispatch *d)
{
	struct kernel_argument args[ARGUMENTS_SHOWN];
	struct arena a = { 0 };
	size_t n = dispatch_arguments(l->target, k, d, args, ARGUMENTS_SHOWN);
	if (n) {
		fprintf(l->out, "                         ");
		print_safe(l->out, arguments_say(&a, args, n, NULL, 0));
		fputc('\n', l->out);
	}
	arena_free(&a);
}

static void text_other_packet(struct look *l, const struct queue *q, uint64_t index)
{
	struct aql_packet p;
	if (!queue_packet(l->target, q, index, &p) || p.type == AQL_INVALID)
		return;
	struct arena a = { 0 };
	struct packet is = decoded(l, &a, q, &p);
	fprintf(l->out, "         packet %-8llu " STR_FMT, (unsigned long long)index, STR_ARG(is.name));
	if (is.waits_for.n && !p.nsignals)
		fprintf(l->out, "   waits for " STR_FMT, STR_ARG(is.waits_for));
	for (size_t i = 0; i < p.nsignals; i++) {
		const struct aql_signal *s = &p.signals[i];
		const char *joint = p.type == AQL_BARRIER_OR ? " or" : " and";
		fprintf(l->out, "%s the signal at 0x%llx", i ? joint : "   waits for", (unsigned long long)s->address);
		if (s->known)
			fprintf(l->out, " (%lld)", (long long)s->value);
	}
	fputc('\n', l->out);
	arena_free(&a);
}

static void text_state(struct look *l, const struct queue *q)
{
	if (q->slot.known)
		fprintf(l->out, "         on the GPU: XCC %u, ME %u, pipe %u, queue %u, VMID %u\n", q->slot.xcc, q->slot.me,
			q->slot.pipe, q->slot.queue, q->slot.vmid);
	else if (q->active_known && pending(q))
		fputs("         not on the GPU at this moment\n", l->out);
	if (q->watched_ms && !q->moved && pending(q))
		fprintf(l->out,
			"         it stood at packet %llu for the %lld ms that it was watched; for how long before is not "
			"known\n",
			(unsigned long long)q->read_index, (long long)q->watched_ms);
}

static void text_packets(struct look *l, const struct queue *q)
{
	uint64_t n = pending(q);
	for (uint64_t i = 0; i < n && i < PACKETS_SHOWN; i++) {
		struct dispatch d;
		if (!queue_dispatch(l->target, q, q->read_index + i, &d)) {
			text_other_packet(l, q, q->read_index + i);
			continue;
		}
		const struct code_kernel *k = target_code_kernel(&l->code, d.kernel_object);
		struct str kernel = k ? code_set_name(&l->code.set, k->name) : (struct str){ 0 };
		fprintf(l->out, "         packet %-8llu ", (unsigned long long)d.packet);
		if (kernel.n)
			print_safe(l->out, kernel);
		else
			fprintf(l->out, "kernel at 0x%llx", (unsigned long long)d.kernel_object);
		fprintf(l->out, "   grid %u,%u,%u of %u,%u,%u\n", d.grid[0], d.grid[1], d.grid[2], d.workgroup[0],
			d.workgroup[1], d.workgroup[2]);
		text_arguments(l, k, &d);
	}
	if (n > PACKETS_SHOWN)
		fprintf(l->out, "         and %llu more\n", (unsigned long long)(n - PACKETS_SHOWN));
}

static void text_queue(struct look *l, const struct queue *q)
{
	struct str names[64];
	size_t n = exception_names(l->know, q->exceptions, names);
	char waiting[32] = "?";
	if (q->indexes_known && q->type == QUEUE_AQL)
		snprintf(waiting, sizeof(waiting), "%llu", (unsigned long long)pending(q));
	fprintf(l->out, "%6u  %-8.*s  %-9.*s  %8s  %6zu  ", q->id, STR_ARG(q->agent ? q->agent->gfx : S("?")),
		STR_ARG(type_name(l->know, q->type)), waiting, q->nwaves);
	size_t shown = 0;
	for (size_t i = 0; i < n; i++)
		if (!str_is(names[i], "QUEUE_NEW"))
			fprintf(l->out, "%s%.*s", shown++ ? ", " : "", STR_ARG(names[i]));
	fprintf(l->out, "%s\n", shown ? "" : "-");
	if (q->problem.n) {
		fprintf(l->out, "         its waves: ");
		print_safe(l->out, q->problem);
		fputc('\n', l->out);
	}
	text_packets(l, q);
}

static const char *state_of(const struct queue *q)
{
	if (!q->indexes_known || !q->watched_ms)
		return "not known";
	if (q->moved)
		return "moves";
	return q->read_index == q->write_index ? "empty" : "stands still";
}

/** A row of a process that runs. Of several GPUs alike the address tells which. */
static void text_live_queue(struct look *l, const struct queue *q)
{
	char room[24], waiting[32] = "?";
	struct str gpu = q->agent && q->agent->domain_known ? agent_pci(q->agent, room) : S("?");
	if (q->indexes_known)
		snprintf(waiting, sizeof(waiting), "%llu%s",
			 (unsigned long long)(q->type == QUEUE_AQL ? pending(q) : q->write_index - q->read_index),
			 q->type == QUEUE_AQL ? "" :
			 q->type == QUEUE_PM4 ? " words" :
						" bytes");
	fprintf(l->out, "%6u  %-12.*s  %-9.*s  %8s  %s\n", q->id, STR_ARG(gpu), STR_ARG(type_name(l->know, q->type)), waiting,
		state_of(q));
	if (q->problem.n) {
		fputs("         ", l->out);
		print_safe(l->out, q->problem);
		fputc('\n', l->out);
	}
	text_state(l, q);
	text_packets(l, q);
}

static void text_head(const struct queues_seen *s)
{
	const struct look *l = s->look;
	print_safe(l->out, l->target->name);
	fputs(": ", l->out);
	if (l->target->process.n) {
		print_safe(l->out, l->target->process);
		fprintf(l->out, " (%lld); ", (long long)l->target->pid);
	}
	fprintf(l->out, "%zu queue%s\n", s->nqueues, s->nqueues == 1 ? "" : "s");
	for (size_t i = 0; i < s->nagents; i++) {
		const struct agent *g = &s->agents[i];
		struct str names[64];
		size_t n = exception_names(l->know, g->exceptions, names);
		char room[24];
		struct str pci = agent_pci(g, room);
		fprintf(l->out, "GPU %u: %.*s at %.*s", g->gpu_id, STR_ARG(g->gfx.n ? g->gfx : S("unknown part")),
			STR_ARG(pci));
		if (g->xccs)
			fprintf(l->out, ", %u XCC%s", g->xccs, g->xccs == 1 ? "" : "s");
		if (g->firmware)
			fprintf(l->out, ", firmware %u", g->firmware);
		for (size_t k = 0; k < n; k++)
			if (!str_ends(names[k], S("_NEW")))
				fprintf(l->out, ", %.*s", STR_ARG(names[k]));
		fputc('\n', l->out);
	}
	fputs(is_live(l->target) ? "\n queue  GPU           type        waiting  state\n" :
				   "\n queue  GPU       type        waiting   waves  errors\n",
	      l->out);
}

void report_queues(const struct queues_seen *s, const struct uh_look_options *o, FILE *out)
{
	if (o->json) {
		queues_json(s, out);
		return;
	}
	text_head(s);
	for (size_t i = 0; i < s->nqueues; i++)
		(is_live(s->look->target) ? text_live_queue : text_queue)(s->look, &s->queues[i]);
}

void report_queues_of_all(const struct queues_seen *seen, size_t n, const struct runlists *r, const struct uh_look_options *o,
			  FILE *out)
{
	struct json j = { .out = out };
	if (!o->json) {
		for (size_t i = 0; i < n; i++) {
			fputs(i ? "\n" : "", out);
			report_queues(&seen[i], o, out);
		}
		if (!n)
			fputs("no process computes on a GPU of this machine\n", out);
		report_runlists_text(r, out);
		return;
	}
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/queues/1"));
	jw_key(&j, "targets");
	jw_open(&j, '[');
	for (size_t i = 0; i < n; i++) {
		jw_open(&j, '{');
		jw_target(&seen[i], &j);
		jw_close(&j, '}');
	}
	jw_close(&j, ']');
	report_runlists_json(r, &j);
	jw_close(&j, '}');
}

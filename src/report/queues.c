// The queues of a target: where each of them stands, and what it was told to run.
#include "base/print.h"
#include "report/look.h"

enum { PACKETS_SHOWN = 16, PACKETS_MOST = 4096 };

static struct str type_name(const struct know *k, uint32_t type) { return know_name(k, S("queue-type"), type); }

/** `QUEUE_WAVE_MEMORY_VIOLATION`, ... of the bits of an exception status. */
static size_t exception_names(const struct know *k, uint64_t status, struct str ret[static 64])
{
	size_t n = 0;
	for (int code = 1; code <= 64; code++) {
		struct str name = status >> (code - 1) & 1 ? know_name(k, S("queue-exception"), code) : (struct str){ 0 };
		if (name.n)
			ret[n++] = name;
	}
	return n;
}

/** The packets that were not done when the queue stopped, as far as the ring still has them. */
static uint64_t pending(const struct queue *q)
{
	uint64_t ring = q->ring_size / 64;
	if (!q->indexes_known || q->write_index < q->read_index)
		return 0;
	uint64_t n = q->write_index - q->read_index;
	return n > ring ? 0 : n;
}

// --- JSON ---

static void jw_number(struct json *j, const char *key, uint64_t v)
{
	jw_key(j, key);
	jw_int(j, (int64_t)v);
}

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

static void jw_queue(struct look *l, struct json *j, const struct queue *q)
{
	struct str names[64];
	size_t n = exception_names(l->know, q->exceptions, names);
	jw_open(j, '{');
	jw_number(j, "id", q->id);
	jw_field(j, "gfx", q->agent ? q->agent->gfx : (struct str){ 0 });
	jw_field(j, "type", type_name(l->know, q->type));
	jw_key(j, "exceptions");
	jw_open(j, '[');
	for (size_t i = 0; i < n; i++)
		jw_str(j, names[i]);
	jw_close(j, ']');
	jw_address(j, "ring", q->ring);
	jw_number(j, "ring_bytes", q->ring_size);
	jw_key(j, "read_index");
	q->indexes_known ? jw_int(j, (int64_t)q->read_index) : jw_null(j);
	jw_key(j, "write_index");
	q->indexes_known ? jw_int(j, (int64_t)q->write_index) : jw_null(j);
	jw_address(j, "save_area", q->save_area);
	jw_number(j, "save_area_bytes", q->save_area_size);
	jw_number(j, "waves", q->nwaves);
	jw_field(j, "problem", q->problem);
	jw_packets(l, j, q);
	jw_close(j, '}');
}

static void queues_json(struct look *l, const struct request *queues)
{
	struct json j = { .out = l->out };
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/queues/1"));
	jw_field(&j, "target", l->target->name);
	jw_key(&j, "queues");
	jw_open(&j, '[');
	for (size_t i = 0; i < queues->n; i++)
		jw_queue(l, &j, &queues->queues[i]);
	jw_close(&j, ']');
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

static void text_packets(struct look *l, const struct queue *q)
{
	uint64_t n = pending(q);
	for (uint64_t i = 0; i < n && i < PACKETS_SHOWN; i++) {
		struct dispatch d;
		if (!queue_dispatch(l->target, q, q->read_index + i, &d))
			continue;
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
	if (q->indexes_known)
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

void report_queues(struct look *l)
{
	struct request r = { .kind = REQUEST_QUEUES };
	target_ask(l->target, &r);
	if (l->options->json) {
		queues_json(l, &r);
		return;
	}
	print_safe(l->out, l->target->name);
	fprintf(l->out, ": %zu queue%s\n\n queue  GPU       type        waiting   waves  errors\n", r.n, r.n == 1 ? "" : "s");
	for (size_t i = 0; i < r.n; i++)
		text_queue(l, &r.queues[i]);
}

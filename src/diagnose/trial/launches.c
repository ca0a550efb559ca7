// What a recording says of a job's launches: which there are, and which two use the same buffer on different queues.
#include <stdlib.h>

#include "base/print.h"
#include "diagnose/trial/bisect.h"

enum { ACCESSES_MOST = 1 << 16, LOOK_AHEAD = 4096, PAIRS_MOST = 256, OPS_MOST = 512, SEGMENT = 2 << 20, BLIND_NEAR = 3 };

/** A launch that uses a buffer. */
struct buffer_use {
	const struct recorded_allocation *buffer;
	size_t op;
	uint64_t time, address, kernel; // kernel: its object; 0 of copies
	bool writes, host;
};

/** A launch by itself. */
struct launch_seen {
	size_t op;
	uint64_t time, kernel;
	bool writes;
	bool blind; // its arguments lay where the recorder does not read: of graphs, in the GPU's memory
};

struct launch_reading {
	const struct flight_recording *r;
	bool (*alone)(const void *ctx, struct str name);
	const void *ctx;
	struct bisect_launches *to;
	VEC(struct buffer_use) list;
	VEC(struct launch_seen) all;
};

static size_t op_of(struct launch_reading *x, int place, struct str name, struct str plain, uint64_t time)
{
	struct bisect_launches *l = x->to;
	for (size_t i = 0; i < l->ops.len; i++) {
		struct bisect_op *o = &l->ops.data[i];
		if (o->place != place || !str_eq(o->name, name))
			continue;
		o->launches++;
		o->last = time > o->last ? time : o->last;
		return i;
	}
	if (l->ops.len == OPS_MOST)
		return SIZE_MAX;
	const struct bisect_op o = { .place = place,
				     .name = arena_str(&l->arena, name),
				     .plain = arena_str(&l->arena, plain),
				     .launches = 1,
				     .first = time,
				     .last = time,
				     .left_out = name.n && x->alone && x->alone(x->ctx, plain) };
	vec_push(&l->ops, o);
	return l->ops.len - 1;
}

static bool of_host(const struct launch_reading *x, const struct recorded_allocation *m)
{
	const struct recorded_agent *agent = m->pool ? recording_agent(x->r, m->pool->agent) : NULL;
	return m->call == CALL_LOCK || (agent && !agent->gpu);
}

/** @use has all but the buffer. @agent: the GPU that uses it; 0: not known. */
static void access_add(struct launch_reading *x, struct buffer_use use, uint64_t agent)
{
	const struct nearby n = recording_near(x->r, use.address, use.time, agent);
	if (n.relation != NEAR_INSIDE || !n.allocation || x->list.len == ACCESSES_MOST)
		return;
	use.buffer = n.allocation;
	use.host = of_host(x, n.allocation);
	vec_push(&x->list, use);
}

static struct str launch_name(const struct recorded_kernel *k)
{
	const struct str plain = kernel_words(k)->plain;
	const ptrdiff_t bracket = str_find(plain, S("("));
	struct str name = bracket > 0 ? str_cut(plain, (size_t)bracket) : plain.n ? plain : k->name;
	return str_starts(name, S("void ")) ? str_from(name, 5) : name;
}

static void launch_add(struct launch_reading *x, const struct recorded_queue *q, const struct recorded_packet *p)
{
	struct packet_argument *arguments = NULL;
	if (p->kind != PACKET_DISPATCH || !p->kernel || q->id >= PLACE_COPIES || str_find(p->kernel->name, S(" ")) >= 0)
		return;
	const size_t op = op_of(x, (int)q->id, p->kernel->name, launch_name(p->kernel), p->raw.time);
	x->to->launches++;
	if (op == SIZE_MAX)
		return;
	struct launch_seen seen = { .op = op, .time = p->raw.time, .kernel = p->kernel->object };
	const size_t n = packet_takes(&x->to->arena, p, &arguments);
	seen.blind = !n && p->arguments && p->arguments->state == REC_ARGUMENTS_IN_VRAM;
	for (size_t i = 0; i < n; i++) {
		const struct packet_argument *a = &arguments[i];
		uint64_t address;
		if (!a->bytes || !argument_is_pointer(a))
			continue;
		x->to->arguments = true;
		memcpy(&address, a->bytes, sizeof(address));
		const bool reads = str_find(a->type, S("const")) >= 0 || str_is(a->what->access, "read_only");
		seen.writes |= !reads;
		access_add(x,
			   (struct buffer_use){ .op = op,
						.time = p->raw.time,
						.address = address,
						.kernel = p->kernel->object,
						.writes = !reads },
			   q->head.agent);
	}
	if (x->all.len < ACCESSES_MOST)
		vec_push(&x->all, seen);
}

static void copies_add(struct launch_reading *x)
{
	for (size_t i = 0; i < x->r->nevents; i++) {
		const struct rec_event *e = &x->r->events[i].raw;
		if (e->call != CALL_ASYNC_COPY || e->status)
			continue;
		const size_t op = op_of(x, PLACE_COPIES, (struct str){ 0 }, S("copies"), e->time);
		x->to->launches++;
		if (op == SIZE_MAX)
			continue;
		access_add(x, (struct buffer_use){ .op = op, .time = e->time, .address = e->a[0], .writes = true }, 0);
		access_add(x, (struct buffer_use){ .op = op, .time = e->time, .address = e->a[2] }, 0);
	}
}

static int uses_by_time(const void *a, const void *b)
{
	const struct buffer_use *x = a, *y = b;
	return x->time != y->time ? (x->time < y->time ? -1 : 1) : x->op < y->op ? -1 : x->op > y->op;
}

/** Parts of a large buffer are mostly other data: an allocator of the program's has handed them out. */
static bool shares(const struct buffer_use *a, const struct buffer_use *b)
{
	return a->buffer == b->buffer && (a->address == b->address || a->buffer->size < SEGMENT);
}

static void pair_add(struct launch_reading *x, const struct buffer_use *a, size_t late, const struct buffer_use *b)
{
	struct bisect_launches *l = x->to;
	const uint64_t distance = b ? b->time - a->time : 0;
	const uint64_t from = (b && b->address > a->address ? b->address : a->address) - a->buffer->begin;
	struct bisect_pair *known = NULL;
	for (size_t i = 0; i < l->pairs.len && !known; i++)
		if (l->pairs.data[i].early == a->op && l->pairs.data[i].late == late)
			known = &l->pairs.data[i];
	if (known && known->distance <= distance)
		return; // launches that are nearer are more likely to race, by the buffer that they share
	if (!known && l->pairs.len == PAIRS_MOST)
		return;
	const struct recorded_operation *o = recording_operation(x->r, a->buffer->operation);
	const struct recorded_thread *t = recording_thread(x->r, a->buffer->by);
	const struct bisect_pair p = {
		.early = a->op,
		.late = late,
		.early_launch = { .kernel = a->kernel, .time = a->time },
		.late_launch = { .kernel = b ? b->kernel : 0, .time = b ? b->time : 0 },
		.early_writes = a->writes,
		.late_writes = b ? b->writes : !a->writes,
		.distance = distance,
		.buffer = { .begin = a->buffer->begin,
			    .size = a->buffer->size,
			    .from = from,
			    .bytes = a->buffer->size - from,
			    .host = a->host,
			    .born = a->buffer->born,
			    .made = o ? operation_say(&l->arena, x->r, o) :
				    t ? arena_printf(&l->arena, "thread %u", t->raw.tid) :
					(struct str){ 0 } },
	};
	if (known)
		*known = p;
	else
		vec_push(&l->pairs, p);
}

/** Of each other place the first that gets into its way; what comes there later is behind that one. */
static void pairs_of(struct launch_reading *x, size_t i)
{
	const struct buffer_use *a = &x->list.data[i];
	const struct bisect_op *ops = x->to->ops.data;
	uint64_t seen = UINT64_C(1) << ops[a->op].place;
	for (size_t k = i + 1; k < x->list.len && k < i + LOOK_AHEAD; k++) {
		const struct buffer_use *b = &x->list.data[k];
		const uint64_t place = UINT64_C(1) << ops[b->op].place;
		if (!shares(a, b) || place & seen || !(a->writes || b->writes))
			continue;
		seen |= place;
		pair_add(x, a, b->op, b);
	}
}

static int launches_by_time(const void *a, const void *b)
{
	const struct launch_seen *x = a, *y = b;
	return x->time != y->time ? (x->time < y->time ? -1 : 1) : x->op < y->op ? -1 : x->op > y->op;
}

static void blind_pair_add(struct launch_reading *x, const struct launch_seen *a, const struct launch_seen *b)
{
	struct bisect_launches *l = x->to;
	for (size_t i = 0; i < l->pairs.len; i++)
		if (l->pairs.data[i].early == a->op && l->pairs.data[i].late == b->op)
			return;
	if (l->pairs.len == PAIRS_MOST)
		return;
	const bool early_writes = a->blind ? !b->writes : a->writes;
	const struct bisect_pair p = { .early = a->op,
				       .late = b->op,
				       .early_launch = { .kernel = a->kernel, .time = a->time },
				       .late_launch = { .kernel = b->kernel, .time = b->time },
				       .early_writes = early_writes,
				       .late_writes = !early_writes,
				       .distance = b->time - a->time };
	vec_push(&l->pairs, p);
}

/** A launch whose buffers nobody knows may share one with any: with those that are nearest on each other queue. */
static void blind_pairs_of(struct launch_reading *x, size_t at)
{
	const struct launch_seen *u = &x->all.data[at];
	const struct bisect_op *ops = x->to->ops.data;
	unsigned char before[PLACE_HOST + 1] = { 0 }, after[PLACE_HOST + 1] = { 0 };
	for (size_t i = at; i-- > 0 && at - i < LOOK_AHEAD;) {
		const struct launch_seen *a = &x->all.data[i];
		if (ops[a->op].place != ops[u->op].place && before[ops[a->op].place]++ < BLIND_NEAR)
			blind_pair_add(x, a, u);
	}
	for (size_t i = at + 1; i < x->all.len && i - at < LOOK_AHEAD; i++) {
		const struct launch_seen *b = &x->all.data[i];
		if (ops[b->op].place != ops[u->op].place && after[ops[b->op].place]++ < BLIND_NEAR)
			blind_pair_add(x, u, b);
	}
}

/** Those whose buffer is known come first, those with the host behind them, and last the ones of which little is known. */
static int pair_rank(const struct bisect_pair *p) { return !p->buffer.size ? 2 : !p->distance; }

static int by_likely(const void *a, const void *b)
{
	const struct bisect_pair *x = a, *y = b;
	if (pair_rank(x) != pair_rank(y))
		return pair_rank(x) - pair_rank(y);
	if (x->distance != y->distance)
		return x->distance < y->distance ? -1 : 1;
	return x->early != y->early ? (x->early < y->early ? -1 : 1) : x->late < y->late ? -1 : x->late > y->late;
}

void bisect_launches_of(const struct flight_recording *r, bool (*alone)(const void *ctx, struct str name), const void *ctx,
			struct bisect_launches *ret)
{
	struct launch_reading x = { .r = r, .alone = alone, .ctx = ctx, .to = ret };
	*ret = (struct bisect_launches){ .queues = (unsigned)r->nqueues };
	for (size_t i = 0; i < r->nqueues; i++)
		for (size_t k = 0; k < r->queues[i].n; k++)
			launch_add(&x, &r->queues[i], &r->queues[i].packets[k]);
	copies_add(&x);
	if (x.list.len)
		qsort(x.list.data, x.list.len, sizeof(x.list.data[0]), uses_by_time);
	for (size_t i = 0; i < x.list.len; i++)
		pairs_of(&x, i);
	const size_t host = ret->ops.len;
	const struct bisect_op last = { .place = PLACE_HOST, .plain = S("the host") };
	vec_push(&ret->ops, last);
	for (size_t i = 0; i < x.list.len; i++)
		if (x.list.data[i].host)
			pair_add(&x, &x.list.data[i], host, NULL);
	if (x.all.len)
		qsort(x.all.data, x.all.len, sizeof(x.all.data[0]), launches_by_time);
	for (size_t i = 0; i < x.all.len; i++)
		if (x.all.data[i].blind)
			blind_pairs_of(&x, i);
	if (ret->pairs.len)
		qsort(ret->pairs.data, ret->pairs.len, sizeof(ret->pairs.data[0]), by_likely);
	vec_free(&x.list);
	vec_free(&x.all);
}

void bisect_launches_free(struct bisect_launches *l)
{
	vec_free(&l->ops);
	vec_free(&l->pairs);
	arena_free(&l->arena);
}

// --- as lines of a file ---

void bisect_launches_write(const struct bisect_launches *l, struct text *to)
{
	text_printf(to, "launches %u %u %d\n", l->launches, l->queues, l->arguments);
	for (size_t i = 0; i < l->ops.len; i++) {
		const struct bisect_op *o = &l->ops.data[i];
		text_printf(to, "op %d %u %d " STR_FMT " " STR_FMT "\n", o->place, o->launches, o->left_out,
			    STR_ARG(o->name.n ? o->name : S("-")), STR_ARG(o->plain));
	}
	for (size_t i = 0; i < l->pairs.len; i++) {
		const struct bisect_pair *p = &l->pairs.data[i];
		const struct bisect_buffer *b = &p->buffer;
		text_printf(to, "pair %zu %zu %d %d %llu %llu %llu %llu %llu %d " STR_FMT "\n", p->early, p->late,
			    p->early_writes, p->late_writes, (unsigned long long)p->distance, (unsigned long long)b->begin,
			    (unsigned long long)b->size, (unsigned long long)b->from, (unsigned long long)b->bytes, b->host,
			    STR_ARG(b->made));
	}
}

/** The next words of a line as numbers. */
static bool numbers(struct str *line, int64_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!str_number(str_word(line), &ret[i]) || ret[i] < 0)
			return false;
	return true;
}

static bool launches_line(struct bisect_launches *l, struct str line)
{
	const struct str what = str_word(&line);
	int64_t n[10];
	if (str_is(what, "launches") && numbers(&line, n, 3)) {
		l->launches = (unsigned)n[0];
		l->queues = (unsigned)n[1];
		l->arguments = n[2];
	} else if (str_is(what, "op") && numbers(&line, n, 3) && n[0] <= PLACE_HOST && l->ops.len <= OPS_MOST) {
		const struct str name = str_word(&line);
		const struct bisect_op o = { .place = (int)n[0],
					     .launches = (unsigned)n[1],
					     .left_out = n[2],
					     .name = str_is(name, "-") ? (struct str){ 0 } : arena_str(&l->arena, name),
					     .plain = arena_str(&l->arena, str_trim(line)) };
		vec_push(&l->ops, o);
	} else if (str_is(what, "pair") && numbers(&line, n, 10) && l->pairs.len < PAIRS_MOST && (size_t)n[0] < l->ops.len &&
		   (size_t)n[1] < l->ops.len) {
		const struct bisect_pair p = { .early = (size_t)n[0],
					       .late = (size_t)n[1],
					       .early_writes = n[2],
					       .late_writes = n[3],
					       .distance = (uint64_t)n[4],
					       .buffer = { .begin = (uint64_t)n[5],
							   .size = (uint64_t)n[6],
							   .from = (uint64_t)n[7],
							   .bytes = (uint64_t)n[8],
							   .made = arena_str(&l->arena, str_trim(line)),
							   .host = n[9] } };
		vec_push(&l->pairs, p);
	} else {
		return !what.n;
	}
	return true;
}

bool bisect_launches_read(struct str text, struct bisect_launches *ret)
{
	*ret = (struct bisect_launches){ 0 };
	while (text.n)
		if (!launches_line(ret, str_split(&text, '\n'))) {
			bisect_launches_free(ret);
			*ret = (struct bisect_launches){ 0 };
			return false;
		}
	return ret->ops.len;
}

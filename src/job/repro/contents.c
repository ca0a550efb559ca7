// What the buffers of a launch held: from the inputs that level 10 saved, by the statistics of level 5, or nothing. Bytes of a job stay where they
// are unless they were asked for.
#include <math.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "job/repro/make.h"
#include "source/file.h"

enum { PIECE = 1 << 20 };

/** A file of saved inputs, which is opened for each read: a plan may have thousands. */
static bool input_bytes(const struct repro_write *w, uint64_t at, void *to, size_t size)
{
	struct file f;
	struct uh_error *err = file_open(w->from, &f);
	if (err) {
		door_forget(err);
		return false;
	}
	const bool good = file_read(&f, w->from_at + at, to, size);
	file_close(&f);
	return good;
}

/** Addresses among the bytes: words that lie in a buffer of that time. Others might be such too, but only these can be told. */
static void find_pointers(struct repro_making *m, struct repro_write *w, uint64_t time)
{
	VEC(struct repro_pointer) found = { 0 };
	const struct flight_recording *r = m->r;
	_cleanup_free_ char *piece = mem_large(PIECE);
	const uint64_t low = r->nallocations ? r->allocations[0].begin : 0,
		       high = r->nallocations ? r->farthest[r->nallocations - 1] : 0;
	for (uint64_t at = 0; at < w->bytes && found.len < REPRO_POINTERS_MOST; at += PIECE) {
		const size_t n = w->bytes - at < PIECE ? w->bytes - at : PIECE;
		if (!w->read(w, at, piece, n))
			break;
		for (size_t i = 0; i + 8 <= n && found.len < REPRO_POINTERS_MOST; i += 8) {
			const uint64_t word = get_u64(piece + i);
			struct repro_pointer p = { .at = at + i };
			if (word >= low && word < high && recording_near(r, word, time, 0).relation == NEAR_INSIDE &&
			    repro_buffer_of(m, word, time, &p))
				vec_push(&found, p);
		}
	}
	if (found.len == REPRO_POINTERS_MOST)
		repro_leave_out(m->plan, "Addresses inside of buffer %u behind the first %d: they are those of the job.",
				w->buffer, REPRO_POINTERS_MOST);
	w->npointers = found.len;
	w->pointers = arena_copy(m->plan->arena, found.data, found.len * sizeof(*found.data));
	vec_free(&found);
}

static const struct rec_statistics *statistics_for(const struct repro_making *m, const struct repro_launch *l,
						   uint64_t argument)
{
	const struct rec_statistics *s =
		list_find(m->r->statistics, m->r->nstatistics, it,
			  it->queue == l->queue && it->packet == l->packet && it->argument == argument);
	return s && !s->guessed && isfinite(s->least) && isfinite(s->most) ? s : NULL;
}

/** Without bytes: numbers in the range that was seen, else zeros. */
static void fill_unknown(const struct repro_making *m, const struct repro_launch *l, uint64_t argument, struct repro_write *w)
{
	const struct rec_statistics *s = statistics_for(m, l, argument);
	w->fill = s ? REPRO_VALUES : REPRO_ZEROS;
	w->dtype = str_z(s ? dtype_name(s->dtype) : "");
	w->least = s ? s->least : 0;
	w->most = s ? s->most : 0;
}

static void add_write(struct repro_plan *p, struct repro_write w, uint64_t time)
{
	vec_push(&p->writes, w);
	vec_push(&p->steps, ((struct repro_step){ time, REPRO_WRITE, (uint32_t)p->writes.len - 1 }));
}

/** Whether the bytes of one input are among those of another one: two pointers into one buffer. */
static bool input_within(const struct inputs_saved *in, size_t i)
{
	for (size_t k = 0; k < in->n; k++) {
		const struct input_saved *x = &in->list[i], *y = &in->list[k];
		if (k != i && x->address >= y->address && x->address - y->address <= y->bytes &&
		    x->bytes <= y->bytes - (x->address - y->address) && (x->bytes < y->bytes || k < i))
			return true;
	}
	return false;
}

static void add_saved(struct repro_making *m, uint32_t launch, const struct inputs_saved *in, size_t i, uint64_t time)
{
	struct repro_plan *p = m->plan;
	const struct input_saved *x = &in->list[i];
	struct repro_pointer at = { 0 };
	if (!x->bytes || !repro_buffer_of(m, x->address, time, &at) || at.offset < 0 ||
	    (uint64_t)at.offset >= p->buffers.data[at.buffer].recorded)
		return;
	const uint64_t room = p->buffers.data[at.buffer].recorded - (uint64_t)at.offset;
	struct repro_write w = { .buffer = at.buffer,
				 .launch = launch,
				 .offset = (uint64_t)at.offset,
				 .bytes = x->bytes < room ? x->bytes : room,
				 .fill = REPRO_SAVED,
				 .read = input_bytes,
				 .from = arena_printf(p->arena, STR_FMT "/" INPUTS_TENSORS, STR_ARG(in->directory)).p,
				 .from_at = x->at,
				 .file = (unsigned)p->writes.len };
	if (w.bytes < room)
		repro_leave_out(p, "Of buffer %u only %llu of %llu bytes were saved; the rest is as the program finds it.",
				at.buffer, (unsigned long long)w.bytes, (unsigned long long)room);
	find_pointers(m, &w, time);
	if (!p->user_data) {
		w.withheld = true;
		fill_unknown(m, &p->launches.data[launch], x->argument, &w);
	}
	add_write(p, w, time);
}

void repro_contents(struct repro_making *m, uint32_t launch, uint64_t time)
{
	struct repro_plan *p = m->plan;
	const struct repro_launch *l = &p->launches.data[launch];
	const struct inputs_saved *in = inputs_of(m->inputs, m->ninputs, l->queue, l->packet);
	const size_t before = p->writes.len;
	const size_t n = l->npointers;
	const struct repro_pointer *pointers = l->pointers;
	for (size_t i = 0; in && i < in->n; i++)
		if (in->list[i].argument < l->arguments.n && !input_within(in, i)) // others are the compiler's
			add_saved(m, launch, in, i, time);
	for (size_t i = 0; i < n; i++) {
		const struct repro_buffer *b = &p->buffers.data[pointers[i].buffer];
		const struct recorded_allocation *of = m->allocations.data[pointers[i].buffer];
		const bool known =
			list_find(p->writes.data + before, p->writes.len - before, it, it->buffer == pointers[i].buffer);
		if (known || (of->died && of->died <= time))
			continue;
		const uint64_t offset =
			pointers[i].offset > 0 && (uint64_t)pointers[i].offset < b->recorded ? (uint64_t)pointers[i].offset : 0;
		struct repro_write w = {
			.buffer = pointers[i].buffer, .launch = launch, .offset = offset, .bytes = b->recorded - offset
		};
		fill_unknown(m, &p->launches.data[launch], pointers[i].at, &w);
		if (w.fill == REPRO_ZEROS) {
			w.offset = 0;
			w.bytes = b->recorded;
		}
		add_write(p, w, time);
		repro_leave_out(p,
				"What buffer %u held: record it at level 10 (unhang run --level 10 --allow-inputs).",
				w.buffer);
	}
}

// What frameworks were doing.
#include "report/last/parts.h"

enum { OPERATIONS_LISTED = 16 };

static void put_operation(struct recording_sheet *w, const struct recorded_operation *o)
{
	struct sheet *s = &w->sheet;
	sheet_put(s, "number", v_number(o->raw.id));
	sheet_put(s, "name", v_known(o->name));
	sheet_note(s, "chain", v_known(operation_say(&w->arena, w->r, o)));
	sheet_note(s, "tensors", v_known(tensors_say(&w->arena, o)));
	sheet_put(s, "inside", v_if(o->raw.parent, v_number(o->raw.parent)));
	sheet_open(s, "tensors", '[');
	for (size_t i = 0; s->as_json && i < o->raw.ntensors; i++) {
		const struct rec_tensor *t = &o->raw.tensors[i];
		sheet_open(s, NULL, '{');
		sheet_put(s, "address", v_hex(t->address));
		sheet_put(s, "dtype", v_word(dtype_name(t->dtype)));
		sheet_open(s, "shape", '[');
		for (unsigned d = 0; d < t->ndim && d < REC_DIMENSIONS; d++)
			jw_unsigned(&s->json, t->shape[d]);
		sheet_close(s, ']');
		sheet_open(s, "strides", '[');
		for (unsigned d = 0; d < t->ndim && d < REC_DIMENSIONS; d++)
			jw_int(&s->json, t->strides[d]);
		sheet_close(s, ']');
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

void walk_operation(struct recording_sheet *w, const struct recorded_operation *o)
{
	if (!sheet_object(&w->sheet, "operation", o))
		return;
	put_operation(w, o);
	sheet_close(&w->sheet, '}');
}

/** Which operations have one inside that has not ended: their thread is there. */
static const bool *outer_ones(struct recording_sheet *w)
{
	const struct flight_recording *r = w->r;
	bool *outer = arena_alloc(&w->arena, r->noperations + 1);
	for (size_t i = 0; i < r->noperations; i++) {
		const struct recorded_operation *o = &r->operations[i], *parent = recording_operation(r, o->raw.parent);
		if (parent && !o->raw.end)
			outer[parent - r->operations] = true;
	}
	return outer;
}

void walk_operations(struct recording_sheet *w)
{
	static const struct column line[] = { { "thread.tid", "  thread " },
					      { "thread.name", " (", .after = ")" },
					      { "chain", " is in " },
					      { "age", " for " },
					      { "tensors", ", with " } };
	struct sheet *s = &w->sheet;
	const struct flight_recording *r = w->r;
	const size_t most = w->options->all ? r->noperations : OPERATIONS_LISTED;
	const bool *outer = outer_ones(w);
	bool any = false;
	sheet_open(s, "operations", '[');
	for (size_t i = r->noperations > most && s->as_json ? r->noperations - most : 0; i < r->noperations; i++) {
		const struct recorded_operation *o = &r->operations[i];
		if (!s->as_json && (o->raw.end || outer[i]))
			continue;
		sheet_open(s, NULL, '{');
		put_operation(w, o);
		put_thread(w, "thread", o->raw.thread);
		put_time(w, "began", o->raw.begin);
		put_time(w, "ended", o->raw.end);
		put_seconds(w, "age", recording_age(r, o->raw.begin));
		sheet_say(s, any ? "" : "Operations that have not ended:\n");
		sheet_line(s, 0, COLUMNS(line));
		any = true;
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

// What a packet is part of and works on: the operations of frameworks, and the arguments of a kernel.
#include "report/last/last.h"

enum { OPERATIONS_LISTED = 16 };

static void put_operation(struct recording_sheet *w, const struct recorded_operation *o)
{
	struct sheet *s = &w->sheet;
	sheet_fields(s, { "number", v_number(o->raw.id) }, { "name", v_known(o->name) },
		     { "chain", v_known(operation_say(&w->arena, w->r, o)), TEXT_ONLY },
		     { "tensors", v_known(tensors_say(&w->arena, o)), TEXT_ONLY },
		     { "inside", v_if(o->raw.parent, v_number(o->raw.parent)) });
	sheet_each (i, s, "tensors", s->as_json ? o->raw.ntensors : 0) {
		const struct rec_tensor *t = &o->raw.tensors[i];
		sheet_fields(s, { "address", v_hex(t->address) }, { "dtype", v_word(dtype_name(t->dtype)) });
		sheet_values (d, s, "shape", t->ndim < REC_DIMENSIONS ? t->ndim : REC_DIMENSIONS)
			jw_unsigned(&s->json, t->shape[d]);
		sheet_values (d, s, "strides", t->ndim < REC_DIMENSIONS ? t->ndim : REC_DIMENSIONS)
			jw_int(&s->json, t->strides[d]);
	}
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
		sheet_fields(s, { "began", v_time(w, o->raw.begin) }, { "ended", v_time(w, o->raw.end) },
			     { "age", v_seconds(w, recording_age(r, o->raw.begin)) });
		sheet_say(s, any ? "" : "Operations that have not ended:\n");
		sheet_line(s, 0,
			   COLUMNS_OF({ "thread.tid", "  thread " }, { "thread.name", " (", .after = ")" },
				      { "chain", " is in " }, { "age", " for " }, { "tensors", ", with " }));
		any = true;
		sheet_close(s, '}');
	}
	sheet_close(s, ']');
}

// --- the arguments of a kernel ---

static void walk_values(struct recording_sheet *w, const struct recorded_packet *p)
{
	struct sheet *s = &w->sheet;
	struct packet_argument *list = NULL;
	const size_t n = s->as_json ? packet_takes(&w->arena, p, &list) : 0;
	sheet_open(s, "values", '[');
	for (size_t i = 0; i < n; i++) {
		const struct packet_argument *x = &list[i];
		sheet_record(s, NULL, { "name", v_known(x->what->name) }, { "type", v_known(x->type) },
			     { "offset", v_number(x->what->offset) }, { "size", v_number(x->what->size) },
			     { "pointer", v_bool(argument_is_pointer(x)) },
			     { "text", v_if(x->bytes, v_text(argument_say(&w->arena, w->r, p, x))) });
	}
	sheet_close(s, ']');
}

void walk_packet_arguments(struct recording_sheet *w, const struct recorded_packet *p)
{
	struct sheet *s = &w->sheet;
	const struct rec_arguments *a = p->arguments;
	static const char *const states[] = { "unknown", "copied", "in-vram", "unknown", "left-out" };
	if (!sheet_object(s, "arguments", a))
		return;
	sheet_fields(s, { "state", v_word(states[a->state <= REC_ARGUMENTS_LEFT_OUT ? a->state : 0]) },
		     { "size", v_number(a->size) }, { "text", v_known(packet_arguments_say(&w->arena, w->r, p)) });
	walk_values(w, p);
	sheet_values (i, s, "words", a->copied / 8) {
		uint64_t v;
		memcpy(&v, p->argument_bytes + 8 * i, sizeof(v));
		jw_hex(&s->json, v);
	}
	sheet_close(s, '}');
}

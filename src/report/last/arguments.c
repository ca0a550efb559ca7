// The arguments of a kernel.
#include "report/last/parts.h"

static void walk_values(struct recording_sheet *w, const struct recorded_packet *p)
{
	struct sheet *s = &w->sheet;
	struct packet_argument *list = NULL;
	const size_t n = s->as_json ? packet_takes(&w->arena, p, &list) : 0;
	sheet_open(s, "values", '[');
	for (size_t i = 0; i < n; i++) {
		const struct packet_argument *x = &list[i];
		sheet_open(s, NULL, '{');
		sheet_put(s, "name", v_known(x->what->name));
		sheet_put(s, "type", v_known(x->type));
		sheet_put(s, "offset", v_number(x->what->offset));
		sheet_put(s, "size", v_number(x->what->size));
		sheet_put(s, "pointer", v_bool(argument_is_pointer(x)));
		sheet_put(s, "text", v_if(x->bytes, v_text(argument_say(&w->arena, w->r, p, x))));
		sheet_close(s, '}');
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
	sheet_put(s, "state", v_word(states[a->state <= REC_ARGUMENTS_LEFT_OUT ? a->state : 0]));
	sheet_put(s, "size", v_number(a->size));
	sheet_put(s, "text", v_known(packet_arguments_say(&w->arena, w->r, p)));
	walk_values(w, p);
	sheet_open(s, "words", '[');
	for (unsigned i = 0; s->as_json && i + 8 <= a->copied; i += 8) {
		uint64_t v;
		memcpy(&v, p->argument_bytes + i, sizeof(v));
		jw_hex(&s->json, v);
	}
	sheet_close(s, ']');
	sheet_close(s, '}');
}

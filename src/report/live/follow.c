// Rings that are followed: a line for each packet that the driver writes, and for each step of the engine.
#include <time.h>

#include "base/cleanup.h"
#include "report/live/look.h"

enum { RING_COLUMNS = 13, ROOM = 24, WAITS_INDENT = 12 };

static const char *const whats[] = {
	[FOLLOWED_PACKET] = "packet", [FOLLOWED_POSITION] = "position", [FOLLOWED_OVERWRITTEN] = "overwritten",
	[FOLLOWED_STILL] = "still",   [FOLLOWED_ASLEEP] = "asleep",     [FOLLOWED_LOST] = "lost"
};

/** Adds a word where it fits; what does not is left out, and told so. */
static void add_word(struct text *line, struct str word, unsigned width, bool *cut)
{
	static const struct str more = S(" ...");
	if (*cut)
		return;
	*cut = width && line->n + 1 + word.n + more.n > width;
	text_printf(line, *cut ? " ..." : " " STR_FMT, STR_ARG(word));
}

static void add_packet(struct text *line, const struct ring_packet *row, unsigned width)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct packet *p = row->packet;
	bool cut = false;
	text_add(line, p->name);
	if (row->repeat > 1)
		text_printf(line, " (%zu times)", row->repeat);
	for (size_t i = 0; i < p->nregisters; i++) {
		const struct packet_register *r = &p->registers[i];
		const struct str name = r->is ? r->is->reg.name : arena_printf(&a, "0x%x", r->place);
		add_word(line,
			 r->valued ? arena_printf(&a, STR_FMT "=0x%x", STR_ARG(name), r->value) :
				     arena_printf(&a, "(" STR_FMT ")", STR_ARG(name)),
			 width, &cut);
	}
	for (size_t i = 0; i < p->nfields; i++) {
		const struct packet_field *f = &p->fields[i];
		if (f->told || !f->value)
			continue;
		add_word(line,
			 arena_printf(&a, f->digits ? STR_FMT "=0x%llx" : STR_FMT "=%llu", STR_ARG(f->name),
				      (unsigned long long)f->value),
			 width, &cut);
	}
}

static void add_position(struct text *line, const struct followed *f)
{
	const struct packet *p = f->packet ? f->packet->packet : NULL;
	if (f->what == FOLLOWED_STILL)
		text_printf(line, "stood for %lld s, ", (long long)f->seconds);
	if (!f->pending)
		text_printf(line, "nothing waits");
	else
		text_printf(line, "%u word%s wait%s", f->pending, f->pending == 1 ? "" : "s", f->pending == 1 ? "s" : "");
	if (p)
		text_printf(line, ", at " STR_FMT, STR_ARG(p->name));
	if (f->emitted_known && f->reached_known)
		text_printf(line, "; fence %llu of %llu", (unsigned long long)f->reached, (unsigned long long)f->emitted);
	else if (f->emitted_known)
		text_printf(line, "; newest fence %llu", (unsigned long long)f->emitted);
	if (f->what == FOLLOWED_STILL && p && p->waits_for.n)
		text_printf(line, "\n%*swaits for " STR_FMT, WAITS_INDENT, "", STR_ARG(p->waits_for));
}

static void followed_text(const struct followed *f, unsigned width, FILE *out)
{
	_cleanup_text_ struct text line = { 0 };
	const time_t at = (time_t)f->time;
	char now[ROOM];
	struct tm local;
	strftime(now, sizeof(now), "%H:%M:%S", localtime_r(&at, &local));
	text_printf(&line, "%s  ", now);
	if (f->several || !f->ring.n)
		text_printf(&line, STR_FMT "  ", STR_ARG(f->target));
	if (f->ring.n)
		text_printf(&line, "%-*.*s ", RING_COLUMNS, STR_ARG(f->ring));
	switch (f->what) {
	case FOLLOWED_PACKET:
		text_printf(&line, "  0x%04zx  ", f->packet->at);
		add_packet(&line, f->packet, width);
		break;
	case FOLLOWED_POSITION:
	case FOLLOWED_STILL:
		text_printf(&line, "> 0x%04x  ", f->rptr);
		add_position(&line, f);
		break;
	case FOLLOWED_OVERWRITTEN:
		text_printf(&line, "  the driver went around the ring between two looks: packets were overwritten unseen");
		break;
	case FOLLOWED_ASLEEP:
		text_printf(&line, "sleeps: nothing of it is read until it is awake");
		break;
	case FOLLOWED_LOST:
		text_printf(&line, STR_FMT "; it is not asked any more", STR_ARG(f->why_not));
		break;
	}
	fprintf(out, STR_FMT "\n", STR_ARG(text_str(&line)));
}

void report_followed(const struct followed *f, const struct uh_look_options *o, FILE *out)
{
	if (!o->json) {
		followed_text(f, o->width, out);
		return;
	}
	struct sheet s = sheet_on(true, out);
	s.json.one_line = true;
	sheet_begin(&s, "unhang/rings-follow/1", NULL);
	sheet_fields(&s, { "time", v_date(f->time) }, { "target", v_text(f->target) }, { "ring", v_known(f->ring) },
		     { "event", v_word(whats[f->what]) }, { "rptr", v_if(f->positioned, v_number(f->rptr)) },
		     { "wptr", v_if(f->positioned, v_number(f->wptr)) },
		     { "pending_words", v_if(f->positioned, v_number(f->pending)) },
		     { "fence_reached", v_if(f->reached_known, v_number(f->reached)) },
		     { "fence_emitted", v_if(f->emitted_known, v_number(f->emitted)) },
		     { "seconds", v_if(f->what == FOLLOWED_STILL, v_int(f->seconds)) }, { "why_not", v_known(f->why_not) });
	if (sheet_object(&s, "packet", f->packet)) {
		walk_ring_packet(&s, f->packet, 0);
		sheet_close(&s, '}');
	}
	sheet_close(&s, '}');
}

// What a recording says of itself: whose it is, how it ended, how it was held.
#include "report/last/last.h"
#include "report/last/parts.h"
#include "report/text/parts.h"

static const char *state_of(const struct flight_recording *r)
{
	return r->header.state == RECORDING_ASIDE ? "stepped-aside" :
	       r->header.state == RECORDING_ENDED ? "ended" :
	       r->alive                           ? "running" :
						    "died"; // it never said that it ended
}

/** How the recorder held the process for its supervisor, after a fault. */
static void walk_hold(struct recording_sheet *w)
{
	static const char *const states[] = { [REC_HOLD_NONE] = "none",
					      [REC_HOLD_ASKED] = "asked",
					      [REC_HOLD_WRITING] = "writing",
					      [REC_HOLD_HELD] = "held",
					      [REC_HOLD_RELEASED] = "released",
					      [REC_HOLD_EXPIRED] = "expired",
					      [REC_HOLD_UNANSWERED] = "unanswered" };
	static const struct column core[] = { { "hold.core", "  GPU core: " } };
	const struct rec_header *h = &w->r->header;
	struct sheet *s = &w->sheet;
	const bool known = h->holds && h->hold <= REC_HOLD_UNANSWERED;
	if (!sheet_object(s, "hold", known ? h : NULL))
		return;
	sheet_put(s, "number", v_number(h->holds));
	sheet_put(s, "state", v_word(states[h->hold]));
	sheet_put(s, "why", v_word(call_name(h->hold_why)));
	sheet_put(s, "core", v_known(w->r->core));
	sheet_close(s, '}');
	if (w->r->core.n)
		sheet_line(s, 0, COLUMNS(core));
}

/** All times in the text are as of the end, which may be long ago. */
static void say_end(struct recording_sheet *w)
{
	struct text date = { 0 };
	prose_date(&date, (struct stamp){ TIME_WALL, recording_time(w->r, w->r->now) });
	if (date.n)
		sheet_say_safe(&w->sheet, "  The recording ends at ", text_str(&date), ". Times below are as of then.\n");
	text_free(&date);
}

void walk_head(struct recording_sheet *w, const struct recording_seen *seen)
{
	static const struct column title[] = { { "program" },         { "pid", " (pid " },
					       { "rank", ", rank " }, { "whose", ", user " },
					       { "close" },           { "host", " on " },
					       { "state", ": " },     { "level", ", level " } };
	const struct flight_recording *r = w->r;
	struct sheet *s = &w->sheet;
	sheet_put(s, "path", v_text(seen->path));
	sheet_put(s, "program", v_known(r->program));
	sheet_put(s, "command", v_known(r->command));
	sheet_put(s, "pid", v_number(r->header.pid));
	sheet_put(s, "rank", v_count(r->header.rank));
	sheet_put(s, "user", v_number(seen->user));
	sheet_note(s, "whose", v_count(seen->other ? seen->user : -1));
	sheet_note(s, "close", v_word(")"));
	sheet_put(s, "host", v_known(r->host));
	sheet_put(s, "boot_id", v_known(r->boot_id));
	sheet_put(s, "state", v_word(state_of(r)));
	sheet_put(s, "level", v_number(r->header.level));
	sheet_put(s, "max_level", v_number(r->header.max_level));
	sheet_put(s, "note", v_known(r->note));
	put_time(w, "started", r->header.start.ticks);
	put_time(w, "last", r->now);
	sheet_put(s, "torn", v_number(r->torn));
	sheet_put(s, "gap", v_known(recording_gap(r) ? str_z(recording_gap(r)) : (struct str){ 0 }));
	sheet_put(s, "lost_names", v_number(r->header.lost_names));
	sheet_put(s, "lost_allocations", v_number(r->lost_allocations));
	sheet_put(s, "allocations", v_number(r->nallocations));
	sheet_put(s, "kernels", v_number(r->nkernels));
	sheet_line(s, 0, COLUMNS(title));
	if (!r->alive)
		say_end(w);
	walk_hold(w);
	if (r->note.n)
		sheet_say_safe(s, "  ", r->note, "\n");
	if (r->torn)
		sheet_say(s, "  %llu record%s half written and left out.\n", (unsigned long long)r->torn,
			  r->torn == 1 ? " was" : "s were");
}

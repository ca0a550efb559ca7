// Artefacts inside of a log: where one begins, its reader is opened and gets every line until it has ended. A line that it does not
// take is one of the log, because several processes write into one.
#include <stdlib.h>

#include "evidence/log/parts.h"

static void note_kind(struct log_reader *r, const char *kind)
{
	for (size_t i = 0; i < r->nkinds; i++)
		if (!strcmp(r->kinds[i], kind))
			return;
	if (r->nkinds < LOG_KINDS)
		r->kinds[r->nkinds++] = kind;
}

void log_artefact_end(struct log_reader *r)
{
	if (r->artefact)
		r->artefact->close(r->artefact_self);
	r->artefact = NULL;
	r->artefact_self = NULL;
	r->strangers = 0;
}

/** A dump has no times; it happened after the last line before it that has one. */
static void find_artefact_time(struct log_reader *r, const struct line_at *c, struct logline *line)
{
	LINE_ROOM(clean);
	struct logline before;
	struct line_at previous;
	r->artefact_time = (struct stamp){ 0 };
	if (line->stamps.found || !r->stamped || !log_stamped_before(r, c, TRACEBACK_LINES, &clean, &before, &previous) ||
	    before.stamps.delta)
		return;
	log_settle_time(r, &before.stamps);
	r->artefact_time = line->stamps.best = before.stamps.best;
	line->stamps.found = line->stamps.borrowed = true;
}

bool log_artefact_line(struct log_reader *r, const struct line_at *c, uint64_t number)
{
	LINE_ROOM(clean);
	_lifetime_ lent = { 0 };
	struct str raw = lifetime_begin(&lent, (struct str){ c->window->bytes + c->begin, c->end - c->begin });
	struct logline line = { 0 };
	struct place at = { r->source, number };
	// Most lines begin nothing, and none of the driver's does, so that it is asked before the line is taken apart.
	if (!r->artefact && (str_find(raw, S("amdgpu")) >= 0 || str_find(raw, S("[drm")) >= 0 || !recognise_artefact(raw)))
		return false;
	line_parse_front(r->know, line_clean(raw, &clean), &line);
	if (!line.stamps.found && r->artefact && r->artefact_time.clock != TIME_NONE) {
		line.stamps.best = r->artefact_time;
		line.stamps.found = line.stamps.borrowed = true;
	}
	enum taken taken = r->artefact ? r->artefact->line(r->artefact_self, &line, at) : TAKEN_NO;
	if (taken == TAKEN_YES)
		r->strangers = 0;
	if (taken != TAKEN_NO)
		return taken == TAKEN_YES;
	const struct artefact_reader *begins = recognise_artefact(line.text);
	begins = begins ? begins : recognise_artefact(line.message);
	if (!begins) {
		if (r->artefact && ++r->strangers > r->artefact->patience)
			log_artefact_end(r);
		return false;
	}
	log_artefact_end(r);
	find_artefact_time(r, c, &line);
	const struct artefact_output out = log_output(r);
	r->artefact = begins;
	r->artefact_self = begins->open(&out);
	note_kind(r, begins->kind);
	return begins->line(r->artefact_self, &line, at) == TAKEN_YES;
}

size_t log_artefact_walk(struct log_reader *r, const struct window *w, size_t begin, uint64_t line, uint64_t offset)
{
	while (begin < w->to && r->artefact) {
		size_t next;
		struct str raw = log_raw_line(w, begin, &next);
		struct line_at c = { w, begin, begin + raw.n, offset };
		if (offset + begin >= r->consumed && !log_artefact_line(r, &c, r->lines + line + 1))
			log_candidate(r, &c, r->lines + line + 1);
		line++;
		begin = next;
	}
	return begin;
}

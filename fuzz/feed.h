// What the fuzz targets and the tests of the readers share: lines into a reader, and what must be true of each event.
#pragma once

#include <math.h>
#include <stdlib.h>

#include "evidence/artefact.h"

/** Reads every byte, so that AddressSanitizer sees what is no longer there. */
static inline bool feed_readable(struct str s)
{
	unsigned sum = 0;
	for (size_t i = 0; i < s.n; i++)
		sum += (unsigned char)s.p[i];
	return sum <= s.n * 255;
}

/** What is wrong with the event, or NULL. */
static inline const char *feed_complaint(const struct event *e)
{
	if (!e->signature)
		return "no signature";
	if (!isfinite(e->time.seconds))
		return "no time";
	if (e->nfacts > EVENT_FACTS)
		return "too many facts";
	if (!feed_readable(e->device) || !feed_readable(e->driver) || !feed_readable(e->text) || !feed_readable(e->boot_id) ||
	    !feed_readable(e->host))
		return "a text";
	for (size_t i = 0; i < e->nfacts; i++) {
		const struct fact *f = &e->facts[i];
		if (!f->name.n || !f->value.n || !feed_readable(f->name) || !feed_readable(f->value))
			return "a fact without name or value";
		if (f->type > FACT_TRUE)
			return "a fact of no type";
	}
	for (size_t i = 0; i < e->dump.registers.len; i++) {
		const struct wave_register *r = &e->dump.registers.data[i];
		if (!r->name.n || !feed_readable(r->name) || !feed_readable(r->group) || (r->n && !r->data) ||
		    r->n > WAVE_LANES || r->digits > 16)
			return "a register without name or lanes";
	}
	if (e->dump.nvalues && !e->dump.values)
		return "values that are not there";
	for (size_t i = 0; i < e->dump.nvalues; i++) {
		const struct values *v = &e->dump.values[i];
		uint64_t sum = 0;
		if (v->n && !v->data)
			return "values without data";
		if (!v->name.n || !feed_readable(v->name) || !feed_readable(v->group))
			return "values without a name";
		for (size_t n = 0; n < v->n; n++)
			sum |= v->data[n];
		if (v->digits > 16 || (v->n && !v->digits && sum))
			return "values without digits";
	}
	if ((e->dump.naccesses && !e->dump.accesses) || (e->dump.nmap && !e->dump.map))
		return "accesses or a map that are not there";
	for (size_t i = 0; i < e->dump.naccesses; i++)
		if (!e->dump.accesses[i].instruction.n || !feed_readable(e->dump.accesses[i].instruction))
			return "an access without its instruction";
	return NULL;
}

/** A line as the log reader hands it on; in a sanitized build its bytes have exactly its size, and are gone after the call. */
static inline bool feed_line(const struct artefact_reader *r, void *self, const struct know *k, struct str raw, struct place at)
{
	LINE_ROOM(room);
	struct logline line = { 0 };
	line_parse(k, line_clean(raw, &room), &line);
	return r->line(self, &line, at);
}

static inline void feed_lines(const struct artefact_reader *r, const struct artefact_output *out, struct str text)
{
	void *self = artefact_open(r, out);
	for (uint64_t n = 1; text.n; n++)
		feed_line(r, self, out->know, str_split(&text, '\n'), (struct place){ out->source, n });
	artefact_close(r, self);
}

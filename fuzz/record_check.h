// What holds of every record of /dev/kmsg, whatever its bytes are.
#pragma once

#include <stdlib.h>

#include "evidence/log/log.h"
#include "evidence/log/words.h"
#include "source/source.h"

struct record_seen {
	const struct source_record *record;
	bool forged; // a user wrote the text
};

static void record_check_event(void *ctx, const struct event *e)
{
	const struct record_seen *seen = ctx;
	const struct source_note *by = &seen->record->by;
	if (!e->signature)
		return;
	if (by->writer == WRITER_INTO_LOG || (seen->forged && by->writer == WRITER_KERNEL))
		abort();
	const bool context = e->signature->event && e->signature->event->opens == OPENS_CONTEXT;
	if (by->writer == WRITER_KERNEL && !context && !e->unattested && !by->subsystem.n)
		abort();
}

static void record_check_read(const struct know *k, const struct log_words *words, const struct source_record *r, bool forged)
{
	struct record_seen seen = { r, forged };
	struct log_reader *log =
		log_reader_new(k, 0, S("/dev/kmsg"), NULL, words, (struct event_sink){ record_check_event, &seen });
	log_reader_live(log);
	log_reader_record(log, r);
	log_reader_end(log);
	log_reader_free(log);
}

/** A program's record tells nothing; what is attested carries a device; and the same words behind another's beginning are nobody's. */
static void record_check(const struct know *k, const struct log_words *words, struct str bytes)
{
	struct source_record r = source_kmsg_record(bytes);
	if (r.text.n + r.by.subsystem.n + r.by.device.n > bytes.n)
		abort();
	record_check_read(k, words, &r, false);
	struct text line = { 0 };
	text_add(&line, S("tmpfs: Unknown parameter '"));
	text_add(&line, r.text);
	r.text = text_str(&line);
	record_check_read(k, words, &r, true);
	text_free(&line);
}

#include "watch/eye.h"

#include <sys/prctl.h>
#include <unistd.h>

#include "base/lower.h"
#include "source/process.h"

enum {
	JOURNAL_MS = 10000,
	JOURNAL_MOST = 32 << 20,
	TEXT_MOST = 1800, // the kernel's own have 1 KB; each byte may take four
	BOOT_DIGITS = 32,
	SECOND_US = 1000000,
	BACK_US = 600 *
		  SECOND_US, // an incident may have begun before the place; and the journal's clock is not quite the kernel's
};

/** As a place keeps it. */
static int64_t microseconds(const struct source_record *r) { return (int64_t)(r->boot_seconds * SECOND_US); }

// --- a record, on its way from the journal's reader to the mind ---

/** As the kernel writes it, so that nobody can write a line of notes. */
static void add_escaped(struct text *to, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
			text_printf(to, "\\x%02x", (unsigned char)s.p[i]);
		else
			text_add(to, (struct str){ s.p + i, 1 });
}

void kept_text(struct str boot_id, const struct source_record *r, struct text *to)
{
	const unsigned priority = r->by.writer == WRITER_KERNEL ? 3 : 8 | 3;
	text_printf(to, STR_FMT " %lld\n%u,0,%lld,-;", STR_ARG(boot_id),
		    r->wall_seconds < 0 ? -1LL : (long long)(r->wall_seconds * SECOND_US), priority,
		    (long long)(r->boot_seconds * SECOND_US + 0.5));
	add_escaped(to, str_cut(r->text, TEXT_MOST));
	text_add(to, S("\n SUBSYSTEM="));
	add_escaped(to, r->by.subsystem);
	text_add(to, S("\n DEVICE="));
	add_escaped(to, r->by.device);
	text_add(to, S("\n"));
}

bool kept_parse(struct str text, struct kept_record *ret)
{
	struct str head = str_split(&text, '\n');
	*ret = (struct kept_record){ .boot_id = str_split(&head, ' '), .record = source_kmsg_record(text) };
	return str_number(head, &ret->wall_us) && ret->boot_id.n && ret->record.boot_seconds >= 0;
}

// --- the reader of the journal ---

struct journal_reading {
	int to;
	const struct gap *gap;
};

/** 32 digits become those of /proc: 8-4-4-4-12. */
static struct str with_dashes(struct str id, char *room)
{
	size_t n = 0;
	for (size_t i = 0; i < BOOT_DIGITS; i++) {
		if (i == 8 || i == 12 || i == 16 || i == 20)
			room[n++] = '-';
		room[n++] = id.p[i];
	}
	return (struct str){ room, n };
}

static void on_record(void *ctx, const char *name, const struct source_record *r)
{
	const struct journal_reading *reading = ctx;
	const struct gap *g = reading->gap;
	char room[BOOT_DIGITS + 4];
	struct text text = { 0 };
	if (!name || !r || r->boot_id.n != BOOT_DIGITS || r->boot_seconds < 0)
		return;
	const struct str boot = with_dashes(r->boot_id, room);
	const int64_t us = microseconds(r);
	if (str_is(boot, g->boot_id) && us >= g->end_us) {
		if (us > g->end_us + SECOND_US) // records of several CPUs may be a little out of order
			_exit(0);
		return;
	}
	kept_text(boot, r, &text);
	eye_send(reading->to, EYE_KEPT, text_str(&text));
	text_free(&text);
}

static void read_journal(int to, const void *ctx)
{
	const struct gap *g = ctx;
	struct journal_reading reading = { to, g };
	const struct source_visitor v = { .record = on_record, .ctx = &reading };
	prctl(PR_SET_NAME, "unhang-journal");
	child_keep_only(to);
	if (lower_keeping(LOWER_NOGROUP, LOWER_READS_FILES))
		uh_error_free(source_journal_since(g->from.boot_id, g->from.microseconds - BACK_US, g->boot_id, &v));
}

// --- in the eye ---

bool gap_begin(const struct store_place *from, struct str first, struct gap *ret)
{
	char room[64];
	const uint64_t sequence = source_kmsg_sequence(first);
	*ret = (struct gap){ .from = *from, .reader.fd = -1, .deadline = now_ms() + JOURNAL_MS };
	str_copy(ret->boot_id, sizeof(ret->boot_id),
		 str_trim(small_file("/proc/sys/kernel/random/boot_id", room, sizeof(room))));
	const struct source_record record = source_kmsg_record(first);
	ret->end_us = microseconds(&record);
	const bool same = str_is(str_z(from->boot_id), ret->boot_id);
	const uint64_t read = same ? from->sequence : 0;
	ret->missing = sequence > read + 1 ? sequence - read - 1 : 0;
	if (!from->boot_id[0] || !ret->boot_id[0] || (same && !ret->missing))
		return false;
	if (!child_begin_free(read_journal, ret, &ret->reader))
		ret->reader.pid = 0; // then the journal has nothing
	return true;
}

/** Whether it is one of those that /dev/kmsg lacks. */
static bool fills(const struct gap *g, struct str text)
{
	struct kept_record kept;
	if (!kept_parse(text, &kept) || !str_is(kept.boot_id, g->boot_id))
		return false;
	return !str_is(str_z(g->from.boot_id), g->boot_id) || microseconds(&kept.record) > g->from.microseconds;
}

void gap_send(struct gap *g, int to)
{
	struct text all = { 0 };
	struct eye_frame frame;
	uint64_t filled = 0;
	bool wrong;
	if (g->reader.pid > 0) {
		child_wait(&g->reader, g->deadline, JOURNAL_MOST, &all); // what came in time counts
		child_kill(&g->reader, 0);
	}
	for (struct str rest = text_str(&all); eye_take(&rest, &frame, &wrong);) {
		filled += fills(g, frame.text);
		eye_send(to, EYE_KEPT, frame.text);
	}
	if (filled < g->missing)
		eye_send(to, EYE_GAP, (struct str){ 0 });
	text_free(&all);
}

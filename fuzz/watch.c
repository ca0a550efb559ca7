// Fuzzes what the watch reads of others: records of incidents, configurations, uevents, what the log reader and the pulse send, and /proc.
#include <stdint.h>
#include <stdlib.h>

#include "source/kfd/events.h"
#include "store/store.h"
#include "watch/answer.h"
#include "watch/kernel_log.h"
#include "watch/progress.h"
#include "watch/pulse/holds.h"
#include "watch/pulse/pulse.h"
#include "watch/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore(void *ctx, const char *message)
{
	(void)ctx;
	(void)message;
}

/** A record that was read is written and read in the same way. */
static void check_record(struct str bytes)
{
	struct arena a = { 0 };
	struct stored first, second;
	struct text text = { 0 }, again = { 0 };
	if (stored_parse(bytes, &a, &first)) {
		stored_text(&first, &text);
		if (!stored_parse(text_str(&text), &a, &second))
			abort();
		stored_text(&second, &again);
		if (!str_eq(text_str(&text), text_str(&again)))
			abort();
	}
	text_free(&text);
	text_free(&again);
	arena_free(&a);
}

/** What KFD tells is handed on and read in the same way. */
static void check_kfd(struct str bytes)
{
	struct kfd_lines lines = { 0 };
	struct kfd_told told = { .pci = S("0000:03:00.0"), .pid = 1, .process = S("x") }, again;
	kfd_told_parse(bytes, &again);
	while (kfd_event_take(&lines, &bytes, &told.event)) {
		struct text text = { 0 };
		kfd_told_text(&told, &text);
		if (told.event.kind && (!kfd_told_parse(text_str(&text), &again) || again.event.number != told.event.number ||
					!str_eq(again.event.text, told.event.text)))
			abort();
		text_free(&text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = { (const char *)data, size };
	struct watch_settings s = { 0 };
	struct notice frame;
	struct uevent u;
	bool wrong;
	check_record(bytes);
	settings_parse(&s, "fuzz", bytes, ignore, NULL);
	settings_free(&s);
	uevent_parse(bytes, &u);
	struct kept_record kept;
	kept_parse(bytes, &kept);
	struct hold_told told;
	struct hold_task task;
	hold_told_parse(bytes, &told);
	hold_task_parse(bytes, &task);
	struct process_stat stat;
	char job[80];
	static const struct know nothing;
	struct gpu_progress p;
	process_stat_parse(bytes, &stat);
	process_job(bytes, job, sizeof(job));
	progress_begin(&p, &nothing);
	progress_take(&p, bytes, size & 1, 0);
	progress_take(&p, bytes, !(size & 1), 1000);
	progress_judge(&p, 2000);
	if (pulse_interrupts(bytes, S("1\n22")) < -1)
		abort();
	check_kfd(bytes);
	while (notice_take(&bytes, &frame, &wrong))
		uevent_parse(frame.text, &u);
	return 0;
}

// What goes wrong on the GPU as the runtime tells it: memory faults and errors of queues. Both are written down before the runtime ends
// the program.
#include "recorder/recorder.h"
#include "recorder/waits/waits.h"

enum { SETTLE_MS = 20, EVENT_SHUTDOWN = 3 };

/** A GPU takes a packet before its doorbell is rung, so that a fault may come before its packet is recorded: its producer gets a little
 * time, and what it did not record is. */
static void settle(void)
{
	sample();
	nanosleep(&(struct timespec){ .tv_nsec = SETTLE_MS * 1000000 }, NULL);
	sample();
}

static hsa_status fault(const struct hsa_event *event, void *data)
{
	(void)data;
	// ROCm 7 calls handlers at its end, too, with nothing in the event but that.
	if (event && event->type < EVENT_SHUTDOWN && atomic_load(&rec.on)) {
		event_at(thread_here(), CALL_FAULT, rec_ticks(), event->type,
			 (const uint64_t[4]){ event->address, event->reasons, event->agent });
		waits_failed();
		settle();
		hold(CALL_FAULT);
	}
	// An error lets the runtime go on to its own message and its end.
	return HSA_ERROR;
}

void queue_failed(hsa_status status, struct hsa_queue *queue, void *data)
{
	(void)data;
	if (!atomic_load(&rec.on))
		return;
	event_at(thread_here(), CALL_QUEUE_ERROR, rec_ticks(), status, (const uint64_t[4]){ (uintptr_t)queue, status });
	waits_failed();
	settle();
	hold(CALL_QUEUE_ERROR);
}

void faults_watch(void)
{
	hsa_status (*watch)(event_handler_fn *, void *) =
		(hsa_status(*)(event_handler_fn *, void *))next.ext[EXT_EVENT_HANDLER];
	if (watch && watch(fault, NULL) != HSA_OK)
		rec_line("the runtime takes no handler for faults; their addresses are not recorded");
}

// Kernels that a debugger saw in flight: which of them wait for each other in one workspace, and which do not come to
// an end.
#include "diagnose/incident.h"

static void mark(struct incident *i, struct diag_event *e, const char *name) { diag_conclude(i, e, name, S("yes")); }

static bool counts_in_workspace(const struct diag_event *e)
{
	return e->kind->tells == TELLS_IN_FLIGHT && str_is(diag_value(e, "workspace"), "shared") && diag_fact(e, "full_fence");
}

/** Two that count in a shared workspace, on different queues, each with a full fence. */
static void find_deadlock(struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *a = i->events.data[n];
		for (size_t m = n + 1; m < i->events.len && counts_in_workspace(a); m++) {
			struct diag_event *b = i->events.data[m];
			if (!counts_in_workspace(b) || str_eq(diag_value(a, "queue"), diag_value(b, "queue")))
				continue;
			mark(i, a, "shared_workspace");
			mark(i, b, "shared_workspace");
		}
	}
}

/** A kernel does not end if its queue waits behind it, or if a thread or the server waits for it. */
static void find_stall(struct incident *i)
{
	bool waited_for = false;
	for (size_t n = 0; n < i->events.len; n++)
		waited_for |= i->events.data[n]->kind->waits;
	for (size_t n = 0; n < i->events.len && waited_for; n++)
		if (i->events.data[n]->kind->tells == TELLS_IN_FLIGHT)
			mark(i, i->events.data[n], "stalled");
}

/** The runtime prints a packet's kernel on the line before the packet. */
void packets_name(struct incident *i)
{
	for (size_t n = 1; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n], *before = i->events.data[n - 1];
		const struct fact *name = diag_fact(before, "kernel_name");
		if (e->kind->tells == TELLS_PACKET && before->kind->tells == TELLS_PACKET_KERNEL && name &&
		    !diag_fact(e, "kernel_name"))
			diag_conclude(i, e, "kernel_name", name->value);
	}
}

void dispatches_explain(struct incident *i)
{
	find_deadlock(i);
	find_stall(i);
}

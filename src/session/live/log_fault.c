// Which page fault the log of this machine has: the log is explained as `unhang explain` does it, and the fault is in the incident.
#include "session/live/log_fault.h"

#include "session/session.h"

const struct diag_event *incident_fault(const struct incident *i)
{
	if (i->root && diag_fact(i->root, "fault_address"))
		return i->root;
	for (size_t n = 0; n < i->events.len; n++)
		if (diag_fact(i->events.data[n], "fault_address"))
			return i->events.data[n];
	return NULL;
}

static int64_t fault_number(const struct diag_event *e, const char *name)
{
	const struct fact *f = diag_fact(e, name);
	int64_t n = 0;
	return f && str_number(f->value, &n) && n > 0 ? n : 0;
}

static struct str fault_text(struct arena *a, const struct diag_event *e, const char *name)
{
	const struct fact *f = diag_fact(e, name);
	return f ? arena_str(a, f->value) : (struct str){ 0 };
}

static void take_fault(struct uh_session *s, const struct incident *i, const struct diag_event *e, struct arena *a, struct memory_fault *ret)
{
	const struct fact *address = diag_fact(e, "fault_address"), *write = diag_fact(e, "rw");
	double when = 0;
	*ret = (struct memory_fault){ .incident = arena_str(a, i->id),
				      .pci = arena_str(a, e->device.n ? e->device : i->gpu.device),
				      .process = fault_text(a, e, "process"),
				      .client = fault_text(a, e, "fault_client"),
				      .rw = write ? arena_str(a, write->value) : (struct str){ 0 },
				      .pid = fault_number(e, "pid"),
				      .vmid = (unsigned)fault_number(e, "vmid"),
				      .pasid = (uint32_t)fault_number(e, "pasid"),
				      .boot_seconds = e->time.clock == TIME_BOOT ? e->time.seconds : -1 };
	str_hex(str_starts(address->value, S("0x")) ? str_from(address->value, 2) : address->value, &ret->address);
	if (told_when(s->evidence, e->at.source, e->time, s->told.now, &when))
		ret->when = (int64_t)when;
}

bool incident_fault_later(const struct diag_event *a, const struct diag_event *b)
{
	return a->time.clock == b->time.clock ? a->time.seconds > b->time.seconds : a->time.clock == TIME_WALL;
}

struct uh_error *log_fault_find(const char *incident, const struct teller *t, struct arena *a, struct memory_fault *ret)
{
	struct uh_session *s = uh_session_new(t->problem, t->ctx);
	const struct incident *best = NULL;
	const struct diag_event *at = NULL;
	struct uh_error *err = NULL;
	bool any = false, named = false;
	uh_session_add_newest(s, NULL);
	uh_session_end(s);
	for (size_t n = 0; n < s->ledger.incidents.len; n++) {
		const struct incident *i = s->ledger.incidents.data[n];
		const struct diag_event *e = incident_fault(i);
		const bool wanted = !incident || str_starts(i->id, str_z(incident));
		named |= wanted;
		any |= wanted && e;
		if (wanted && e && i->this_boot && (!at || incident_fault_later(e, at))) {
			best = i;
			at = e;
		}
	}
	if (at)
		take_fault(s, best, at, a, ret);
	else if (incident && !named)
		err = uh_error_new("the log of this machine has no incident %s", incident);
	else if (any)
		err = uh_error_new("that page fault was before this machine was started: its address space is gone");
	else
		err = uh_error_new(incident ? "incident %s has no page fault" : "the log of this machine has no page fault of a GPU",
				   incident ? incident : "");
	uh_session_free(s);
	return err;
}

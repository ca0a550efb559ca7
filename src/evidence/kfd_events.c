// What KFD told the watch, as an event like those of the log.
#include "evidence/artefact.h"
#include "evidence/reader.h"

bool kfd_told_event(const struct know *k, const struct kfd_told *t, struct arena *a, struct event *ret)
{
	const struct artefact_output out = { .know = k };
	const bool fault = t->event.kind == KFD_PAGE_FAULT;
	if (!artefact_event(&out, fault ? "kfd-page-fault" : "kfd-reset-begin", (struct place){ 0 }, ret))
		return false;
	ret->device = t->pci;
	ret->driver = S("amdgpu");
	if (fault) {
		event_add_text(ret, a, "process", t->process);
		event_add_number(ret, a, "pid", t->pid);
		event_add_text(ret, a, "thread", t->event.text);
		event_add_number(ret, a, "tid", (int64_t)t->event.number);
	}
	ret->text =
		arena_printf(a, fault ? "KFD: page fault of thread %llu (" STR_FMT ")" : "KFD: reset %llu begins (" STR_FMT ")",
			     (unsigned long long)t->event.number, STR_ARG(t->event.text));
	return true;
}

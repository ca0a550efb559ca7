// Who allocated and who launched, as a run with rows `trace` noted it (docs/RECORDING.md).
#include "evidence/recording/traces.h"

enum { TRACE_FRAMES = 32 };

struct str recording_trace(const struct flight_recording *r, struct trace_wanted of)
{
	uint64_t nearest = UINT64_MAX, found = 0;
	for (size_t i = 0; i < r->nevents; i++) {
		const struct rec_event *e = &r->events[i].raw;
		const uint64_t away = e->time > of.time ? e->time - of.time : of.time - e->time;
		if (e->call != CALL_TRACE || e->a[0] != of.what || e->a[1] != of.place || away >= nearest)
			continue;
		nearest = away;
		found = e->a[2];
	}
	return found && found <= r->nnames ? r->names[found - 1] : (struct str){ 0 };
}

struct str trace_say(struct module_names *names, struct arena *a, struct str text, size_t most)
{
	struct alloc_module *modules = arena_alloc(a, TRACE_FRAMES * sizeof(*modules));
	struct module_frame frames[TRACE_FRAMES];
	size_t n = 0;
	while (text.n && n < TRACE_FRAMES) {
		struct str path = str_split(&text, '\n');
		int64_t offset;
		if (!str_number(str_word(&path), &offset) || offset < 0)
			break;
		str_copy(modules[n].path, sizeof(modules[n].path), str_trim(path));
		frames[n] = (struct module_frame){ &modules[n], (uint64_t)offset };
		n++;
	}
	return frames_say(names, a, frames, n, most);
}

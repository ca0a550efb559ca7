// Messages of the kernel about devices (uevents): as the watch hears them, and as `udevadm monitor --property` prints them. Those that say
// that a GPU is wedged are events.
#include "evidence/artefact.h"
#include "evidence/reader.h"

void uevent_take(struct uevent *u, struct str key, struct str value)
{
	const struct {
		const char *key;
		struct str *value;
	} keys[] = { { "ACTION", &u->action }, { "DEVPATH", &u->path }, { "SUBSYSTEM", &u->subsystem },
		     { "WEDGED", &u->wedged }, { "TASK", &u->process }, { "PID", &u->pid } };
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (str_is(key, keys[i].key))
			*keys[i].value = value;
}

struct str uevent_pci(const struct uevent *u)
{
	struct str path = u->path, pci = { 0 };
	while (path.n) {
		struct str part = str_split(&path, '/');
		if (part.n && pci_length(part) == part.n)
			pci = part;
	}
	return pci;
}

bool uevent_event(const struct know *k, const struct uevent *u, struct arena *a, struct event *ret)
{
	const struct artefact_output out = { .know = k };
	const bool recovered = str_is(u->wedged, "none");
	int64_t pid;
	if (!u->wedged.n || !artefact_event(&out, recovered ? "uevent-wedged" : "uevent-wedged-lost", (struct place){ 0 }, ret))
		return false;
	ret->device = arena_str(a, uevent_pci(u));
	ret->driver = S("amdgpu");
	if (!recovered)
		event_add_text(ret, a, "wedged_method", u->wedged);
	event_add_text(ret, a, "process", u->process);
	if (str_number(u->pid, &pid) && pid > 0)
		event_add_number(ret, a, "pid", pid);
	ret->text = arena_printf(a, "uevent: WEDGED=" STR_FMT, STR_ARG(u->wedged));
	return true;
}

// --- what udevadm prints ---

enum { VALUES_MOST = 4096 }; // of one message: the kernel's own are no longer than 2048

struct udev_monitor {
	struct artefact_output out;
	struct arena arena; // of the message that is being read
	size_t kept;
	struct uevent now;
	struct place at;
	struct stamp time;
};

/** `KERNEL[512.300000] change   /devices/... (drm)`; udevd's own begin with `UDEV  [`. */
static bool udev_monitor_begins(struct str line)
{
	return (str_starts(line, S("KERNEL[")) || str_starts(line, S("UDEV  ["))) && str_find(line, S(" /devices/")) >= 0;
}

static void udev_monitor_tell(struct udev_monitor *m)
{
	struct event e;
	if (uevent_event(m->out.know, &m->now, &m->arena, &e)) {
		e.at = m->at;
		e.time = m->time;
		artefact_tell(&m->out, &e);
	}
	arena_free(&m->arena);
	m->kept = 0;
	m->now = (struct uevent){ 0 };
}

static enum taken udev_monitor_line(void *self, const struct logline *line, struct place at)
{
	struct udev_monitor *m = self;
	struct str value = line->text, key;
	if (udev_monitor_begins(value)) {
		udev_monitor_tell(m);
		m->at = at;
		m->time = stamps_read(m->out.know, str_from(value, (size_t)str_find(value, S("[")))).best;
		return TAKEN_YES;
	}
	key = str_split(&value, '=');
	if (key.n == line->text.n || memchr(key.p, ' ', key.n))
		return TAKEN_NO;
	if (m->kept + value.n <= VALUES_MOST) {
		m->kept += value.n;
		uevent_take(&m->now, key, arena_str(&m->arena, value));
	}
	return TAKEN_YES;
}

static void udev_monitor_close(void *self) { udev_monitor_tell(self); }

ARTEFACT_READER(udev_monitor, "udev-monitor", 0);

// --- What KFD told the watch, as an event like those of the log ---

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
	} else {
		event_add_text(ret, a, "reset_source", t->event.text);
	}
	ret->text =
		arena_printf(a, fault ? "KFD: page fault of thread %llu (" STR_FMT ")" : "KFD: reset %llu begins (" STR_FMT ")",
			     (unsigned long long)t->event.number, STR_ARG(t->event.text));
	return true;
}

// What the kernel log of this boot says of the machine: versions that no file has, and what the driver complained of.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "diagnose/doctor/doctor.h"
#include "evidence/reader.h"
#include "source/tape/tape.h"

enum { TAIL = 2 << 20, SEEN_MOST = 512 };

/** Where the log of the running system may lie in a tree; the first that is there. Those that go on over several boots come last. */
static const char *const logs[] = { "/var/log/dmesg",    "/dmesg.txt",        "/dmesg",
				    "/var/log/kern.log", "/var/log/messages", "/var/log/syslog" };
enum { LOGS = ARRAY_SIZE(logs) };

static bool is_refusal(int error) { return error == EACCES || error == EPERM; }

static void doctor_log_note_unread(struct host *h, struct str where) { host_note_unread(h, "the kernel log", where); }

enum said_of { OF_DEVICE, OF_PART, OF_MACHINE }; // the GPU that a line names, those of a PCI id, the machine
struct log_said {
	struct str signature, device, name, value, where;
	enum said_of of;
};

/** Facts of events, beside those that are context, and what the doctor calls them. */
static const struct {
	const char *event, *fact, *starts, *noted;
	enum said_of of;
} kept[] = {
	{ "firmware-missing", "firmware", "amdgpu/", "firmware_missing", OF_DEVICE },
	{ "kfd-refused", "kfd_device", "1002:", "kfd_refused", OF_PART },
	{ "resume-failed", "error", "", "resume_error", OF_DEVICE },
	{ "iommu-mode", "iommu_default", "", "iommu_default", OF_MACHINE },
};

struct log_look {
	struct host *h;
	const char *name;
	VEC(struct log_said) said;
};

static void doctor_log_remember(struct log_look *l, const struct event *e, struct str name, struct str value, enum said_of of)
{
	struct arena *a = &l->h->arena;
	if (l->said.len == SEEN_MOST)
		return;
	struct log_said one = { arena_str(a, e->signature->head.id),
				arena_str(a, e->device),
				arena_str(a, name),
				arena_str(a, value),
				arena_printf(a, "%s:%llu", l->name, (unsigned long long)e->at.line),
				of };
	vec_push(&l->said, one);
}

static void remember_fact(struct log_look *l, const struct event *e, struct str name, struct str value)
{
	const struct know_event *event = e->signature->event;
	for (size_t n = 0; n < ARRAY_SIZE(kept); n++)
		if (str_is(event->head.id, kept[n].event) && str_is(name, kept[n].fact)) {
			if (str_starts(value, str_z(kept[n].starts)))
				doctor_log_remember(l, e, str_z(kept[n].noted), value, kept[n].of);
			return;
		}
	if (event->opens == OPENS_CONTEXT)
		doctor_log_remember(l, e, name, value, OF_DEVICE);
}

/** A log may hold several boots: the last one counts. */
static void doctor_log_on_event(void *ctx, const struct event *e)
{
	struct log_look *l = ctx;
	if (!e->signature || !e->signature->event)
		return;
	const struct know_event *event = e->signature->event;
	if (str_is(event->head.id, "kernel-boot"))
		l->said.len = 0;
	doctor_log_remember(l, e, (struct str){ 0 }, (struct str){ 0 }, OF_DEVICE);
	for (size_t n = 0; n < e->nfacts; n++)
		remember_fact(l, e, e->facts[n].name, e->facts[n].value);
}

static struct host_item *item_of(struct host *h, struct str device)
{
	struct host_item *only = NULL;
	size_t gpus = 0;
	for (size_t n = 0; n < h->items.len; n++) {
		struct host_item *i = h->items.data[n];
		if (!str_is(i->kind, "gpu"))
			continue;
		if (str_eq(i->gpu->pci, device))
			return i;
		only = i;
		gpus++;
	}
	return gpus == 1 ? only : host_machine(h);
}

static void note_gap(struct log_look *l, struct host_item *i, const struct log_said *s)
{
	bool doubt = l->h->doubt;
	l->h->doubt |= i->doubt;
	if (!host_fact(l->h, i, s->name, 0))
		host_note(l->h, i, arena_z(&l->h->arena, s->name), s->value, s->where);
	l->h->doubt = doubt;
}

/** KFD names a GPU by its PCI id. If several have that id, it means those that KFD lacks, provided that is known for all of them. */
static void note_part(struct log_look *l, const struct log_said *s)
{
	struct host *h = l->h;
	_cleanup_vec_ VEC(struct host_item *) meant = { 0 };
	bool sure = true;
	for (size_t n = 0; n < h->items.len; n++) {
		struct host_item *i = h->items.data[n];
		struct str id = str_from(s->value, sizeof("1002:") - 1);
		uint64_t device;
		if (!str_is(i->kind, "gpu") || !str_hex(id, &device) || device != i->gpu->device)
			continue;
		const struct host_fact *kfd = host_fact(h, i, S("kfd"), 0);
		sure &= kfd != NULL;
		if (!kfd || str_is(kfd->value, "no"))
			vec_push(&meant, i);
	}
	for (size_t n = 0; n < meant.len && (sure || meant.len == 1); n++)
		note_gap(l, meant.data[n], s);
}

/** What files say weighs more than what the log says, which only fills gaps. */
static void note_said(struct log_look *l)
{
	l->h->doubt = host_machine(l->h)->doubt;
	for (size_t n = 0; n < l->said.len; n++) {
		const struct log_said *s = &l->said.data[n];
		struct host_item *i = s->of == OF_MACHINE ? host_machine(l->h) : item_of(l->h, s->device);
		if (!s->name.n && !host_says(i, "log", s->signature))
			host_note(l->h, i, "log", s->signature, s->where);
		else if (s->name.n && s->of == OF_PART)
			note_part(l, s);
		else if (s->name.n)
			note_gap(l, i, s);
	}
}

// --- the log of a tree ---

struct memory {
	struct str left;
};

static ssize_t doctor_log_read_memory(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	(void)ret_err;
	struct memory *m = s->ctx;
	size_t n = m->left.n < size ? m->left.n : size;
	if (n)
		memcpy(buffer, m->left.p, n);
	m->left = str_from(m->left, n);
	return (ssize_t)n;
}

/** The last megabytes of the tree's first log that is not empty. @ret_refused: if there is none, a log that may not be read; else NULL. */
static struct str tree_log(struct host *h, const char **ret_name, const char **ret_refused)
{
	struct probe probes[LOGS];
	for (size_t n = 0; n < LOGS; n++)
		probes[n] = (struct probe){ .path = logs[n], .size = TAIL, .from_end = true };
	h->doubt = false;
	host_probe(h, probes, LOGS);
	host_machine(h)->doubt |= h->doubt;
	for (size_t n = 0; n < LOGS; n++) {
		*ret_name = logs[n];
		if (probe_text(&probes[n]).n)
			return probe_text(&probes[n]);
		if (probes[n].end == PROBE_FAILED && is_refusal(probes[n].error))
			*ret_refused = logs[n];
	}
	return (struct str){ 0 };
}

static void doctor_log_on_record(void *ctx, const char *name, const struct source_record *record)
{
	evidence_record(ctx, name, record);
}
static void doctor_log_on_problem(void *ctx, struct uh_error *err)
{
	(void)ctx;
	uh_error_free(err);
}
static void doctor_log_on_visit(void *ctx, struct source *s)
{
	(void)ctx;
	(void)s;
}

/** @refused: a file of the tree that may not be read; NULL. */
static void doctor_log_read_journal(struct evidence_reader *r, struct host *h, const char *refused)
{
	const struct source_visitor v = {
		.visit = doctor_log_on_visit, .record = doctor_log_on_record, .problem = doctor_log_on_problem, .ctx = r
	};
	if (h->root && !host_answers(h, "/var/log/journal")) {
		host_machine(h)->doubt = true;
		return;
	}
	if (tape_plays(h->tape)) {
		if (!tape_play_log(h->tape, TAPE_LOG_BOOT, &v) && !tape_play_log(h->tape, TAPE_LOG_BUFFER, &v))
			doctor_log_note_unread(h, S("/dev/kmsg"));
		return;
	}
	struct uh_error *err = source_journal(h->root, 0, &v);
	if (err && !h->root && err->errnum != EBADMSG) {
		uh_error_free(err);
		err = source_kmsg("/dev/kmsg", &v);
	}
	if (err && (refused || is_refusal(err->errnum)))
		doctor_log_note_unread(h, refused ? str_z(refused) : h->root ? S("/var/log/journal") : S("/dev/kmsg"));
	door_forget(err); // no log is no finding here
}

void doctor_read_log(struct host *h)
{
	struct log_look l = { .h = h, .name = "journal" };
	struct evidence_reader *r = evidence_reader_new(h->know, (struct event_sink){ doctor_log_on_event, &l });
	struct memory m = { 0 };
	const char *refused = NULL;
	if (h->root)
		m.left = tree_log(h, &l.name, &refused);
	if (m.left.n) {
		struct source s = { .name = l.name, .read = doctor_log_read_memory, .ctx = &m };
		uh_error_free(evidence_read(r, &s));
	} else {
		l.name = "journal";
		doctor_log_read_journal(r, h, refused);
	}
	note_said(&l);
	evidence_reader_free(r);
	vec_free(&l.said);
}

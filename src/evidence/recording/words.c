// What a recording holds, in words.
#include <stdio.h>

#include "base/bytes.h"
#include "evidence/recording/recording.h"
#include "gpu/memory/map.h"

enum { WORDS_MOST = 64 };

struct str seconds_say(struct arena *a, double s)
{
	return s < 1e-3 ? arena_printf(a, "%.0f us", s * 1e6) :
	       s < 1    ? arena_printf(a, "%.0f ms", s * 1e3) :
	       s < 120  ? arena_printf(a, "%.1f s", s) :
	       s < 7200 ? arena_printf(a, "%.0f min", s / 60) :
			  arena_printf(a, "%.1f h", s / 3600);
}

struct str thread_say(struct arena *a, const struct flight_recording *r, uint16_t slot)
{
	const struct recorded_thread *t = recording_thread(r, slot);
	return t ? arena_printf(a, "%u (" STR_FMT ")", t->raw.tid, STR_ARG(t->name)) : (struct str){ 0 };
}

static void add_age(struct text *t, struct arena *a, const struct flight_recording *r, const char *before, uint64_t since,
		    uint64_t until)
{
	if (since && until > since)
		text_printf(t, "%s" STR_FMT, before, STR_ARG(seconds_say(a, (double)(until - since) / r->rate)));
}

static void add_by(struct text *t, struct arena *a, const struct flight_recording *r, uint16_t slot)
{
	struct str who = thread_say(a, r, slot);
	if (who.n)
		text_printf(t, " by thread " STR_FMT, STR_ARG(who));
}

/** Where the address lies, without the allocation's story. */
static void add_place(struct text *t, struct arena *a, const struct flight_recording *r, const struct nearby *n)
{
	const struct recorded_allocation *m = n->allocation;
	const char *noun = allocation_noun(a, r, m);
	struct str size = map_size_say(a, m->size), distance = map_size_say(a, n->distance);
	const unsigned long long begin = m->begin;
	switch (n->relation) {
	case NEAR_INSIDE:
	case NEAR_FREED:
		text_printf(t, "%s the %s" STR_FMT " %s at 0x%llx", n->distance ? "inside" : "at the begin of",
			    n->relation == NEAR_FREED ? (m->call == CALL_MAP ? "unmapped " : "freed ") : "", STR_ARG(size),
			    noun, begin);
		if (n->distance)
			text_printf(t, " + 0x%llx", (unsigned long long)n->distance);
		break;
	case NEAR_PAST:
		if (n->distance)
			text_printf(t, STR_FMT " past", STR_ARG(distance));
		else
			text_add(t, S("just past"));
		text_printf(t, " the end of the " STR_FMT " %s at 0x%llx", STR_ARG(size), noun, begin);
		break;
	case NEAR_BEFORE:
		text_printf(t, STR_FMT " before the begin of the " STR_FMT " %s at 0x%llx", STR_ARG(distance), STR_ARG(size),
			    noun, begin);
		break;
	case NEAR_NOWHERE:
		break;
	}
}

struct str near_say(struct arena *a, const struct flight_recording *r, const struct nearby *n, uint64_t time)
{
	struct text t = { 0 };
	const struct recorded_allocation *m = n->allocation;
	if (!m)
		return (struct str){ 0 };
	add_place(&t, a, r, n);
	if (n->only_reserved)
		text_add(&t, S(" (no memory is mapped there)"));
	if (n->not_for_gpu)
		text_add(&t, S(" (not mapped for this GPU)"));
	add_age(&t, a, r, ", allocated ", m->born, time);
	text_printf(&t, "%s", m->born && time > m->born ? " before" : "");
	add_by(&t, a, r, m->by);
	if (n->relation == NEAR_FREED) {
		const bool mapped = m->call == CALL_MAP;
		add_age(&t, a, r, mapped ? ", unmapped " : ", freed ", m->died, time);
		text_add(&t, m->died < time ? S(" before") : mapped ? S(", unmapped") : S(", freed"));
		add_by(&t, a, r, m->freed_by);
	}
	struct str said = arena_str(a, text_str(&t));
	text_free(&t);
	return said;
}

struct str packet_say(struct arena *a, const struct recorded_packet *p)
{
	if (p->kind == PACKET_BARRIER)
		return p->raw.grid[2] ? arena_printf(a, "barrier that waits for %u signal%s", p->raw.grid[2],
						     p->raw.grid[2] == 1 ? "" : "s") :
					S("barrier");
	if (p->kernel)
		return kernel_words(p->kernel)->plain;
	return p->kind == PACKET_DISPATCH ? arena_printf(a, "kernel at 0x%llx", (unsigned long long)p->raw.kernel) :
					    S("vendor packet");
}

struct str call_say(struct arena *a, uint32_t call, const uint64_t args[4])
{
	const char *name = call_name(call);
	const unsigned long long x = args[0], y = args[1], z = args[2];
	switch (call) {
	case CALL_POOL_ALLOCATE:
	case CALL_ALLOCATE:
	case CALL_RESERVE:
	case CALL_HANDLE_CREATE:
	case CALL_IPC_ATTACH:
		return arena_printf(a, "%s of %llu bytes", name, y);
	case CALL_COPY:
	case CALL_ASYNC_COPY:
		return arena_printf(a, "%s of %llu bytes from 0x%llx to 0x%llx", name, y, z, x);
	case CALL_LOCK:
		return arena_printf(a, "%s of %llu bytes at 0x%llx", name, y, z);
	case CALL_MAP:
	case CALL_UNMAP:
	case CALL_UNRESERVE:
	case CALL_SET_ACCESS:
	case CALL_SVM_SET:
	case CALL_FILL:
		return arena_printf(a, "%s of %llu bytes at 0x%llx", name, y, x);
	case CALL_WAIT:
		return arena_printf(a, "%s for the signal 0x%llx", name, x);
	default:
		return arena_printf(a, "%s of 0x%llx", name, x);
	}
}

static const char *why_no_arguments(uint32_t state)
{
	switch (state) {
	case REC_ARGUMENTS_IN_VRAM:
		return "not read: in VRAM";
	case REC_ARGUMENTS_UNKNOWN:
		return "not read: the runtime knows no memory there";
	case REC_ARGUMENTS_LEFT_OUT:
		return "left out by UNHANG_INCLUDE or UNHANG_EXCLUDE";
	default:
		return NULL;
	}
}

/** `4 MiB buffer + 0x10`, and of one that was freed when and by whom. */
static void add_pointer(struct text *t, struct arena *a, const struct flight_recording *r, const struct nearby *n,
			uint64_t time)
{
	const struct recorded_allocation *m = n->allocation;
	text_printf(t, STR_FMT " %s", STR_ARG(map_size_say(a, m->size)),
		    allocation_is_segment(r, m) ? "segment" : call_noun(m->call));
	if (n->distance)
		text_printf(t, " + 0x%llx", (unsigned long long)n->distance);
	if (n->only_reserved)
		text_add(t, S(", not mapped"));
	if (n->relation != NEAR_FREED)
		return;
	add_age(t, a, r, ", freed ", m->died, time);
	text_add(t, m->died < time ? S(" before") : S(", freed"));
	add_by(t, a, r, m->freed_by);
}

/** A word that may be an address: one is what lies in an allocation; what is only near one may as well be a number. */
static void add_word(struct text *t, struct arena *a, const struct flight_recording *r, uint64_t v, uint64_t time)
{
	const struct nearby n = v >= 1 << 16 ? recording_near(r, v, time, 0) : (struct nearby){ 0 };
	text_printf(t, v < 1u << 16 ? "%llu" : "0x%llx", (unsigned long long)v);
	if (!n.allocation || (n.relation != NEAR_INSIDE && n.relation != NEAR_FREED))
		return;
	text_add(t, S(" ("));
	add_pointer(t, a, r, &n, time);
	text_add(t, S(")"));
}

static struct str kept(struct arena *a, struct text *t)
{
	struct str said = arena_str(a, text_str(t));
	text_free(t);
	return said;
}

struct str argument_say(struct arena *a, const struct flight_recording *r, const struct recorded_packet *p,
			const struct packet_argument *x)
{
	struct text t = { 0 };
	if (x->what->name.n)
		text_printf(&t, STR_FMT " = ", STR_ARG(x->what->name));
	if (!x->bytes) {
		text_add(&t, S("?"));
	} else if (argument_is_pointer(x)) {
		add_word(&t, a, r, get_u64(x->bytes), p->raw.time);
	} else if (x->what->size <= 8) {
		argument_number_say(&t, x);
	} else {
		for (uint32_t at = 0; at + 8 <= x->what->size && at / 8 < WORDS_MOST; at += 8) {
			text_add(&t, at ? S(", ") : S("{"));
			add_word(&t, a, r, get_u64(x->bytes + at), p->raw.time);
		}
		text_add(&t, S("}"));
	}
	return kept(a, &t);
}

struct str packet_arguments_say(struct arena *a, const struct flight_recording *r, const struct recorded_packet *p)
{
	struct text t = { 0 };
	struct packet_argument *list;
	if (!p->arguments)
		return (struct str){ 0 };
	if (p->arguments->state != REC_ARGUMENTS_COPIED)
		return str_z(why_no_arguments(p->arguments->state));
	const size_t n = packet_takes(a, p, &list);
	for (size_t i = 0; i < n && i < WORDS_MOST; i++)
		text_printf(&t, "%s" STR_FMT, i ? ", " : "", STR_ARG(argument_say(a, r, p, &list[i])));
	if (n)
		return kept(a, &t);
	for (unsigned at = 0; at + 8 <= p->arguments->copied && at / 8 < WORDS_MOST; at += 8) {
		text_add(&t, at ? S(", ") : S(""));
		add_word(&t, a, r, get_u64(p->argument_bytes + at), p->raw.time);
	}
	if (p->arguments->copied < p->arguments->size)
		text_printf(&t, "%s%u more bytes", t.n ? ", " : "", p->arguments->size - p->arguments->copied);
	return kept(a, &t);
}

struct str fault_reasons_say(struct arena *a, uint64_t reasons)
{
	static const char *const words[] = { "page not present",
					     "write to a read-only page",
					     "execution of data",
					     "page of the host only",
					     "uncorrectable memory error (ECC)",
					     "address not exact",
					     "uncorrectable register error (ECC)" };
	struct text t = { 0 };
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (reasons >> i & 1)
			text_printf(&t, "%s%s", t.n ? ", " : "", words[i]);
	if (reasons >> 31 & 1)
		text_printf(&t, "%sthe GPU hung and was reset", t.n ? ", " : "");
	struct str said = arena_str(a, text_str(&t));
	text_free(&t);
	return said;
}

struct str status_say(struct arena *a, uint64_t status)
{
	static const struct {
		uint64_t status;
		const char *name;
	} names[] = {
		{ 41, "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION" },
		{ 42, "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION" },
		{ 43, "HSA_STATUS_ERROR_MEMORY_FAULT" },
		{ 45, "HSA_STATUS_ERROR_OUT_OF_REGISTERS" },
		{ 0x1000, "HSA_STATUS_ERROR" },
		{ 0x1001, "HSA_STATUS_ERROR_INVALID_ARGUMENT" },
		{ 0x1003, "HSA_STATUS_ERROR_INVALID_ALLOCATION" },
		{ 0x1007, "HSA_STATUS_ERROR_INVALID_QUEUE" },
		{ 0x1008, "HSA_STATUS_ERROR_OUT_OF_RESOURCES" },
		{ 0x1009, "HSA_STATUS_ERROR_INVALID_PACKET_FORMAT" },
		{ 0x100f, "HSA_STATUS_ERROR_INVALID_ISA" },
		{ 0x1010, "HSA_STATUS_ERROR_INVALID_CODE_OBJECT" },
		{ 0x1016, "HSA_STATUS_ERROR_EXCEPTION" },
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].status == status)
			return str_z(names[i].name);
	return arena_printf(a, "status 0x%llx", (unsigned long long)status);
}

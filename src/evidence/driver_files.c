// Files of the driver's debugfs, as people paste them: amdgpu_fence_info and amdgpu_firmware_info. A fence that is not signaled
// is no hang by itself; one that two looks show at the same number is.
#include <stdlib.h>

#include "evidence/artefact.h"

enum { RINGS_MAX = 128 };

struct ring_fences {
	char name[32];
	uint64_t signaled, emitted;
	struct place at;
	bool stuck;
};

struct fence_info {
	struct artefact_output out;
	struct arena arena;
	size_t n;
	struct ring_fences rings[RINGS_MAX];
	struct ring_fences now;
	unsigned field; // how many of the ring's numbers were read: signaled, emitted
};

/** `--- ring 0 (gfx_0.0.0) ---` */
static bool ring_header(struct str line, struct str *ret_name)
{
	ptrdiff_t at = str_find(line, S("--- ring "));
	if (at < 0)
		return false;
	struct str rest = str_from(line, (size_t)at + 9);
	str_split(&rest, '(');
	*ret_name = str_split(&rest, ')');
	return ret_name->n;
}

static bool fence_info_begins(struct str line)
{
	struct str name;
	return ring_header(line, &name);
}

static void *fence_info_open(const struct artefact_output *out)
{
	struct fence_info *f = mem_alloc(sizeof(*f));
	f->out = *out;
	return f;
}

/** The same ring again is a second look. */
static void end_ring(struct fence_info *f)
{
	if (!f->now.name[0] || f->field < 2)
		return;
	for (size_t i = 0; i < f->n; i++) {
		struct ring_fences *r = &f->rings[i];
		if (strcmp(r->name, f->now.name))
			continue;
		r->stuck = r->signaled == f->now.signaled && f->now.emitted > f->now.signaled && r->emitted > r->signaled;
		r->emitted = f->now.emitted;
		r->signaled = f->now.signaled;
		return;
	}
	if (f->n < RINGS_MAX)
		f->rings[f->n++] = f->now;
}

static enum taken fence_info_line(void *self, const struct logline *line, struct place at)
{
	struct fence_info *f = self;
	struct str text = str_trim(line->text), name;
	if (ring_header(text, &name)) {
		end_ring(f);
		f->now = (struct ring_fences){ .at = at };
		f->field = 0;
		str_copy(f->now.name, sizeof(f->now.name), name);
		return true;
	}
	if (!str_starts(text, S("Last ")))
		return !text.n;
	ptrdiff_t number = str_find(text, S("0x"));
	uint64_t value;
	// Only the first two are the ring's own; the trailing fences of preemption follow under the same words.
	if (number > 0 && str_hex(str_trim(str_from(text, (size_t)number)), &value)) {
		if (f->field == 0)
			f->now.signaled = value;
		else if (f->field == 1)
			f->now.emitted = value;
		f->field++;
	}
	return true;
}

static void tell_ring(struct fence_info *f, const struct ring_fences *r)
{
	struct event e;
	if (r->emitted <= r->signaled || !artefact_event(&f->out, r->stuck ? "fence-stuck" : "fence-pending", r->at, &e))
		return;
	event_add_text(&e, &f->arena, "ring", str_z(r->name));
	event_add_code(&e, &f->arena, "fence_signaled", r->signaled);
	event_add_code(&e, &f->arena, "fence_emitted", r->emitted);
	artefact_tell(&f->out, &e);
}

static void fence_info_close(void *self)
{
	struct fence_info *f = self;
	end_ring(f);
	for (size_t i = 0; i < f->n; i++)
		tell_ring(f, &f->rings[i]);
	arena_free(&f->arena);
	free(f);
}

const struct artefact_reader fence_info_reader = {
	.kind = "fence-info",
	.begins = fence_info_begins,
	.open = fence_info_open,
	.line = fence_info_line,
	.close = fence_info_close,
	.patience = 8,
};

// --- amdgpu_firmware_info ---

struct firmware_info {
	struct artefact_output out;
};

void firmware_fact(struct event *e, struct arena *a, struct str engine, uint64_t version)
{
	char name[32] = "fw_";
	for (size_t i = 0; i < engine.n && 3 + i + 1 < sizeof(name); i++) {
		char c = engine.p[i];
		name[3 + i] = c == ' ' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
	}
	event_add_code(e, a, arena_z(a, str_z(name)), version);
}

bool firmware_line(const struct artefact_output *out, struct str text, struct place at)
{
	ptrdiff_t feature = str_find(text, S(" feature version: "));
	ptrdiff_t firmware = str_find(text, S("fw version: "));
	ptrdiff_t long_form = str_find(text, S("firmware version: "));
	uint64_t version;
	struct event e;
	if (feature <= 0 || feature > 24 || (firmware < 0 && long_form < 0))
		return false;
	struct str rest = str_from(text, firmware >= 0 ? (size_t)firmware + 12 : (size_t)long_form + 18);
	if (!str_hex(str_word(&rest), &version) || !version || !artefact_event(out, "firmware-info", at, &e))
		return true;
	struct arena arena = { 0 };
	firmware_fact(&e, &arena, str_cut(text, (size_t)feature), version);
	artefact_tell(out, &e);
	arena_free(&arena);
	return true;
}

static bool firmware_info_begins(struct str line)
{
	return str_find(line, S(" feature version: ")) > 0 && str_find(line, S(", firmware version: 0x")) > 0;
}

static void *firmware_info_open(const struct artefact_output *out)
{
	struct firmware_info *f = mem_alloc(sizeof(*f));
	f->out = *out;
	return f;
}

static enum taken firmware_info_line(void *self, const struct logline *line, struct place at)
{
	struct firmware_info *f = self;
	struct str text = str_trim(line->message);
	return firmware_line(&f->out, text, at) || str_starts(text, S("VBIOS version"));
}

static void firmware_info_close(void *self) { free(self); }

const struct artefact_reader firmware_info_reader = {
	.kind = "firmware-info",
	.begins = firmware_info_begins,
	.open = firmware_info_open,
	.line = firmware_info_line,
	.close = firmware_info_close,
	.patience = 4,
};

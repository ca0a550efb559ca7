#include "watch/node/state.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/door/door.h"
#include "evidence/documents/document.h"
#include "source/source.h"

enum { STATE_MOST = 4 << 20, STATE_GPUS = 256, STATE_INCIDENTS = 1024 };
enum { CLOCK_SLACK_S = 60, VALID_MOST_S = 900 }; // one that promises more than this was not written by a watch

static struct str state_text(const json_t *o, const char *key, struct arena *a) { return arena_str(a, document_text(o, key)); }

static struct watched_gpu state_gpu(const json_t *o, struct arena *a)
{
	return (struct watched_gpu){ .pci = state_text(o, "pci", a),
				     .unique_id = state_text(o, "unique_id", a),
				     .serial = state_text(o, "serial", a),
				     .slot = state_text(o, "slot", a),
				     .partition = state_text(o, "partition", a),
				     .health = state_text(o, "health", a),
				     .says = state_text(o, "says", a),
				     .hardware = state_text(o, "hardware", a),
				     .hardware_fit = state_text(o, "hardware_fit", a),
				     .unwell = json_is_true(json_object_get(o, "unwell")),
				     .seen = json_is_true(json_object_get(o, "seen")),
				     .alone_since = document_time(o, "unowned_since"),
				     .pace = state_text(o, "progress", a),
				     .waits_for = state_text(o, "progress_says", a) };
}

static struct stored state_incident(const json_t *o, struct arena *a)
{
	const json_t *gpu = json_object_get(o, "gpu");
	const struct str state = document_text(o, "state");
	struct stored i = { .id = state_text(o, "id", a),
			    .class = state_text(o, "class", a),
			    .title = state_text(o, "title", a),
			    .fault = state_text(o, "fault", a),
			    .action = state_text(o, "action", a),
			    .fit = state_text(o, "fit", a),
			    .boot_id = state_text(o, "boot_id", a),
			    .gpu = state_text(gpu, "pci", a),
			    .unique_id = state_text(gpu, "unique_id", a),
			    .serial = state_text(gpu, "serial", a),
			    .bundle = state_text(o, "bundle", a),
			    .job = state_text(o, "job", a),
			    .began = document_time(o, "began") };
	for (size_t n = 0; stored_states[n]; n++)
		if (str_is(state, stored_states[n]))
			i.state = (enum stored_state)n;
	return i;
}

/** As many as there are, or as are believed. */
static size_t members(const json_t *list, size_t most)
{
	const size_t n = json_array_size(list);
	return n < most ? n : most;
}

struct uh_error *state_parse(struct str json, struct arena *a, struct watch_state *ret)
{
	_cleanup_json_ json_t *root = json_loadb(json.p, json.n, JSON_REJECT_DUPLICATES, NULL);
	const json_t *gpus = json_object_get(root, "gpus"), *incidents = json_object_get(root, "incidents");
	if (!str_is(document_text(root, "schema"), "unhang/watch-state/1") || !json_is_array(gpus) || !json_is_array(incidents))
		return uh_error_new("state.json is not the state of an unhang watch");
	struct watched_gpu *list = arena_alloc(a, (members(gpus, STATE_GPUS) + 1) * sizeof(*list));
	struct stored *open = arena_alloc(a, (members(incidents, STATE_INCIDENTS) + 1) * sizeof(*open));
	const struct stored **views = arena_alloc(a, (members(incidents, STATE_INCIDENTS) + 1) * sizeof(*views));
	*ret = (struct watch_state){ .host = state_text(root, "host", a),
				     .boot_id = state_text(root, "boot_id", a),
				     .written = document_time(root, "written"),
				     .valid_until = document_time(root, "valid_until"),
				     .looked = document_time(root, "looked"),
				     .lost = (uint64_t)json_integer_value(json_object_get(root, "log_overruns")),
				     .unread = state_text(root, "log_unread", a),
				     .uncounted = state_text(root, "progress_unread", a),
				     .unlisted = state_text(root, "gpus_unread", a),
				     .gpus = list,
				     .open = views };
	for (; ret->ngpus < members(gpus, STATE_GPUS); ret->ngpus++)
		list[ret->ngpus] = state_gpu(json_array_get(gpus, ret->ngpus), a);
	for (; ret->nopen < members(incidents, STATE_INCIDENTS); ret->nopen++) {
		open[ret->nopen] = state_incident(json_array_get(incidents, ret->nopen), a);
		views[ret->nopen] = &open[ret->nopen];
	}
	return NULL;
}

struct uh_error *state_load(const char *run_dir, struct arena *a, struct str *ret)
{
	return believed_read(NULL, arena_printf(a, "%s/state.json", run_dir).p, STATE_MOST, a, ret);
}

struct uh_error *state_read(const char *run_dir, struct arena *a, struct watch_state *ret)
{
	struct str text;
	struct uh_error *err = state_load(run_dir, a, &text);
	return err ? err : state_parse(text, a, ret);
}

bool state_holds(const struct watch_state *s, int64_t now, struct str *ret_why)
{
	*ret_why = !s->valid_until || !s->written             ? S("its state has no time") :
		   !source_this_boot(s->boot_id)              ? S("its state is of another boot") :
		   s->written > now + CLOCK_SLACK_S           ? S("its state is from the future") :
		   s->valid_until > s->written + VALID_MOST_S ? S("its state claims to hold longer than any does") :
		   s->valid_until <= now                      ? S("its state is too old: no watch runs") :
								(struct str){ 0 };
	return !ret_why->n;
}

// The two sides of the document that the watch puts into a bundle: what KFD told it, and its votes on progress. It has the event and its facts
// as they are, so that nothing is read out of a sentence again; and the name that the watch gave to the incident, by which whoever explains
// the bundle calls it too, though the first sign of it was the watch's alone.
#include "evidence/documents/watch_event.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "evidence/artefact.h"
#include "evidence/documents/document.h"

#define WATCH_EVENT_SCHEMA "unhang/watch-event/1"

enum { US = 1000000 };

struct str watch_event_text(const struct watch_event *w, struct arena *a)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	struct json j = { .out = open_memstream(&text, &n) };
	if (!j.out)
		return (struct str){ 0 };
	jw_open(&j, '{');
	jw_field(&j, "schema", S(WATCH_EVENT_SCHEMA));
	jw_field(&j, "event", w->signature);
	jw_field(&j, "incident", w->incident);
	jw_field(&j, "boot_id", w->boot_id);
	jw_field(&j, "gpu", w->gpu);
	jw_key(&j, "time_us");
	jw_int(&j, w->us);
	if (w->pid) {
		jw_field(&j, "process", w->process);
		jw_key(&j, "pid");
		jw_int(&j, w->pid);
	}
	if (w->reset_source.n)
		jw_field(&j, "reset_source", w->reset_source);
	if (w->votes.n) {
		jw_field(&j, "votes", w->votes);
		jw_key(&j, "stood_seconds");
		jw_int(&j, w->stood);
	}
	jw_close(&j, '}');
	fputc('\n', j.out);
	fclose(j.out);
	return arena_str(a, (struct str){ text, n });
}

/** 16 hexadecimal digits: a name that an incident can have. */
static bool is_name(struct str s)
{
	size_t n = 0;
	while (n < s.n && (char_digit(s.p[n]) || (s.p[n] >= 'a' && s.p[n] <= 'f')))
		n++;
	return n == 16 && s.n == 16;
}

static bool watch_event_read(const struct artefact_output *out, const json_t *root)
{
	static const char *const signatures[] = { "watch-votes", "kfd-page-fault", "kfd-reset-begin", "watch-ras-counted" };
	const json_t *time = json_object_get(root, "time_us"), *pid = json_object_get(root, "pid"),
		     *stood = json_object_get(root, "stood_seconds");
	const struct str told = document_text(root, "event"), name = document_text(root, "incident");
	_cleanup_arena_ struct arena a = { 0 };
	struct event e;
	if (!str_is(document_text(root, "schema"), WATCH_EVENT_SCHEMA))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(signatures); i++) {
		if (!str_is(told, signatures[i]) ||
		    !artefact_event(out, signatures[i], (struct place){ out->source, out->line ? out->line : 1 }, &e))
			continue;
		e.device = document_text(root, "gpu");
		e.driver = S("amdgpu");
		e.boot_id = document_text(root, "boot_id");
		e.named = is_name(name) ? name : (struct str){ 0 };
		if (json_is_integer(time) && json_integer_value(time) >= 0)
			e.time = (struct stamp){ TIME_BOOT, (double)json_integer_value(time) / US };
		event_add_text(&e, &a, "pci", e.device);
		if (json_is_integer(pid) && json_integer_value(pid) > 0) {
			event_add_text(&e, &a, "process", document_text(root, "process"));
			event_add_number(&e, &a, "pid", json_integer_value(pid));
		}
		if (json_is_integer(stood) && json_integer_value(stood) > 0)
			event_add_number(&e, &a, "stood_seconds", json_integer_value(stood));
		event_add_text(&e, &a, "votes", document_text(root, "votes"));
		event_add_text(&e, &a, "reset_source", document_text(root, "reset_source"));
		e.text = arena_printf(&a, "unhang watch: " STR_FMT, STR_ARG(told));
		artefact_tell(out, &e);
	}
	return true;
}

const struct document_reader watch_event_document = { "watch-event", watch_event_read };

// How a container ended: `docker inspect`, `podman inspect`, `kubectl get pod -o json`.
#include "evidence/artefact.h"
#include "evidence/documents/document.h"
#include "evidence/log/stamp.h"

static bool number_of(const json_t *object, const char *key, json_int_t *ret)
{
	const json_t *value = json_object_get(object, key);
	*ret = json_is_integer(value) ? json_integer_value(value) : 0;
	return json_is_integer(value);
}

static void set_time(const struct artefact_output *out, struct event *e, struct str text)
{
	struct stamps s = stamps_read(out->know, text);
	if (s.found && !str_starts(text, S("0001-")))
		e->time = s.best;
}

/** A container that runs, was only created or ended well says nothing. */
static bool docker_one(const struct artefact_output *out, const json_t *c)
{
	const json_t *state = json_object_get(c, "State"), *host = json_object_get(c, "HostConfig");
	json_int_t code, memory;
	if (!json_is_object(state) || !number_of(state, "ExitCode", &code) || !json_object_get(c, "Id"))
		return false;
	bool oom = json_is_true(json_object_get(state, "OOMKilled"));
	struct event e;
	if ((!code && !oom) || json_is_true(json_object_get(state, "Running")) ||
	    !artefact_event(out, "container-exit", (struct place){ out->source, out->line }, &e))
		return true;
	struct arena a = { 0 };
	struct str name = document_text(c, "Name");
	set_time(out, &e, document_text(state, "FinishedAt"));
	event_add_text(&e, &a, "container", str_starts(name, S("/")) ? str_from(name, 1) : name);
	event_add_number(&e, &a, "exit_code", code);
	event_add(&e, S("oom_killed"), oom ? S("true") : S("false"), FACT_TEXT);
	event_add_text(&e, &a, "exit_text", str_cut(document_text(state, "Error"), 200));
	if (number_of(host, "Memory", &memory) && memory > 0)
		event_add_number(&e, &a, "memory_limit", memory);
	event_add_text(&e, &a, "image", document_text(json_object_get(c, "Config"), "Image"));
	artefact_tell(out, &e);
	arena_free(&a);
	return true;
}

static void pod_state(const struct artefact_output *out, const json_t *pod, const json_t *status, const json_t *ended)
{
	struct event e;
	struct arena a = { 0 };
	json_int_t code, signal;
	struct str reason = document_text(ended, "reason");
	bool oom = str_is(reason, "OOMKilled");
	if (!number_of(ended, "exitCode", &code) || (!code && !oom) ||
	    !artefact_event(out, "container-exit", (struct place){ out->source, out->line }, &e))
		return;
	set_time(out, &e, document_text(ended, "finishedAt"));
	event_add(&e, S("container"),
		  arena_printf(&a, STR_FMT "/" STR_FMT, STR_ARG(document_text(json_object_get(pod, "metadata"), "name")),
			       STR_ARG(document_text(status, "name"))),
		  FACT_TEXT);
	event_add_number(&e, &a, "exit_code", code);
	if (number_of(ended, "signal", &signal) && signal)
		event_add_number(&e, &a, "signal_number", signal);
	event_add(&e, S("oom_killed"), oom ? S("true") : S("false"), FACT_TEXT);
	if (!oom)
		event_add_text(&e, &a, "exit_text", str_is(reason, "Error") ? document_text(ended, "message") : reason);
	event_add_text(&e, &a, "host", document_text(json_object_get(pod, "spec"), "nodeName"));
	event_add_text(&e, &a, "image", document_text(status, "image"));
	artefact_tell(out, &e);
	arena_free(&a);
}

static bool pod_one(const struct artefact_output *out, const json_t *pod)
{
	if (!str_is(document_text(pod, "kind"), "Pod"))
		return false;
	const json_t *statuses = json_object_get(json_object_get(pod, "status"), "containerStatuses");
	for (size_t i = 0; i < json_array_size(statuses); i++) {
		const json_t *one = json_array_get(statuses, i);
		const json_t *now = json_object_get(json_object_get(one, "state"), "terminated");
		const json_t *before = json_object_get(json_object_get(one, "lastState"), "terminated");
		pod_state(out, pod, one, json_is_object(now) ? now : before);
	}
	return true;
}

static bool container_read(const struct artefact_output *out, const json_t *root)
{
	const json_t *list = json_is_array(root) ? root : json_object_get(root, "items");
	if (!json_is_array(list))
		return docker_one(out, root) || pod_one(out, root);
	bool any = false;
	for (size_t i = 0; i < json_array_size(list); i++)
		any |= docker_one(out, json_array_get(list, i)) || pod_one(out, json_array_get(list, i));
	return any;
}

const struct document_reader container_document = { "container", container_read };

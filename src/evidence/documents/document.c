// Files that are one document of JSON (or a pickle of the same): parsed once, then offered to each of their readers. The
// parser is jansson: it bounds its depth and takes pointer and length (docs/DECISIONS.md).
#include "evidence/documents/document.h"

#include <jansson.h>
#include <stdlib.h>
#include <time.h>

#include "evidence/artefact.h"
#include "evidence/log/stamp.h"

static const struct document_reader *const documents[] = {
	&container_document, &watch_event_document, &flight_recorder_document, &kernel_api_document, &py_spy_document,
	&try_document,       &bisect_document,      &repro_document,           &smi_document,
};

/** Keys that one of our documents has near its beginning. */
static const char *const keys[] = { "\"unhang/try/",     "\"unhang/bisect/", "\"unhang/repro/",       "\"unhang/watch-event/",
				    "\"State\"",         "\"Id\"",           "\"containerStatuses\"", "\"kind\"",
				    "\"apiVersion\"",    "\"entries\"",      "\"pg_config\"",         "\"comm_lib_version\"",
				    "\"function_name\"", "\"pg_status\"",    "\"nccl_version\"",      "\"thread_name\"",
				    "'entries'",         "'pg_config'",      "'pg_status'",           "'nccl_version'",
				    "\"gpu_data\"",      "\"gpu\"",          "\"gpu_id\"",            "\"card",
				    "\"error_severity\"", "\"cper_file\"" };

bool document_begins(struct str head)
{
	if (pickle_begins(head))
		return true;
	head = str_trim(head);
	if (!head.n || (head.p[0] != '{' && head.p[0] != '['))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (str_find(str_cut(head, 16384), str_z(keys[i])) >= 0)
			return true;
	return false;
}

int64_t document_date(struct str text)
{
	char room[32];
	struct tm tm = { 0 };
	if (text.n >= sizeof(room))
		return 0;
	str_copy(room, sizeof(room), text);
	const char *end = strptime(room, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return end && !*end ? (int64_t)timegm(&tm) : 0;
}

int64_t document_time(const json_t *object, const char *key) { return document_date(document_text(object, key)); }

struct str document_text(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	return json_is_string(value) ? (struct str){ json_string_value(value), json_string_length(value) } : (struct str){ 0 };
}

/** Python's way to print what JSON can say, as JSON: quotes, names of constants, tuples, commas before a bracket. */
static void python_to_json(struct str bytes, struct text *out)
{
	static const char *const words[][2] = { { "True", "true" }, { "False", "false" }, { "None", "null" } };
	for (size_t i = 0; i < bytes.n;) {
		char c = bytes.p[i++], close = c;
		if (c == '\'' || c == '"') {
			text_add(out, S("\""));
			while (i < bytes.n && bytes.p[i] != close) {
				// JSON has no escape for a single quote, and no raw double one.
				bool escaped = bytes.p[i] == '\\' && i + 1 < bytes.n;
				if (escaped && bytes.p[i + 1] != '\'')
					text_add(out, str_cut(str_from(bytes, i), 2));
				else
					text_add(out, !escaped && bytes.p[i] == '"' ? S("\\\"") :
										      str_cut(str_from(bytes, i + escaped), 1));
				i += escaped ? 2 : 1;
			}
			text_add(out, S("\""));
			i++;
			continue;
		}
		struct str here = str_from(bytes, i - 1), next = str_trim(str_cut(str_from(bytes, i), 64));
		size_t w = 0;
		while (w < 3 && !str_starts(here, str_z(words[w][0])))
			w++;
		if (w < 3) {
			text_add(out, str_z(words[w][1]));
			i += strlen(words[w][0]) - 1;
		} else if (c == '(' || c == ')') {
			text_add(out, c == '(' ? S("[") : S("]"));
		} else if (c != ',' || !next.n || !char_among(next.p[0], ")]}")) {
			text_add(out, str_cut(here, 1));
		}
	}
}

const char *document_read(const struct artefact_output *out, struct str bytes)
{
	enum { VALUES_MAX = 2 << 20 };
	struct artefact_output of = *out;
	size_t values = 0;
	// Each value costs far more memory than its bytes, so documents with too many values are refused.
	for (size_t i = 0; i < bytes.n && !pickle_begins(bytes); i++)
		values += bytes.p[i] == ',' || bytes.p[i] == '[' || bytes.p[i] == '{';
	if (values > VALUES_MAX)
		return NULL;
	_cleanup_json_ json_t *root = pickle_begins(bytes) ? pickle_load(bytes) : json_loadb(bytes.p, bytes.n, 0, NULL);
	_cleanup_text_ struct text json = { 0 };
	if (!root) // an integer that has no room in 64 bits
		root = json_loadb(bytes.p, bytes.n, JSON_DECODE_INT_AS_REAL, NULL);
	if (!root && str_find(str_cut(bytes, 16384), S("'")) >= 0) { // somebody printed it with Python
		python_to_json(bytes, &json);
		root = json_loadb(json.p, json.n, 0, NULL);
	}
	if (!root) { // a document in each line (metadata.jsonl): the last line is the newest state
		struct str last = { 0 };
		for (uint64_t n = 1; bytes.n; n++) {
			struct str line = str_trim(str_split(&bytes, '\n'));
			last = line.n ? line : last;
			of.line = line.n ? n : of.line;
		}
		root = json_loadb(last.p, last.n, 0, NULL);
	}
	for (size_t i = 0; root && i < ARRAY_SIZE(documents); i++)
		if (documents[i]->read(&of, root))
			return documents[i]->kind;
	return NULL;
}

// --- How a container ended: `docker inspect`, `podman inspect`, `kubectl get pod -o json` ---

static bool document_number_of(const json_t *object, const char *key, json_int_t *ret)
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
	if (!json_is_object(state) || !document_number_of(state, "ExitCode", &code) || !json_object_get(c, "Id"))
		return false;
	bool oom = json_is_true(json_object_get(state, "OOMKilled"));
	struct event e;
	if ((!code && !oom) || json_is_true(json_object_get(state, "Running")) ||
	    !artefact_event(out, "container-exit", (struct place){ out->source, out->line }, &e))
		return true;
	_cleanup_arena_ struct arena a = { 0 };
	struct str name = document_text(c, "Name");
	set_time(out, &e, document_text(state, "FinishedAt"));
	event_add_text(&e, &a, "container", str_starts(name, S("/")) ? str_from(name, 1) : name);
	event_add_number(&e, &a, "exit_code", code);
	event_add(&e, S("oom_killed"), oom ? S("true") : S("false"), FACT_TEXT);
	event_add_text(&e, &a, "exit_text", str_cut(document_text(state, "Error"), 200));
	if (document_number_of(host, "Memory", &memory) && memory > 0)
		event_add_number(&e, &a, "memory_limit", memory);
	event_add_text(&e, &a, "image", document_text(json_object_get(c, "Config"), "Image"));
	artefact_tell(out, &e);
	return true;
}

static void pod_state(const struct artefact_output *out, const json_t *pod, const json_t *status, const json_t *ended)
{
	struct event e;
	_cleanup_arena_ struct arena a = { 0 };
	json_int_t code, signal;
	struct str reason = document_text(ended, "reason");
	bool oom = str_is(reason, "OOMKilled");
	if (!document_number_of(ended, "exitCode", &code) || (!code && !oom) ||
	    !artefact_event(out, "container-exit", (struct place){ out->source, out->line }, &e))
		return;
	set_time(out, &e, document_text(ended, "finishedAt"));
	event_add(&e, S("container"),
		  arena_printf(&a, STR_FMT "/" STR_FMT, STR_ARG(document_text(json_object_get(pod, "metadata"), "name")),
			       STR_ARG(document_text(status, "name"))),
		  FACT_TEXT);
	event_add_number(&e, &a, "exit_code", code);
	if (document_number_of(ended, "signal", &signal) && signal)
		event_add_number(&e, &a, "signal_number", signal);
	event_add(&e, S("oom_killed"), oom ? S("true") : S("false"), FACT_TEXT);
	if (!oom)
		event_add_text(&e, &a, "exit_text", str_is(reason, "Error") ? document_text(ended, "message") : reason);
	event_add_text(&e, &a, "host", document_text(json_object_get(pod, "spec"), "nodeName"));
	event_add_text(&e, &a, "image", document_text(status, "image"));
	artefact_tell(out, &e);
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

static bool document_container_read(const struct artefact_output *out, const json_t *root)
{
	const json_t *list = json_is_array(root) ? root : json_object_get(root, "items");
	if (!json_is_array(list))
		return docker_one(out, root) || pod_one(out, root);
	bool any = false;
	for (size_t i = 0; i < json_array_size(list); i++)
		any |= docker_one(out, json_array_get(list, i)) || pod_one(out, json_array_get(list, i));
	return any;
}

const struct document_reader container_document = { "container", document_container_read };

// torch's Flight Recorder, as JSON or as the pickle that torch writes: what one rank enqueued last in each of its process
// groups, and what did not end. The file does not say whose it is: its rank is the number at the end of its name
// (nccl_trace_rank_3, with or without .json).

enum { GROUPS_MAX = 64 };

struct recorder_group {
	const char *name, *desc;
	json_int_t enqueued, completed, pending;
	const char *operation, *state; // of the first that did not end
	const char *last;              // operation of the last that was enqueued
	json_int_t time_ns;
};

static json_int_t integer(const json_t *object, const char *key, json_int_t otherwise)
{
	const json_t *value = json_object_get(object, key);
	int64_t n;
	if (json_is_integer(value))
		return json_integer_value(value);
	return json_is_string(value) && str_number(str_z(json_string_value(value)), &n) ? n : otherwise;
}

static struct recorder_group *find_group(struct recorder_group *groups, size_t *n, const json_t *entry)
{
	const json_t *pair = json_object_get(entry, "process_group");
	const char *name = json_string_value(json_array_get(pair, 0)), *desc = json_string_value(json_array_get(pair, 1));
	name = name ? name : "";
	for (size_t i = 0; i < *n; i++)
		if (!strcmp(groups[i].name, name))
			return &groups[i];
	if (*n == GROUPS_MAX)
		return NULL;
	groups[*n] = (struct recorder_group){
		.name = name, .desc = desc ? desc : "", .enqueued = -1, .completed = -1, .pending = -1
	};
	return &groups[(*n)++];
}

static void take_entry(struct recorder_group *g, const json_t *entry)
{
	json_int_t seq = integer(entry, "collective_seq_id", integer(entry, "seq_id", -1));
	const char *state = json_string_value(json_object_get(entry, "state"));
	const char *operation = json_string_value(json_object_get(entry, "profiling_name"));
	state = state ? state : "";
	operation = operation ? operation : "";
	if (seq < 0 || json_is_true(json_object_get(entry, "is_p2p")))
		return;
	if (seq > g->enqueued) {
		g->enqueued = seq;
		g->last = operation;
		g->time_ns = integer(entry, "time_created_ns", 0);
	}
	if (!strcmp(state, "completed")) {
		if (seq > g->completed)
			g->completed = seq;
	} else if (g->pending < 0 || seq < g->pending) {
		g->pending = seq;
		g->operation = operation;
		g->state = state;
	}
}

/** `nccl:_all_gather_base` is all_gather to its user. */
static struct str plain_operation(const char *name)
{
	struct str s = str_z(name);
	ptrdiff_t colon = str_find(s, S(":"));
	s = str_from(s, colon < 0 ? 0 : (size_t)colon + 1);
	s = str_from(s, str_starts(s, S("_")));
	return str_ends(s, S("_base")) ? str_cut(s, s.n - 5) : s;
}

/** The digits at the end of a file's name, before an extension. */
static struct str rank_of(struct str name)
{
	if (str_ends(name, S(")"))) // in an archive
		name.n--;
	if (str_ends(name, S(".json")))
		name.n -= 5;
	size_t n = name.n;
	while (n && char_digit(name.p[n - 1]))
		n--;
	return str_from(name, n);
}

static void tell_group(const struct artefact_output *out, const struct recorder_group *g, struct str rank)
{
	struct event e;
	_cleanup_arena_ struct arena a = { 0 };
	if (!artefact_event(out, "flight-trace", (struct place){ out->source, out->line }, &e))
		return;
	if (g->time_ns > 0)
		e.time = (struct stamp){ TIME_WALL, (double)g->time_ns / 1e9 };
	int64_t number;
	event_add(&e, S("rank"), arena_str(&a, rank), str_number(rank, &number) ? FACT_NUMBER : FACT_TEXT);
	event_add_text(&e, &a, "group", str_z(*g->desc ? g->desc : g->name));
	event_add_number(&e, &a, "enqueued", g->enqueued);
	event_add_number(&e, &a, "completed", g->completed);
	if (g->pending >= 0) {
		event_add_number(&e, &a, "pending_seq", g->pending);
		event_add_text(&e, &a, "collective", plain_operation(g->operation));
		event_add_text(&e, &a, "state", str_z(g->state));
	} else {
		event_add_text(&e, &a, "collective", plain_operation(g->last ? g->last : ""));
	}
	artefact_tell(out, &e);
}

static bool flight_recorder_read(const struct artefact_output *out, const json_t *root)
{
	const json_t *entries = json_object_get(root, "entries");
	struct recorder_group groups[GROUPS_MAX];
	size_t n = 0;
	if (!json_is_array(entries) || (!json_object_get(root, "pg_config") && !json_object_get(root, "version")))
		return false;
	for (size_t i = 0; i < json_array_size(entries); i++) {
		const json_t *entry = json_array_get(entries, i);
		struct recorder_group *g = find_group(groups, &n, entry);
		if (g)
			take_entry(g, entry);
	}
	struct str rank = rank_of(out->name);
	for (size_t i = 0; i < n; i++)
		if (groups[i].enqueued >= 0)
			tell_group(out, &groups[i], rank);
	return true;
}

const struct document_reader flight_recorder_document = { "flight-recorder", flight_recorder_read };

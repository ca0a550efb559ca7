// torch's Flight Recorder, as JSON or as the pickle that torch writes: what one rank enqueued last in each of its process
// groups, and what did not end. The file does not say whose it is: its rank is the number at the end of its name
// (nccl_trace_rank_3, with or without .json).
#include <jansson.h>
#include <stdlib.h>

#include "evidence/artefact.h"

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

static const char *string(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));
	return s ? s : "";
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
	const char *state = string(entry, "state"), *operation = string(entry, "profiling_name");
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
	struct arena a = { 0 };
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
	arena_free(&a);
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

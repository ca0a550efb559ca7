#include "session/history/pages.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "evidence/documents/document.h"
#include "report/history/history.h"
#include "store/store.h"

enum { DAY = 86400, FAULTS = 30, OPEN = 50, HELPED = 20 };

static int64_t weeks_ago(const struct site_pages *p) { return p->history.now - (int64_t)PAGES_WEEKS * 7 * DAY; }

struct uh_error *pages_overview(struct site_pages *p, FILE *out)
{
	struct history *h = &p->history;
	const struct history_filter since = { .since = weeks_ago(p), .open_ever = true }, open = { .open = true };
	struct site_overview o = { .since = since.since };
	struct uh_error *err = history_summary(h, &since, FAULTS, &o.summary);
	if (!err)
		err = history_incidents(h, &open, 0, OPEN, &o.open);
	if (!err)
		site_put_overview(&p->site, &o, out);
	vec_free(&o.open);
	history_summary_free(&o.summary);
	return err;
}

static void take_count(void *ctx, const struct db_value *row, size_t n)
{
	if (n)
		*(int64_t *)ctx = row[0].number;
}

struct uh_error *pages_incidents(struct site_pages *p, const struct history_filter *f, struct str query, int64_t skip,
				 FILE *out)
{
	struct history_incident_list list = { 0 };
	int64_t total = 0;
	struct uh_error *err = history_count(&p->history, f, &total);
	if (!err)
		err = history_incidents(&p->history, f, skip, PAGES_LIST, &list);
	const struct site_list l = { f, query, skip, PAGES_LIST, total };
	if (!err)
		site_put_incidents(&p->site, &l, &list, out);
	vec_free(&list);
	return err;
}

struct uh_error *pages_runs(struct site_pages *p, int64_t skip, FILE *out)
{
	const struct history_filter all = { 0 };
	struct history_run_list list = { 0 };
	int64_t total = 0;
	struct uh_error *err = db_run(p->history.db, "SELECT count(*) FROM runs", NULL, 0, take_count, &total);
	if (!err)
		err = history_runs(&p->history, &all, skip, PAGES_LIST, &list);
	const struct site_list l = { &all, (struct str){ 0 }, skip, PAGES_LIST, total };
	if (!err)
		site_put_runs(&p->site, &l, &list, out);
	vec_free(&list);
	return err;
}

struct uh_error *pages_machines(struct site_pages *p, FILE *out)
{
	const struct history_filter since = { .since = weeks_ago(p), .open_ever = true };
	struct history_summary all = { 0 };
	struct history_rates rates = { 0 };
	struct uh_error *err = history_summary(&p->history, &since, 0, &all);
	if (!err)
		err = history_rates(&p->history, &since, false, &rates);
	if (!err)
		site_put_machines(&p->site, &all.machines, &rates, out);
	vec_free(&rates.list);
	history_summary_free(&all);
	return err;
}

// --- an incident ---

static const json_t *its_incident(const json_t *diagnosis, struct str id)
{
	const json_t *all = json_object_get(diagnosis, "incidents"), *one;
	size_t n;
	json_array_foreach(all, n, one) if (str_eq(document_text(one, "id"), id)) return one;
	return json_array_get(all, 0);
}

/** Texts lie in the document. */
static void read_diagnosis(const json_t *root, struct str id, struct history_explained *ret)
{
	enum { SHOWN = 8 };
	const json_t *of = its_incident(root, id), *cause = json_object_get(of, "cause"), *one;
	const double sure = json_number_value(json_object_get(cause, "confidence"));
	size_t n;
	ret->explanation = document_text(cause, "explanation");
	ret->action = document_text(json_object_get(of, "action"), "text");
	ret->confidence = !of ? (struct str){ 0 } : sure >= 0.9 ? S("high") : sure >= 0.7 ? S("medium") : S("low");
	json_array_foreach(json_object_get(of, "remedies"), n,
			   one) if (!json_is_false(json_object_get(one, "shown")) && ret->remedies.len < SHOWN)
		vec_push(&ret->remedies, document_text(one, "title"));
	json_array_foreach(json_object_get(of, "next"), n, one) if (ret->next.len < SHOWN)
		vec_push(&ret->next, document_text(one, "why"));
}

static bool has_bundle(const struct site_pages *p, struct str id)
{
	_cleanup_arena_ struct arena a = { 0 };
	return p->directory && store_is_id(id) &&
	       !access(arena_printf(&a, "%s/" STORE_BUNDLE, store_path(&a, p->directory, id)).p, R_OK);
}

/** The one of this id; *@ret_found: there is one. */
static struct uh_error *find_incident(struct site_pages *p, struct str id, struct history_incident_list *ret, bool *ret_found)
{
	const struct history_filter f = { .id = id };
	struct uh_error *err = store_is_id(id) ? history_incidents(&p->history, &f, 0, 1, ret) : NULL;
	*ret_found = !err && ret->len;
	return err;
}

struct uh_error *pages_incident(struct site_pages *p, struct str id, FILE *out, bool *ret_found)
{
	enum { BEFORE = 900, AFTER = 600 };
	struct history *h = &p->history;
	struct history_incident_list list = { 0 };
	struct history_event_list events = { 0 };
	struct history_sampled_list samples = { 0 };
	struct history_change_list changes = { 0 };
	struct history_explained told = { 0 };
	struct str json = { 0 };
	struct uh_error *err = find_incident(p, id, &list, ret_found);
	const struct history_incident *i = *ret_found ? &list.data[0] : NULL;
	if (i && !err)
		err = history_events(h, id, &events);
	if (i && !err)
		err = history_diagnosis(h, id, &json);
	if (i && !err && i->host.n && i->gpu.n)
		err = history_samples(h, i->host, i->gpu, i->began - BEFORE, (i->ended ? i->ended : i->began) + AFTER,
				      &samples);
	if (i && !err && i->host.n)
		err = history_changes(
			h, &(struct history_filter){ .since = i->began - 14 * DAY, .until = i->began + 1, .host = i->host }, 20,
			&changes);
	_cleanup_json_ json_t *root = json.n ? json_loadb(json.p, json.n, 0, NULL) : NULL;
	read_diagnosis(root, id, &told);
	if (i && !err)
		site_put_incident(&p->site, &(struct site_incident){ i, &events, &samples, &told, &changes, has_bundle(p, id) },
				  out);
	vec_free(&list);
	vec_free(&events);
	vec_free(&samples);
	vec_free(&changes);
	vec_free(&told.remedies);
	vec_free(&told.next);
	return err;
}

// --- a run ---

static void read_try(const json_t *root, struct arena *a, struct site_try *ret)
{
	const json_t *decision = json_object_get(root, "decision");
	*ret = (struct site_try){
		.filter = arena_str(a, document_text(root, "filter")),
		.because = arena_str(a, document_text(root, "because")),
		.words = arena_str(a, document_text(root, "words")),
		.kernel = arena_str(a, document_text(root, "kernel")),
		.place = arena_str(a, document_text(root, "place")),
		.bundle = arena_str(a, document_text(root, "bundle")),
		.decision = arena_str(a, document_text(decision, "reason")),
	};
}

struct uh_error *pages_run(struct site_pages *p, struct str id, FILE *out, bool *ret_found)
{
	struct history *h = &p->history;
	struct history_run_list runs = { 0 };
	struct history_try_list tries = { 0 };
	struct history_sampled_list samples = { 0 };
	struct uh_error *err = history_run_called(h, id, &runs, &tries);
	*ret_found = !err && runs.len;
	struct site_try *details = arena_alloc(&h->arena, (tries.len + 1) * sizeof(*details));
	int64_t end = runs.len ? runs.data[0].began : 0;
	struct str gpu = { 0 };
	for (size_t n = 0; n < tries.len; n++) {
		const struct history_try *t = &tries.data[n];
		_cleanup_json_ json_t *root =
			json_loadb(t->detail.n ? t->detail.p : "{}", t->detail.n ? t->detail.n : 2, 0, NULL);
		read_try(root, &h->arena, &details[n]);
		end = t->began + t->ran_ms / 1000 > end ? t->began + t->ran_ms / 1000 : end;
		gpu = t->gpu.n ? t->gpu : gpu;
	}
	if (*ret_found && gpu.n && runs.data[0].host.n)
		err = history_samples(h, runs.data[0].host, gpu, runs.data[0].began, end + 60, &samples);
	if (*ret_found && !err)
		site_put_run(&p->site, &(struct site_run){ &runs.data[0], &tries, details, &samples }, out);
	vec_free(&runs);
	vec_free(&tries);
	vec_free(&samples);
	return err;
}

// --- a machine ---

struct uh_error *pages_machine(struct site_pages *p, struct str host, FILE *out, bool *ret_found)
{
	struct history *h = &p->history;
	const struct history_filter since = { .since = weeks_ago(p), .host = host, .open_ever = true }, all = { .host = host };
	struct history_change_list configuration = { 0 }, changes = { 0 };
	struct history_helped_list helped = { 0 };
	struct history_incident_list incidents = { 0 };
	struct history_summary summary = { 0 };
	*ret_found = false;
	// A pattern would be of several.
	struct uh_error *err = str_is_pattern(host) ? NULL : history_configuration(h, host, &configuration);
	if (!err && !str_is_pattern(host))
		err = history_incidents(h, &all, 0, PAGES_LIST, &incidents);
	*ret_found = !err && (configuration.len || incidents.len);
	if (*ret_found)
		err = history_summary(h, &since, 0, &summary);
	if (*ret_found && !err)
		err = history_changes(h, &all, 50, &changes);
	if (*ret_found && !err)
		err = history_helped(h, &all, HELPED, &helped);
	if (*ret_found && !err)
		site_put_machine(&p->site,
				 &(struct site_machine){ host, &summary.totals, &configuration, &changes, &helped, &incidents,
							 &summary.days, since.since },
				 out);
	vec_free(&configuration);
	vec_free(&changes);
	vec_free(&helped);
	vec_free(&incidents);
	history_summary_free(&summary);
	return err;
}

// --- for programs ---

struct uh_error *pages_history_json(struct site_pages *p, const struct history_filter *f, int64_t skip, int64_t most, FILE *out)
{
	const struct uh_history_options options = { .json = true, .skip = (unsigned long long)skip };
	struct history_told t = { .options = &options, .filter = *f, .now = p->history.now };
	struct uh_error *err = history_summary(&p->history, f, (size_t)most, &t.summary);
	if (!err)
		err = history_incidents(&p->history, f, skip, most + 1, &t.incidents);
	t.more = (int64_t)t.incidents.len > most;
	t.incidents.len -= t.more;
	if (!err)
		report_history(&t, out);
	history_summary_free(&t.summary);
	vec_free(&t.incidents);
	return err;
}

struct uh_error *pages_changes_json(struct site_pages *p, const struct history_filter *f, FILE *out)
{
	const struct uh_history_options options = { .json = true, .remedies = true };
	struct history_told t = { .options = &options, .filter = *f, .now = p->history.now };
	struct uh_error *err = history_summary(&p->history, f, 0, &t.summary);
	if (!err)
		err = history_helped(&p->history, f, 1000, &t.helped);
	if (!err)
		report_helped(&t, out);
	history_summary_free(&t.summary);
	vec_free(&t.helped);
	return err;
}

/** What is told of an incident alone. */
static struct uh_error *load_incident(struct site_pages *p, struct str id, struct history_incident_list *list,
				      struct history_event_list *events, struct str *json, bool *ret_found)
{
	struct uh_error *err = find_incident(p, id, list, ret_found);
	if (*ret_found && !err)
		err = history_events(&p->history, id, events);
	if (*ret_found && !err)
		err = history_diagnosis(&p->history, id, json);
	return err;
}

struct uh_error *pages_incident_text(struct site_pages *p, struct str id, unsigned width, FILE *out, bool *ret_found)
{
	struct history_incident_list list = { 0 };
	struct history_event_list events = { 0 };
	struct history_explained told = { 0 };
	struct str json = { 0 };
	struct uh_error *err = load_incident(p, id, &list, &events, &json, ret_found);
	_cleanup_json_ json_t *root = json.n ? json_loadb(json.p, json.n, 0, NULL) : NULL;
	read_diagnosis(root, id, &told);
	if (*ret_found && !err)
		report_history_told(&list.data[0], &events, &told, width, out);
	vec_free(&list);
	vec_free(&events);
	vec_free(&told.remedies);
	vec_free(&told.next);
	return err;
}

struct uh_error *pages_incident_json(struct site_pages *p, struct str id, FILE *out, bool *ret_found)
{
	struct history_incident_list list = { 0 };
	struct history_event_list events = { 0 };
	struct str json = { 0 };
	struct uh_error *err = load_incident(p, id, &list, &events, &json, ret_found);
	if (*ret_found && !err)
		report_history_incident(&list.data[0], &events, json, out);
	vec_free(&list);
	vec_free(&events);
	return err;
}

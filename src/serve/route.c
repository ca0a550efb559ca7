#include "serve/route.h"

#include <stdlib.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/print.h"
#include "diagnose/told/told.h"
#include "store/store.h"

static const char html[] = "text/html; charset=utf-8", json[] = "application/json";
enum { API_MOST = 1000, API_USUAL = 100, REPORT_MS = 10000, REPORT_MOST = 64 << 20 };

void page_answer_free(struct page_answer *a)
{
	free(a->body);
	*a = (struct page_answer){ 0 };
}

static struct str argument(const struct page_request *r, const char *name)
{
	for (size_t n = 0; n < r->narguments; n++)
		if (str_is(r->arguments[n].name, name))
			return str_cut(r->arguments[n].value, 200);
	return (struct str){ 0 };
}

static int64_t argument_number(const struct page_request *r, const char *name, int64_t least, int64_t most, int64_t usual)
{
	int64_t n;
	return str_number(argument(r, name), &n) && n >= least && n <= most ? n : usual;
}

static struct history_filter route_filter(const struct site_pages *p, const struct know *k, const struct page_request *r)
{
	double since = 0, until = 0;
	const struct str from = argument(r, "since"), to = argument(r, "until");
	if (from.n)
		uh_error_free(since_parse(k, from, (time_t)p->history.now, &since));
	if (to.n)
		uh_error_free(since_parse(k, to, (time_t)p->history.now, &until));
	return (struct history_filter){ .since = (int64_t)since,
					.until = (int64_t)until,
					.class = argument(r, "class"),
					.host = argument(r, "node"),
					.gpu = argument(r, "gpu"),
					.serial = argument(r, "serial"),
					.part = argument(r, "part"),
					.program = argument(r, "program"),
					.job = argument(r, "job"),
					.fingerprint = argument(r, "fingerprint"),
					.id = argument(r, "id"),
					.open = argument(r, "open").n };
}

/** The arguments again, but for where in the list it is. */
static struct str query_of(struct arena *a, const struct page_request *r)
{
	_cleanup_text_ struct text t = { 0 };
	for (size_t n = 0; n < r->narguments; n++) {
		if (str_is(r->arguments[n].name, "skip") || !r->arguments[n].value.n)
			continue;
		const struct str parts[] = { r->arguments[n].name, str_cut(r->arguments[n].value, 200) };
		text_add(&t, t.n ? S("&") : S(""));
		for (size_t k = 0; k < 2; k++) {
			for (size_t i = 0; i < parts[k].n; i++)
				if (char_word(parts[k].p[i]) || char_among(parts[k].p[i], "-.*"))
					text_add(&t, (struct str){ parts[k].p + i, 1 });
				else
					text_printf(&t, "%%%02X", (unsigned char)parts[k].p[i]);
			text_add(&t, k ? S("") : S("="));
		}
	}
	return arena_str(a, text_str(&t));
}

// --- a full report ---

struct report_asked {
	const char *bundle;
};

/** In a child: a bundle is hostile. */
static void report_work(int fd, const void *ctx)
{
	const struct report_asked *asked = ctx;
	FILE *out = fdopen(fd, "w");
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	uh_session_keep_around(s, false);
	uh_session_add_path(s, asked->bundle);
	uh_session_end(s);
	if (out)
		uh_session_write_html(s, out, &(struct uh_share_options){ 0 });
	_exit(out && !fclose(out) ? 0 : 1);
}

static bool put_report(const struct site_pages *p, struct str id, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text answer = { 0 };
	if (!p->directory || !store_is_id(id))
		return false;
	const struct report_asked asked = { arena_printf(&a, "%s/" STORE_BUNDLE, store_path(&a, p->directory, id)).p };
	if (access(asked.bundle, R_OK))
		return false;
	const struct child_task task = { .name = CHILD_SERVE_REPORT, .deadline = now_ms() + REPORT_MS, .most = REPORT_MOST };
	if (child_collect(&task, report_work, &asked, &answer) != CHILD_GOOD)
		return false;
	print_str(out, text_str(&answer));
	return true;
}

// --- addresses ---

/** A request while it is answered. */
struct routing {
	struct site_pages *pages;
	const struct know *know;
	const struct page_request *request;
	struct str name; // what stands behind the address
	FILE *out;
	bool found;
};

static struct uh_error *get_overview(struct routing *r) { return pages_overview(r->pages, r->out); }
static struct uh_error *get_runs(struct routing *r)
{
	return pages_runs(r->pages, argument_number(r->request, "skip", 0, INT32_MAX, 0), r->out);
}
static struct uh_error *get_machines(struct routing *r) { return pages_machines(r->pages, r->out); }
static struct uh_error *get_incident(struct routing *r) { return pages_incident(r->pages, r->name, r->out, &r->found); }
static struct uh_error *get_run(struct routing *r) { return pages_run(r->pages, r->name, r->out, &r->found); }
static struct uh_error *get_machine(struct routing *r) { return pages_machine(r->pages, r->name, r->out, &r->found); }

static struct uh_error *get_incidents(struct routing *r)
{
	const struct history_filter f = route_filter(r->pages, r->know, r->request);
	return pages_incidents(r->pages, &f, query_of(&r->pages->history.arena, r->request),
			       argument_number(r->request, "skip", 0, INT32_MAX, 0), r->out);
}

static struct uh_error *get_report(struct routing *r)
{
	r->found = put_report(r->pages, r->name, r->out);
	return NULL;
}

static struct uh_error *get_api_history(struct routing *r)
{
	const struct history_filter f = route_filter(r->pages, r->know, r->request);
	return pages_history_json(r->pages, &f, argument_number(r->request, "skip", 0, INT32_MAX, 0),
				  argument_number(r->request, "limit", 1, API_MOST, API_USUAL), r->out);
}

static struct uh_error *get_api_changes(struct routing *r)
{
	const struct history_filter f = route_filter(r->pages, r->know, r->request);
	return pages_changes_json(r->pages, &f, r->out);
}

static struct uh_error *get_api_incident(struct routing *r)
{
	return pages_incident_json(r->pages, r->name, r->out, &r->found);
}

static const struct address {
	const char *path; // one that ends with / has a name behind it
	const char *type;
	struct uh_error *(*get)(struct routing *r);
} addresses[] = {
	{ "/", html, get_overview },
	{ "/incidents", html, get_incidents },
	{ "/incident/", html, get_incident },
	{ "/report/", html, get_report },
	{ "/runs", html, get_runs },
	{ "/run/", html, get_run },
	{ "/machines", html, get_machines },
	{ "/machine/", html, get_machine },
	{ "/api/1/history", json, get_api_history },
	{ "/api/1/changes", json, get_api_changes },
	{ "/api/1/incident/", json, get_api_incident },
};

/** The address of a path; *@ret_name: what stands behind it. NULL: there is none. */
static const struct address *route_address(struct str path, struct str *ret_name)
{
	for (size_t n = 0; n < ARRAY_SIZE(addresses); n++) {
		const struct str own = str_z(addresses[n].path);
		*ret_name = str_from(path, own.n);
		if (str_eq(path, own) && (own.n == 1 || own.p[own.n - 1] != '/'))
			return &addresses[n];
		if (own.n > 1 && own.p[own.n - 1] == '/' && str_starts(path, own) && ret_name->n && ret_name->n <= 256)
			return &addresses[n];
	}
	return NULL;
}

static void put_refusal(struct site_pages *p, bool for_program, const char *title, struct str says, FILE *out)
{
	if (!for_program) {
		site_put_notice(&p->site, title, says, out);
		return;
	}
	struct json j = { .out = out };
	jw_open(&j, '{');
	jw_field(&j, "schema", S("unhang/error/1"));
	jw_field(&j, "error", says);
	jw_close(&j, '}');
}

void route(struct site_pages *p, const struct know *k, const struct page_request *q, struct page_answer *ret)
{
	struct routing r = { .pages = p, .know = k, .request = q, .found = true };
	const struct address *a = route_address(q->path, &r.name);
	const bool for_program = a ? a->type == json : str_starts(q->path, S("/api/"));
	*ret = (struct page_answer){ .status = 200, .type = for_program ? json : html };
	r.out = open_memstream(&ret->body, &ret->n);
	_cleanup_error_ struct uh_error *err = a ? a->get(&r) : NULL;
	if (!err && a && r.found) {
		fclose(r.out);
		return;
	}
	// What was begun is thrown away.
	fclose(r.out);
	page_answer_free(ret);
	*ret = (struct page_answer){ .status = err ? 500 : 404, .type = for_program ? json : html };
	r.out = open_memstream(&ret->body, &ret->n);
	if (err)
		put_refusal(p, for_program, "Not available", S("The history cannot be read at the moment."), r.out);
	else
		put_refusal(p, for_program, "Not found", S("There is nothing at this address."), r.out);
	fclose(r.out);
}

#include "serve/route.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/root.h"
#include "base/json.h"
#include "base/print.h"
#include "diagnose/told/told.h"
#include "store/store.h"

static const char html[] = "text/html; charset=utf-8", json[] = "application/json";
enum { ARGUMENT_MOST = 256, API_MOST = 1000, API_USUAL = 100, REPORT_MS = 10000, REPORT_MOST = 64 << 20 };

void page_answer_free(struct page_answer *a)
{
	free(a->body);
	*a = (struct page_answer){ 0 };
}

static struct str argument(const struct page_request *r, const char *name)
{
	for (size_t n = 0; n < r->narguments; n++)
		if (str_is(r->arguments[n].name, name))
			return str_cut(r->arguments[n].value, ARGUMENT_MOST);
	return (struct str){ 0 };
}

/** A request while it is answered. */
struct routing {
	struct site_pages *pages;
	const struct know *know;
	const struct page_request *request;
	struct str name; // what stands behind the address
	struct history_filter filter;
	int64_t skip, limit;
	FILE *out;
	bool found;
};

static struct uh_error *argument_number(const struct page_request *r, const char *name, int64_t least, int64_t most,
					int64_t *ret)
{
	const struct str text = argument(r, name);
	int64_t n;
	if (!text.n)
		return NULL;
	if (!str_number(text, &n) || n < least || n > most)
		return uh_error_new("%s=" STR_FMT ": that is no number from %lld to %lld", name, STR_ARG(text),
				    (long long)least, (long long)most);
	*ret = n;
	return NULL;
}

/** What a request asks for. The error is that it is written wrong: an answer would be to another question. */
static struct uh_error *route_arguments(struct routing *r, const char *known)
{
	const struct page_request *q = r->request;
	for (size_t n = 0; n < q->narguments; n++)
		if (!str_among(q->arguments[n].name, STR_EQUALS, known).n)
			return uh_error_new("'" STR_FMT "' cannot be asked for here",
					    STR_ARG(str_cut(q->arguments[n].name, 40)));
	r->filter = (struct history_filter){ .class = argument(q, "class"),
					     .host = argument(q, "node"),
					     .gpu = argument(q, "gpu"),
					     .serial = argument(q, "serial"),
					     .part = argument(q, "part"),
					     .program = argument(q, "program"),
					     .job = argument(q, "job"),
					     .fingerprint = argument(q, "fingerprint"),
					     .id = argument(q, "id"),
					     .open = argument(q, "open").n };
	r->limit = API_USUAL;
	struct uh_error *err = history_asked_known(r->know, &r->filter);
	if (!err)
		err = history_asked_times(r->know, r->pages->history.now, argument(q, "since"), argument(q, "until"),
					  &r->filter);
	if (!err)
		err = argument_number(q, "skip", 0, INT32_MAX, &r->skip);
	return err ? err : argument_number(q, "limit", 1, API_MOST, &r->limit);
}

/** The arguments again, but for where in the list it is. */
static struct str query_of(struct arena *a, const struct page_request *r)
{
	_cleanup_text_ struct text t = { 0 };
	for (size_t n = 0; n < r->narguments; n++) {
		if (str_is(r->arguments[n].name, "skip") || !r->arguments[n].value.n)
			continue;
		const struct str parts[] = { r->arguments[n].name, str_cut(r->arguments[n].value, ARGUMENT_MOST) };
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

/** A bundle that is a link, or lies behind one, is none of this store. */
static bool is_own_bundle(const char *directory, struct str id)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct stat st;
	_cleanup_close_ int store = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int bundle = root_open_beneath(
		store, arena_printf(&a, "incidents/" STR_FMT "/" STORE_BUNDLE, STR_ARG(id)).p, O_PATH | O_CLOEXEC);
	return bundle >= 0 && !fstat(bundle, &st) && S_ISREG(st.st_mode);
}

static bool put_report(const struct site_pages *p, struct str id, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text answer = { 0 };
	if (!p->directory || !store_is_id(id))
		return false;
	const struct report_asked asked = { arena_printf(&a, "%s/" STORE_BUNDLE, store_path(&a, p->directory, id)).p };
	if (!is_own_bundle(p->directory, id) || access(asked.bundle, R_OK))
		return false;
	const struct child_task task = { .name = CHILD_SERVE_REPORT, .deadline = now_ms() + REPORT_MS, .most = REPORT_MOST };
	if (child_collect(&task, report_work, &asked, &answer) != CHILD_GOOD)
		return false;
	print_str(out, text_str(&answer));
	return true;
}

// --- addresses ---

static struct uh_error *get_overview(struct routing *r) { return pages_overview(r->pages, r->out); }
static struct uh_error *get_runs(struct routing *r) { return pages_runs(r->pages, r->skip, r->out); }
static struct uh_error *get_machines(struct routing *r) { return pages_machines(r->pages, r->out); }
static struct uh_error *get_incident(struct routing *r) { return pages_incident(r->pages, r->name, r->out, &r->found); }
static struct uh_error *get_run(struct routing *r) { return pages_run(r->pages, r->name, r->out, &r->found); }
static struct uh_error *get_machine(struct routing *r) { return pages_machine(r->pages, r->name, r->out, &r->found); }

static struct uh_error *get_incidents(struct routing *r)
{
	return pages_incidents(r->pages, &r->filter, query_of(&r->pages->history.arena, r->request), r->skip, r->out);
}

static struct uh_error *get_report(struct routing *r)
{
	r->found = put_report(r->pages, r->name, r->out);
	return NULL;
}

static struct uh_error *get_api_history(struct routing *r)
{
	return pages_history_json(r->pages, &r->filter, r->skip, r->limit, r->out);
}

static struct uh_error *get_api_changes(struct routing *r) { return pages_changes_json(r->pages, &r->filter, r->out); }

static struct uh_error *get_api_incident(struct routing *r)
{
	return pages_incident_json(r->pages, r->name, r->out, &r->found);
}

#define FILTERS "class|node|gpu|serial|part|program|job|fingerprint|id|since|until|open|skip"

static const struct address {
	const char *path; // one that ends with / has a name behind it
	const char *type;
	struct uh_error *(*get)(struct routing *r);
	const char *arguments; // that it has; NULL: it looks at none
} addresses[] = {
	{ "/", html, get_overview, NULL },
	{ "/incidents", html, get_incidents, FILTERS },
	{ "/incident/", html, get_incident, NULL },
	{ "/report/", html, get_report, NULL },
	{ "/runs", html, get_runs, "skip" },
	{ "/run/", html, get_run, NULL },
	{ "/machines", html, get_machines, NULL },
	{ "/machine/", html, get_machine, NULL },
	{ "/api/1/history", json, get_api_history, FILTERS "|limit" },
	{ "/api/1/changes", json, get_api_changes, "class|node|part|since|until" },
	{ "/api/1/incident/", json, get_api_incident, "" },
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

void route_refuse(struct site_pages *p, struct str path, unsigned status, struct str says, struct page_answer *ret)
{
	const bool for_program = str_starts(path, S("/api/"));
	*ret = (struct page_answer){ .status = status, .type = for_program ? json : html };
	FILE *out = open_memstream(&ret->body, &ret->n);
	if (for_program) {
		struct json j = { .out = out };
		jw_open(&j, '{');
		jw_field(&j, "schema", S("unhang/error/1"));
		jw_field(&j, "error", says);
		jw_close(&j, '}');
	} else {
		site_put_notice(&p->site,
				status == 404 ? "Not found" :
				status == 500 ? "Not available" :
						"That cannot be answered",
				says, out);
	}
	fclose(out);
}

void route(struct site_pages *p, const struct know *k, const struct page_request *q, struct page_answer *ret)
{
	struct routing r = { .pages = p, .know = k, .request = q, .found = true };
	const struct address *a = route_address(q->path, &r.name);
	if (!a) {
		route_refuse(p, q->path, 404, S("There is nothing at this address."), ret);
		return;
	}
	_cleanup_error_ struct uh_error *wrong = a->arguments ? route_arguments(&r, a->arguments) : NULL;
	if (wrong) {
		_cleanup_text_ struct text says = { 0 };
		text_add_safe(&says, str_z(uh_error_message(wrong)));
		text_add(&says, S("."));
		route_refuse(p, q->path, 400, text_str(&says), ret);
		return;
	}
	*ret = (struct page_answer){ .status = 200, .type = a->type };
	r.out = open_memstream(&ret->body, &ret->n);
	_cleanup_error_ struct uh_error *err = a->get(&r);
	fclose(r.out);
	if (!err && r.found)
		return;
	page_answer_free(ret); // what was begun is thrown away
	if (err)
		route_refuse(p, q->path, 500, S("The history cannot be read at the moment."), ret);
	else
		route_refuse(p, q->path, 404, S("There is nothing at this address."), ret);
}

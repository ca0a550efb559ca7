// The module's functions, for the page. A pointer that it is handed lives until page_free() or the next report.
#include <stdlib.h>
#include <string.h>

#include "unhang/unhang.h"

#define FOR_PAGE(name) __attribute__((export_name(#name)))
#define FROM_PAGE(name) __attribute__((import_module("page"), import_name(#name)))

FROM_PAGE(problem) void tell_problem(const char *message, size_t n);

struct page {
	struct uh_session *session;
	char *report;
	size_t length;
};

static void on_problem(void *ctx, const char *message)
{
	(void)ctx;
	tell_problem(message, strlen(message));
}

FOR_PAGE(page_allocate) void *page_allocate(size_t n) { return malloc(n); }
FOR_PAGE(page_release) void page_release(void *p) { free(p); }

FOR_PAGE(page_new) struct page *page_new(void)
{
	struct page *p = calloc(1, sizeof(*p));
	p->session = uh_session_new(on_problem, NULL);
	uh_session_keep_around(p->session, false);
	uh_session_ask(p->session, NULL, 0);
	return p;
}

FOR_PAGE(page_free) void page_free(struct page *p)
{
	uh_session_free(p->session);
	free(p->report);
	free(p);
}

FOR_PAGE(page_add_path) void page_add_path(struct page *p, const char *path) { uh_session_add_path(p->session, path); }
FOR_PAGE(page_add_bytes) void page_add_bytes(struct page *p, const char *name, const void *bytes, size_t n)
{
	uh_session_add_bytes(p->session, name, bytes, n);
}
/** The reply to the question of an earlier report: `one-game=yes`. */
FOR_PAGE(page_answer) void page_answer(struct page *p, const char *text)
{
	struct uh_error *err = uh_session_answer(p->session, text);
	if (err)
		on_problem(NULL, uh_error_message(err));
	uh_error_free(err);
}
FOR_PAGE(page_end) void page_end(struct page *p) { uh_session_end(p->session); }
FOR_PAGE(page_sources) unsigned page_sources(const struct page *p) { return uh_session_sources(p->session); }
FOR_PAGE(page_verdict) unsigned page_verdict(const struct page *p) { return uh_session_verdict(p->session); }

enum page_report_kind { PAGE_JSON, PAGE_TEXT, PAGE_TEXT_ALL, PAGE_HTML, PAGE_MARKDOWN };

static void write_report(struct uh_session *s, FILE *out, enum page_report_kind kind, bool redact)
{
	const struct uh_report_options options = { .json = kind == PAGE_JSON,
						   .all = kind == PAGE_TEXT_ALL,
						   .verbose = kind == PAGE_TEXT_ALL };
	const struct uh_share_options share = { .redact = redact };
	if (kind == PAGE_HTML)
		uh_session_write_html(s, out, &share);
	else if (kind == PAGE_MARKDOWN)
		uh_session_write_markdown(s, out, &share);
	else
		uh_session_report(s, out, &options);
}

FOR_PAGE(page_report) const char *page_report(struct page *p, enum page_report_kind kind, bool redact)
{
	free(p->report);
	p->report = NULL;
	FILE *out = open_memstream(&p->report, &p->length);
	write_report(p->session, out, kind, redact);
	fclose(out);
	return p->report;
}
FOR_PAGE(page_report_length) size_t page_report_length(const struct page *p) { return p->length; }

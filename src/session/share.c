// Reports for others: with names replaced where that is asked for. First everything that would be written is searched, then it is written.
#include "base/cleanup.h"
#include "capture/redact/redact.h"
#include "report/html/page.h"
#include "session/session.h"
#include "session/look.h"

typedef void share_fn(const struct diagnosis *d, FILE *out, const struct page_options *o);

static void search_text(void *ctx, struct str s, struct text *ret)
{
	redact_find(ctx, s, false);
	text_add(ret, s);
}

static void replace_text(void *ctx, struct str s, struct text *ret) { redact_text(ctx, s, false, ret); }

/** The report is written twice, the first time to nowhere: what is in it is found before any of it is shown. */
static void share_redacted(const struct diagnosis *d, FILE *out, share_fn *write, struct page_options o)
{
	_cleanup_(redactor_free) struct redactor r = { 0 };
	const struct page_filter searching = { search_text, &r }, replacing = { replace_text, &r };
	_cleanup_free_ char *unused = NULL;
	size_t n;
	FILE *nowhere = open_memstream(&unused, &n);
	if (!nowhere)
		return;
	redact_add(&r, REDACT_HOST, d->host); // and the other names that the diagnosis has as such
	for (size_t k = 0; k < d->ledger->incidents.len; k++) {
		const struct incident *i = d->ledger->incidents.data[k];
		redact_add(&r, REDACT_HOST, i->host);
		redact_add(&r, REDACT_SERIAL, i->gpu.serial);
		redact_add(&r, REDACT_SERIAL, i->gpu.unique_id);
	}
	o.filter = &searching;
	write(d, nowhere, &o);
	fclose(nowhere);
	redact_ready(&r);
	o.filter = &replacing;
	write(d, out, &o);
}

/** `./docs/sample-kernel.cpp:7`; false: it is no such place. */
static bool split_place(struct str place, struct str *ret_path, int64_t *ret_line)
{
	const char *colon = place.n ? memrchr(place.p, ':', place.n) : NULL;
	*ret_path = colon ? str_cut(place, (size_t)(colon - place.p)) : (struct str){ 0 };
	return colon && str_number(str_from(place, (size_t)(colon - place.p) + 1), ret_line) && *ret_line > 0;
}

/** The source of an event's access, or else of its pc. false: it is not known, or not here. */
static bool read_source(struct source_texts *texts, const struct diag_event *e, struct arena *a, struct page_source *ret)
{
	enum { AROUND = 5 };
	struct str path = diag_value(e, "source_file");
	int64_t here;
	if (!split_place(diag_value(e, "access_source"), &path, &here)) {
		path = diag_value(e, "source_file");
		if (!str_number(diag_value(e, "source_line"), &here) || here < 1 || here > INT32_MAX)
			return false;
	}
	struct str *lines = arena_alloc(a, (2 * AROUND + 1) * sizeof(*lines));
	*ret = (struct page_source){ .event = e, .path = path, .here = (unsigned)here, .lines = lines };
	ret->first = ret->here > AROUND ? ret->here - AROUND : 1;
	bool found = false;
	for (unsigned line = ret->first; line <= ret->here + AROUND; line++) {
		const struct str text = source_line(texts, diag_value(e, "code_object"), path, line);
		lines[ret->n++] = arena_str(a, text);
		found |= line == ret->here && text.n;
	}
	while (ret->n && !lines[ret->n - 1].n)
		ret->n--;
	return found;
}

/** Source files that lie beside the code, for the events that have one: the report itself opens nothing. */
static size_t read_sources(const struct diagnosis *d, struct arena *a, const struct page_source **ret)
{
	enum { SOURCES_MOST = 64 };
	struct source_texts *texts = source_texts_new(NULL, 0);
	struct page_source *list = arena_alloc(a, SOURCES_MOST * sizeof(*list));
	_cleanup_text_ struct text problems = { 0 };
	size_t found = 0;
	for (size_t n = 0; n < d->ledger->incidents.len; n++) {
		const struct incident *i = d->ledger->incidents.data[n];
		for (size_t k = 0; k < i->events.len && found < SOURCES_MOST; k++)
			found += i->events.data[k]->dump.ncode && read_source(texts, i->events.data[k], a, &list[found]);
	}
	source_texts_free(texts, &problems);
	*ret = list;
	return found;
}

static void share_diagnosis(struct uh_session *s, FILE *out, share_fn *write, const struct uh_share_options *options)
{
	const struct diagnosis d = session_diagnosis(s);
	struct page_options o = { .full_evidence = options->full_evidence };
	_cleanup_arena_ struct arena a = { 0 };
	o.nsources = read_sources(&d, &a, &o.sources);
	if (options->redact)
		share_redacted(&d, out, write, o);
	else
		write(&d, out, &o);
}

void uh_session_write_html(struct uh_session *s, FILE *out, const struct uh_share_options *options)
{
	share_diagnosis(s, out, report_html, options);
}

void uh_session_write_markdown(struct uh_session *s, FILE *out, const struct uh_share_options *options)
{
	share_diagnosis(s, out, report_markdown, options);
}

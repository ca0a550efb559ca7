// Reports for others: with names replaced where that is asked for. First everything that would be written is searched, then it is written.
#include <stdlib.h>

#include "capture/redact.h"
#include "report/html/page.h"
#include "session/session.h"

typedef void share_fn(const struct diagnosis *d, FILE *out, const struct page_options *o);

static void search(void *ctx, struct str s, struct text *ret)
{
	redact_find(ctx, s, false);
	text_add(ret, s);
}

static void replace(void *ctx, struct str s, struct text *ret) { redact_text(ctx, s, false, ret); }

/** Names that the diagnosis has as such. */
static void add_names(struct redactor *r, const struct diagnosis *d)
{
	redact_add(r, REDACT_HOST, d->host);
	for (size_t n = 0; n < d->ledger->incidents.len; n++) {
		const struct incident *i = d->ledger->incidents.data[n];
		redact_add(r, REDACT_HOST, i->host);
		redact_add(r, REDACT_SERIAL, i->gpu.serial);
		redact_add(r, REDACT_SERIAL, i->gpu.unique_id);
	}
}

static void share_redacted(const struct diagnosis *d, FILE *out, share_fn *write, struct page_options o)
{
	struct redactor r = { 0 };
	const struct page_filter searching = { search, &r }, replacing = { replace, &r };
	char *unused = NULL;
	size_t n;
	FILE *nowhere = open_memstream(&unused, &n);
	add_names(&r, d);
	o.filter = &searching;
	if (nowhere) {
		write(d, nowhere, &o);
		fclose(nowhere);
		redact_ready(&r);
		o.filter = &replacing;
		write(d, out, &o);
	}
	free(unused);
	redactor_free(&r);
}

static void share(struct uh_session *s, FILE *out, share_fn *write, const struct uh_share_options *options)
{
	const struct diagnosis d = session_diagnosis(s);
	const struct page_options o = { .full_evidence = options->full_evidence };
	if (options->redact)
		share_redacted(&d, out, write, o);
	else
		write(&d, out, &o);
}

void uh_session_write_html(struct uh_session *s, FILE *out, const struct uh_share_options *options)
{
	share(s, out, report_html, options);
}

void uh_session_write_markdown(struct uh_session *s, FILE *out, const struct uh_share_options *options)
{
	share(s, out, report_markdown, options);
}

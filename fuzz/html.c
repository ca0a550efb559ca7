// Fuzzes the writer of HTML: a text that was written in any context is read back by an HTML parser as it was; and, of one input in eight,
// the whole report on it as a log has no element, attribute or script that is not the report's own.
#include "html_check.h"

#include "childless.h"
#include "explain.h"
#include "know.h"
#include "report/html/page.h"

static ssize_t read_memory(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	(void)ret_err;
	struct str *left = s->ctx;
	const size_t n = size < left->n ? size : left->n;
	if (n)
		memcpy(buffer, left->p, n);
	*left = str_from(*left, n);
	return (ssize_t)n;
}

static void check_report(const struct diagnosis *d)
{
	char *html = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&html, &n);
	report_html(d, out, &(struct page_options){ 0 });
	fclose(out);
	if (html_report_complaint((struct str){ html, n }))
		abort();
	free(html);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct str bytes = { (const char *)data, size };
	if (html_contexts_complaint(bytes))
		abort();
	if (size % 8 == 1) {
		struct explained x;
		struct str left = bytes;
		struct source source = { .name = "<b>\"'&.log", .read = read_memory, .ctx = &left };
		size_t n;
		explain_begin(&x, know);
		x.also = check_report;
		explain_source(&x, &source);
		free(explain_end(&x, &n));
	}
	return 0;
}

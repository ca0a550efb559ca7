#include "report/trial/rates.h"

#include <stdlib.h>

enum { BAR = 320, BAR_LEFT = 4 };
static const double shown_confidence = 0.95;

struct str rate_say(struct arena *a, struct tally t)
{
	const struct tally_interval i = tally_limits(t, shown_confidence);
	return arena_printf(a, "%u of %u failed (%.0f to %.0f %%)", t.failed, t.runs, i.low * 100, i.high * 100);
}

void put_tally(struct sheet *s, const char *key, struct tally t)
{
	const struct tally_interval i = tally_limits(t, shown_confidence);
	if (sheet_object(s, key, t.runs > 0)) {
		sheet_fields(s, { "runs", v_number(t.runs) }, { "failed", v_number(t.failed) },
			     { "rate", v_decimal(tally_rate(t), 4) }, { "low", v_decimal(i.low, 4) },
			     { "high", v_decimal(i.high, 4) });
		sheet_close(s, '}');
	}
}

static double bar_x(double rate) { return BAR_LEFT + rate * BAR; }

void rate_bar(struct html *p, struct tally t)
{
	const struct tally_interval i = tally_limits(t, shown_confidence);
	page_numbers(
		p,
		"<svg width=\"%d\" height=\"18\" role=\"img\"><line x1=\"%d\" y1=\"9\" x2=\"%d\" y2=\"9\" stroke=\"#ccc\"/>"
		"<rect x=\"%.1f\" y=\"5\" width=\"%.1f\" height=\"8\" fill=\"#7aa6d8\"/>"
		"<circle cx=\"%.1f\" cy=\"9\" r=\"3.5\" fill=\"#123\"/></svg>",
		BAR + 2 * BAR_LEFT, BAR_LEFT, BAR + BAR_LEFT, bar_x(i.low), bar_x(i.high) - bar_x(i.low), bar_x(tally_rate(t)));
}

/** The text that a terminal shows, as it is. */
static void text_part(struct html *p, void (*write)(const void *ctx, FILE *to), const void *ctx)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);
	if (!to)
		return;
	write(ctx, to);
	fclose(to);
	page_put(p, "<pre>");
	struct str rest = { text, n };
	while (rest.n) {
		page_text(p, str_split(&rest, '\n'));
		page_put(p, "\n");
	}
	page_put(p, "</pre>");
	free(text);
}

void rates_page_begin(struct html *p, struct str name, void (*write)(const void *ctx, FILE *to), const void *ctx)
{
	page_fill(
		p,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>@</title>"
		"<meta name=\"generator\" content=\"@\"><style>body{font:15px sans-serif;max-width:60em;margin:2em "
		"auto;padding:0 1em}td{padding:.2em .8em .2em 0;vertical-align:middle}pre{background:#f4f4f4;padding:1em;"
		"overflow-x:auto}</style></head><body>\n<h1>@</h1>\n",
		name, name, name);
	text_part(p, write, ctx);
	page_put(p, "<h2>Failures in each question</h2>\n<p>The dot is the share of runs that failed; the bar is its exact "
		    "interval of 95 %. The left end is 0 %, the right end 100 %.</p>\n<table>");
}

void rates_page_end(struct html *p) { page_put(p, "</table>\n</body></html>\n"); }

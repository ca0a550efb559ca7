// The one door through which text gets into HTML. Everything that the evidence has a part in is filtered (redaction), freed of what
// does not show, and escaped here, so that no other file has to think of it; tests/pages.py looks that no other file of this folder
// writes on its own.
#include "report/html/tag.h"

#include "base/print.h"

void page_markup(struct html *p, struct str markup) { print_str(p->out, markup); }

void page_filtered(const struct html *p, struct str s, struct text *ret)
{
	if (p->filter)
		p->filter->text(p->filter->ctx, s, ret);
	else
		text_add(ret, s);
}

static void put_escaped(struct html *p, struct str s)
{
	static const char *const escapes[256] = {
		['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"
	};
	for (size_t n = 0; n < s.n; n++) {
		const char *escape = escapes[(unsigned char)s.p[n]];
		if (escape)
			fputs(escape, p->out);
		else
			fputc(s.p[n], p->out);
	}
}

/** Tabs are spaces: print_safe() leaves controls out, and words would grow together. */
static void add_shown(struct text *to, struct str s)
{
	for (struct str rest = s, part = str_split(&rest, '\t');; part = str_split(&rest, '\t')) {
		text_add_safe(to, part);
		if (part.p + part.n == s.p + s.n)
			return;
		text_add(to, S("    "));
	}
}

void page_text(struct html *p, struct str s) { page_clipped(p, s, SIZE_MAX); }

void page_clipped(struct html *p, struct str s, size_t most)
{
	_cleanup_text_ struct text filtered = { 0 }, shown = { 0 };
	page_filtered(p, s, &filtered);
	add_shown(&shown, text_str(&filtered));
	size_t n = shown.n < most ? shown.n : most;
	while (n < shown.n && n && ((unsigned char)shown.p[n] & 0xc0) == 0x80) // not within a character
		n--;
	put_escaped(p, str_cut(text_str(&shown), n));
	if (n < shown.n)
		fputs("\xe2\x80\xa6", p->out);
}

void page_fill_texts(struct html *p, struct str markup, const struct str *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		page_markup(p, str_split(&markup, '@'));
		page_text(p, texts[i]);
	}
	page_markup(p, markup);
}

void page_known(struct html *p, struct str s)
{
	while (s.n) {
		const char *begin = memchr(s.p, '`', s.n);
		const char *end = begin ? memchr(begin + 1, '`', (size_t)(s.p + s.n - begin) - 1) : NULL;
		if (!end) {
			page_text(p, s);
			return;
		}
		page_text(p, str_cut(s, (size_t)(begin - s.p)));
		page_put(p, "<code>");
		page_text(p, (struct str){ begin + 1, (size_t)(end - begin) - 1 });
		page_put(p, "</code>");
		s = str_from(s, (size_t)(end - s.p) + 1);
	}
}

void page_step(struct html *p, const struct command *c)
{
	struct str rest = command_str(c);
	for (size_t index = 0; rest.n; index++) {
		const struct str run = command_run(c, index);
		if (!run.n)
			break;
		page_known(p, str_cut(rest, (size_t)(run.p - rest.p)));
		page_element(p, "code class=\"run\"", "code", run);
		rest = str_from(rest, (size_t)(run.p - rest.p) + run.n);
	}
	page_known(p, rest);
}

void page_json(struct html *p, struct str json)
{
	// These stand in strings only, where an escape means the same.
	for (size_t n = 0; n < json.n; n++) {
		if (json.p[n] == '<' || json.p[n] == '>' || json.p[n] == '&')
			fprintf(p->out, "\\u%04x", (unsigned)json.p[n]);
		else
			fputc(json.p[n], p->out);
	}
}

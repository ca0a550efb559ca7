// Writing HTML. Markup is literal text of this program; all else goes through page_text(), which leaves nothing in it that a browser takes
// for markup: in an element, in an attribute between quotes, and in SVG alike.
#pragma once

#include "base/arena.h"
#include "report/html/page.h"

struct html {
	FILE *out;
	const struct page_filter *filter; // NULL: texts are written as they are
};

void page_markup(struct html *p, struct str markup);
#define page_put(p, literal) page_markup((p), S("" literal ""))
/** Markup with numbers in it. A format has no %s: tests/pages.py looks. */
#define page_numbers(p, ...) fprintf((p)->out, __VA_ARGS__)
/** What shows of @s, escaped. */
void page_text(struct html *p, struct str s);
/** The same, of at most @most bytes, with an ellipsis where that is not all. */
void page_clipped(struct html *p, struct str s, size_t most);
/** `<TAG>`, the text, `</TAG>`. @open may have attributes: `td class="x"`. */
#define page_element(p, open, tag, s)                                                                                          \
	do {                                                                                                                   \
		page_put(p, "<" open ">");                                                                                     \
		page_text(p, s);                                                                                               \
		page_put(p, "</" tag ">");                                                                                     \
	} while (0)
/** Markup with texts in it: each `@` of the literal stands for the next of them. A text goes through page_text() like any other. */
#define page_fill(p, literal, ...)                                                                                             \
	page_fill_texts((p), S("" literal ""), (const struct str[]){ __VA_ARGS__ },                                            \
			ARRAY_SIZE(((const struct str[]){ __VA_ARGS__ })))
void page_fill_texts(struct html *p, struct str markup, const struct str *texts, size_t n);
/** A text of knowledge: what stands there between backticks is code. Never one that the evidence has a part in. */
void page_known(struct html *p, struct str s);
/** A step: what can be run as it stands is code. */
void page_step(struct html *p, const struct command *c);
/** What the filter makes of @s. */
void page_filtered(const struct html *p, struct str s, struct text *ret);
/** JSON between `<script>` tags: no string in it can end them. */
void page_json(struct html *p, struct str json);

// What a browser makes of the HTML that the writer wrote: the same text, and no element or attribute that is not the writer's own.
#pragma once

#include <gumbo.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/print.h"
#include "report/html/tag.h"

/** The text below a node. */
static void html_text_of(const GumboNode *node, struct text *to)
{
	if (node->type == GUMBO_NODE_TEXT || node->type == GUMBO_NODE_WHITESPACE)
		text_add(to, str_z(node->v.text.text));
	if (node->type != GUMBO_NODE_ELEMENT)
		return;
	for (unsigned n = 0; n < node->v.element.children.length; n++)
		html_text_of(node->v.element.children.data[n], to);
}

/** The first element of this name below a node, in a document's order. */
static const GumboNode *html_find(const GumboNode *node, const char *name)
{
	if (node->type != GUMBO_NODE_ELEMENT)
		return NULL;
	GumboStringPiece tag = node->v.element.original_tag;
	gumbo_tag_from_original_text(&tag);
	if (tag.data && str_is((struct str){ tag.data, tag.length }, name))
		return node;
	for (unsigned n = 0; n < node->v.element.children.length; n++) {
		const GumboNode *found = html_find(node->v.element.children.data[n], name);
		if (found)
			return found;
	}
	return NULL;
}

/** Whether the element of this name holds @wanted and nothing else. */
static bool html_holds(const GumboOutput *o, const char *name, struct str wanted)
{
	struct text text = { 0 };
	const GumboNode *node = html_find(o->root, name);
	if (node)
		html_text_of(node, &text);
	const bool same = node && str_eq(text_str(&text), wanted);
	text_free(&text);
	return same;
}

/** Whether a report may have the element, and each of its attributes. */
static bool html_is_ours(const GumboNode *node, unsigned *scripts)
{
	if (node->type != GUMBO_NODE_ELEMENT)
		return true;
	const GumboElement *e = &node->v.element;
	*scripts += e->tag == GUMBO_TAG_SCRIPT;
	if (e->tag == GUMBO_TAG_IFRAME || e->tag == GUMBO_TAG_IMG || e->tag == GUMBO_TAG_LINK || e->tag == GUMBO_TAG_OBJECT ||
	    e->tag == GUMBO_TAG_FORM || e->tag == GUMBO_TAG_BASE)
		return false;
	for (unsigned n = 0; n < e->attributes.length; n++) {
		const GumboAttribute *a = e->attributes.data[n];
		const struct str name = str_z(a->name), value = str_z(a->value);
		if (str_starts(name, S("on")) || str_is(name, "src") || str_is(name, "style") ||
		    (str_is(name, "href") && !str_starts(value, S("#"))))
			return false;
	}
	for (unsigned n = 0; n < e->children.length; n++)
		if (!html_is_ours(e->children.data[n], scripts))
			return false;
	return true;
}

/** What is wrong with a whole report; NULL: nothing. */
static inline const char *html_report_complaint(struct str html)
{
	GumboOutput *o = gumbo_parse_with_options(&kGumboDefaultOptions, html.p, html.n);
	unsigned scripts = 0;
	const char *complaint = !html_is_ours(o->root, &scripts) ? "an element or attribute that is not the report's own" :
				scripts != 2                     ? "more or fewer scripts than the report's two" :
								   NULL;
	gumbo_destroy_output(&kGumboDefaultOptions, o);
	return complaint;
}

/** Whether the JSON has this text under "k". */
static bool html_json_holds(const GumboOutput *o, struct str wanted)
{
	struct text text = { 0 };
	const GumboNode *node = html_find(o->root, "script");
	if (node)
		html_text_of(node, &text);
	json_t *json = json_loadb(text.p ? text.p : "", text.n, 0, NULL);
	const json_t *value = json_object_get(json, "k");
	const bool same = value && str_eq((struct str){ json_string_value(value), json_string_length(value) }, wanted);
	json_decref(json);
	text_free(&text);
	return same;
}

/** A document with @s in every context that a report has. To be freed. */
static char *html_contexts(struct str s, struct str safe, size_t *ret_n)
{
	char *written = NULL, *quoted = NULL;
	size_t quoted_n = 0;
	struct html p = { open_memstream(&written, ret_n), NULL };
	struct json j = { .out = open_memstream(&quoted, &quoted_n) };
	jw_open(&j, '{');
	jw_field(&j, "k", safe);
	jw_close(&j, '}');
	fclose(j.out);
	page_put(&p, "<!DOCTYPE html><title>t</title><body><p>");
	page_text(&p, s);
	page_put(&p, "</p><a title=\"");
	page_text(&p, s);
	page_put(&p, "\">x</a><svg><text>");
	page_text(&p, s);
	page_put(&p, "</text></svg><script type=\"application/json\">");
	page_json(&p, (struct str){ quoted, quoted_n });
	page_put(&p, "</script><b>end</b>");
	fclose(p.out);
	free(quoted);
	return written;
}

/** What is wrong with how @s is read back from the contexts; NULL: nothing. */
static inline const char *html_contexts_complaint(struct str s)
{
	struct text text = { 0 };
	size_t n = 0;
	for (struct str rest = s; rest.n;) { // tabs are written as spaces
		const struct str part = str_split(&rest, '\t');
		text_add_safe(&text, part);
		if (part.p + part.n != s.p + s.n)
			text_add(&text, S("    "));
	}
	const struct str safe = text.n ? text_str(&text) : S("");
	char *written = html_contexts(s, safe, &n);
	GumboOutput *o = gumbo_parse_with_options(&kGumboDefaultOptions, written, n);
	const GumboNode *a = html_find(o->root, "a");
	const GumboAttribute *title = a ? gumbo_get_attribute(&a->v.element.attributes, "title") : NULL;
	const char *complaint = !html_holds(o, "p", safe)                    ? "another text in an element" :
				!title || !str_eq(str_z(title->value), safe) ? "another text in an attribute" :
				!html_holds(o, "text", safe)                 ? "another text in SVG" :
				!html_json_holds(o, safe)                    ? "another text in JSON" :
				!html_holds(o, "b", S("end"))                ? "what follows is gone" :
									       NULL;
	gumbo_destroy_output(&kGumboDefaultOptions, o);
	free(written);
	text_free(&text);
	return complaint;
}

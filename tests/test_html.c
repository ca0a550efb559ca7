// What is written into HTML is read back as it was, in every context; cut anywhere.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "html_check.h"
#include "report/html/html.h"

static void says(struct str s)
{
	const char *complaint = html_contexts_complaint(s);
	if (complaint)
		fail_msg("%s: %.*s", complaint, (int)s.n, s.p);
}

static void test_contexts(void **state)
{
	static const struct str hostile[] = {
		S("</script><script>alert(1)</script>"),
		S("\"><svg onload=alert(1)>"),
		S("' onmouseover='alert(1)"),
		S("<!-- --> ]]> <![CDATA[ </title></style></textarea>"),
		S("&lt; &#60; &amp;amp; &notanentity; &"),
		S("a\x1b[31mb\x01\x7f\xc2\x9b"
		  "c"),
		S("right \xe2\x80\xae to \xe2\x81\xa6 left \xef\xbb\xbf"),
		S("\xff\xfe<\xc3<\xe2\x82<\xf0\x9f"),
		S("\xe2\x80\xa8\xe2\x80\xa9 {{x}} ${y} `z` \\u003c \\"),
		S("tab\there \t\t"),
		S(""),
	};
	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(hostile); n++)
		for (size_t cut = 0; cut <= hostile[n].n; cut++)
			says(str_cut(hostile[n], cut));
	for (int c = 0; c < 256; c++) {
		const char text[] = { 'a', (char)c, '<', (char)c, 'b' };
		says((struct str){ text, sizeof(text) });
	}
}

/** Of names that are replaced nothing is left, and a text is cut only behind that, and never within a character. */
static void shout(void *ctx, struct str s, struct text *ret)
{
	(void)ctx;
	for (; s.n; s = str_from(s, 1))
		text_add(ret, s.p[0] == 'x' ? S("<REPLACED>") : str_cut(s, 1));
}

static void test_filter(void **state)
{
	const struct page_filter filter = { shout, NULL };
	char *written = NULL;
	size_t n = 0;
	struct html p = { open_memstream(&written, &n), &filter };
	(void)state;
	page_clipped(&p, S("ax\xc3\xa9 the rest"), 12);
	fclose(p.out);
	assert_string_equal(written, "a&lt;REPLACED&gt;\xe2\x80\xa6");
	free(written);
}

/** Of too many lines those around what is told go first; what is left is found. */
static void test_limit(void **state)
{
	quoted_lines list = { 0 };
	(void)state;
	for (uint64_t line = 1; line <= 100; line++) {
		const struct quoted_line one = { { 0, line }, line % 10 == 0 };
		vec_push(&list, one);
	}
	assert_true(quote_limit(&list, 100));
	assert_int_equal(list.len, 100);
	assert_true(quote_has(&list, (struct place){ 0, 99 }));
	assert_false(quote_limit(&list, 50));
	assert_int_equal(list.len, 10);
	assert_int_equal(quote_told(&list), 10);
	assert_true(quote_has(&list, (struct place){ 0, 100 }));
	assert_false(quote_has(&list, (struct place){ 0, 99 }));
	assert_false(quote_limit(&list, 3));
	assert_int_equal(list.len, 3);
	assert_false(quote_has(&list, (struct place){ 0, 100 }));
	vec_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// Fuzzes the reader of knowledge files, without what is built in, which takes a hundred times as long to load. What it accepts is
// also used: on a log line, and as a sentence.
#include <stdlib.h>

#include "knowledge/know.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** A problem stands in the file, or concerns all of it; or unhang itself lacks what no built-in knowledge is there to give it. */
static void check_problem(void *ctx, const char *file, unsigned line, const char *message)
{
	const unsigned *lines = ctx;
	(void)message;
	bool own = !strcmp(file, "unhang") && !line;
	if (!own && (strcmp(file, "fuzz.know") || line > *lines))
		abort();
}

static bool name_is_value(const void *ctx, struct str name, size_t index, struct str *ret_value)
{
	(void)ctx;
	*ret_value = name;
	return index == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size };
	unsigned lines = 1;
	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	struct know_problems problems = { .report = check_problem, .ctx = &lines };
	struct know *k = know_load_alone("fuzz.know", text, &problems);

	const struct fact_view view = { .get = name_is_value };
	struct text sentence = { 0 };
	for (size_t i = 0; i < k->causes.len; i++) {
		const struct know_cause *c = k->causes.data[i];
		condition_eval(c->when, &view);
		phrase_fill(&sentence, c->explain, &view);
	}
	text_free(&sentence);
	struct match m;
	know_match(k, str_cut(text, 4096), &m);
	know_free(k);
	return 0;
}

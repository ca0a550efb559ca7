// Fuzzes what unhang run reads: tries and runs as they are stored, what its helper answers, profiles, and the end of a job's output.
#include <stdint.h>
#include <stdlib.h>

#include "know.h"
#include "job/supervisor.h"
#include "session/run/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = { (const char *)data, size }, wrong;
	struct arena a = { 0 };
	struct text text = { 0 }, again = { 0 }, lines = { 0 };
	struct run_try *t = try_new(&a), *u = try_new(&a);
	struct run_told r = { 0 };
	try_take(bytes, &a, t);
	try_text(t, &text);
	try_take(text_str(&text), &a, u);
	try_text(u, &again);
	if (!str_eq(text_str(&text), text_str(&again)))
		abort();
	run_take(bytes, &a, &r);
	profile_parse(bytes, &lines, &wrong);
	words_find(know, bytes, &a);
	text_free(&text);
	text_free(&again);
	text_free(&lines);
	arena_free(&a);
	return 0;
}

// Fuzzes requests to the pages: the path, and names and values of arguments, with 0xff between them.
#include <stdint.h>
#include <stdlib.h>

#include "serve/route.h"
#include "store/history/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fill(struct db *d)
{
	static const char line[] =
		"{\"schema\":\"unhang/record/"
		"1\",\"kind\":\"incident\",\"id\":\"0123456789abcdef\",\"revision\":1,\"host\":\"a<b>\",\"place\":\"/x\","
		"\"record\":{\"id\":\"0123456789abcdef\",\"state\":\"open\",\"began\":1790000000,\"class\":\"c\",\"title\":\"<"
		"script>\","
		"\"gpu\":\"0000:03:00.0\"},\"diagnosis\":{\"incidents\":[{\"id\":\"0123456789abcdef\",\"cause\":{"
		"\"confidence\":1,"
		"\"explanation\":\"</style>\"},\"remedies\":[{\"title\":\"'\\\"\"}]}]}}";
	enum index_taken taken;
	uh_error_free(index_take(d, S(line), &taken));
	uh_error_free(
		index_take(d,
			   S("{\"schema\":\"unhang/record/"
			     "1\",\"kind\":\"run\",\"id\":\"r1\",\"revision\":1,\"host\":\"h\",\"run\":{\"command\":\"<b>\","
			     "\"tries\":[{\"number\":1,\"ended\":\"exit\",\"failure_reason\":\"&\"}]}}"),
			   &taken));
}

/** A text of a stranger never becomes markup: no page has a script, and each ends its style once. */
static bool is_clean(const struct page_answer *a)
{
	struct str body = { a->body, a->n };
	if (a->type[0] != 't')
		return true;
	return str_find(body, S("<script")) < 0 && str_after(body, S("</style>"), &body) && str_find(body, S("</style>")) < 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct site_pages pages;
	static struct know *know;
	if (!know) {
		know = know_load(&(struct know_problems){ 0 });
		if (index_open(NULL, DB_MAKE, &pages.history.db))
			abort();
		fill(pages.history.db);
		pages.history.now = pages.site.now = 1790100000;
	}
	struct str rest = { (const char *)data, size };
	struct page_request r = { .path = str_split(&rest, '\xff') };
	while (rest.n && r.narguments < ROUTE_ARGUMENTS) {
		r.arguments[r.narguments].name = str_split(&rest, '\xff');
		r.arguments[r.narguments++].value = str_split(&rest, '\xff');
	}
	struct page_answer a;
	route(&pages, know, &r, &a);
	if (!is_clean(&a) || (a.status != 200 && a.status != 400 && a.status != 404 && a.status != 500))
		abort();
	page_answer_free(&a);
	arena_free(&pages.history.arena);
	return 0;
}

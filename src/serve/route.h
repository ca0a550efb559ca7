// What a request is answered with. It knows nothing of sockets, so that a fuzzer can ask it anything.
#pragma once

#include "session/history/pages.h"

enum { ROUTE_ARGUMENTS = 24 };

struct page_request {
	struct str path; // decoded: /incident/0123456789abcdef
	struct {
		struct str name, value;
	} arguments[ROUTE_ARGUMENTS];
	size_t narguments;
};

struct page_answer {
	unsigned status;
	const char *type;
	char *body; // of open_memstream()
	size_t n;
};

/** Answers it. Texts that it keeps lie in the arena of @p->history, which is freed behind it. */
void route(struct site_pages *p, const struct know *k, const struct page_request *r, struct page_answer *ret);
/** Says why it is not answered: as JSON below /api, else as a page. */
void route_refuse(struct site_pages *p, struct str path, unsigned status, struct str says, struct page_answer *ret);
void page_answer_free(struct page_answer *a);

// Pages of the history: what each needs is asked of the store, and written. The server and the files of history --html are the same pages.
#pragma once

#include "report/site/site.h"
#include "session/history/history.h"

enum { PAGES_WEEKS = 8, PAGES_LIST = 100 };

struct site_pages {
	struct history history;
	struct site site;
	const char *directory; // of the store, where it is one: full reports can be made of its bundles; NULL
};

struct uh_error *pages_overview(struct site_pages *p, FILE *out);
/** @query: as it stands behind the address, for the pages before and behind. */
struct uh_error *pages_incidents(struct site_pages *p, const struct history_filter *f, struct str query, int64_t skip,
				 FILE *out);
struct uh_error *pages_runs(struct site_pages *p, int64_t skip, FILE *out);
struct uh_error *pages_machines(struct site_pages *p, FILE *out);
/** *@ret_found: there is one of this name; else nothing was written. */
struct uh_error *pages_incident(struct site_pages *p, struct str id, FILE *out, bool *ret_found);
struct uh_error *pages_run(struct site_pages *p, struct str id, FILE *out, bool *ret_found);
struct uh_error *pages_machine(struct site_pages *p, struct str host, FILE *out, bool *ret_found);

/** The documents of docs/history.schema.json, and of docs/incident.schema.json. */
struct uh_error *pages_history_json(struct site_pages *p, const struct history_filter *f, int64_t skip, int64_t most,
				    FILE *out);
struct uh_error *pages_changes_json(struct site_pages *p, const struct history_filter *f, FILE *out);
/** For people on a terminal. */
struct uh_error *pages_incident_text(struct site_pages *p, struct str id, unsigned width, FILE *out, bool *ret_found);
struct uh_error *pages_incident_json(struct site_pages *p, struct str id, FILE *out, bool *ret_found);

/** All pages as files in @directory. */
struct uh_error *pages_write_all(struct site_pages *p, const char *directory);

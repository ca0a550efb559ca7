// What is asked of the history. Answers are structs in an arena; SQL stands here and nowhere else.
#pragma once

#include "knowledge/know.h"
#include "report/history/told.h"
#include "store/db/db.h"

/** A history that is asked; what it answers lies in its arena. */
struct history {
	struct db *db;
	const struct know *know; // what classes are called; NULL: by their names
	struct arena arena;
	int64_t now;
};

/** All of them, and what is most frequent: at most @most faults, with their titles. */
struct uh_error *history_summary(struct history *h, const struct history_filter *f, size_t most, struct history_summary *ret);
void history_summary_free(struct history_summary *s);
/** Nothing was ever stored in it. */
struct uh_error *history_is_empty(struct history *h, bool *ret);
/** How often machines fail, or GPUs. */
struct uh_error *history_rates(struct history *h, const struct history_filter *f, bool gpus, struct history_rates *ret);
/** How many there are. */
struct uh_error *history_count(struct history *h, const struct history_filter *f, int64_t *ret);
/** The newest first, from the @skip-th on. */
struct uh_error *history_incidents(struct history *h, const struct history_filter *f, int64_t skip, int64_t most,
				   struct history_incident_list *ret);
struct uh_error *history_events(struct history *h, struct str incident, struct history_event_list *ret);
/** The document of its diagnosis; empty: there is none. */
struct uh_error *history_diagnosis(struct history *h, struct str incident, struct str *ret);
struct uh_error *history_runs(struct history *h, const struct history_filter *f, int64_t skip, int64_t most,
			      struct history_run_list *ret);
struct uh_error *history_run_called(struct history *h, struct str id, struct history_run_list *ret,
				    struct history_try_list *tries);
struct uh_error *history_samples(struct history *h, struct str host, struct str gpu, int64_t since, int64_t until,
				 struct history_sampled_list *ret);
/** What became another value, the newest first. What was there when a machine was seen first is no change. */
struct uh_error *history_changes(struct history *h, const struct history_filter *f, int64_t most,
				 struct history_change_list *ret);
/** What is so now. */
struct uh_error *history_configuration(struct history *h, struct str host, struct history_change_list *ret);

/** Each change, the newest first. */
struct uh_error *history_helped(struct history *h, const struct history_filter *f, int64_t most,
				struct history_helped_list *ret);
/** A number that changes when anything does that the pages show: for caches. */
struct uh_error *history_stamp(struct history *h, uint64_t *ret);

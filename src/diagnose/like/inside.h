// What the files of this folder share: what an incident has of what the base knows.
#pragma once

#include "diagnose/incident.h"

/** The facts of an incident, or of a case, against those of the base. */
struct like_query {
	const struct know *know;
	const struct incident *incident;
	const struct fact_view *view;
	double *worth;                // of each term; 0: the incident does not have it
	const struct know_case *of;   // whose facts these are; NULL: the incident's
	const bool *without;          // cases that are left out; NULL: none
	struct str known[TERM_KINDS]; // a value that the incident has of each kind; empty: none
	double sums[TERM_KINDS];      // of all that it has of a kind
};

/** Fill it in, but for its sums; @worth has a place for each term. */
void query_of_incident(struct like_query *q);
void query_of_case(struct like_query *q);

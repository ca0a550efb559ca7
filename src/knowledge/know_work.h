// Who is who: kinds of work, whose fault an incident is, and what a user may be asked to find that out. See docs/KNOWLEDGE.md.
#pragma once

#include "knowledge/condition.h"
#include "knowledge/know_head.h"

/** A kind of work: what the GPU did for whom when it failed. */
struct know_work_kind {
	struct know_head head;
	struct condition *when;
	struct str title;
};

/** Whose fault an incident is, where role and work say more than its cause does. */
struct know_blame {
	struct know_head head;
	struct condition *when;
	struct str fault;
	struct str say; // who that is, for people; empty: as the report says it
	int confidence;
};

enum { QUESTION_COLUMNS = 60, QUESTION_REPLIES = 4 };

/** Something that no log tells. Its id is what `-a ID=REPLY` takes. */
struct know_question {
	struct know_head head;
	struct str ask, why;
	struct str fact;           // that a reply becomes
	struct know_list *replies; // at most QUESTION_REPLIES
	struct know_list *work;    // the kinds of work that it is asked of; NULL: any
	struct condition *when, *unless;
	bool readable; // a machine can tell by itself, so that it is only asked about another one
	bool decides;  // what to do with the machine depends on it, whatever else is known
};

/** What may be behind an incident. */
struct know_explanation {
	struct know_head head;
	struct str title; // who or what is at fault, as a report names it
	struct str fault;
	struct know_list *for_classes;
	struct know_list *work; // NULL: any
	struct condition *when, *unless;
	int prior;                // in parts, against those of the others
	struct know_pair *likely; // question -> its replies, each with how many of 100 give it where this is the explanation
	struct know_list *tries;  // remedies for it, the best first
};

/** How many of 100 give @reply where @e is the explanation. What it says nothing of tells nothing. */
int explanation_likely(const struct know_explanation *e, const struct know_question *q, struct str reply);

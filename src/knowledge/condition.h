// Conditions on facts, as knowledge files write them: `gfx = gfx1151 and fw_mes = 0x83`.
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "knowledge/block.h"

/** TRUTH_UNKNOWN: the evidence lacks a fact. TRUTH_UNREAD: a fact could not be read in time, so it may be TRUTH_YES after all. */
enum truth { TRUTH_NO, TRUTH_UNKNOWN, TRUTH_UNREAD, TRUTH_YES };

struct command;

/** Facts, however they are kept. get() gives value @index of a fact; false: there is none. */
struct fact_view {
	bool (*get)(const void *ctx, struct str name, size_t index, struct str *ret_value);
	const void *ctx;
	/** A fact that is a step, made in pieces; NULL: it is none. May be NULL. */
	const struct command *(*command)(const void *ctx, struct str name);
	/** Whether what get() says may be wrong because something was not read. NULL: all was read. */
	bool (*unread)(const void *ctx, struct str name);
};

struct condition; // alternatives of terms

/** Adds one line of alternatives to @c, which may be NULL at first. */
struct condition *condition_parse(struct arena *arena, struct condition *c, struct str text, const char *file, unsigned line,
				  struct know_problems *problems);
/** @c NULL, which is no condition, is TRUTH_YES. */
enum truth condition_eval(const struct condition *c, const struct fact_view *view);

/** Calls @fact for the facts that make it true: those of the first alternative that holds. */
void condition_facts(const struct condition *c, const struct fact_view *view, void (*fact)(void *ctx, struct str name),
		     void *ctx);

/** How many facts make it true: those that its most telling alternative compares. 0 where it is not true, or asks for nothing. */
unsigned condition_met(const struct condition *c, const struct fact_view *view);

/** Fills a sentence: phrases between " | " whose {facts} are unknown are left out. {fact=1} is known where its value is 1. */
void phrase_fill(struct text *out, struct str sentence, const struct fact_view *view);

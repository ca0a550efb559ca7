// What an incident looks like, before anybody draws it: tracks with marks, cells, or a chain; and the same as a table. HTML and terminals
// draw one and the same. A picture without data is not made.
#pragma once

#include "report/report.h"

enum picture_form {
	PICTURE_TRACKS, // marks on a scale from 0 to 1
	PICTURE_CELLS,  // a mark for each cell, in rows; with tracks, @from is its column there
	PICTURE_CHAIN,  // each waits for the next
};

/** How a mark looks. What is not known is grey, never green. */
enum picture_look { LOOK_UNKNOWN, LOOK_GOOD, LOOK_BAD, LOOK_EFFECT, LOOK_QUIET, LOOKS };

struct picture_mark {
	size_t track;
	double from, to; // equal: a point
	enum picture_look look;
	struct str label;
};

struct picture_tick {
	double at;
	struct str label;
};

enum { PICTURE_COLUMNS = 8, PICTURE_CELLS_WIDE = 16 };

struct picture {
	struct arena arena;
	enum know_picture kind;
	enum picture_form form;
	struct str says;        // in one sentence, for those who do not see it
	VEC(struct str) tracks; // their labels
	VEC(struct picture_mark) marks;
	VEC(struct picture_tick) ticks; // the most important first: there may be no room for all
	VEC(double) folds;              // places at which a long gap was left out
	const char *looks[LOOKS];       // what each means here; NULL: it does not occur
	// the table
	size_t ncolumns;
	const char *heads[PICTURE_COLUMNS];
	VEC(struct str) cells; // row by row
};

/** false: the evidence has nothing to draw. Else picture_free() frees it. */
bool picture_make(enum know_picture kind, const struct diagnosis *d, const struct incident *i, struct picture *ret);
void picture_free(struct picture *p);
/** `Addresses around the fault`, and what evidence it takes. */
const char *picture_title(enum know_picture kind);
/** NULL: the evidence has such, and it does not tell. */
const char *picture_needs(enum know_picture kind, const struct incident *i);

// --- for those who make them ---

/** false: there is nothing to draw. */
bool picture_of_timeline(const struct diagnosis *d, const struct incident *i, struct picture *p);
bool picture_of_addresses(const struct diagnosis *d, const struct incident *i, struct picture *p);
bool picture_of_waits(const struct diagnosis *d, const struct incident *i, struct picture *p);
bool picture_of_lanes(const struct diagnosis *d, const struct incident *i, struct picture *p);
bool picture_of_ranks(const struct diagnosis *d, const struct incident *i, struct picture *p);
bool picture_of_queues(const struct diagnosis *d, const struct incident *i, struct picture *p);
bool picture_of_chip(const struct diagnosis *d, const struct incident *i, struct picture *p);

/** The heads of the table's columns; and the next cells of it, which are copied. */
#define picture_heads(p, ...)                                                                                                  \
	picture_set_heads((p), (const char *const[]){ __VA_ARGS__ },                                                           \
			  sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))
#define picture_cells(p, ...)                                                                                                  \
	picture_add_cells((p), (const struct str[]){ __VA_ARGS__ },                                                            \
			  sizeof((const struct str[]){ __VA_ARGS__ }) / sizeof(struct str))
void picture_set_heads(struct picture *p, const char *const *heads, size_t n);
void picture_add_cells(struct picture *p, const struct str *list, size_t n);
/** A number for a cell; empty where it is negative. */
struct str picture_count(struct picture *p, int64_t n);
void picture_track(struct picture *p, struct str label);
void picture_mark(struct picture *p, struct picture_mark m);
void picture_tick(struct picture *p, double at, struct str label);

/** A scale on which long gaps between what is told are left out. */
struct scale {
	VEC(double) values; // sorted, each once
	VEC(bool) gap;      // between a value and the next there is nothing
	VEC(double) at;     // their places, from 0 to 1
};

/** Adds a value. Call scale_ready() behind the last. */
void scale_add(struct scale *s, double value);
/** Something lies between the two: it is not left out. */
struct scale_span {
	double begin, end;
};
void scale_ready(struct scale *s, const struct scale_span *spans, size_t n, struct picture *p);
double scale_at(const struct scale *s, double value);
void scale_free(struct scale *s);

// A picture in letters, for a terminal.
/** Writes it into lines of at most @width columns. @ascii: in ASCII, else with block characters. */
void picture_draw(const struct picture *p, bool ascii, size_t width, struct text *to);

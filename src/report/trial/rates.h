// Rates of failures, as text, JSON and a bar.
#pragma once

#include "diagnose/trial/trial.h"
#include "report/html/tag.h"
#include "report/sheet.h"

/** `4 of 12 failed (10 to 65 %)` */
struct str rate_say(struct arena *a, struct tally t);
void put_tally(struct sheet *s, const char *key, struct tally t);
/** The rate as a dot, and its limits as a bar. */
void rate_bar(struct html *p, struct tally t);
/** What is above and below the rows of a page of rates. @write: the text that a terminal shows. */
void rates_page_begin(struct html *p, struct str name, void (*write)(const void *ctx, FILE *to), const void *ctx);
void rates_page_end(struct html *p);

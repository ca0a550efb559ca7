// Cases like an incident, and the base of them.
#pragma once

#include "report/report.h"
#include "report/sheet.h"

/** A defect with its nearest case, as an object of JSON. */
void like_write(struct sheet *s, const struct diag_like *l);
/** Where it can be read: the address of its thread. */
void case_link(struct text *to, const struct know_case *c);
/** `ROCm/ROCm#5706: Boot kernel 6.17.9 or newer. Same part, same client of the fault CPF.` Returns how much of it says what to do. */
size_t like_row(struct text *to, const struct diag_like *l);
/** What is the same, or what differs, all of it: `part gfx1151, kernel 6.17.9 (here 6.17.4)`. */
void like_facts_text(struct text *to, const struct like_fact *facts, size_t n);
/** `solved by kernel 6.17.9, which a developer confirms`, or that it is open. */
void like_solved(struct text *to, const struct know_defect *d);

/** What the incidents of a diagnosis are like: also what shares less. */
void report_like(const struct diagnosis *d, const struct uh_cases_options *o, FILE *out);
/** The same of a case, by its own facts. */
void report_like_case(const struct know *k, const struct know_case *c, const struct uh_cases_options *o, FILE *out);
/** The defects of the base with their cases, but for those that are left out. */
void report_cases(const struct know *k, const struct cases_asked *a, const struct uh_cases_options *o, FILE *out);
/** A defect and a case as text to be filled in, by the first incident of a diagnosis. false: it has none. */
bool report_case_draft(const struct diagnosis *d, struct str source, FILE *out);

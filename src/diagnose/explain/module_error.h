// What a hardware error says of itself, whether it made an incident or is only told in a note: the keys of its JSON, and the facts that have
// their values.
#pragma once

#include "diagnose/incident.h"

enum { ERROR_FIELDS = 21, ERROR_FACTS = 4 };

struct error_field {
	const char *key;
	const char *facts[ERROR_FACTS]; // the first that is known
	bool number;
};
extern const struct error_field error_fields[ERROR_FIELDS];

/** A value that is empty is not known. */
struct module_error {
	struct str gpu, serial; // by its number in the list of a tool, and as that says
	struct str values[ERROR_FIELDS];
};

/** Adds what is not known yet, copied to @a; NULL: the facts live long enough. */
void module_error_add(struct module_error *e, const struct fact_view *facts, struct arena *a);
struct module_error *module_error_copy(const struct module_error *e, struct arena *a);
/** What the fact @name of it says; empty: it is not known. */
struct str module_error_value(const struct module_error *e, const char *name);
void module_error_set(struct module_error *e, const char *name, struct str value);
/** Whether it is one: it names a block, a bank, AMD's number or how bad it is. */
bool module_error_known(const struct module_error *e);
/** What is said of it, behind the GPU's name: an incident has one, a note does not. */
struct str module_error_says(const struct module_error *e, const struct diag_gpu *gpu, struct str text, struct arena *a);
/** What an incident says of its error. */
struct module_error incident_module_error(const struct incident *i);

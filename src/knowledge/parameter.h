// What is known of a kernel or module parameter, asked for one kernel.
//
// A kernel's release does not say everything: distributions carry later drivers in older kernels, and an amdgpu that is not the kernel's own
// has its own parameters. Where the installed module can be asked (its .modinfo), it is right and this is not needed.
#pragma once

#include "knowledge/know.h"

/** By its name. - and _ are the same, as for the kernel. NULL: nothing is known of it. */
const struct know_parameter *know_parameter(const struct know *k, struct str name);
/** Whether two names are the same to the kernel. */
bool parameter_same(struct str a, struct str b);

/** Reads a value as the kernel does: a number; true or false. false: it is not one. */
bool parameter_number(struct str s, uint64_t *ret);
bool parameter_truth(struct str s, bool *ret);
/** Whether two values are the same to the kernel: Y and 1; 0x10 and 16; 0xffffffff and -1. */
bool value_same(struct str a, struct str b);

/** Whether a kernel of this release has it. Unknown: the release lies between or beyond the sources that were read, or the kernel may be
 * built without it. */
enum truth parameter_exists(const struct know_parameter *p, struct str kernel);
/** What it reads as if nobody set it. A NULL pointer: not known for this kernel. */
struct str parameter_default(const struct know_parameter *p, struct str kernel);

/** The parameter of the same module that a wrong name probably means, among those that are known and @others (all that the module has,
 * say). Empty: there is none, or several are equally near. */
struct str parameter_near(const struct know *k, struct str name, const struct str *others, size_t n);

/** Whether a name is probably a misspelt @other: not the same, but near. */
bool parameter_name_near(struct str name, struct str other);

// --- for load.c ---

/** Whether a block is right in itself. */
bool parameter_check(const struct know_parameter *p, struct know_problems *problems);
/** Reports knowledge that advises a parameter which no kernel has. */
void parameters_resolve(const struct know *k, struct know_problems *problems);

// What is known of a kernel or module parameter, asked for one kernel.
//
// A kernel's release does not say everything: distributions carry later drivers in older kernels, and an amdgpu that is not the kernel's own
// has its own parameters. Where the installed module can be asked (its .modinfo), it is right and this is not needed.
#pragma once

#include "knowledge/know.h"

/** By its name, in which - and _ are the same, as they are to the kernel. NULL where nothing is known of it. */
const struct know_parameter *know_parameter(const struct know *k, struct str name);
/** Whether two names are the same to the kernel. */
bool parameter_same(struct str a, struct str b);

/** A value as the kernel takes it: a number, or true and false. false: it is none. */
bool parameter_number(struct str s, uint64_t *ret);
bool parameter_truth(struct str s, bool *ret);
/** Whether two values are the same to the kernel: Y and 1, 0x10 and 16, and 32 bits that are shown as a negative number. */
bool value_same(struct str a, struct str b);

/** Whether a kernel of this release has it. Unknown: between or beyond the sources that were read, or where the kernel may be built
 * without it. */
enum truth parameter_exists(const struct know_parameter *p, struct str kernel);
/** What it reads as where nobody set it; no pointer where that is not known for this kernel. */
struct str parameter_default(const struct know_parameter *p, struct str kernel);

/** The parameter of the same module that a wrong name probably means: of those that are known and of @others, which may be all that the
 * module has. Empty where there is none, or where several are as near. */
struct str parameter_near(const struct know *k, struct str name, const struct str *others, size_t n);

/** Whether a name is probably a misspelt @other: not the same, but near. */
bool parameter_name_near(struct str name, struct str other);

// --- for load.c ---

/** Whether a block is right in itself. */
bool parameter_check(const struct know_parameter *p, struct know_problems *problems);
/** Nothing that is known advises a parameter that no kernel has. */
void parameters_resolve(const struct know *k, struct know_problems *problems);

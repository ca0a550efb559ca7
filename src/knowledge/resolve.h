// The last step of loading, when all blocks are there.
#pragma once

#include "knowledge/know.h"

/** Finds what blocks name (events, remedies, tables, classes), tells what does not exist, and gives the templates to the matcher. */
void know_resolve(struct know *k, struct know_problems *problems);

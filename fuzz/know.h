// The built-in knowledge, loaded before the first input: it is the same for all of them.
#pragma once

#include <stdlib.h>

#include "knowledge/know.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct know *know;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	know = know_load_update(NULL, &(struct know_problems){ 0 });
	return 0;
}

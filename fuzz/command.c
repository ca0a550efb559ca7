// Fuzzes what commands are made of: hostile values in every fact, every setting, path and parameter.
#include "command_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct know *know;
	static struct command_texts texts;
	if (!know) {
		know = know_load(&(struct know_problems){ 0 });
		command_texts_find(know, &texts);
	}
	if (command_complaint(know, &texts, (struct str){ (const char *)data, size }))
		abort();
	return 0;
}

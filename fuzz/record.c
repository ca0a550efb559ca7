// Fuzzes a record of a live kernel log, from the bytes of /dev/kmsg to events.
#include "know.h"
#include "record_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct log_words *words;
	if (!words)
		words = log_words_new(know);
	record_check(know, words, (struct str){ (const char *)data, size });
	return 0;
}

// Fuzzes what reads the tracks of a bundle. Checksums would keep every change out, so the fuzzer's bytes are put into records of their own.
#include "source/tape/format.h"
#include "tape_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str left = { (const char *)data, size };
	struct text track = { 0 };
	tape_play_bytes(left);
	text_add(&track, S(TAPE_HEAD));
	while (left.n > 1) {
		size_t n = (unsigned char)left.p[1];
		size_t start = tape_open_record(&track, (enum tape_type)left.p[0]);
		text_add(&track, str_cut(str_from(left, 2), n));
		tape_close_record(&track, start);
		left = str_from(left, 2 + n);
	}
	tape_play_bytes(text_str(&track));
	text_free(&track);
	return 0;
}

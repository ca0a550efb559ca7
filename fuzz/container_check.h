// Reads signed knowledge, and says what must not be. For the fuzz target and the test.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "knowledge/signed/container.h"

static inline bool container_inside(struct str part, struct str all)
{
	return part.p >= all.p && part.p <= all.p + all.n && part.n <= (size_t)(all.p + all.n - part.p);
}

/** NULL where nothing is wrong with what these bytes give. What is read as one is written the same way, byte for byte. */
static inline const char *container_complaint(struct str bytes, bool *ret_good)
{
	struct arena a = { 0 };
	struct container c;
	struct text again = { 0 };
	const char *complaint = NULL;
	struct uh_error *err = container_read(&a, "test", bytes, &c);
	*ret_good = !err;
	for (size_t i = 0; !err && i < c.nfiles && !complaint; i++)
		if (!container_inside(c.files[i].name, bytes) || !container_inside(c.files[i].text, bytes))
			complaint = "a file that is not in it";
	if (!err && !complaint) {
		err = container_write(&c, &again);
		if (err)
			complaint = "what was read cannot be written";
		else if (!str_eq(text_str(&again), c.signed_bytes))
			complaint = "what is signed is not what was read";
		container_finish(&again, c.signature);
		if (!complaint && !str_eq(text_str(&again), bytes))
			complaint = "there are two ways to write the same";
	}
	uh_error_free(err);
	text_free(&again);
	arena_free(&a);
	return complaint;
}

/** The same with the end that it lacks: a checksum that is right. */
static inline const char *container_front_complaint(struct str front, bool *ret_good)
{
	static const uint8_t signature[SIGNATURE_BYTES];
	struct text whole = { 0 };
	text_add(&whole, front);
	text_printf(&whole, "crc32 %08lx\n", crc32_z(0, (const uint8_t *)front.p, front.n));
	container_finish(&whole, signature);
	const char *complaint = container_complaint(text_str(&whole), ret_good);
	text_free(&whole);
	return complaint;
}

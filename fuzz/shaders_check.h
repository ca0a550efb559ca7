// Looks for shaders in words, and says what must not be. For the fuzz target and the test.
#pragma once

#include <stdlib.h>

#include "gpu/shaders.h"

/** Parts, whose registers lie behind the same base addresses. */
static inline struct device shaders_device(const struct know *k, const char *gfx, struct ip *room)
{
	static const uint32_t gfx9[] = { 0x2000, 0xa000 }, later[] = { 0x1260, 0xa000, 0x1c000 };
	const bool old = gfx[3] == '9';
	*room = (struct ip){ .name = S("gc"), .nbases = old ? 2 : 3, .bases = old ? gfx9 : later };
	gc_of_gfx(k, str_z(gfx), room->version);
	return (struct device){ .gfx = str_z(gfx), .ips = room, .nips = 1 };
}

static inline const char *shaders_complaint(const struct know *k, const char *gfx, const uint32_t *words, size_t n)
{
	struct arena a = { 0 };
	struct ip ip;
	const struct device d = shaders_device(k, gfx, &ip);
	const struct shader_start *found;
	const size_t count = shaders_of_words(&a, k, &d, words, n, &found);
	const char *complaint = NULL;
	for (size_t i = 0; i < count && !complaint; i++)
		complaint = !found[i].address || found[i].address & 0xff || found[i].address >> 48 ? "a shader at no address of one" :
			    found[i].word >= n                                                     ? "a shader that no word sets" :
			    !found[i].stage.n                                                      ? "a shader of no stage" :
			    i && found[i].address < found[i - 1].address                           ? "shaders are not sorted" :
													     NULL;
	arena_free(&a);
	return complaint;
}

/** The first byte says the part; words follow. */
static inline const char *shaders_bytes_complaint(const struct know *k, const uint8_t *data, size_t size)
{
	static const char *const parts[] = { "gfx900", "gfx1010", "gfx1030", "gfx1100", "gfx1201" };
	if (!size)
		return NULL;
	const size_t n = (size - 1) / 4;
	uint32_t *words = malloc(n * sizeof(*words) + 1);
	memcpy(words, data + 1, n * sizeof(*words));
	const char *complaint = shaders_complaint(k, parts[data[0] % (sizeof(parts) / sizeof(*parts))], words, n);
	free(words);
	return complaint;
}

// Decodes a buffer of packets from each of its words, and says what must not be. For the fuzz target and the test.
#pragma once

#include <stdlib.h>

#include "gpu/packet.h"

static inline const char *packet_complaint(const struct packet *p, size_t n)
{
	if (!p->words || p->at >= n || p->words > n - p->at)
		return "a packet is outside of its buffer";
	if (p->nfields > PACKET_FIELDS)
		return "too many fields";
	if (!p->name.n)
		return "a packet without a name";
	if (p->cut && p->words != n - p->at)
		return "a packet that is cut ends before the buffer";
	for (size_t i = 0; i < p->nfields; i++)
		if (!p->fields[i].name.n || p->fields[i].digits > 16)
			return "a field without a name, or with too many digits";
	if (p->nregisters > 2 * p->words)
		return "more registers than words";
	for (size_t i = 0; i < p->nregisters; i++)
		if (p->registers[i].is && (p->registers[i].is->place != p->registers[i].place || !p->registers[i].nnames))
			return "a register of another place";
	return NULL;
}

/** From each word on all that is there, and what lies before it. */
static inline const char *packets_complaint(const struct know *k, enum packet_language l, struct register_places *places,
					    const uint32_t *words, size_t n)
{
	const struct str gfx = places->gfx;
	const struct packet_stream s = { k, l, gfx, words, n, places };
	struct arena a = { 0 };
	const char *complaint = NULL;
	struct packet p;
	for (size_t at = 0; at < n && !complaint; at++)
		if (!packet_decode(&s, &a, at, &p))
			complaint = "a word that is inside is not decoded";
		else
			complaint = packet_complaint(&p, n);
	if (!complaint && packet_decode(&s, &a, n, &p))
		complaint = "a packet behind the end";
	for (size_t at = 0; at < n && !complaint; at += n / 8 + 1) {
		const struct packet_stream front = { k, l, gfx, words, at };
		size_t before = packets_before(&s, at, 4), steps = 0;
		if (before > n)
			complaint = "packets before are more than the ring";
		// Those that do not go round the ring's end can be walked.
		for (size_t i = at - before; before <= at && i < at && !complaint; i += p.words, steps++)
			if (!packet_decode(&front, &a, i, &p) || !p.known || p.cut || steps == 4)
				complaint = "no chain of packets leads there";
	}
	arena_free(&a);
	return complaint;
}

/** The first byte says the language, the second the part; words follow. */
static inline const char *packets_bytes_complaint(const struct know *k, const uint8_t *data, size_t size)
{
	static const char *const parts[] = { "gfx900", "gfx90a", "gfx942", "gfx1010", "gfx1030", "gfx1100", "gfx1201", "" };
	static struct register_places places[ARRAY_SIZE(parts)]; // made once: that takes longer than a buffer
	if (size < 2)
		return NULL;
	size_t n = (size - 2) / 4;
	uint32_t *words = malloc(n * sizeof(*words) + 1);
	if (n)
		memcpy(words, data + 2, n * sizeof(*words));
	const size_t part = data[1] % ARRAY_SIZE(parts);
	places[part].know = k;
	places[part].gfx = str_z(parts[part]);
	const char *complaint = packets_complaint(k, data[0] % (PACKETS_UNKNOWN + 1), &places[part], words, n);
	free(words);
	return complaint;
}

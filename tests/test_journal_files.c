// unhang's own reader of journal files, on files that are written here: its answers, and each file cut at each byte and with each byte
// changed. tests/journal.py compares it with libsystemd on files that journald's own code wrote.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "base/arena.h"
#include "source/journal.h"
#include "source/journal/lz4.h"

enum { ROOM = 16 << 10, HEADER = 272, BUCKETS = 3, BASE = 1000, LZ4 = 2, ZSTD = 4, COMPACT = 16, LONG = 600 };
static const struct journal_api *const api = &journal_files;

struct image {
	uint8_t p[ROOM];
	size_t n;
	bool compact;
	size_t fields[8], nfields; // in one chain
	size_t entries[8], nentries;
};

static void put32(struct image *m, size_t at, uint32_t v) { memcpy(m->p + at, &v, sizeof(v)); }
static void put64(struct image *m, size_t at, uint64_t v) { memcpy(m->p + at, &v, sizeof(v)); }
static uint64_t got64(const struct image *m, size_t at)
{
	uint64_t v;
	memcpy(&v, m->p + at, sizeof(v));
	return v;
}

static size_t add_object(struct image *m, unsigned type, size_t size)
{
	const size_t at = m->n;
	m->p[at] = (uint8_t)type;
	put64(m, at + 8, size);
	m->n = (at + size + 7) & ~(size_t)7;
	assert_true(m->n <= ROOM);
	return at;
}

static void begin(struct image *m, bool compact)
{
	memset(m, 0, sizeof(*m));
	m->compact = compact;
	memcpy(m->p, "LPKSHHRH", 8);
	put32(m, 12, LZ4 | 8 /* zstd */ | (compact ? COMPACT : 0));
	put64(m, 88, HEADER);
	m->n = HEADER;
	const size_t table = add_object(m, 5, 16 + BUCKETS * 16);
	put64(m, 120, table + 16);
	put64(m, 128, BUCKETS * 16);
}

/** The field that @text begins with, as the last of the chain. */
static size_t field_of(struct image *m, const char *text)
{
	const size_t n = strcspn(text, "=");
	for (size_t i = 0; i < m->nfields; i++)
		if (got64(m, m->fields[i] + 8) == 40 + n && !memcmp(m->p + m->fields[i] + 40, text, n))
			return m->fields[i];
	const size_t at = add_object(m, 2, 40 + n);
	memcpy(m->p + at + 40, text, n);
	put64(m, m->nfields ? m->fields[m->nfields - 1] + 24 : got64(m, 120) + 16, at);
	m->fields[m->nfields++] = at;
	return at;
}

static size_t add_data(struct image *m, const char *text, unsigned packed)
{
	const size_t head = m->compact ? 72 : 64, field = field_of(m, text);
	char room[2 * LONG];
	size_t n = strlen(text);
	if (packed == ZSTD) {
		n = ZSTD_compress(room, sizeof(room), text, n, 3);
	} else if (packed == LZ4) { // 20 bytes as they are, and what follows is the byte before, again and again
		const size_t more = n - 20 - 19;
		memcpy(room, (const uint64_t[]){ n }, 8);
		size_t k = 8;
		room[k++] = (char)0xff;
		room[k++] = 20 - 15;
		memcpy(room + k, text, 20);
		k += 20;
		room[k++] = 1;
		room[k++] = 0;
		for (size_t left = more;; left -= 255) {
			room[k++] = (char)(left < 255 ? left : 255);
			if (left < 255)
				break;
		}
		n = k;
	} else {
		memcpy(room, text, n);
	}
	const size_t at = add_object(m, 1, head + n);
	m->p[at + 1] = (uint8_t)packed;
	memcpy(m->p + at + head, room, n);
	put64(m, at + 32, got64(m, field + 32));
	put64(m, field + 32, at);
	return at;
}

static void add_entry(struct image *m, unsigned boot, uint64_t usec, const size_t *data, size_t ndata)
{
	const size_t width = m->compact ? 4 : 16, at = add_object(m, 3, 64 + ndata * width);
	put64(m, at + 16, m->nentries + 1);
	put64(m, at + 24, BASE * boot + usec);
	put64(m, at + 32, usec);
	memset(m->p + at + 40, (int)boot, 16);
	for (size_t i = 0; i < ndata; i++) {
		if (m->compact)
			put32(m, at + 64 + i * width, (uint32_t)data[i]);
		else
			put64(m, at + 64 + i * width, data[i]);
		// Each value has the entries that have it: the first by itself, the others in an array.
		const uint64_t n = got64(m, data[i] + 56);
		put64(m, data[i] + 56, n + 1);
		if (!n) {
			put64(m, data[i] + 40, at);
			continue;
		}
		if (n == 1)
			put64(m, data[i] + 48, add_object(m, 6, 24 + 8 * 8));
		const size_t slot = got64(m, data[i] + 48) + 24 + (n - 1) * (m->compact ? 4 : 8);
		if (m->compact)
			put32(m, slot, (uint32_t)at);
		else
			put64(m, slot, at);
	}
	m->entries[m->nentries++] = at;
}

/** The list of all entries, in two arrays. */
static void end(struct image *m)
{
	size_t before = 176;
	for (size_t i = 0; i < m->nentries;) {
		const size_t at = add_object(m, 6, 24 + 2 * (m->compact ? 4 : 8));
		put64(m, before, at);
		for (size_t k = 0; k < 2 && i < m->nentries; k++, i++) {
			if (m->compact)
				put32(m, at + 24 + k * 4, (uint32_t)m->entries[i]);
			else
				put64(m, at + 24 + k * 8, m->entries[i]);
		}
		before = at + 16;
	}
	put64(m, 152, m->nentries);
}

static void write_image(struct image *m, bool compact)
{
	char letters[LONG + 1] = "MESSAGE=";
	memset(letters + 8, 'z', LONG - 8);
	letters[LONG] = '\0';
	begin(m, compact);
	const size_t kernel = add_data(m, "_TRANSPORT=kernel", 0), other = add_data(m, "_TRANSPORT=stdout", 0);
	const size_t boots[] = { add_data(m, "_BOOT_ID=01010101010101010101010101010101", 0),
				 add_data(m, "_BOOT_ID=02020202020202020202020202020202", 0) };
	const size_t messages[] = { add_data(m, "MESSAGE=one", 0), add_data(m, letters, ZSTD), add_data(m, "MESSAGE=three", 0),
				    add_data(m, letters, LZ4) };
	add_entry(m, 1, 10, (size_t[]){ kernel, boots[0], messages[0] }, 3);
	add_entry(m, 1, 20, (size_t[]){ kernel, boots[0], messages[1] }, 3);
	add_entry(m, 1, 30, (size_t[]){ other, boots[0], messages[2] }, 3);
	add_entry(m, 2, 5, (size_t[]){ kernel, boots[1], messages[3] }, 3);
	end(m);
}

/** What is left to read, in this direction: the first letter and the length of each message. */
static const char *walk(sd_journal *j, int (*move)(sd_journal *))
{
	static char said[256];
	size_t n = 0;
	for (unsigned i = 0; i < 16 && move(j) > 0; i++) {
		const void *data;
		size_t size;
		uint64_t usec;
		assert_int_equal(api->sd_journal_get_realtime_usec(j, &usec), 0);
		if (api->sd_journal_get_data(j, "MESSAGE", &data, &size) >= 0 && size > 8)
			n += (size_t)snprintf(said + n, sizeof(said) - n, "%c%zu ", ((const char *)data)[8], size);
	}
	said[n] = '\0';
	return said;
}

static sd_id128_t boot_id(unsigned n)
{
	sd_id128_t id;
	memset(&id, (int)n, sizeof(id));
	return id;
}

static void test_answers(void **state)
{
	static struct image m;
	(void)state;
	for (int compact = 0; compact < 2; compact++) {
		write_image(&m, compact);
		sd_journal *j = journal_of_bytes((struct str){ (const char *)m.p, m.n });
		assert_non_null(j);
		assert_string_equal(walk(j, api->sd_journal_next), "o11 z600 t13 z600 ");
		api->sd_journal_seek_tail(j);
		assert_string_equal(walk(j, api->sd_journal_previous), "z600 t13 z600 o11 ");
		api->sd_journal_add_match(j, "_TRANSPORT=kernel", 0);
		api->sd_journal_seek_head(j);
		assert_string_equal(walk(j, api->sd_journal_next), "o11 z600 z600 ");
		// To the first of a boot, and one back; there and on from a cursor.
		_cleanup_free_ char *cursor = NULL;
		uint64_t usec;
		sd_id128_t boot;
		api->sd_journal_seek_monotonic_usec(j, boot_id(2), 0);
		assert_int_equal(api->sd_journal_next(j), 1);
		assert_int_equal(api->sd_journal_previous(j), 1);
		assert_int_equal(api->sd_journal_get_monotonic_usec(j, &usec, &boot), 0);
		assert_int_equal(usec, 20);
		assert_int_equal(boot.bytes[7], 1);
		assert_int_equal(api->sd_journal_get_cursor(j, &cursor), 0);
		api->sd_journal_flush_matches(j);
		assert_int_equal(api->sd_journal_seek_cursor(j, cursor), 0);
		assert_string_equal(walk(j, api->sd_journal_next), "z600 t13 z600 ");
		assert_int_equal(api->sd_journal_seek_cursor(j, cursor), 0);
		assert_string_equal(walk(j, api->sd_journal_previous), "z600 o11 ");
		// One of the values of a name, and all names.
		api->sd_journal_add_match(j, "_TRANSPORT=stdout", 0);
		api->sd_journal_add_match(j, "_TRANSPORT=kernel", 0);
		api->sd_journal_add_match(j, "_BOOT_ID=01010101010101010101010101010101", 0);
		api->sd_journal_seek_head(j);
		assert_string_equal(walk(j, api->sd_journal_next), "o11 z600 t13 ");
		api->sd_journal_seek_monotonic_usec(j, boot_id(1), 11);
		assert_string_equal(walk(j, api->sd_journal_next), "z600 t13 ");
		api->sd_journal_seek_monotonic_usec(j, boot_id(3), 0);
		assert_string_equal(walk(j, api->sd_journal_next), "");
		api->sd_journal_close(j);
	}
}

/** Whatever it says, it ends, and reads nothing that is not there. */
static void read_all(const uint8_t *from, size_t n)
{
	char *copy = malloc(n ? n : 1); // of that size, so that the sanitizer sees a byte too far
	memcpy(copy, from, n);
	sd_journal *j = journal_of_bytes((struct str){ copy, n });
	if (j) {
		walk(j, api->sd_journal_next);
		api->sd_journal_add_match(j, "_TRANSPORT=kernel", 0);
		api->sd_journal_seek_tail(j);
		walk(j, api->sd_journal_previous);
		api->sd_journal_seek_monotonic_usec(j, boot_id(2), 1);
		walk(j, api->sd_journal_next);
		api->sd_journal_close(j);
	}
	free(copy);
}

static void test_damage(void **state)
{
	static struct image m;
	(void)state;
	for (int compact = 0; compact < 2; compact++) {
		write_image(&m, compact);
		for (size_t n = 0; n <= m.n; n++)
			read_all(m.p, n);
		for (size_t i = 0; i < m.n; i++) {
			static const uint8_t changes[] = { 0x01, 0x80, 0xff };
			for (size_t k = 0; k < ARRAY_SIZE(changes); k++) {
				m.p[i] ^= changes[k];
				read_all(m.p, m.n);
				m.p[i] ^= changes[k];
			}
		}
	}
}

static void test_lz4(void **state)
{
	static const char block[] = "\x35"
				    "abc\x03\x00"
				    "\x10"
				    "d"; // abc, 9 bytes from 3 back, d
	char to[32];
	(void)state;
	assert_int_equal(lz4_unpack((struct str){ block, sizeof(block) - 1 }, to, sizeof(to)), 13);
	assert_memory_equal(to, "abcabcabcabcd", 13);
	for (size_t n = 0; n < sizeof(block); n++)
		for (size_t room = 0; room <= 13; room++) {
			char *exact = malloc(room + 1), *cut = malloc(n + 1);
			memcpy(cut, block, n);
			assert_true(lz4_unpack((struct str){ cut, n }, exact, room) <= room);
			free(exact);
			free(cut);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_lz4),
	};
	return cmocka_run_group_tests_name("journal_files", tests, NULL, NULL);
}

// Signed knowledge: its form, its signature, keys, and what it changes; cut at each byte, and with each byte changed.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/door/root.h"
#include "container_check.h"
#include "knowledge/signed/changes.h"
#include "knowledge/signed/sign.h"
#include "knowledge/know.h"

static void must(struct uh_error *err)
{
	if (err)
		fail_msg("%s", uh_error_message(err));
}

static void from_hex(const char *hex, uint8_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v;
		assert_true(str_hex((struct str){ hex + 2 * i, 2 }, &v));
		ret[i] = (uint8_t)v;
	}
}

/** RFC 8032, 7.1: the second test. */
static void signatures_are_those_of_the_rfc(void **state)
{
	(void)state;
	uint8_t secret[KEY_BYTES], wanted_public[KEY_BYTES], public[KEY_BYTES];
	uint8_t wanted[SIGNATURE_BYTES], signature[SIGNATURE_BYTES];
	bool good;
	from_hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", secret, KEY_BYTES);
	from_hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", wanted_public, KEY_BYTES);
	from_hex("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
		 "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
		 wanted, SIGNATURE_BYTES);
	must(sign_public_of(secret, public));
	assert_memory_equal(public, wanted_public, KEY_BYTES);
	must(sign_bytes(secret, S("\x72"), signature));
	assert_memory_equal(signature, wanted, SIGNATURE_BYTES);
	must(sign_check(public, S("\x72"), signature, &good));
	assert_true(good);
	must(sign_check(public, S("\x73"), signature, &good));
	assert_false(good);
	signature[63] |= 0x80;
	must(sign_check(public, S("\x72"), signature, &good));
	assert_false(good);
}

static void base64_is_read_and_written(void **state)
{
	(void)state;
	static const char *const wanted[] = { "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };
	uint8_t room[8];
	for (size_t n = 0; n <= 6; n++) {
		struct text t = { 0 };
		base64_write(&t, (const uint8_t *)"foobar", n);
		assert_true(str_is(text_str(&t), wanted[n]));
		assert_true(base64_read(text_str(&t), room, n));
		assert_memory_equal(room, "foobar", n);
		text_free(&t);
	}
	static const char *const wrong[] = { "Zh==", "Zg=A", "Zg", "Z===", "Zg==\n", "====", "Z\xffg=" };
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_false(base64_read(str_z(wrong[i]), room, 1));
	assert_false(base64_read((struct str){ "Z\0==", 4 }, room, 1));
}

static void keys_are_read_back_and_not_mixed_up(void **state)
{
	(void)state;
	uint8_t key[KEY_BYTES], again[KEY_BYTES];
	struct text t = { 0 };
	must(sign_new_key(key));
	key_write_public(&t, key);
	assert_true(key_read_public(text_str(&t), again));
	assert_memory_equal(key, again, KEY_BYTES);
	assert_false(key_read_secret(text_str(&t), again));
	for (size_t n = 0; n + 1 < t.n; n++)
		assert_false(key_read_public(str_cut(text_str(&t), n), again));
	text_clear(&t);
	key_write_secret(&t, key);
	assert_true(key_read_secret(text_str(&t), again));
	assert_memory_equal(key, again, KEY_BYTES);
	assert_false(key_read_public(text_str(&t), again));
	text_free(&t);
}

#define BAD "known-bad test-bad\n  for mes-unresponsive\n  when fw_mes = 0x99\n  title T\n  grade C\n  source S\n"

/** A small one, with its signature. */
static struct text made(uint8_t public[static KEY_BYTES])
{
	static struct container_file files[] = {
		{ { "a.know", 6 }, { BAD, sizeof(BAD) - 1 } },
		{ { "empty.know", 10 }, { "", 0 } },
		{ { "open.know", 9 }, { "# no newline", 12 } },
	};
	struct container c = {
		.version = 2026111501, .made = S("2026-11-15"), .note = S("for the test"), .files = files, .nfiles = 3
	};
	uint8_t secret[KEY_BYTES] = { 1, 2, 3 }, signature[SIGNATURE_BYTES];
	struct text t = { 0 };
	must(sign_public_of(secret, public));
	memcpy(c.key, public, KEY_BYTES);
	must(container_write(&c, &t));
	must(sign_bytes(secret, text_str(&t), signature));
	container_finish(&t, signature);
	return t;
}

/** Whether it would be believed by a machine that trusts @public. */
static bool believed(struct str bytes, const uint8_t public[static KEY_BYTES])
{
	struct arena a = { 0 };
	struct container c;
	bool good = false;
	struct uh_error *err = container_read(&a, "test", bytes, &c);
	if (!err && !memcmp(c.key, public, KEY_BYTES))
		must(sign_check(public, c.signed_bytes, c.signature, &good));
	uh_error_free(err);
	arena_free(&a);
	return good;
}

static void a_container_is_read_as_it_was_written(void **state)
{
	(void)state;
	uint8_t public[KEY_BYTES];
	struct text t = made(public);
	struct arena a = { 0 };
	struct container c;
	bool good;
	assert_null(container_complaint(text_str(&t), &good));
	assert_true(good && believed(text_str(&t), public));
	must(container_read(&a, "test", text_str(&t), &c));
	assert_int_equal(c.version, 2026111501);
	assert_int_equal(c.nfiles, 3);
	assert_true(str_is(c.note, "for the test") && str_is(c.made, "2026-11-15"));
	assert_true(str_is(c.files[0].text, BAD) && !c.files[1].text.n && str_is(c.files[2].text, "# no newline\n"));
	assert_ptr_equal(container_find(&c, S("empty.know")), &c.files[1]);
	assert_null(container_find(&c, S("empty")));
	arena_free(&a);
	text_free(&t);
}

/** In memory of exactly its size, so that AddressSanitizer sees a read behind it. */
static void a_container_cut_at_any_byte_is_refused(void **state)
{
	(void)state;
	uint8_t public[KEY_BYTES];
	struct text t = made(public);
	for (size_t n = 0; n < t.n; n++) {
		char *exact = malloc(n ? n : 1);
		bool good;
		memcpy(exact, t.p, n);
		assert_null(container_complaint((struct str){ exact, n }, &good));
		assert_false(good);
		assert_null(container_front_complaint((struct str){ exact, n }, &good));
		free(exact);
	}
	text_free(&t);
}

static void a_container_with_any_byte_changed_is_not_believed(void **state)
{
	(void)state;
	static const char bits[] = { 0x01, 0x20, (char)0x80 };
	uint8_t public[KEY_BYTES];
	struct text t = made(public);
	for (size_t i = 0; i < t.n; i++)
		for (size_t b = 0; b < sizeof(bits); b++) {
			bool good;
			t.p[i] ^= bits[b];
			assert_false(believed(text_str(&t), public));
			assert_null(container_complaint(text_str(&t), &good));
			assert_null(container_front_complaint(str_cut(text_str(&t), i), &good));
			t.p[i] ^= bits[b];
		}
	text_add(&t, S("\n"));
	assert_false(believed(text_str(&t), public));
	text_free(&t);
}

#define KEY "key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
#define HEAD "unhang-knowledge 1\nversion 2\nmade 2026-01-01\nblocks 1\n" KEY

static void each_wrong_form_is_refused_with_its_reason(void **state)
{
	(void)state;
	static const struct {
		const char *front, *why;
	} cases[] = {
		{ HEAD "files 0\n", NULL },
		{ HEAD "files 1\nfile a.know 0\n", NULL },
		{ "unhang-knowledge 2\nversion 2\n", "schema 2: this unhang reads 1; update unhang" },
		{ "unhang-knowledge 0\nversion 2\n", "schema 0: this unhang reads 1" },
		{ "unhang-knowledge x\n", "a number" },
		{ "unhang-knowledge 1\nversion 02\n", "a number" },
		{ "unhang-knowledge 1\nversion -2\n", "a number" },
		{ "unhang-knowledge 1\nversion 9999999999999999999\n", "a number" },
		{ "unhang-knowledge 1\nversion 2\nmade today\n", "a date" },
		{ "unhang-knowledge 1\nversion 2\nmade 2026-01-01\nblocks 2\n", "update unhang" },
		{ "unhang-knowledge 1\nversion 2\nmade 2026-01-01\nblocks 1\nnote \x1b[31m\n" KEY, "a note" },
		{ "unhang-knowledge 1\nversion 2\nmade 2026-01-01\nblocks 1\nkey AAAA\n", "not a key" },
		{ "unhang-knowledge 1\nmade 2026-01-01\n", "'version' is missing" },
		{ HEAD "files 257\n", "too many" },
		{ HEAD "files 1\nfile a.know 99999\n", "longer than" },
		{ HEAD "files 1\nfile a.know 999999999999999999\n", "longer than" },
		{ HEAD "files 1\nfile ../a.know 0\n", "name" },
		{ HEAD "files 1\nfile .a.know 0\n", "name" },
		{ HEAD "files 1\nfile a.conf 0\n", "name" },
		{ HEAD "files 1\nfile a.know\n", "a number" },
		{ HEAD "files 2\nfile a.know 0\nfile a.know 0\n", "two files" },
		{ HEAD "files 1\nfile a.know 1\nx", "does not end" },
		{ HEAD "files 0\nfile a.know 0\n", "'crc32' is missing" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct arena a = { 0 };
		struct container c;
		struct text t = { 0 };
		static const uint8_t signature[SIGNATURE_BYTES];
		text_printf(&t, "%s", cases[i].front);
		text_printf(&t, "crc32 %08lx\n", crc32_z(0, (const uint8_t *)t.p, t.n));
		container_finish(&t, signature);
		struct uh_error *err = container_read(&a, "test", text_str(&t), &c);
		if (!err != !cases[i].why || (err && !strstr(err->message, cases[i].why)))
			fail_msg("%s: %s", cases[i].front, err ? err->message : "it is taken");
		uh_error_free(err);
		text_free(&t);
		arena_free(&a);
	}
}

static struct know *load(const char *text, unsigned problems)
{
	struct know_problems p = { 0 };
	struct know *k = know_load_with("user.know", str_z(text), &p);
	assert_int_equal(p.count, problems);
	return k;
}

static void an_update_takes_blocks_back(void **state)
{
	(void)state;
	struct know *plain = load("", 0);
	struct know *k = load(BAD "retract known-bad test-bad\nretract known-bad no-such\n", 0);
	assert_int_equal(k->bad.len, plain->bad.len);
	know_free(k);
	k = load("retract known-bad test-bad\n" BAD, 0);
	assert_int_equal(k->bad.len, plain->bad.len + 1);
	know_free(k);
	struct text t = { 0 };
	text_printf(&t, "retract cause " STR_FMT "\n", STR_ARG(plain->causes.data[0]->head.id));
	k = load(t.p, 0);
	assert_true(k->causes.len < plain->causes.len && !k->causes.data[0]->head.user);
	know_free(k);
	text_free(&t);
	know_free(load("retract nonsense x\n", 1));
	know_free(load("retract known-bad\n", 1));
	know_free(load("retract known-bad x\n  title y\n", 1));
	know_free(plain);
}

struct seen {
	unsigned of[DIFFERENCE_GONE + 1];
	struct text last;
};

static void see(void *ctx, enum know_difference change, struct str kind, struct str id)
{
	struct seen *s = ctx;
	s->of[change]++;
	text_clear(&s->last);
	text_printf(&s->last, "%d " STR_FMT " " STR_FMT, change, STR_ARG(kind), STR_ARG(id));
}

static void assert_change(struct container *before, const char *name, const char *text, const char *wanted)
{
	struct container_file f = { str_z(name), str_z(text) };
	struct container after = { .path = "test", .files = &f, .nfiles = 1 };
	struct seen s = { 0 };
	know_changes(before, &after, see, &s);
	assert_int_equal(s.of[0] + s.of[1] + s.of[2], wanted ? 1 : 0);
	if (wanted)
		assert_string_equal(s.last.p, wanted);
	text_free(&s.last);
}

/** Against what is built in, and against another update. */
static void what_an_update_changes_is_listed(void **state)
{
	(void)state;
	struct container_file f = { S("a.know"), S(BAD) };
	struct container before = { .path = "test", .files = &f, .nfiles = 1 };
	assert_change(NULL, "a.know", "# nothing\n", NULL);
	assert_change(NULL, "a.know", BAD, "0 known-bad test-bad");
	assert_change(&before, "b.know", "\n" BAD "# the same\n", NULL);
	assert_change(&before, "a.know", BAD "  good 0x100\n", "1 known-bad test-bad");
	assert_change(&before, "a.know", BAD BAD, NULL);
	assert_change(&before, "a.know", "\n", "2 known-bad test-bad");
	assert_change(&before, "a.know", BAD "retract known-bad test-bad\n", "2 known-bad test-bad");
	assert_change(NULL, "a.know", BAD "retract known-bad test-bad\n" BAD, "0 known-bad test-bad");
}

/** A file of the name of one that is built in takes its place: its blocks do not stand there twice. */
static void a_file_of_an_update_stands_instead_of_the_built_in_one(void **state)
{
	(void)state;
	struct know *plain = load("", 0);
	const struct know_file *first = NULL;
	for (const struct know_file *f = know_embedded; f->name; f++)
		first = !strcmp(f->name, "driver-messages.know") ? f : first;
	assert_non_null(first);
	struct container_file f = { str_z(first->name), { first->begin, (size_t)(first->end - first->begin) } };
	struct container c = { .path = "test", .version = 7, .files = &f, .nfiles = 1 };
	struct know_problems problems = { 0 };
	struct know *k = know_load_update(&c, &problems);
	assert_int_equal(problems.count, 0);
	assert_int_equal(k->signatures.len, plain->signatures.len);
	assert_int_equal(k->version, 7);
	know_free(k);
	f.text = S("\n");
	k = know_load_update(&c, &problems);
	assert_true(k->signatures.len < plain->signatures.len);
	know_free(k);
	know_free(plain);
}

/** A link in another machine's tree does not lead out of it. */
static void links_below_a_root_stay_below_it(void **state)
{
	(void)state;
	char room[] = "/tmp/unhang-root-XXXXXX", path[64];
	struct arena a = { 0 };
	struct str bytes;
	assert_non_null(mkdtemp(room));
	snprintf(path, sizeof(path), "%s/var", room);
	assert_int_equal(symlink("/../../real", path), 0);
	snprintf(path, sizeof(path), "%s/real", room);
	assert_int_equal(mkdir(path, 0755), 0);
	_cleanup_close_ int dir = root_make_directory(room, "/var/a/b");
	assert_true(dir >= 0);
	snprintf(path, sizeof(path), "%s/real/a/b", room);
	assert_int_equal(rmdir(path), 0);
	struct uh_error *err = root_read(room, "/etc/passwd", 1 << 20, &a, &bytes, NULL);
	assert_non_null(err);
	uh_error_free(err);
	err = root_read(NULL, "/dev/zero", 1 << 20, &a, &bytes, NULL);
	assert_non_null(strstr(err->message, "not a file"));
	uh_error_free(err);
	static const char *const rest[] = { "real/a", "real", "var", "" };
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", room, rest[i]);
		assert_int_equal(remove(path), 0);
	}
	arena_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signatures_are_those_of_the_rfc),
		cmocka_unit_test(base64_is_read_and_written),
		cmocka_unit_test(keys_are_read_back_and_not_mixed_up),
		cmocka_unit_test(a_container_is_read_as_it_was_written),
		cmocka_unit_test(a_container_cut_at_any_byte_is_refused),
		cmocka_unit_test(a_container_with_any_byte_changed_is_not_believed),
		cmocka_unit_test(each_wrong_form_is_refused_with_its_reason),
		cmocka_unit_test(an_update_takes_blocks_back),
		cmocka_unit_test(what_an_update_changes_is_listed),
		cmocka_unit_test(a_file_of_an_update_stands_instead_of_the_built_in_one),
		cmocka_unit_test(links_below_a_root_stay_below_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

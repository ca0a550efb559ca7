// The watch from inside: what it reads of others, cut at every byte: records of incidents, configurations, uevents, what the eye sends.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/store.h"
#include "watch/eye.h"
#include "watch/pulse.h"
#include "watch/settings.h"
#include "watch/uevent.h"

/** In memory of exactly its size, so that a sanitizer sees each byte too far. */
static char *exact(const char *bytes, size_t n)
{
	char *copy = malloc(n ? n : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, n);
	return copy;
}

static const struct stored sample = { .id = { "0123456789abcdef", 16 },
				      .state = { "open", 4 },
				      .class = { "page-fault", 10 },
				      .title = { "A shader\nread \x1b[31m memory", 26 },
				      .gpu = { "0000:03:00.0", 12 },
				      .began = 1700000000,
				      .first_us = 12,
				      .events = 3,
				      .hooks = 1 };

static void a_record_is_read_as_it_was_written(void **state)
{
	struct text text = { 0 }, again = { 0 };
	struct arena a = { 0 };
	struct stored read;
	(void)state;
	stored_text(&sample, &text);
	assert_true(stored_parse(text_str(&text), &a, &read));
	assert_true(str_eq(read.id, sample.id) && str_eq(read.gpu, sample.gpu) &&
		    str_is(read.title, "A shader read  [31m memory"));
	assert_int_equal(read.began, sample.began);
	assert_int_equal(read.hooks, 1);
	stored_text(&read, &again);
	assert_true(str_eq(text_str(&text), text_str(&again)));
	for (size_t n = 0; n < text.n; n++) {
		char *cut = exact(text.p, n);
		bool whole = stored_parse((struct str){ cut, n }, &a, &read);
		assert_true(!whole || store_is_id(read.id));
		free(cut);
	}
	text_free(&text);
	text_free(&again);
	arena_free(&a);
}

static void only_ids_are_ids(void **state)
{
	(void)state;
	assert_true(store_is_id(S("0123456789abcdef")));
	assert_false(store_is_id(S("0123456789abcde")));
	assert_false(store_is_id(S("0123456789abcdefa")));
	assert_false(store_is_id(S("../3456789abcdef")));
	assert_false(store_is_id(S("0123456789ABCDEF")));
}

static void count(void *ctx, const char *message)
{
	(void)message;
	++*(unsigned *)ctx;
}

static void mistakes_of_a_configuration_are_told(void **state)
{
	static const char good[] = "# comment\nquiet 5\n capture no\nuser-data registers\nstate-dir /tmp/x\nhook-user nobody\n";
	static const char *const wrong[] = { "quiet 0",       "quiet x",         "quiet",
					     "capture maybe", "user-data some",  "state-dir x",
					     "nonsense 1",    "hook-user a b/c", "bundles-per-hour 33" };
	struct watch_settings s = { 0 };
	unsigned told = 0;
	(void)state;
	assert_int_equal(settings_parse(&s, "x.conf", str_z(good), count, &told), 0);
	assert_true(s.quiet == 5 && !s.capture && !strcmp(s.user_data, "registers") && !strcmp(s.state_dir, "/tmp/x"));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(settings_parse(&s, "x.conf", str_z(wrong[i]), count, &told), 1);
	assert_int_equal(told, sizeof(wrong) / sizeof(wrong[0]));
	assert_int_equal(s.quiet, 5);
	for (size_t n = 0; n < sizeof(good); n++) {
		char *cut = exact(good, n);
		settings_parse(&s, "x.conf", (struct str){ cut, n }, count, &told);
		free(cut);
	}
	settings_free(&s);
}

static void uevents_tell_of_evidence(void **state)
{
	static const char core[] =
		"add@/devices/virtual/devcoredump/devcd1\0ACTION=add\0DEVPATH=/devices/virtual/devcoredump/devcd1\0"
		"SUBSYSTEM=devcoredump\0SEQNUM=1";
	static const char wedged[] =
		"change@/devices/pci/0000:03:00.0/drm/card0\0ACTION=change\0DEVPATH=/devices/pci\0SUBSYSTEM=drm\0"
		"WEDGED=rebind";
	static const char other[] = "add@/devices/x\0ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=usb";
	struct uevent u;
	(void)state;
	assert_true(uevent_parse((struct str){ core, sizeof(core) }, &u) && uevent_matters(&u));
	assert_true(uevent_parse((struct str){ wedged, sizeof(wedged) }, &u) && uevent_matters(&u));
	assert_true(str_is(u.wedged, "rebind"));
	assert_true(uevent_parse((struct str){ other, sizeof(other) }, &u) && !uevent_matters(&u));
	assert_false(uevent_parse(S("libudev"), &u));
	for (size_t n = 0; n < sizeof(wedged); n++) {
		char *cut = exact(wedged, n);
		uevent_parse((struct str){ cut, n }, &u);
		free(cut);
	}
}

static void frames_of_the_eye_are_whole_or_wait(void **state)
{
	const uint32_t good[] = { EYE_RECORD, 4, 0x64636261 }, kind[] = { EYE_KINDS, 0 },
		       size[] = { EYE_RECORD, EYE_FRAME_MOST + 1 };
	struct eye_frame frame;
	bool wrong;
	(void)state;
	for (size_t n = 0; n < sizeof(good); n++) {
		char *cut = exact((const char *)good, n);
		struct str bytes = { cut, n };
		assert_false(eye_take(&bytes, &frame, &wrong) || wrong);
		assert_int_equal(bytes.n, n);
		free(cut);
	}
	struct str bytes = { (const char *)good, sizeof(good) };
	assert_true(eye_take(&bytes, &frame, &wrong) && str_is(frame.text, "abcd") && !bytes.n);
	bytes = (struct str){ (const char *)kind, sizeof(kind) };
	assert_true(!eye_take(&bytes, &frame, &wrong) && wrong);
	bytes = (struct str){ (const char *)size, sizeof(size) };
	assert_true(!eye_take(&bytes, &frame, &wrong) && wrong);
}

static void interrupts_are_counted(void **state)
{
	static const char text[] = "           CPU0       CPU1\n  9:          3          4   IO-APIC  acpi\n"
				   " 71:         10         20   PCI-MSI 1572864-edge  amdgpu\n 171: 7 1 amdgpu\nNMI: 5 5 x\n";
	(void)state;
	assert_int_equal(pulse_interrupts(str_z(text), S("71")), 30);
	assert_int_equal(pulse_interrupts(str_z(text), S("9\n71\n")), 37);
	assert_int_equal(pulse_interrupts(str_z(text), S("1")), -1);
	assert_int_equal(pulse_interrupts(str_z(text), S("")), -1);
	assert_true(pulse_interrupts(S("1: 9223372036854775807 9223372036854775807"), S("1")) >= 0);
	for (size_t n = 0; n < sizeof(text); n++) {
		char *cut = exact(text, n);
		assert_true(pulse_interrupts((struct str){ cut, n }, S("71")) <= 30);
		free(cut);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_is_read_as_it_was_written),   cmocka_unit_test(only_ids_are_ids),
		cmocka_unit_test(mistakes_of_a_configuration_are_told), cmocka_unit_test(uevents_tell_of_evidence),
		cmocka_unit_test(frames_of_the_eye_are_whole_or_wait),  cmocka_unit_test(interrupts_are_counted),
	};
	return cmocka_run_group_tests_name("watch_parts", tests, NULL, NULL);
}

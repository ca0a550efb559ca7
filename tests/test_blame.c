// Which change is to blame: single histories of which the answer is plain, and thousands by chance, with and without a guilty change.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "diagnose/changes/past.h"
#include "diagnose/incident.h"
#include "knowledge/steps.h"
#include "source/tape/tape.h"

#define HOUR 3600.0
#define DAY (24 * HOUR)
#define BEGIN 1.75e9
#define KIND S("hang")

static const struct know_package kernel = { .head = { .id = { "kernel", 6 } }, .effect = EFFECT_BOOT };
static const struct know_package firmware = { .head = { .id = { "firmware", 8 } }, .effect = EFFECT_BOOT };
static const struct know_package mesa = { .head = { .id = { "mesa", 4 } }, .effect = EFFECT_START };
static struct know_list blender_only = { .text = { "blender*", 8 } };
static const struct know_package blender = { .head = { .id = { "blender", 7 } },
					     .processes = &blender_only,
					     .effect = EFFECT_START };

/** A machine, as a test writes it down. */
struct history {
	struct changes changes;
	VEC(struct past_sighting) sightings;
	struct diag_changes judged;
};

static int history_begin(void **state)
{
	struct history *h = mem_alloc(sizeof(*h));
	*state = h;
	return 0;
}

static void history_clear(struct history *h)
{
	for (size_t n = 0; n < h->changes.transactions.len; n++)
		vec_free(&h->changes.transactions.data[n].changes);
	vec_free(&h->changes.transactions);
	vec_free(&h->changes.boots);
	vec_free(&h->sightings);
	diag_changes_free(&h->judged);
	arena_free(&h->changes.arena);
}

static int history_end(void **state)
{
	history_clear(*state);
	free(*state);
	return 0;
}

static void add_boot(struct history *h, double begin, double hours, const char *kernel_release)
{
	vec_push(&h->changes.boots, ((struct boot){ .begin = begin,
						    .end = begin + hours * HOUR,
						    .log = true,
						    .clean = true,
						    .kernel = str_z(kernel_release) }));
}

static void add_change(struct history *h, double when, const struct know_package *kind, const char *package, const char *from,
		       const char *to)
{
	struct transaction *last =
		h->changes.transactions.len ? &h->changes.transactions.data[h->changes.transactions.len - 1] : NULL;
	if (!last || last->when < when) {
		vec_push(&h->changes.transactions, ((struct transaction){ .when = when, .manager = S("apt") }));
		last = &h->changes.transactions.data[h->changes.transactions.len - 1];
	}
	vec_push(&last->changes, ((struct change){ str_z(package), str_z(from), str_z(to), kind }));
}

static void add_incident(struct history *h, double when) { vec_push(&h->sightings, ((struct past_sighting){ KIND, when })); }

static double newest(const struct history *h)
{
	double when = BEGIN;
	for (size_t n = 0; n < h->sightings.len; n++)
		when = fmax(when, h->sightings.data[n].when);
	return when;
}

static const struct diag_changes *judge_as(struct history *h, const char *process)
{
	diag_changes_free(&h->judged);
	changes_judge(&(struct changes_judge){ .changes = &h->changes,
					       .sightings = h->sightings.data,
					       .nsightings = h->sightings.len,
					       .when = newest(h),
					       .fingerprint = KIND,
					       .process = str_z(process) },
		      &h->judged);
	return &h->judged;
}

static const struct diag_changes *judge(struct history *h) { return judge_as(h, ""); }

static const struct diag_change *blamed(const struct diag_changes *c)
{
	return c->list.len && c->list.data[0].role == CHANGE_TO_BLAME ? &c->list.data[0] : NULL;
}

/** Boots of five hours, one a day. */
static void add_days(struct history *h, size_t from, size_t n, const char *kernel_release)
{
	for (size_t day = from; day < from + n; day++)
		add_boot(h, BEGIN + (double)day * DAY, 5, kernel_release);
}

/** 41 days, firmware, and then every day. */
static void add_guilty(struct history *h)
{
	add_days(h, 0, 44, "6.12.9");
	add_change(h, BEGIN + 40 * DAY + 4 * HOUR, &firmware, "linux-firmware", "20250613", "20250708");
	for (int day = 41; day < 44; day++)
		add_incident(h, BEGIN + day * DAY + 3 * HOUR);
}

static void test_guilty(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	const struct diag_changes *c = judge(h);
	assert_non_null(blamed(c));
	assert_true(blamed(c)->effect == BEGIN + 41 * DAY); // the boot behind it
	assert_int_equal(c->boots, 41);
	assert_int_equal(c->counted, 3);
	assert_true(fabs(c->after - 3) < 1e-6 && fabs(c->since - 15) < 1e-6 && fabs(c->all - 220) < 1e-6);
	assert_true(fabs(c->chance - pow(15.0 / 220, 3)) < 1e-9);
	assert_true(transaction_only(blamed(c)->transaction) == &h->changes.transactions.data[0].changes.data[0]);
}

static void test_not_enough(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	h->sightings.len = 1;
	const struct diag_changes *c = judge(h);
	assert_null(blamed(c));
	assert_int_equal(c->list.len, 1);
	assert_int_equal(c->list.data[0].role, CHANGE_LATELY);
}

static void test_seen_before(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	add_incident(h, BEGIN + 20 * DAY + HOUR);
	const struct diag_changes *c = judge(h);
	assert_int_equal(c->list.len, 0);
	assert_true(c->earlier);
}

/** Quiet boots of which nobody knows whether they were quiet are no evidence. */
static void test_unknown_boots(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	for (size_t n = 0; n < 41; n++)
		*(n % 2 ? &h->changes.boots.data[n].log : &h->changes.boots.data[n].clean) = false;
	const struct diag_changes *c = judge(h);
	assert_null(blamed(c));
	assert_int_equal(c->list.data[0].role, CHANGE_LATELY);
}

/** After the change they count as hours in which it was in effect: that is less in favour of blame than to leave them out. */
static void test_unknown_after(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	add_boot(h, BEGIN + 44 * DAY, 5, "");
	h->changes.boots.data[44].clean = false;
	const struct diag_changes *c = judge(h);
	assert_true(fabs(c->since - 20) < 1e-6 && fabs(c->all - 225) < 1e-6);
	assert_non_null(blamed(c));
}

/** A boot that ended in the incident itself is known, whatever its end. */
static void test_boots_with_it(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	for (size_t n = 41; n < 44; n++)
		h->changes.boots.data[n].clean = false;
	assert_non_null(blamed(judge(h)));
}

/** Hang, reboot, hang, reboot, hang within the hour is one incident. */
static void test_burst(void **state)
{
	struct history *h = *state;
	add_days(h, 0, 41, "");
	add_change(h, BEGIN + 40 * DAY + 4 * HOUR, &firmware, "linux-firmware", "1", "2");
	for (int n = 0; n < 4; n++) {
		add_boot(h, BEGIN + 41 * DAY + n * 900, 0.2, "");
		add_incident(h, BEGIN + 41 * DAY + n * 900 + 300);
	}
	const struct diag_changes *c = judge(h);
	assert_null(blamed(c));
	assert_int_equal(c->seen, 4);
	assert_int_equal(c->counted, 1);
}

/** Several in one boot are one, too. */
static void test_one_boot(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	h->sightings.len = 0;
	for (int n = 0; n < 4; n++)
		add_incident(h, BEGIN + 43 * DAY + (n + 1) * HOUR);
	assert_null(blamed(judge(h)));
	assert_int_equal(h->judged.counted, 1);
}

/** Between the installation and the boot the old one runs. */
static void test_takes_effect_at_boot(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	add_incident(h, BEGIN + 40 * DAY + 4.5 * HOUR);
	assert_null(blamed(judge(h)));
	// Mesa is in use from then on.
	h->changes.transactions.data[0].changes.data[0].kind = &mesa;
	assert_non_null(blamed(judge(h)));
	assert_true(blamed(&h->judged)->effect == BEGIN + 40 * DAY + 4 * HOUR);
}

/** What a boot says that it ran counts, not what was installed. */
static void test_kernel_that_ran(void **state)
{
	struct history *h = *state;
	add_days(h, 0, 30, "6.12.9-amd64");
	add_change(h, BEGIN + 25 * DAY + HOUR, &kernel, "linux-image-6.12.12-amd64", "", "6.12.12-1");
	add_days(h, 30, 3, "6.12.12-amd64"); // it was booted five days later
	for (int day = 30; day < 33; day++)
		add_incident(h, BEGIN + day * DAY + HOUR);
	assert_non_null(blamed(judge(h)));
	assert_true(blamed(&h->judged)->effect == BEGIN + 30 * DAY);
	// Quiet days with the old one speak for it even more.
	const double before = h->judged.chance;
	add_days(h, 33, 6, "6.12.9-amd64");
	assert_true(judge(h)->chance < before);
	// And one incident with the old one acquits it.
	add_incident(h, BEGIN + 35 * DAY + HOUR);
	assert_null(blamed(judge(h)));
}

static void test_kernel_that_never_ran(void **state)
{
	struct history *h = *state;
	add_days(h, 0, 33, "6.12.9-amd64");
	add_change(h, BEGIN + 29 * DAY + HOUR, &kernel, "linux-image-6.12.12-amd64", "", "6.12.12-1");
	for (int day = 30; day < 33; day++)
		add_incident(h, BEGIN + day * DAY + HOUR);
	assert_int_equal(judge(h)->list.len, 0);
}

static void test_releases(void **state)
{
	static const struct {
		const char *package, *version, *release;
		bool same;
	} rows[] = {
		{ "linux-image-6.8.0-90-generic", "6.8.0-90.91", "6.8.0-90-generic", true },
		{ "linux-image-6.8.0-90-generic", "6.8.0-90.91", "6.8.0-88-generic", false },
		{ "linux-image-6.1.0-37-amd64", "6.1.140-1", "6.1.0-37-amd64", true },
		{ "linux-image-amd64", "6.12.38-1", "6.12.38+deb13-amd64", true },
		{ "kernel-core", "6.15.3-200.fc42", "6.15.3-200.fc42.x86_64", true },
		{ "kernel-core", "6.15.3-200.fc42", "6.15.4-200.fc42.x86_64", false },
		{ "kernel-core", "0:6.15.3-200.fc42", "6.15.3-200.fc42.x86_64", true },
		{ "linux", "6.15.3.arch1-1", "6.15.3-arch1-1", true },
		{ "linux-zen", "6.15.3.zen1-1", "6.15.2-zen1-1-zen", false },
		{ "kernel-default", "6.15.3-1.1", "6.15.3-1-default", true },
		{ "kernel-default", "6.15.3-2.1", "6.15.3-1-default", false },
		{ "linux", "6.16.arch1-1", "6.16.0-arch1-1", false },
		{ "linux", "", "6.16.0-arch1-1", false },
		{ "linux", "6", "6", false },
	};
	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(rows); n++) {
		const struct change c = { str_z(rows[n].package), { 0 }, str_z(rows[n].version), &kernel };
		if (change_is_kernel(&c, str_z(rows[n].release)) != rows[n].same)
			fail_msg("%s %s and %s", rows[n].package, rows[n].version, rows[n].release);
	}
}

/** Two changes on one evening cannot be told apart, and one of a week before can. */
static void test_beside(void **state)
{
	struct history *h = *state;
	add_days(h, 0, 44, "");
	add_change(h, BEGIN + 30 * DAY + 4 * HOUR, &mesa, "mesa", "1", "2");
	add_change(h, BEGIN + 40 * DAY + 3 * HOUR, &kernel, "linux", "6.1.1-1", "6.1.2-1");
	add_change(h, BEGIN + 40 * DAY + 4 * HOUR, &firmware, "linux-firmware", "1", "2");
	for (int day = 41; day < 44; day++)
		add_incident(h, BEGIN + day * DAY + HOUR);
	const struct diag_changes *c = judge(h);
	assert_non_null(blamed(c));
	assert_int_equal(c->list.len, 2);
	assert_int_equal(c->list.data[1].role, CHANGE_BESIDE);
	assert_true(c->list.data[1].transaction->when >= BEGIN + 40 * DAY);
}

/** Once the old version is back, its hours are those of before. */
static void test_taken_back(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	add_days(h, 44, 10, "6.12.9");
	add_change(h, BEGIN + 43 * DAY + 4.5 * HOUR, &firmware, "linux-firmware", "20250708", "20250613");
	const struct diag_changes *c = judge(h);
	assert_non_null(blamed(c));
	assert_true(c->undone && fabs(c->since - 15) < 1e-6);
}

/** A file of a user stands behind what the system changed, whatever its date. */
static void test_own_files(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	add_change(h, BEGIN + 41 * DAY + 0.9 * HOUR, &mesa, "mesa", "1", "2");
	assert_ptr_equal(blamed(judge(h))->transaction, &h->changes.transactions.data[1]);
	h->changes.transactions.data[1].own = true;
	const struct diag_changes *c = judge(h);
	assert_ptr_equal(blamed(c)->transaction, &h->changes.transactions.data[0]);
	assert_true(c->list.len == 2 && c->list.data[1].role == CHANGE_BESIDE);
}

/** Taken back after the last incident, and not booted since. */
static void test_taken_back_without_boot(void **state)
{
	struct history *h = *state;
	const double end = BEGIN + 43 * DAY + 4.5 * HOUR;
	add_guilty(h);
	assert_false(judge(h)->undone);
	add_change(h, end, &firmware, "linux-firmware", "20250708", "20250613");
	const struct diag_changes *c = judge(h);
	assert_non_null(blamed(c));
	assert_true(c->undone && c->pending);
	add_change(h, end + 60, &firmware, "linux-firmware", "20250613", "20250708");
	assert_false(judge(h)->undone);
}

static void test_of_a_program(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	h->changes.transactions.data[0].changes.data[0].kind = &blender;
	assert_int_equal(judge_as(h, "firefox")->list.len, 0);
	assert_non_null(blamed(judge_as(h, "blender")));
}

static void test_several_parts(void **state)
{
	struct history *h = *state;
	add_guilty(h);
	add_change(h, BEGIN + 40 * DAY + 4 * HOUR, &firmware, "linux-firmware-amdgpu", "20250613", "20250708");
	assert_non_null(transaction_only(&h->changes.transactions.data[0]));
	add_change(h, BEGIN + 40 * DAY + 4 * HOUR, &mesa, "mesa", "1", "2");
	assert_null(transaction_only(&h->changes.transactions.data[0]));
}

/** The facts of the way back from one change, as `manager id before names`. */
static void way_says(const struct know *k, const char *const of[4], const char *expected)
{
	struct history h = { 0 };
	struct incident i = { 0 };
	_cleanup_text_ struct text told = { 0 };
	static const char *const names[] = { "changed_manager", "changed_id", "changed_id_before", "changed_olds" };
	add_days(&h, 0, 44, "6.12.9");
	add_change(&h, BEGIN + 40 * DAY + 4 * HOUR, know_package(k, str_z(of[2])), of[2], of[3], "2");
	h.changes.transactions.data[0].manager = str_z(of[0]);
	h.changes.transactions.data[0].id = str_z(of[1]);
	for (int day = 41; day < 44; day++)
		add_incident(&h, BEGIN + day * DAY + HOUR);
	judge(&h);
	i.changes = h.judged;
	assert_non_null(blamed(&i.changes));
	changes_find_way_back(&i, &h.changes, &(struct package_cache){ 0 });
	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		struct str value = { 0 };
		changes_get(&i.changes, str_z(names[n]), 0, &value);
		text_printf(&told, "%s" STR_FMT, n ? "|" : "", STR_ARG(value));
	}
	assert_string_equal(told.p, expected);
	h.judged = i.changes;
	vec_free(&i.also);
	arena_free(&i.arena);
	history_clear(&h);
}

/** A bundle says freely which manager did what to which package: only what knowledge has together becomes a command. */
static void test_known_ways(void **state)
{
	static char longest[CHANGE_WORD_MOST + 1];
	memset(longest, '1', CHANGE_WORD_MOST);
	const struct {
		const char *of[4], *says;
	} all[] = {
		{ { "apt", "", "linux-firmware", "1" }, "apt|||linux-firmware=1" },
		{ { "dnf5", "31", "linux-firmware", "1" }, "dnf5|31||linux-firmware=1" },
		{ { "dnf5", "last", "linux-firmware", "1" }, "dnf5|||linux-firmware=1" },
		{ { "dnf5", "1/../@x:y=%", "linux-firmware", "1" }, "dnf5|||linux-firmware=1" },
		{ { "nix", "-1", "nixos-system", "1" }, "nix|||nixos-system=1" },
		{ { "pip", "7", "rocm-hotfix-attacker", "6.6.6" }, "other|||" },
		{ { "snap", "", "mesa-2404", "412" }, "snap|||mesa-2404=412" },
		{ { "snap", "", "mesa--unaliased", "412" }, "other|||" },
		{ { "flatpak", "", "mesa-evil.App//stable", "1" }, "other|||" },
		{ { "nobody", "7", "linux-firmware", "1" }, "other|||" },
		{ { "apt", "", "linux-firmware", longest }, "other|||" },
	};
	struct know_problems problems = { 0 };
	struct know *k = know_load(&problems);
	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(all); n++)
		way_says(k, all[n].of, all[n].says);
	assert_true(know_package_by(know_package(k, S("torch")), S("pip"), S("torch")));
	assert_false(know_package_by(know_package(k, S("vllm-rocm-fast")), S("pip"), S("vllm-rocm-fast")));
	assert_int_equal(fact_type(k, S("changed_id")), PIECE_NUMBER);
	assert_int_equal(fact_type(k, S("changed_id_before")), PIECE_NUMBER);
	know_free(k);
}

static const struct know_package *const kinds_of_boots[] = { &kernel, &firmware };

/** Another kernel is a change where no log of packages has it; the menu's choice of an older one is none. */
static void test_boots_tell(void **state)
{
	struct history *h = *state;
	struct know know = { .packages = { (struct know_package **)kinds_of_boots, ARRAY_SIZE(kinds_of_boots), 0 } };
	add_days(h, 0, 40, "6.12.9-amd64");
	add_days(h, 40, 5, "6.12.12-amd64");
	add_days(h, 45, 1, "6.12.9-amd64");
	add_days(h, 46, 1, "6.13.2-amd64");
	h->changes.boots.data[42].firmware = S("SMU 1"); // it is not known of those before
	h->changes.boots.data[43].firmware = S("SMU 2");
	add_change(h, BEGIN + 45 * DAY + HOUR, &kernel, "linux-image-6.13.2-amd64", "", "6.13.2-1");
	changes_of_boots(&h->changes, &know);
	assert_int_equal(h->changes.transactions.len, 3);
	const struct change *first = &h->changes.transactions.data[0].changes.data[0];
	assert_true(str_is(first->package, "kernel") && str_is(first->from, "6.12.9-amd64") &&
		    str_is(first->to, "6.12.12-amd64"));
	assert_true(str_is(h->changes.transactions.data[1].changes.data[0].to, "SMU 2"));
	assert_true(str_is(h->changes.transactions.data[2].manager, "apt"));
	for (int day = 40; day < 44; day++)
		add_incident(h, BEGIN + day * DAY + HOUR);
	assert_true(blamed(judge(h)) && blamed(&h->judged)->transaction == &h->changes.transactions.data[0]);
}

static void test_cached(void **state)
{
	static const char *const files[] = {
		"/var/cache/apt/archives/mesa-vulkan-drivers_1%3a25.0.7-2_amd64.deb",
		"/var/cache/pacman/pkg/mesa-1:25.1.4-1-x86_64.pkg.tar.zst",
		"/var/cache/libdnf5/updates-1/packages/mesa-dri-drivers-25.0.7-4.fc42.x86_64.rpm"
	};
	static const struct {
		const char *package, *version;
		int file; // -1: none
	} rows[] = {
		{ "mesa-vulkan-drivers", "1:25.0.7-2", 0 },
		{ "mesa-vulkan-drivers", "25.0.7-2", -1 },
		{ "mesa-vulkan", "1:25.0.7-2", -1 },
		{ "mesa-vulkan-drivers", "1:25.0.7", -1 },
		{ "mesa", "1:25.1.4-1", 1 },

		{ "mesa-dri-drivers", "25.0.7-4.fc42", 2 },
		{ "mesa-dri-drivers", "1:25.0.7-4.fc42", 2 },
		{ "mesa-dri-drivers", "25.0.7-4.fc4", -1 },
		{ "", "", -1 },
		{ "mesa-vulkan-drivers", ":", -1 },
	};
	struct package_cache c = { 0 };
	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(files); n++)
		vec_push(&c.files, str_z(files[n]));
	for (size_t n = 0; n < ARRAY_SIZE(rows); n++) {
		const struct str found = package_cache_find(&c, str_z(rows[n].package), str_z(rows[n].version));
		if (!str_eq(found, rows[n].file < 0 ? (struct str){ 0 } : str_z(files[rows[n].file])))
			fail_msg("%s %s: " STR_FMT, rows[n].package, rows[n].version, STR_ARG(found));
	}
	package_cache_free(&c);
}

/** A bundle tells of the same incidents of earlier boots; one that was cut or made up tells of fewer, and of nothing else. */
static void test_taped(void **state)
{
	_cleanup_past_ struct past live = { 0 }, played = { 0 };
	_cleanup_text_ struct text bytes = { 0 };
	FILE *file = tmpfile();
	(void)state;
	past_add_boot(&live, S("00112233445566778899aabbccddeeff"));
	past_add_boot(&live, S("10112233445566778899aabbccddeeff"));
	past_add(&live, S("0123456789abcdef"), BEGIN);
	past_add(&live, S("1123456789abcdef"), BEGIN + 7);
	struct know *k = know_load(&(struct know_problems){ 0 });
	struct tape *tape = tape_record(&(struct tape_recording){ .fd = fileno(file), .most = 1 << 20 });
	past_read(k, (struct machine_at){ .root = "/nonexistent", .tape = tape }, 0, &live);
	assert_true(tape_end(tape));
	tape_free(tape);
	rewind(file);
	char *room = text_room(&bytes, 1 << 16);
	bytes.n = fread(room, 1, 1 << 16, file);
	fclose(file);
	for (size_t n = bytes.n;; n = n > 64 ? n - 13 : n - 1) {
		past_free(&played);
		tape = tape_new();
		tape_add(tape, S("changes"), str_cut(text_str(&bytes), n));
		tape_begin(tape, "changes");
		past_read(k, (struct machine_at){ .tape = tape }, 0, &played);
		tape_free(tape);
		assert_true(played.boots.len <= 2 && played.sightings.len <= 2);
		for (size_t i = 0; i < played.sightings.len; i++)
			assert_true(str_eq(played.sightings.data[i].fingerprint, live.sightings.data[i].fingerprint) &&
				    fabs(played.sightings.data[i].when - live.sightings.data[i].when) < 0.01);
		assert_true(n < bytes.n || (played.boots.len == 2 && played.sightings.len == 2));
		if (!n)
			break;
	}
	know_free(k);
}

/** What a bundle says of changes, and how much of it is unread. */
static size_t unread_of(const struct know *k, struct str text)
{
	_cleanup_changes_ struct changes c = { 0 };
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text bytes = { 0 };
	FILE *file = tmpfile();
	struct tape *tape = tape_record(&(struct tape_recording){ .fd = fileno(file), .most = 1 << 20 });
	tape_said(tape, &a, "changes", text);
	assert_true(tape_end(tape));
	tape_free(tape);
	rewind(file);
	char *room = text_room(&bytes, 1 << 16);
	bytes.n = fread(room, 1, 1 << 16, file);
	fclose(file);
	tape = tape_new();
	tape_add(tape, S("changes"), text_str(&bytes));
	tape_begin(tape, "changes");
	changes_read(k, (struct machine_at){ .tape = tape }, 0, &c);
	tape_free(tape);
	return c.unread.len;
}

/** What is damaged in a bundle is unread, and then nothing is blamed. */
static void test_damaged_bundle(void **state)
{
	const struct str whole = S("unhang/changes/1\nsince\t1750000000\t\nboot\t00\t1750000000\t1750000100\tlc\t6.1\t\t\t\t\n"
				   "transaction\t1750000000\t1750000001\t\t0\tapt\t\t/log\nchange\tmesa\t25.0\t25.1\n");
	struct know *k = know_load(&(struct know_problems){ 0 });
	(void)state;
	assert_int_equal(unread_of(k, whole), 0);
	assert_int_equal(unread_of(k, S("")), 0); // of before
	assert_int_equal(unread_of(k, str_cut(whole, whole.n - 3)), 1);
	assert_int_equal(unread_of(k, str_from(whole, 3)), 1);
	assert_int_equal(unread_of(k, S("unhang/changes/1\ntransaction\tnan\t1\t\t0\tapt\t\t/log\n")), 1);
	know_free(k);
}

// --- by chance ---

static uint64_t random_state;

static double chance(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (double)(random_state >> 11) / 9007199254740992.0;
}

static double between(double least, double most) { return least + chance() * (most - least); }
static double exponential(double mean) { return -mean * log(1 - chance()); }

/** A machine of somebody: boots of minutes to days, updates a few times a month, some boots that are unknown. Returns its end. */
static double add_life(struct history *h)
{
	const double length = between(4, 26), a_day = between(0.4, 2), unclean = between(0, 0.2), updates = between(2, 12);
	double now = BEGIN;
	const size_t boots = (size_t)between(10, 120);
	for (size_t n = 0; n < boots; n++) {
		const double hours = fmin(exponential(length * between(0.2, 1)), 24 * 20);
		add_boot(h, now, fmax(hours, 0.05), "");
		if (chance() < unclean)
			*(chance() < 0.5 ? &h->changes.boots.data[n].log : &h->changes.boots.data[n].clean) = false;
		now += fmax(hours, 0.05) * HOUR + fmin(exponential(24 / a_day), 240) * HOUR / 2;
	}
	for (double when = BEGIN + exponential(30 / updates) * DAY; when < now; when += exponential(30 / updates) * DAY) {
		static const struct know_package *const kinds[] = { &kernel, &firmware, &mesa };
		add_change(h, when, kinds[(size_t)(chance() * 3)], "a", "1", "2");
		if (chance() < 0.3)
			add_change(h, when, &firmware, "b", "1", "2");
	}
	return now;
}

/** How incidents that have nothing to do with a change come. */
enum coming {
	COMES_EVENLY,   // at any hour
	COMES_IN_BOOT,  // several in one boot
	COMES_IN_ROWS,  // a hang, a reboot, and the same again: rows of short boots
	COMES_AT_TIMES, // only in some weeks, as long as one game is played, and then often
	COMINGS
};

/** Inserts short boots behind the one at @n, each with the incident. */
static void add_row(struct history *h, size_t n, double when)
{
	const size_t more = (size_t)between(1, 5);
	struct boot *b = &h->changes.boots.data[n];
	const double end = b->end;
	b->end = when + 30;
	b->clean = false;
	double now = b->end + 120;
	for (size_t k = 0; k < more && now + 600 < end; k++) {
		const double seconds = between(120, 900);
		vec_push(&h->changes.boots, ((struct boot){ .begin = now, .end = now + seconds, .log = true }));
		add_incident(h, now + seconds - 20);
		now += seconds + 120;
	}
}

static int by_begin(const void *a, const void *b)
{
	const struct boot *x = a, *y = b;
	return (x->begin > y->begin) - (x->begin < y->begin);
}

static void add_unrelated(struct history *h, enum coming how, double rate)
{
	const size_t boots = h->changes.boots.len;
	double from = BEGIN, to = BEGIN;
	for (size_t n = 0; n < boots; n++) {
		const struct boot b = h->changes.boots.data[n];
		if (how == COMES_AT_TIMES && b.begin > to) {
			from = b.begin + exponential(21) * DAY;
			to = from + exponential(7) * DAY;
		}
		const bool rare = how == COMES_AT_TIMES && (b.begin < from || b.begin > to);
		const double at = b.begin + exponential(1 / rate) * HOUR;
		if (at >= b.end || !b.log || rare)
			continue;
		add_incident(h, at);
		for (int k = 0; how == COMES_IN_BOOT && k < 4; k++)
			add_incident(h, fmin(at + exponential(1) * HOUR, b.end - 1));
		if (how == COMES_IN_ROWS && chance() < 0.5)
			add_row(h, n, at);
	}
	qsort(h->changes.boots.data, h->changes.boots.len, sizeof(h->changes.boots.data[0]), by_begin);
}

/** People ask at once; so the machine's life ends with an incident, in half of the histories. */
static void ask_now(struct history *h)
{
	if (!h->sightings.len)
		return;
	const double now = newest(h);
	struct changes *c = &h->changes;
	while (c->boots.data[c->boots.len - 1].begin > now)
		c->boots.len--;
	struct boot *last = &c->boots.data[c->boots.len - 1];
	last->end = fmin(last->end, now + 600);
	last->runs = true;
	while (c->transactions.len && c->transactions.data[c->transactions.len - 1].when > now)
		vec_free(&c->transactions.data[--c->transactions.len].changes);
}

static void test_chance(void **state)
{
	enum { HISTORIES = 10000 };
	unsigned asked[COMINGS] = { 0 }, wrong[COMINGS] = { 0 }, all = 0;
	(void)state;
	random_state = 0x9e3779b97f4a7c15;
	for (unsigned n = 0; n < HISTORIES; n++) {
		struct history h = {};
		const enum coming how = (enum coming)(n % COMINGS);
		add_life(&h);
		add_unrelated(&h, how, 1 / exp(between(log(20), log(800))));
		if (n % 2)
			ask_now(&h);
		const bool found = h.sightings.len && blamed(judge(&h));
		asked[how] += h.sightings.len > 0;
		wrong[how] += found;
		all += found;
		history_clear(&h);
	}
	for (int how = 0; how < COMINGS; how++)
		print_message("# coming %d: %u of %u histories with incidents blamed\n", how, wrong[how], asked[how]);
	print_message("# without a guilty change: %u of %d blamed\n", all, HISTORIES);
	assert_true(all * 100 <= HISTORIES);
}

/** From one change on, an incident in each so many hours. */
static void test_power(void **state)
{
	enum { HISTORIES = 3000 };
	unsigned found = 0, other = 0, asked = 0;
	(void)state;
	random_state = 0x2545f4914f6cdd1d;
	for (unsigned n = 0; n < HISTORIES; n++) {
		struct history h = {};
		add_life(&h);
		const struct transaction *guilty = NULL;
		for (size_t k = 0; k < h.changes.transactions.len; k++)
			if (h.changes.transactions.data[k].when > h.changes.boots.data[h.changes.boots.len * 3 / 4].begin) {
				guilty = &h.changes.transactions.data[k];
				break;
			}
		const double rate = 1 / between(3, 12);
		for (size_t k = 0; guilty && k < h.changes.boots.len; k++) {
			const struct boot *b = &h.changes.boots.data[k];
			const double at = b->begin + exponential(1 / rate) * HOUR;
			if (b->begin > guilty->when && at < b->end && b->log)
				add_incident(&h, at);
		}
		if (h.sightings.len >= 4) {
			const struct diag_changes *c = judge(&h);
			asked++;
			bool right = false;
			for (size_t k = 0; k < c->list.len; k++)
				right |= c->list.data[k].transaction == guilty && c->list.data[k].role != CHANGE_LATELY;
			found += right;
			other += blamed(c) && !right;
		}
		history_clear(&h);
	}
	print_message("# with a guilty change and four incidents or more: %u of %u found, %u blamed on another\n", found, asked,
		      other);
	assert_true(found * 100 >= asked * 85 && other * 100 <= asked * 5);
}

int main(void)
{
#define HISTORY_TEST(name) cmocka_unit_test_setup_teardown(name, history_begin, history_end)
	const struct CMUnitTest tests[] = {
		HISTORY_TEST(test_guilty),
		HISTORY_TEST(test_not_enough),
		HISTORY_TEST(test_seen_before),
		HISTORY_TEST(test_unknown_boots),
		HISTORY_TEST(test_unknown_after),
		HISTORY_TEST(test_boots_with_it),
		HISTORY_TEST(test_burst),
		HISTORY_TEST(test_one_boot),
		HISTORY_TEST(test_takes_effect_at_boot),
		HISTORY_TEST(test_kernel_that_ran),
		HISTORY_TEST(test_kernel_that_never_ran),
		cmocka_unit_test(test_releases),
		HISTORY_TEST(test_beside),
		HISTORY_TEST(test_taken_back),
		HISTORY_TEST(test_own_files),
		HISTORY_TEST(test_taken_back_without_boot),
		HISTORY_TEST(test_of_a_program),
		HISTORY_TEST(test_several_parts),
		cmocka_unit_test(test_known_ways),
		HISTORY_TEST(test_boots_tell),
		cmocka_unit_test(test_cached),
		cmocka_unit_test(test_taped),
		cmocka_unit_test(test_damaged_bundle),
		cmocka_unit_test(test_chance),
		cmocka_unit_test(test_power),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

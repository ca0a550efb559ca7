// The reader of what guard and pool write: a small file that is right, then cut at every byte, and with every byte changed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "allocations_check.h"

static struct allocations *parse_allocations(const char *bytes, size_t size)
{
	struct allocations *a = NULL;
	char *copy = malloc(size + 1);
	memcpy(copy, bytes, size);
	struct uh_error *err = allocations_parse("test", copy, size, &a);
	assert_null(err);
	return a;
}

static void same_text(struct str said, const char *wanted)
{
	char room[400];
	str_copy(room, sizeof(room), said);
	assert_string_equal(room, wanted);
}

static void an_address_alone_names_the_allocation(void **state)
{
	(void)state;
	char *bytes = sample_allocations();
	struct allocations *a = parse_allocations(bytes, ALLOCS_SIZE);
	struct arena to = { 0 };
	const uint64_t end = ALLOCS_BASE + 4096, two = UINT64_C(2) << 20;
	assert_int_equal(a->nrows, ALLOCS_ROWS);
	struct allocation_at at = allocations_find(a, end);
	assert_int_equal(at.place, ALLOC_PAST);
	assert_int_equal(at.row->number, 1);
	same_text(allocation_offset_say(&to, &at), "0 to 4,095 bytes past the end");
	at = allocations_find(a, ALLOCS_BASE - 8);
	assert_int_equal(at.place, ALLOC_BEFORE);
	same_text(allocation_offset_say(&to, &at), "3,097 to 7,192 bytes before the start");
	at = allocations_find(a, ALLOCS_BASE + two + 100);
	assert_int_equal(at.place, ALLOC_FREED);
	assert_int_equal(at.row->number, 2);
	at = allocations_find(a, end + 2 * 4096);
	assert_int_equal(at.place, ALLOC_ELSEWHERE);
	assert_int_equal(at.row->number, 1);
	assert_int_equal(at.distance, 2 * 4096);
	same_text(allocation_say(&to, at.row), "hipMalloc of 1,000 bytes at 0x7f0000000c18");
	same_text(allocation_stack_say(a, &to, 1, 8), "lib.so + 0x1234 < 0x99");
	arena_free(&to);
	allocations_free(a);
	free(bytes);
}

static void many_small_allocations_are_named(void **state)
{
	(void)state;
	char *bytes = sample_allocations();
	struct allocations *a = parse_allocations(bytes, ALLOCS_SIZE);
	struct arena to = { 0 };
	same_text(burst_say(&to, allocations_burst(a)), "48,112 allocations of up to 4 KiB in 3.0 s");
	same_text(allocations_statistics_say(&to, a),
		  "Guard: 6 allocations (6 of 512 bytes to 1 KiB), at most 2 KiB at once in 12 KiB (75 % unused); half of those freed lived less "
		  "than 33 ms; 17 calls of KFD by the whole process. Many small ones: 48,112 allocations of up to 4 KiB in 3.0 s. 2 findings.");
	arena_free(&to);
	allocations_free(a);
	free(bytes);
}

static void findings_without_room_are_counted(void **state)
{
	(void)state;
	char *bytes = sample_allocations();
	struct arena to = { 0 };
	memcpy(bytes + offsetof(struct alloc_header, lost_findings), &(uint64_t){ 2000 }, 8);
	struct allocations *a = parse_allocations(bytes, ALLOCS_SIZE);
	assert_true(str_ends(allocations_statistics_say(&to, a), S(" 2,002 findings.")));
	arena_free(&to);
	allocations_free(a);
	free(bytes);
}

static void a_record_that_is_torn_is_left_out(void **state)
{
	(void)state;
	for (size_t at = 0; at < sizeof(struct alloc_row); at++) {
		char *bytes = sample_allocations();
		bytes[ALLOCS_ROWS_AT + sizeof(struct alloc_row) + at] ^= 0x40;
		struct allocations *a = parse_allocations(bytes, ALLOCS_SIZE);
		assert_int_equal(a->nrows, ALLOCS_ROWS - 1);
		assert_int_equal(a->torn, 1);
		assert_int_equal(a->missing, 1);
		allocations_free(a);
		free(bytes);
	}
}

static void a_file_cut_at_any_byte_is_read_or_refused(void **state)
{
	(void)state;
	char *bytes = sample_allocations();
	for (size_t n = 0; n <= ALLOCS_SIZE; n++)
		assert_null(allocations_complaint(bytes, n));
	for (size_t n = ALLOC_HEAD; n < ALLOCS_SIZE; n++) {
		struct allocations *a = parse_allocations(bytes, n);
		assert_true(a->damage.n);
		allocations_free(a);
	}
	struct allocations *a = parse_allocations(bytes, ALLOCS_FINDINGS_AT);
	same_text(a->damage, "cut off or damaged: it ends at byte 9672, before the end of its section of findings");
	assert_int_equal(a->nrows, ALLOCS_ROWS);
	allocations_free(a);
	free(bytes);
}

/** What the file says of itself with some bytes changed, @state as it is told there. */
static void same_damage(const char *wanted, enum alloc_state_of_file state, size_t at, uint64_t value, size_t size, bool sealed)
{
	char *bytes = sample_allocations();
	memcpy(bytes + offsetof(struct alloc_header, state), &(uint32_t){ state }, 4);
	memcpy(bytes + at, &value, size);
	if (sealed)
		allocs_seal_all(bytes);
	struct allocations *a = parse_allocations(bytes, ALLOCS_SIZE);
	same_text(a->damage, wanted);
	allocations_free(a);
	free(bytes);
}

static void what_no_job_leaves_behind_is_told(void **state)
{
	(void)state;
	const size_t entry = RECORDING_PAGE + 3 * sizeof(struct alloc_section), first = ALLOCS_FINDINGS_AT;
	const char *impossible = "damaged at byte 4168: no section of findings can be like this";
	const char *none = "damaged at byte 4096: its table has no section of findings";
	same_damage("", ALLOC_ENDED, entry, ALLOC_SECTION_FINDINGS, 4, false);
	same_damage(none, ALLOC_ENDED, entry, 99, 4, false);
	same_damage(impossible, ALLOC_ENDED, entry + 4, 8, 4, false);
	same_damage(impossible, ALLOC_ENDED, entry + 8, 0, 8, false);
	same_damage(impossible, ALLOC_ENDED, entry + 16, 0, 8, false);
	same_damage("cut off or damaged: it ends at byte 19368, before the end of its section of findings", ALLOC_ENDED, entry + 8,
		    UINT64_C(1) << 60, 8, false);
	same_damage("byte 9672: finding 1 is of a kind that this unhang does not know", ALLOC_ENDED,
		    first + offsetof(struct alloc_finding, kind), 99, 4, true);
	same_damage("damaged at byte 9784: finding 2 has places that no allocation has", ALLOC_ENDED,
		    first + sizeof(struct alloc_finding) + offsetof(struct alloc_finding, begin), UINT64_C(1) << 63, 8, true);
	same_damage("damaged at byte 9672: finding 1 is not whole", ALLOC_ENDED, first + 50, 0xff, 1, false);
	same_damage("damaged at byte 9672: finding 1 is not whole", ALLOC_ENDED, first, 0, 8, false);
}

static void a_job_that_was_killed_leaves_a_file_that_is_whole(void **state)
{
	(void)state;
	const size_t size = sizeof(struct alloc_finding);
	for (size_t words = 1; words < size / 8; words++) {
		char *bytes = sample_allocations();
		memcpy(bytes + offsetof(struct alloc_header, state), &(uint32_t){ ALLOC_ON }, 4);
		memset(bytes + ALLOCS_FINDINGS_AT + size + words * 8, 0, size - words * 8); // word by word, in their order
		struct allocations *a = parse_allocations(bytes, ALLOCS_SIZE);
		same_text(a->damage, "");
		allocations_free(a);
		free(bytes);
	}
}

static void a_file_with_any_byte_changed_is_read_or_refused(void **state)
{
	(void)state;
	for (size_t at = 0; at < ALLOCS_SIZE; at++)
		for (unsigned sealed = 0; sealed < 2; sealed++) {
			char *bytes = sample_allocations();
			bytes[at] ^= (char)0xff;
			if (sealed)
				allocs_seal_all(bytes);
			assert_null(allocations_complaint(bytes, ALLOCS_SIZE));
			free(bytes);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_alone_names_the_allocation),
		cmocka_unit_test(many_small_allocations_are_named),
		cmocka_unit_test(findings_without_room_are_counted),
		cmocka_unit_test(a_record_that_is_torn_is_left_out),
		cmocka_unit_test(a_file_cut_at_any_byte_is_read_or_refused),
		cmocka_unit_test(what_no_job_leaves_behind_is_told),
		cmocka_unit_test(a_job_that_was_killed_leaves_a_file_that_is_whole),
		cmocka_unit_test(a_file_with_any_byte_changed_is_read_or_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

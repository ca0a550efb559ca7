// The reader of recordings: a small one that is right, then cut at every byte, and with every byte changed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "code_writer.h"
#include "recorder/note.h"
#include "inputs_check.h"
#include "recording_check.h"

static struct flight_recording *parse(const char *bytes, size_t size)
{
	struct flight_recording *r = NULL;
	char *copy = malloc(size);
	memcpy(copy, bytes, size);
	struct uh_error *err = recording_parse("test", copy, size, &r);
	uh_error_free(err);
	return r;
}

static void test_whole(void **state)
{
	(void)state;
	char *bytes = sample_recording();
	struct flight_recording *r = parse(bytes, SAMPLE_SIZE);
	assert_non_null(r);
	assert_int_equal(r->torn, 0);
	assert_int_equal(r->nqueues, 1);
	assert_int_equal(r->queues[0].n, 8);
	const struct recorded_packet *p = r->queues[0].packets;
	assert_int_equal(p[3].progress, PROGRESS_ENDED);
	assert_int_equal(p[4].progress, PROGRESS_TAKEN);
	assert_int_equal(p[5].progress, PROGRESS_RUNNING);
	assert_int_equal(p[6].progress, PROGRESS_WAITING);
	assert_true(str_is(p[5].kernel->name, "_Z5saxpyPKfPffi"));
	assert_true(str_is(p[1].operation->name, "attention"));
	assert_int_equal(p[7].kind, PACKET_BARRIER);
	// By its metadata and its name: two pointers, a float, an int.
	struct packet_argument *takes;
	assert_int_equal(packet_takes(&r->arena, &p[2], &takes), 4);
	assert_true(str_is(takes[1].type, "float*") && str_is(takes[2].type, "float") && takes[3].what->offset == 20);
	assert_true(str_is(packet_arguments_say(&r->arena, r, &p[2]), "0x7e0000200010 (8 KiB buffer + 0x10), 0, 0, 0"));
	assert_true(str_is(operation_say(&r->arena, r, p[2].operation), "attention > attention"));
	assert_true(str_is(tensors_say(&r->arena, p[2].operation), "float32 4x8"));
	struct nearby n = recording_near(r, 0x7e0000000010, 95, 0);
	assert_int_equal(n.relation, NEAR_INSIDE);
	assert_int_equal(n.distance, 0x10);
	assert_int_equal(recording_near(r, 0x7e0000100010, 95, 0).relation, NEAR_FREED);
	// Before it was freed it was there.
	assert_int_equal(recording_near(r, 0x7e0000100010, 20, 0).relation, NEAR_INSIDE);
	assert_int_equal(recording_near(r, 0x7e0000002000, 95, 0).relation, NEAR_PAST);
	assert_int_equal(recording_near(r, 0x10, 95, 0).relation, NEAR_NOWHERE);
	recording_free(r);
	free(bytes);
}

/** A record of which a part is of another one is not believed. */
static void test_torn(void **state)
{
	(void)state;
	for (unsigned at = 0; at < RECORD_SIZE; at += 8) {
		char *bytes = sample_recording();
		bytes[SAMPLE_QUEUE_AT + 256 + 5 * RECORD_SIZE + at] ^= 0x40;
		struct flight_recording *r = parse(bytes, SAMPLE_SIZE);
		assert_int_equal(r->torn, 1);
		assert_int_equal(r->queues[0].n, 7);
		recording_free(r);
		free(bytes);
	}
}

/** A record of the round before is not taken for one of this round. */
static void test_lapped(void **state)
{
	(void)state;
	char *bytes = sample_recording();
	struct rec_queue head;
	memcpy(&head, bytes + SAMPLE_QUEUE_AT, sizeof(head));
	head.seen = (1ull << 32) + 4;
	memcpy(bytes + SAMPLE_QUEUE_AT, &head, sizeof(head));
	struct flight_recording *r = parse(bytes, SAMPLE_SIZE);
	assert_int_equal(r->queues[0].n, 0);
	assert_int_equal(r->torn, 8);
	recording_free(r);
	free(bytes);
}

static void test_cut(void **state)
{
	(void)state;
	char *bytes = sample_recording();
	for (size_t n = 0; n <= SAMPLE_SIZE; n = n < RECORDING_HEAD - 8 && n > 64 ? n + 509 : n + 1)
		assert_null(recording_complaint(bytes, n));
	free(bytes);
}

/** A file that ends before its pieces do is cut, and what is there is read; nobody knows what else was launched. */
static void test_cut_is_told(void **state)
{
	(void)state;
	char *bytes = sample_recording();
	struct flight_recording *r = parse(bytes, SAMPLE_SIZE);
	assert_null(recording_gap(r));
	recording_free(r);
	for (size_t n = SAMPLE_SIZE - 1; n >= RECORDING_HEAD; n = n == RECORDING_HEAD ? 0 : RECORDING_HEAD) {
		r = parse(bytes, n);
		assert_true(r->cut && recording_gap(r) && !recording_idle(r).idle);
		assert_int_equal(r->nqueues, n > RECORDING_HEAD);
		recording_free(r);
	}
	struct rec_header h;
	memcpy(&h, bytes, sizeof(h));
	h.torn_queues = 1;
	memcpy(bytes, &h, sizeof(h));
	r = parse(bytes, SAMPLE_SIZE);
	assert_true(!r->cut && recording_gap(r));
	recording_free(r);
	free(bytes);
}

/** Every byte that says something, and some that are zero, with its bits turned; with checksums as they then are, and made right. */
static void test_changed(void **state)
{
	(void)state;
	for (size_t i = 0; i < SAMPLE_SIZE; i++) {
		char *bytes = sample_recording();
		const char was = bytes[i];
		if (!was && i > sizeof(struct rec_header) && (i < RECORDING_HEAD || i % 4)) {
			free(bytes);
			continue;
		}
		bytes[i] = (char)~was;
		assert_null(recording_complaint(bytes, SAMPLE_SIZE));
		sample_seal_all(bytes);
		assert_null(recording_complaint(bytes, SAMPLE_SIZE));
		free(bytes);
	}
}

/** A program that does not launch any more, after all that it launched has ended. */
static void test_idle(void **state)
{
	(void)state;
	for (int running = 0; running < 2; running++) {
		char *bytes = sample_recording();
		struct rec_header h;
		struct rec_queue q;
		memcpy(&h, bytes, sizeof(h));
		h.clocks[0].ticks = 10000000; // 10 s, not a millisecond
		h.clocks[0].boot_ns = 10000000000;
		h.clocks[0].real_ns = h.start.real_ns + 10000000000;
		memcpy(bytes, &h, sizeof(h));
		memcpy(&q, bytes + SAMPLE_QUEUE_AT, sizeof(q));
		q.read = q.certain = SAMPLE_SLOTS - (unsigned)running;
		memcpy(bytes + SAMPLE_QUEUE_AT, &q, sizeof(q));
		struct flight_recording *r = parse(bytes, SAMPLE_SIZE);
		const struct idle_gpu g = recording_idle(r);
		assert_int_equal(g.idle, !running);
		assert_int_equal(g.launched, SAMPLE_SLOTS);
		assert_true(g.age > 9 && g.age < 11);
		assert_null(recording_complaint(bytes, SAMPLE_SIZE));
		recording_free(r);
		free(bytes);
	}
}

/** The sample without its fault, in which @header is that of each packet but the barrier. Its sampler had seen nothing of it. */
static char *unseen(uint16_t header)
{
	char *bytes = sample_recording();
	struct rec_queue q;
	memcpy(&q, bytes + SAMPLE_QUEUE_AT, sizeof(q));
	q.read = q.certain = q.moved = 0;
	q.sampled = 100;
	memcpy(bytes + SAMPLE_QUEUE_AT, &q, sizeof(q));
	for (unsigned i = 0; i < SAMPLE_SLOTS - 1; i++)
		memcpy(bytes + SAMPLE_QUEUE_AT + 256 + i * RECORD_SIZE + offsetof(struct rec_packet, header), &header, 2);
	memset(bytes + SAMPLE_EVENTS_AT + 64 + 7 * RECORD_SIZE, 0, RECORD_SIZE);
	memset(bytes + SAMPLE_DONE_AT, 0, SAMPLE_SLOTS * sizeof(struct rec_done));
	return bytes;
}

/** A letter for each packet: Ended, Taken, Unknown, Running, Waiting. */
static void expect(char *bytes, const char *progress)
{
	char got[SAMPLE_SLOTS + 1] = "";
	sample_seal_all(bytes);
	struct flight_recording *r = parse(bytes, SAMPLE_SIZE);
	for (size_t i = 0; i < r->queues[0].n; i++)
		got[i] = "ETURW"[r->queues[0].packets[i].progress];
	assert_string_equal(got, progress);
	assert_null(recording_complaint(bytes, SAMPLE_SIZE));
	recording_free(r);
	free(bytes);
}

enum { IN_ORDER = 0x1502, BESIDE = 0x1402 };

/** What the program saw to have ended has, with what that one had to wait for; of all else nobody knows. */
static void test_seen(void **state)
{
	(void)state;
	char *bytes = unseen(IN_ORDER);
	expect(bytes, "UUUUUUUU");
	bytes = unseen(IN_ORDER);
	sample_saw(bytes, 1, SAMPLE_SIGNAL + 4, 104);
	expect(bytes, "EEEEEUUU");
	// A look before its launch was of an earlier use of the signal.
	bytes = unseen(IN_ORDER);
	sample_saw(bytes, 1, SAMPLE_SIGNAL + 4, 103);
	expect(bytes, "UUUUUUUU");
	// Half of a note.
	bytes = unseen(IN_ORDER);
	sample_saw(bytes, 1, SAMPLE_SIGNAL + 4, 104);
	bytes[SAMPLE_DONE_AT + sizeof(struct rec_done) + 8]++;
	expect(bytes, "UUUUUUUU");
	// Packets that run beside each other tell nothing of each other.
	bytes = unseen(BESIDE);
	sample_saw(bytes, 1, SAMPLE_SIGNAL + 4, 900);
	expect(bytes, "UUUUEUUU");
	bytes = unseen(BESIDE);
	const uint16_t header = IN_ORDER;
	memcpy(bytes + SAMPLE_QUEUE_AT + 256 + 2 * RECORD_SIZE + offsetof(struct rec_packet, header), &header, 2);
	sample_saw(bytes, 1, SAMPLE_SIGNAL + 4, 900);
	expect(bytes, "EEUUEUUU");
}

static void change_event(char *bytes, struct rec_event e) { memcpy(bytes + SAMPLE_EVENTS_AT + 64, &e, sizeof(e)); }

/** What ended behind a copy or a barrier that waited for it. */
static void test_seen_through(void **state)
{
	(void)state;
	const struct rec_event copy = { .time = 103, .call = CALL_COPY_AFTER, .a = { 0x9000, SAMPLE_SIGNAL + 2, 0, 0x9100 } };
	char *bytes = unseen(IN_ORDER);
	change_event(bytes, copy);
	sample_saw(bytes, 1, 0x9000, 102); // of another copy, before it
	expect(bytes, "UUUUUUUU");
	bytes = unseen(IN_ORDER);
	change_event(bytes, copy);
	sample_saw(bytes, 1, 0x9000, 104);
	expect(bytes, "EEEUUUUU");
	// The last packet waits for signals: here for that of the sixth. It has no barrier bit.
	bytes = unseen(IN_ORDER);
	const uint64_t waits_for[2] = { SAMPLE_SIGNAL + 5, 0 };
	memcpy(bytes + SAMPLE_QUEUE_AT + 256 + 7 * RECORD_SIZE + offsetof(struct rec_packet, kernel), waits_for,
	       sizeof(waits_for));
	sample_saw(bytes, 1, SAMPLE_SIGNAL + 7, 108);
	expect(bytes, "EEEEEEUE");
}

static void set_queue(char *bytes, uint64_t read, uint64_t moved, uint64_t sampled)
{
	struct rec_queue q;
	memcpy(&q, bytes + SAMPLE_QUEUE_AT, sizeof(q));
	q.read = read;
	q.moved = moved;
	q.sampled = sampled;
	memcpy(bytes + SAMPLE_QUEUE_AT, &q, sizeof(q));
}

/** A kernel runs if it stood at the head of its queue for long, or if its GPU reported a fault; the last look alone says little. */
static void test_runs(void **state)
{
	(void)state;
	const struct rec_event fault = { .time = 3000, .call = CALL_FAULT, .a = { 0x7e0000002000, 1, 0xa1 } };
	const uint64_t second = 1000000;
	char *bytes = unseen(IN_ORDER);
	set_queue(bytes, 3, 500, second / 2);
	expect(bytes, "TTTUUUUU");
	bytes = unseen(IN_ORDER);
	set_queue(bytes, 3, 500, 2 * second);
	expect(bytes, "TTTRWWWW");
	// The program saw it end after that look.
	bytes = unseen(IN_ORDER);
	set_queue(bytes, 3, 500, 2 * second);
	sample_saw(bytes, 1, SAMPLE_SIGNAL + 7, 2 * second + 1);
	expect(bytes, "EEEEEEUE");
	// After the fault somebody looked; or nobody did.
	bytes = unseen(IN_ORDER);
	set_queue(bytes, 3, 500, 3001);
	change_event(bytes, fault);
	expect(bytes, "TTTRWWWW");
	bytes = unseen(IN_ORDER);
	set_queue(bytes, 3, 500, 2999);
	change_event(bytes, fault);
	expect(bytes, "TTTUUUUU");
	// The record of the packet at the head is torn: what is behind it does not run.
	bytes = unseen(IN_ORDER);
	set_queue(bytes, 3, 500, 2 * second);
	sample_seal_all(bytes);
	memset(bytes + SAMPLE_QUEUE_AT + 256 + 3 * RECORD_SIZE, 0, 8);
	struct flight_recording *r = parse(bytes, SAMPLE_SIZE);
	assert_false(r->queues[0].stands);
	assert_int_equal(r->queues[0].packets[3].progress, PROGRESS_UNKNOWN);
	recording_free(r);
	free(bytes);
}

/** The metadata of a code object, as the recorder finds them; then cut at every byte, and with every byte changed. */
static void test_metadata(void **state)
{
	(void)state;
	struct layout l = { 0 };
	build(&(struct recipe){ 0 }, &l);
	const size_t size = l.file.n;
	uint32_t n = 0;
	assert_ptr_equal(metadata_find(l.file.p, size, &n), l.file.p + l.metadata);
	for (size_t i = 0; i <= 2 * size; i++) {
		const size_t have = i < size ? i : size;
		char *copy = malloc(have + !have);
		memcpy(copy, l.file.p, have);
		if (i > size)
			copy[i - size - 1] = (char)~copy[i - size - 1];
		const char *found = metadata_find(copy, have, &n);
		if (found)
			assert_true(found >= copy && n <= have && (size_t)(found - copy) <= have - n);
		free(copy);
	}
	text_free(&l.file);
}

/** Inputs of level 10: those of a launch, then cut at every byte, and with every byte changed. */
static void test_inputs(void **state)
{
	static const char metadata[] = "{\"schema\":\"unhang/inputs/"
				       "1\",\"pid\":7,\"queue\":0,\"packet\":3,\"kernel\":\"k\",\"inputs\":[{\"argument\":8,"
				       "\"address\":\"0x7f0000000000\",\"bytes\":4,\"dtype\":\"F32\",\"guessed\":false}]}";
	static const char tensors[] = "\x30\0\0\0\0\0\0\0{\"argument_8\":{\"data_offsets\":[0,4]}}           data";
	const size_t n = sizeof(metadata) - 1, size = n + sizeof(tensors) - 1;
	_cleanup_arena_ struct arena a = { 0 };
	struct inputs_saved in;
	(void)state;
	assert_null(inputs_parse(&a, S(metadata), S(tensors), sizeof(tensors) - 1, &in));
	assert_int_equal(in.n, 1);
	assert_int_equal(in.packet, 3);
	assert_int_equal(in.list[0].argument, 8);
	assert_memory_equal(tensors + in.list[0].at, "data", 4);
	for (size_t i = 0; i <= 2 * size; i++) {
		const size_t have = i < size ? i : size, first = have < n ? have : n;
		char *copy = malloc(have + !have);
		memcpy(copy, metadata, first);
		memcpy(copy + first, tensors, have - first);
		if (i > size)
			copy[i - size - 1] = (char)~copy[i - size - 1];
		assert_null(inputs_complaint((struct str){ copy, first }, (struct str){ copy + first, have - first }));
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_whole),        cmocka_unit_test(test_torn),
					    cmocka_unit_test(test_lapped),       cmocka_unit_test(test_cut),
					    cmocka_unit_test(test_cut_is_told),  cmocka_unit_test(test_changed),
					    cmocka_unit_test(test_idle),         cmocka_unit_test(test_seen),
					    cmocka_unit_test(test_seen_through), cmocka_unit_test(test_runs),
					    cmocka_unit_test(test_metadata),     cmocka_unit_test(test_inputs) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// A small recording that is right, changes to it, and what must hold of whatever is read of it. For the fuzz target and the test.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "report/last/last.h"

enum {
	SAMPLE_SIGNAL = 0x5000, // of the first packet; the others have those behind it
	SAMPLE_QUEUE_AT = RECORDING_HEAD,
	SAMPLE_SLOTS = 8,
	SAMPLE_ARGUMENTS_AT = SAMPLE_QUEUE_AT + 256 + SAMPLE_SLOTS * RECORD_SIZE,
	SAMPLE_STRIDE = 64,
	SAMPLE_EVENTS_AT = SAMPLE_ARGUMENTS_AT + SAMPLE_SLOTS * SAMPLE_STRIDE,
	SAMPLE_MEMORY_AT = SAMPLE_EVENTS_AT + 64 + SAMPLE_SLOTS * RECORD_SIZE,
	SAMPLE_THREADS_AT = SAMPLE_MEMORY_AT + 64 + SAMPLE_SLOTS * RECORD_SIZE,
	SAMPLE_OPERATIONS_AT = SAMPLE_THREADS_AT + 2 * 128,
	SAMPLE_LOG_AT = SAMPLE_OPERATIONS_AT + 64 + 2 * 960,
	SAMPLE_LOG_SLOTS = 32,
	SAMPLE_DONE_AT = SAMPLE_LOG_AT + 64 + SAMPLE_LOG_SLOTS * RECORD_SIZE,
	SAMPLE_SIZE = SAMPLE_DONE_AT + SAMPLE_SLOTS * sizeof(struct rec_done),
};

static inline void sample_extent(char *bytes, unsigned n, struct rec_extent e)
{
	e.size = e.head + e.slots * e.stride;
	memcpy(bytes + RECORDING_EXTENTS_AT + n * sizeof(e), &e, sizeof(e));
}

/** Makes the checksum of a record right. */
static inline void sample_seal(char *at, unsigned nwords, uint64_t id)
{
	uint64_t w[sizeof(struct rec_operation) / 8];
	memcpy(w, at, nwords * 8);
	w[0] = (uint32_t)id | (uint64_t)rec_check(w, nwords, id) << 32;
	memcpy(at, w, 8);
}

static inline void sample_seal_all(char *bytes)
{
	struct rec_arguments a;
	uint64_t used = 0;
	for (unsigned i = 0; i < SAMPLE_SLOTS; i++) {
		sample_seal(bytes + SAMPLE_QUEUE_AT + 256 + i * RECORD_SIZE, RECORD_WORDS, i);
		char *at = bytes + SAMPLE_ARGUMENTS_AT + i * SAMPLE_STRIDE;
		memcpy(&a, at, sizeof(a));
		sample_seal(at, a.copied <= SAMPLE_STRIDE - sizeof(a) ? 2 + (a.copied + 7u) / 8 : 2, i);
		sample_seal(bytes + SAMPLE_EVENTS_AT + 64 + i * RECORD_SIZE, RECORD_WORDS, i);
		sample_seal(bytes + SAMPLE_MEMORY_AT + 64 + i * RECORD_SIZE, RECORD_WORDS, i);
	}
	for (unsigned i = 0; i < 2; i++) {
		struct rec_operation o;
		char *at = bytes + SAMPLE_OPERATIONS_AT + 64 + i * 960;
		memcpy(&o, at, sizeof(o));
		sample_seal(at, rec_operation_words(o.ntensors < REC_TENSORS ? o.ntensors : REC_TENSORS), i + 1);
	}
	while (used + sizeof(struct rec_entry) <= SAMPLE_LOG_SLOTS * RECORD_SIZE) {
		struct rec_entry e;
		uint64_t w[SAMPLE_LOG_SLOTS * RECORD_WORDS];
		char *at = bytes + SAMPLE_LOG_AT + 64 + used;
		memcpy(&e, at, sizeof(e));
		if (e.size < sizeof(e) || e.size % 8 || e.size > SAMPLE_LOG_SLOTS * RECORD_SIZE - used)
			break;
		memcpy(w, at, e.size);
		e.check = rec_check(w, e.size / 8, used);
		memcpy(at, &e, sizeof(e));
		used += e.size;
	}
}

static inline uint64_t sample_entry(char *bytes, uint64_t used, struct rec_entry e, const char *text)
{
	char *at = bytes + SAMPLE_LOG_AT + 64 + used;
	e.text = (uint16_t)strlen(text);
	e.size = (uint32_t)(sizeof(e) + e.text + 8) / 8 * 8;
	memcpy(at, &e, sizeof(e));
	memcpy(at + sizeof(e), text, e.text);
	return used + e.size;
}

/** The program saw that a signal had fired. */
static inline void sample_saw(char *bytes, unsigned slot, uint64_t signal, uint64_t time)
{
	const struct rec_done d = { rec_done_mix(signal, time), time };
	memcpy(bytes + SAMPLE_DONE_AT + slot * sizeof(d), &d, sizeof(d));
}

static inline void sample_records(char *bytes)
{
	const struct rec_queue queue = { .size = SAMPLE_SLOTS,
					 .seen = SAMPLE_SLOTS,
					 .agent = 0xa1,
					 .read = 5,
					 .write = 8,
					 .certain = 3,
					 .sampled = 900,
					 .moved = 500 };
	memcpy(bytes + SAMPLE_QUEUE_AT, &queue, sizeof(queue));
	for (unsigned i = 0; i < SAMPLE_SLOTS; i++) {
		const struct rec_packet p = { .time = 100 + i,
					      .kernel = 0x1000,
					      .arguments = 0x2000,
					      .completion = SAMPLE_SIGNAL + i,
					      .grid = { 64, 1, 1 },
					      .group = 63,
					      .header = i == 7 ? 3 : 0x1502,
					      .thread = 0,
					      .operation = i % 3 };
		const struct rec_arguments a = { .state = REC_ARGUMENTS_COPIED, .copied = 24, .size = 48 };
		const struct rec_event e = { .time = 50 + i,
					     .call = (uint16_t)(i % 2 ? CALL_POOL_FREE : CALL_POOL_ALLOCATE),
					     .a = { 0x7f0000000000 + i / 2 * 0x10000, 4096, 0x1a1 } };
		const struct rec_allocation m = { .address = 0x7e0000000000 + i * 0x100000ul,
						  .size = 8192,
						  .born = 10,
						  .died = i % 2 ? 60 : 0,
						  .of = 0x1a1,
						  .call = CALL_POOL_ALLOCATE,
						  .state = (uint16_t)(i % 2 ? REC_MEMORY_FREED : REC_MEMORY_LIVE) };
		const uint64_t pointer = 0x7e0000000010 + i * 0x100000ul;
		memcpy(bytes + SAMPLE_QUEUE_AT + 256 + i * RECORD_SIZE, &p, sizeof(p));
		memcpy(bytes + SAMPLE_ARGUMENTS_AT + i * SAMPLE_STRIDE, &a, sizeof(a));
		memcpy(bytes + SAMPLE_ARGUMENTS_AT + i * SAMPLE_STRIDE + sizeof(a), &pointer, sizeof(pointer));
		memcpy(bytes + SAMPLE_EVENTS_AT + 64 + i * RECORD_SIZE, &e, sizeof(e));
		memcpy(bytes + SAMPLE_MEMORY_AT + 64 + i * RECORD_SIZE, &m, sizeof(m));
	}
	const struct rec_event fault = { .time = 90, .call = CALL_FAULT, .a = { 0x7e0000002000, 1, 0xa1 } };
	memcpy(bytes + SAMPLE_EVENTS_AT + 64 + 7 * RECORD_SIZE, &fault, sizeof(fault));
}

/** saxpy's arguments in msgpack: two pointers, and two numbers of four bytes. An offset of 0 is left out, since it would end the text. */
static const char sample_metadata[] = "\x81\xae"
				      "amdhsa.kernels\x91\x82\xa5.name\xaf_Z5saxpyPKfPffi\xa5.args\x94"
				      "\x82\xa5.size\x08\xab.value_kind\xadglobal_buffer"
				      "\x83\xa5.size\x08\xa7.offset\x08\xab.value_kind\xadglobal_buffer"
				      "\x83\xa5.size\x04\xa7.offset\x10\xab.value_kind\xa8"
				      "by_value"
				      "\x83\xa5.size\x04\xa7.offset\x14\xab.value_kind\xa8"
				      "by_value";

static inline char *sample_recording(void)
{
	char *bytes = calloc(1, SAMPLE_SIZE);
	const struct rec_header h = { .magic = "UNHANGRC",
				      .version = RECORDING_VERSION,
				      .size = RECORDING_HEAD,
				      .state = RECORDING_ON,
				      .pid = 4242,
				      .rank = 3,
				      .level = 3,
				      .max_level = 3,
				      .start = { 1, 1700000000000000000, 5 },
				      .ticks_per_second = 1000000,
				      .clocks = { { 1000, 1700000000000001000, 1000000 } },
				      .host = "node7",
				      .program = "python",
				      .command = "python\0x.py" };
	const struct rec_thread thread = { .tid = 4243, .call = CALL_WAIT, .since = 200, .a = { 0x5000, 1 }, .name = "worker" };
	const uint64_t next = SAMPLE_SLOTS;
	uint64_t used = 0;
	memcpy(bytes, &h, sizeof(h));
	sample_extent(bytes, 0, (struct rec_extent){ EXTENT_QUEUE, 0, SAMPLE_QUEUE_AT, 0, SAMPLE_SLOTS, RECORD_SIZE, 256 });
	sample_extent(bytes, 1,
		      (struct rec_extent){ EXTENT_ARGUMENTS, 0, SAMPLE_ARGUMENTS_AT, 0, SAMPLE_SLOTS, SAMPLE_STRIDE, 0 });
	sample_extent(bytes, 2, (struct rec_extent){ EXTENT_EVENTS, 0, SAMPLE_EVENTS_AT, 0, SAMPLE_SLOTS, RECORD_SIZE, 64 });
	sample_extent(bytes, 3, (struct rec_extent){ EXTENT_MEMORY, 0, SAMPLE_MEMORY_AT, 0, SAMPLE_SLOTS, RECORD_SIZE, 64 });
	sample_extent(bytes, 4, (struct rec_extent){ EXTENT_THREADS, 0, SAMPLE_THREADS_AT, 0, 2, 128, 0 });
	sample_extent(bytes, 5, (struct rec_extent){ EXTENT_OPERATIONS, 0, SAMPLE_OPERATIONS_AT, 0, 2, 960, 64 });
	sample_extent(bytes, 6, (struct rec_extent){ EXTENT_LOG, 0, SAMPLE_LOG_AT, 0, SAMPLE_LOG_SLOTS, RECORD_SIZE, 64 });
	sample_extent(bytes, 7,
		      (struct rec_extent){ EXTENT_DONE, 0, SAMPLE_DONE_AT, 0, SAMPLE_SLOTS, sizeof(struct rec_done), 0 });
	sample_records(bytes);
	sample_saw(bytes, 0, SAMPLE_SIGNAL + 3, 103); // of the fourth packet, in the moment of its launch
	memcpy(bytes + SAMPLE_EVENTS_AT, &next, sizeof(next));
	memcpy(bytes + SAMPLE_THREADS_AT, &thread, sizeof(thread));
	for (unsigned i = 0; i < 2; i++) {
		const struct rec_operation o = {
			.begin = 90,
			.name = 1,
			.parent = i, // the second is in the first
			.ntensors = 1,
			.tensors = { { .address = 0x7e0000000000, .dtype = 2, .ndim = 2, .shape = { 4, 8 } } }
		};
		memcpy(bytes + SAMPLE_OPERATIONS_AT + 64 + i * 960, &o, sizeof(o));
	}
	used = sample_entry(bytes, used, (struct rec_entry){ .kind = ENTRY_AGENT, .n = { 0xa1, 1, 1, 0xc300 } },
			    "gfx90a\nInstinct");
	used = sample_entry(bytes, used, (struct rec_entry){ .kind = ENTRY_POOL, .n = { 0x1a1, 0xa1 } }, "");
	used = sample_entry(bytes, used, (struct rec_entry){ .kind = ENTRY_CODE, .n = { 0x1000, 0x100 } }, "file:///x.co");
	used = sample_entry(bytes, used, (struct rec_entry){ .kind = ENTRY_KERNEL, .n = { 0x1000, 48, 0xe0 } },
			    "_Z5saxpyPKfPffi");
	used = sample_entry(bytes, used, (struct rec_entry){ .kind = ENTRY_TEXT, .id = 1 }, "attention");
	used = sample_entry(bytes, used, (struct rec_entry){ .kind = ENTRY_METADATA, .n = { 0xe0 } }, sample_metadata);
	used = sample_entry(bytes, used, (struct rec_entry){ .kind = ENTRY_UNLOAD, .n = { 0xe0 } }, "");
	memcpy(bytes + SAMPLE_LOG_AT, &used, sizeof(used));
	sample_seal_all(bytes);
	return bytes;
}

/** Reads @bytes, which are copied into memory of exactly their size, and writes everything about them. NULL: nothing is wrong with that. */
static inline const char *recording_complaint(const char *bytes, size_t size)
{
	struct flight_recording *r = NULL;
	char *copy = malloc(size ? size : 1);
	memcpy(copy, bytes, size);
	struct uh_error *err = recording_parse("fuzz", copy, size, &r);
	if (err) {
		uh_error_free(err);
		return NULL;
	}
	const char *complaint = NULL;
	for (size_t i = 0; i < r->nqueues; i++)
		for (size_t k = 1; k < r->queues[i].n; k++)
			if (r->queues[i].packets[k].id <= r->queues[i].packets[k - 1].id)
				complaint = "packets are not in order";
	for (size_t i = 0; i < r->nqueues; i++)
		if (r->queues[i].stands && !queue_running(&r->queues[i]))
			complaint = "a queue stands, and nothing runs";
	FILE *out = fopen("/dev/null", "w");
	for (int json = 0; json < 2; json++) {
		const struct uh_last_options o = { .json = json, .all = true, .address = 0x7e0000000100 };
		const struct recording_seen seen = { S("fuzz"), r };
		const struct last_seen all = { .list = &seen, .n = 1, .options = &o };
		report_last(&all, out);
		report_perfetto(&all, out);
	}
	fclose(out);
	recording_free(r);
	return complaint;
}

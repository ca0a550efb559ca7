// Packets of each language and generation, written by hand; then any words, of any number.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "gpu/ring_follow.h"
#include "packets_check.h"

#define P3(opcode, count) (3u << 30 | (uint32_t)(count) << 16 | (uint32_t)(opcode) << 8)
#define MES(opcode) (1u | (uint32_t)(opcode) << 4 | 64u << 12)
struct fixture {
	struct know *know;
	struct arena arena;
};

static int setup(void **state)
{
	static struct fixture f; // a test program's own
	f.know = know_load(&(struct know_problems){ 0 });
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	know_free(f->know);
	arena_free(&f->arena);
	return 0;
}

static struct packet decode(struct fixture *f, enum packet_language l, const char *gfx, const uint32_t *words, size_t n)
{
	const struct packet_stream s = { f->know, l, str_z(gfx), words, n };
	struct packet p;
	assert_true(packet_decode(&s, &f->arena, 0, &p));
	assert_null(packet_complaint(&p, n));
	return p;
}

static void assert_text(struct str have, const char *want)
{
	if (!str_is(have, want))
		fail_msg("'" STR_FMT "' is not '%s'", STR_ARG(have), want);
}

static const struct packet_field *field(const struct packet *p, const char *name)
{
	for (size_t i = 0; i < p->nfields; i++)
		if (str_is(p->fields[i].name, name))
			return &p->fields[i];
	return NULL;
}

static void assert_field(const struct packet *p, const char *name, uint64_t value, unsigned digits, const char *text)
{
	const struct packet_field *f = field(p, name);
	if (!f)
		fail_msg(STR_FMT " has no field '%s'", STR_ARG(p->name), name);
	assert_int_equal(f->value, value);
	assert_int_equal(f->digits, digits);
	assert_text(f->text, text);
}

static void each_ring_has_its_language(void **state)
{
	static const struct {
		const char *ring;
		enum packet_language l;
	} rings[] = {
		{ "gfx", PACKETS_PM4 },
		{ "gfx_0.0.0", PACKETS_PM4 },
		{ "gfx_low", PACKETS_PM4 },
		{ "comp_1.0.0", PACKETS_PM4 },
		{ "comp_1.0.0.0", PACKETS_PM4 },
		{ "kiq_0.2.1.0", PACKETS_PM4 },
		{ "mes_3.1.0", PACKETS_MES },
		{ "mes_0.3.1.0", PACKETS_MES },
		{ "mes_kiq_3.1.0", PACKETS_PM4 },
		{ "sdma0", PACKETS_SDMA },
		{ "sdma0.0", PACKETS_SDMA },
		{ "page0", PACKETS_SDMA },
		{ "vcn_dec", PACKETS_UNKNOWN },
		{ "vcn_unified_0", PACKETS_UNKNOWN },
		{ "jpeg_dec_0", PACKETS_UNKNOWN },
		{ "vpe", PACKETS_UNKNOWN },
		{ "", PACKETS_UNKNOWN },
	};
	struct fixture *f = *state;
	for (size_t i = 0; i < ARRAY_SIZE(rings); i++)
		if (packet_language_of(f->know, str_z(rings[i].ring)) != rings[i].l)
			fail_msg("ring '%s' is not %s", rings[i].ring, packet_language_name(rings[i].l));
}

static void pm4_indirect_buffers(void **state)
{
	const uint32_t words[] = { P3(0x3f, 2), 0x00010000, 0x7f, 0x123 | 1u << 20 | 5u << 24, 0xdeadbeef };
	struct packet p = decode(*state, PACKETS_PM4, "gfx1100", words, ARRAY_SIZE(words));
	assert_text(p.name, "INDIRECT_BUFFER");
	assert_true(p.known && !p.cut && p.ib_chain);
	assert_int_equal(p.words, 4);
	assert_int_equal(p.opcode, 0x3f);
	assert_int_equal(p.ib_address, 0x7f00010000);
	assert_int_equal(p.ib_words, 0x123);
	assert_int_equal(p.ib_vmid, 5);
	assert_int_equal(p.register_offset, UINT32_MAX);
	assert_int_equal(p.waits_for.n, 0);
	assert_field(&p, "address", 0x7f00010000, 16, "");
	assert_field(&p, "words", 0x123, 0, "");
	p = decode(*state, PACKETS_PM4, "gfx1100", words, 3);
	assert_true(p.cut && p.known);
	assert_int_equal(p.words, 3);
	assert_int_equal(p.ib_address, 0x7f00010000);
	assert_int_equal(p.ib_words, 0);
	p = decode(*state, PACKETS_PM4, "gfx1100", words, 2);
	assert_null(field(&p, "address"));
	assert_int_equal(p.ib_address, 0);
}

static void pm4_waits_say_for_what(void **state)
{
	const uint32_t memory[] = { P3(0x3c, 5), 3 | 1 << 4 | 1 << 8, 0x7f00, 0, 3, 0xffffffff, 4 };
	struct packet p = decode(*state, PACKETS_PM4, "gfx90a", memory, ARRAY_SIZE(memory));
	assert_text(p.name, "WAIT_REG_MEM");
	assert_text(p.waits_for, "memory at 0x7f00 to equal 3 (mask 0xffffffff)");
	assert_field(&p, "engine", 1, 0, "PFP");
	const uint32_t reg[] = { P3(0x3c, 5), 5, 0x2345, 0, 1, 0x10, 4 };
	p = decode(*state, PACKETS_PM4, "gfx90a", reg, ARRAY_SIZE(reg));
	assert_text(p.waits_for, "register 0x2345 to be at least 1 (mask 0x10)");
	assert_int_equal(p.register_offset, 0x2345);
	const uint32_t both[] = { P3(0x3c, 5), 3 | 1 << 6, 0x100, 0x200, 4, 4, 4 };
	p = decode(*state, PACKETS_PM4, "gfx90a", both, ARRAY_SIZE(both));
	assert_text(p.waits_for, "register 0x200 to equal 4 (mask 0x4), after a write to register 0x100");
	assert_int_equal(p.register_offset, 0x200);
	const uint32_t always[] = { P3(0x3c, 5), 1 << 4, 0x100, 0x200, 4, 4, 4 };
	assert_int_equal(decode(*state, PACKETS_PM4, "gfx90a", always, ARRAY_SIZE(always)).waits_for.n, 0);
	const uint32_t wide[] = { P3(0x93, 7), 4 | 1 << 4, 0x8, 1, 0, 1, 0, 1, 4 };
	p = decode(*state, PACKETS_PM4, "gfx1100", wide, ARRAY_SIZE(wide));
	assert_text(p.waits_for, "memory at 0x100000008 to differ from 4294967296 (mask 0x100000000)");
	const uint32_t flush[] = { P3(0x46, 0), 7 | 4 << 8 };
	p = decode(*state, PACKETS_PM4, "gfx1100", flush, ARRAY_SIZE(flush));
	assert_field(&p, "event", 7, 0, "CS_PARTIAL_FLUSH");
	assert_text(p.waits_for, "the compute waves before it to end");
	const uint32_t unmap[] = { P3(0xa3, 4), 2 << 4, 0, 0, 0, 0 };
	p = decode(*state, PACKETS_PM4, "gfx942", unmap, ARRAY_SIZE(unmap));
	assert_text(p.waits_for, "all queues to be taken off the GPU");
	assert_null(field(&p, "pasid"));
}

static void pm4_register_writes_name_their_registers(void **state)
{
	static const struct {
		uint32_t opcode, base;
	} kinds[] = { { 0x68, 0x2000 }, { 0x69, 0xa000 }, { 0x76, 0x2c00 }, { 0x79, 0xc000 } };
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const uint32_t words[] = { P3(kinds[i].opcode, 2), 0x12, 7, 8 };
		struct packet p = decode(*state, PACKETS_PM4, "gfx1030", words, ARRAY_SIZE(words));
		assert_int_equal(p.register_offset, kinds[i].base + 0x12);
		assert_field(&p, "value[0]", 7, 8, "");
		assert_field(&p, "value[1]", 8, 8, "");
	}
	const uint32_t write[] = { P3(0x37, 3), 1 << 20, 0x1a2b, 0, 9 };
	struct packet p = decode(*state, PACKETS_PM4, "gfx1030", write, ARRAY_SIZE(write));
	assert_field(&p, "destination", 0, 0, "register");
	assert_int_equal(p.register_offset, 0x1a2b);
	assert_null(field(&p, "address"));
	const uint32_t memory[] = { P3(0x37, 3), 5 << 8, 0x1000, 1, 9 };
	p = decode(*state, PACKETS_PM4, "gfx1030", memory, ARRAY_SIZE(memory));
	assert_int_equal(p.register_offset, UINT32_MAX);
	assert_field(&p, "address", 0x100001000, 16, "");
	const uint32_t copy[] = { P3(0x40, 4), 5 << 8, 0x77, 0, 0x2000, 0 };
	p = decode(*state, PACKETS_PM4, "gfx1030", copy, ARRAY_SIZE(copy));
	assert_int_equal(p.register_offset, 0x77);
	assert_field(&p, "destination_address", 0x2000, 16, "");
	const uint32_t type0[] = { 1u << 16 | 0x345, 1, 2 };
	p = decode(*state, PACKETS_PM4, "gfx1030", type0, ARRAY_SIZE(type0));
	assert_int_equal(p.register_offset, 0x345);
	assert_int_equal(p.words, 3);
}

static void pm4_lengths_of_packets(void **state)
{
	const uint32_t alone[] = { P3(0x10, 0x3fff), 1, 2, 3 }, filled[] = { P3(0x10, 1), 1, 2, 3 }, filler[] = { 2u << 30, 0 };
	assert_int_equal(decode(*state, PACKETS_PM4, "gfx900", alone, ARRAY_SIZE(alone)).words, 1);
	assert_int_equal(decode(*state, PACKETS_PM4, "gfx900", filled, ARRAY_SIZE(filled)).words, 3);
	assert_int_equal(decode(*state, PACKETS_PM4, "gfx900", filler, ARRAY_SIZE(filler)).words, 1);
	const uint32_t unknown[] = { P3(0xfe, 1), 1, 2, 3 };
	struct packet p = decode(*state, PACKETS_PM4, "gfx900", unknown, ARRAY_SIZE(unknown));
	assert_false(p.known);
	assert_int_equal(p.words, 3);
	assert_text(p.name, "opcode 0xfe");
	const uint32_t reserved[] = { 1u << 30 | 0xfffff, 0 };
	assert_text(decode(*state, PACKETS_PM4, "gfx900", reserved, ARRAY_SIZE(reserved)).name, "type 1");
	const uint32_t huge[] = { P3(0x37, 0x3ffe), 0, 0, 0, 0 };
	p = decode(*state, PACKETS_PM4, "gfx900", huge, ARRAY_SIZE(huge));
	assert_true(p.cut);
	assert_int_equal(p.words, 5);
}

static void pm4_fields_differ_by_generation(void **state)
{
	const uint32_t acquire[] = { P3(0x58, 6), 0, 0xffffffff, 0xffffff, 0, 0, 10, 0xc3f1 };
	struct packet p = decode(*state, PACKETS_PM4, "gfx1100", acquire, ARRAY_SIZE(acquire));
	assert_field(&p, "gcr_cntl", 0xc3f1, 5, "");
	p = decode(*state, PACKETS_PM4, "gfx942", acquire, ARRAY_SIZE(acquire));
	assert_null(field(&p, "gcr_cntl"));
	const uint32_t release[] = { P3(0x49, 6), 0x14 | 5 << 8 | 0x600 << 12, 2 << 24 | 2u << 29, 0x2000, 0x80, 77, 1, 0 };
	p = decode(*state, PACKETS_PM4, "gfx1201", release, ARRAY_SIZE(release));
	assert_field(&p, "event", 0x14, 0, "CACHE_FLUSH_AND_INV_TS_EVENT");
	assert_field(&p, "gcr_cntl", 0x600, 4, "");
	assert_field(&p, "address", 0x8000002000, 16, "");
	assert_field(&p, "data", 0x10000004d, 0, "");
	assert_field(&p, "interrupt", 2, 0, "interrupt after the write");
	assert_int_equal(p.waits_for.n, 0);
	uint32_t map[21] = { P3(0xa1, 19), 0x8001 };
	map[14] = 0x1234;
	map[19] = 0x5678;
	p = decode(*state, PACKETS_PM4, "gfx90a", map, ARRAY_SIZE(map));
	assert_field(&p, "pasid", 0x8001, 0, "");
	assert_field(&p, "completion_signal", 0x5678, 16, "");
	p = decode(*state, PACKETS_PM4, "gfx1030", map, ARRAY_SIZE(map));
	assert_field(&p, "completion_signal", 0x1234, 16, "");
	const uint32_t queues[] = { P3(0xa2, 5), 1u << 29 | 4u << 26 | 1u << 21, 0x40 << 2, 0x1000, 0x7f, 0x2000, 0x7f };
	p = decode(*state, PACKETS_PM4, "gfx1100", queues, ARRAY_SIZE(queues));
	assert_field(&p, "engine", 4, 0, "graphics");
	assert_field(&p, "doorbell", 0x40, 7, "");
	assert_field(&p, "mqd", 0x7f00001000, 16, "");
	const uint32_t list[] = { P3(0xa5, 2), 0x1000, 0x7f, 0x200 | 1 << 23 | 2 << 24 };
	p = decode(*state, PACKETS_PM4, "gfx90a", list, ARRAY_SIZE(list));
	assert_int_equal(p.ib_address, 0x7f00001000);
	assert_int_equal(p.ib_words, 0x200);
	assert_int_equal(p.ib_vmid, 0);
}

static void sdma_waits_and_copies(void **state)
{
	const uint32_t poll[] = { 8 | 3 << 28 | 1u << 31, 0x7f00, 1, 5, 0xff, 0xfff << 16 | 10 };
	struct packet p = decode(*state, PACKETS_SDMA, "gfx1100", poll, ARRAY_SIZE(poll));
	assert_text(p.name, "POLL_REGMEM");
	assert_text(p.waits_for, "memory at 0x100007f00 to equal 5 (mask 0xff)");
	const uint32_t reg[] = { 8 | 3 << 28, 0x123 << 2, 0, 5, 0xff, 10 };
	p = decode(*state, PACKETS_SDMA, "gfx900", reg, ARRAY_SIZE(reg));
	assert_text(p.waits_for, "register 0x123 to equal 5 (mask 0xff)");
	assert_int_equal(p.register_offset, 0x123);
	const uint32_t flush[] = { 8 | 3 << 28 | 1 << 26, 0x123 << 2, 0x122 << 2, 5, 0xff, 10 };
	p = decode(*state, PACKETS_SDMA, "gfx900", flush, ARRAY_SIZE(flush));
	assert_text(p.waits_for, "the flush of the host data path: register 0x123 to equal 5 (mask 0xff)");
	const uint32_t semaphore[] = { 7, 0x1000, 0x7f }, signal[] = { 7 | 1 << 30, 0x1000, 0x7f };
	assert_text(decode(*state, PACKETS_SDMA, "gfx900", semaphore, 3).waits_for, "the semaphore at 0x7f00001000");
	assert_int_equal(decode(*state, PACKETS_SDMA, "gfx900", signal, 3).waits_for.n, 0);
	const uint32_t ib[] = { 4 | 6 << 16, 0x1000, 0x7f, 0x40, 0, 0 };
	p = decode(*state, PACKETS_SDMA, "gfx1030", ib, ARRAY_SIZE(ib));
	assert_text(p.name, "INDIRECT");
	assert_int_equal(p.ib_address, 0x7f00001000);
	assert_int_equal(p.ib_words, 0x40);
	assert_int_equal(p.ib_vmid, 6);
	const uint32_t write[] = { 14u | 0xfu << 28, 0x345, 9 };
	assert_int_equal(decode(*state, PACKETS_SDMA, "gfx1030", write, 3).register_offset, 0x345);
}

static void sdma_lengths_of_packets(void **state)
{
	static const struct {
		const char *gfx, *name;
		uint32_t header, count; // count: the fourth word
		size_t words;
	} packets[] = {
		{ "gfx900", "NOP", 0, 0, 1 },
		{ "gfx900", "NOP", 3 << 16, 0, 4 },
		{ "gfx900", "COPY_LINEAR", 1, 0, 7 },
		{ "gfx1100", "COPY_LINEAR", 1 | 1 << 27, 0, 9 },
		{ "gfx1100", "COPY_LINEAR", 1 | 1 << 19, 0, 7 },
		{ "gfx1201", "COPY_LINEAR", 1 | 1 << 19, 0, 8 },
		{ "gfx1201", "COPY_LINEAR", 1, 0, 7 },
		{ "gfx900", "COPY_TILED_SUBWIN", 1 | 5 << 8 | 1 << 19, 0, 14 },
		{ "gfx1030", "COPY_TILED_SUBWIN", 1 | 5 << 8 | 1 << 19, 0, 17 },
		{ "gfx1030", "COPY_TILED_SUBWIN", 1 | 5 << 8, 0, 14 },
		{ "gfx1201", "COPY_TILED_SUBWIN", 1 | 5 << 8 | 1 << 19, 0, 15 },
		{ "gfx1100", "COPY_T2T", 1 | 6 << 8, 0, 15 },
		{ "gfx1100", "COPY_LINEAR_SUBWIN", 1 | 4 << 8, 0, 13 },
		{ "gfx1100", "WRITE_LINEAR", 2, 2, 7 },
		{ "gfx1100", "FENCE", 5, 0, 4 },
		{ "gfx1100", "TRAP", 6, 0, 2 },
		{ "gfx1100", "COND_EXE", 9, 0, 5 },
		{ "gfx1100", "ATOMIC", 10, 0, 8 },
		{ "gfx1100", "CONST_FILL", 11, 0, 5 },
		{ "gfx1100", "PTEPDE_GEN", 12, 0, 10 },
		{ "gfx1030", "PTEPDE_RMW", 12 | 2 << 8, 0, 7 },
		{ "gfx1100", "PTEPDE_RMW", 12 | 2 << 8, 0, 8 },
		{ "gfx1100", "TIMESTAMP_GET_GLOBAL", 13 | 2 << 8, 0, 3 },
		{ "gfx1100", "PRE_EXE", 15, 0, 2 },
		{ "gfx942", "DUMMY_TRAP", 16, 0, 2 },
		{ "gfx1010", "GPUVM_INV", 16, 0, 4 },
		{ "gfx1010", "GCR_REQ", 17, 0, 5 },
		{ "gfx1010", "opcode 0x7f.0", 0x7f, 0, 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(packets); i++) {
		uint32_t words[32] = { packets[i].header, 0, 0, packets[i].count };
		struct packet p = decode(*state, PACKETS_SDMA, packets[i].gfx, words, ARRAY_SIZE(words));
		assert_text(p.name, packets[i].name);
		if (p.words != packets[i].words)
			fail_msg("%s of %s has %zu words", packets[i].name, packets[i].gfx, p.words);
	}
	uint32_t copy[7] = { 1, 0xffffffff };
	struct packet p = decode(*state, PACKETS_SDMA, "gfx900", copy, ARRAY_SIZE(copy));
	assert_field(&p, "count", 1 << 22, 0, "");
	p = decode(*state, PACKETS_SDMA, "gfx1100", copy, ARRAY_SIZE(copy));
	assert_field(&p, "count", 1 << 30, 0, "");
}

static void mes_messages(void **state)
{
	uint32_t words[64] = { MES(3), 0x1000, 0x2000, 0x7f };
	struct packet p = decode(*state, PACKETS_MES, "gfx1100", words, ARRAY_SIZE(words));
	assert_text(p.name, "REMOVE_QUEUE");
	assert_int_equal(p.words, 64);
	assert_text(p.waits_for, "the queue at doorbell 0x1000 to be taken off the GPU");
	assert_field(&p, "gang_context_addr", 0x7f00002000, 16, "");
	uint32_t add[64] = { MES(2), 0x8001 };
	add[19] = 0x11, add[20] = 0x22, add[27] = 1, add[28] = 2;
	p = decode(*state, PACKETS_MES, "gfx1100", add, ARRAY_SIZE(add));
	assert_field(&p, "mqd_addr", 0x2200000011, 16, "");
	assert_field(&p, "queue_type", 1, 0, "COMPUTE");
	p = decode(*state, PACKETS_MES, "gfx1200", add, ARRAY_SIZE(add));
	assert_field(&p, "mqd_addr", 0x22, 16, "");
	assert_field(&p, "queue_type", 2, 0, "SDMA");
	const uint32_t misc[] = { MES(14) - (64u << 12) + (12u << 12), 4, 0, 0, 0, 0, 0, 3, 0xff, 0x55, 0x66, 0 };
	p = decode(*state, PACKETS_MES, "gfx1151", misc, ARRAY_SIZE(misc));
	assert_int_equal(p.words, 12);
	assert_field(&p, "operation", 4, 0, "WAIT_REG_MEM");
	assert_text(p.waits_for, "register 0x55 to equal 3 (mask 0xff)");
	assert_int_equal(p.register_offset, 0x55);
	const uint32_t config[] = { MES(14) - (64u << 12) + (3u << 12), 8, 0 };
	p = decode(*state, PACKETS_MES, "gfx1100", config, ARRAY_SIZE(config));
	assert_field(&p, "operation", 8, 0, "CHANGE_CONFIG");
	p = decode(*state, PACKETS_MES, "gfx1200", config, ARRAY_SIZE(config));
	assert_field(&p, "operation", 8, 0, "QUERY_HUNG_ENGINE_ID");
	const uint32_t empty[] = { 0, 0 };
	p = decode(*state, PACKETS_MES, "gfx1100", empty, ARRAY_SIZE(empty));
	assert_int_equal(p.words, 1);
	assert_text(p.name, "EMPTY");
	const uint32_t none[] = { 1u | 3u << 4 };
	assert_int_equal(decode(*state, PACKETS_MES, "gfx1100", none, ARRAY_SIZE(none)).words, 1);
}

static void aql_packets(void **state)
{
	const uint32_t dispatch[16] = { 2 | 1 << 8 | 2 << 9 | 1 << 11 | 3 << 16,
					64 | 2 << 16,
					1,
					1024,
					2,
					1,
					0,
					4096,
					0x1000,
					0x7f,
					0x2000,
					0x7f,
					0,
					0,
					0x3000,
					0x7f };
	struct packet p = decode(*state, PACKETS_AQL, "gfx942", dispatch, 16);
	assert_text(p.name, "kernel_dispatch");
	assert_int_equal(p.words, 16);
	assert_int_equal(p.ib_address, 0x7f00001000);
	assert_int_equal(p.ib_words, 0);
	assert_text(p.waits_for, "the packets before it to end");
	assert_field(&p, "acquire", 2, 0, "system");
	assert_field(&p, "release", 1, 0, "agent");
	assert_field(&p, "workgroup_y", 2, 0, "");
	assert_field(&p, "grid_x", 1024, 0, "");
	assert_field(&p, "lds_bytes", 4096, 0, "");
	assert_field(&p, "completion_signal", 0x7f00003000, 16, "");
	uint32_t barrier[16] = { 3, 0, 0, 0, 0x100, 0, 0, 0, 0x200 };
	p = decode(*state, PACKETS_AQL, "gfx942", barrier, 16);
	assert_text(p.name, "barrier_and");
	assert_text(p.waits_for, "signal 0x100 to be 0, signal 0x200 to be 0");
	barrier[0] = 5;
	barrier[2] = 0x50;
	p = decode(*state, PACKETS_AQL, "gfx942", barrier, 16);
	assert_text(p.waits_for, "signal 0x50 to be 0, or signal 0x100 to be 0, or signal 0x200 to be 0");
	const uint32_t nothing[16] = { 3 };
	assert_int_equal(decode(*state, PACKETS_AQL, "gfx942", nothing, 16).waits_for.n, 0);
	const uint32_t ib[16] = { 1 << 16, P3(0x3f, 2), 0x1000, 0x7f, 0x40 | 1 << 23, 10 };
	p = decode(*state, PACKETS_AQL, "gfx942", ib, 16);
	assert_text(p.name, "pm4_ib");
	assert_int_equal(p.ib_address, 0x7f00001000);
	assert_int_equal(p.ib_words, 0x40);
	const uint32_t value[16] = { 2 << 16, 0, 0x100, 0, 7, 0, 0xff, 0, 3 };
	p = decode(*state, PACKETS_AQL, "gfx942", value, 16);
	assert_text(p.waits_for, "signal 0x100 to be at least 0x7 (mask 0xff)");
	const uint32_t invalid[16] = { 1 };
	assert_text(decode(*state, PACKETS_AQL, "gfx942", invalid, 16).name, "invalid");
}

static void wrong_blocks_of_packets_are_told(void **state)
{
	static const char *const wrong[] = {
		"packet vcn 1 NAME",
		"packet pm4 256 NAME",
		"packet pm4 type NAME",
		"packet sdma 1.x NAME",
		"packet pm4 0xfe",
		"packet pm4 0xfe NAME\n field a",
		"packet pm4 0xfe NAME\n field a 1",
		"packet pm4 0xfe NAME\n field a 1 64:0",
		"packet pm4 0xfe NAME\n field a 1 3:4",
		"packet pm4 0xfe NAME\n field a 256 1",
		"packet pm4 0xfe NAME\n field a 1 1 no-such-table",
		"packet pm4 0xfe NAME\n field a 1 1 +x",
		"packet pm4 0xfe NAME\n field a 1 1 if a=1",
		"packet pm4 0xfe NAME\n field a 1 1\n field b 1 1 if a",
		"packet pm4 0xfe NAME\n field a 1 1\n field b 1 1 if a=x",
		"packet pm4 0xfe NAME\n field a 1 1\n field b 1 1 if a=1,2,3,4,5,6,7,8,9",
		"packet pm4 0xfe NAME\n words a",
		"packet pm4 0xfe NAME\n words 1 2",
		"packet pm4 0xfe NAME\n words 1 *0",
		"packet pm4 0xfe NAME\n ib a",
		"packet pm4 0xfe NAME\n field a 1 1\n ib a words b",
		"packet pm4 0xfe NAME\n field a 1 1\n ib a size a",
		"packet pm4 0xfe NAME\n waits if a=1 for it",
		"packet pm4 0xfe NAME\n rare no",
		"packet pm4 0xfe NAME\n length 1",
		"ring some_*",
		"ring some_* vcn",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct know_problems problems = { 0 };
		know_free(know_load_with("test", str_z(wrong[i]), &problems));
		if (!problems.count)
			fail_msg("'%s' is taken for right", wrong[i]);
	}
}

/** Lengths that would overflow, and a block that is in the place of ours. */
static void a_block_of_the_user_decodes_its_packet(void **state)
{
	struct know_problems problems = { 0 };
	struct fixture f = { .know = know_load_with("test",
						    S("packet sdma 0x70 LONG\n field count 1 63:0\n words count *16 +1\n"
						      "packet sdma 0x71 NONE\n words 0\n"
						      "packet pm4 0x90 FRAME_CONTROL\n field all 1 31:0 hex\n"),
						    &problems) };
	(void)state;
	assert_int_equal(problems.count, 0);
	const uint32_t huge[] = { 0x70, 0, 0x10000000, 0 }, small[20] = { 0x70, 1 }, frame[] = { P3(0x90, 0), 7 };
	struct packet p = decode(&f, PACKETS_SDMA, "gfx1100", huge, ARRAY_SIZE(huge));
	assert_true(p.cut);
	assert_int_equal(p.words, 4);
	assert_int_equal(decode(&f, PACKETS_SDMA, "gfx1100", small, ARRAY_SIZE(small)).words, 17);
	assert_int_equal(decode(&f, PACKETS_SDMA, "gfx1100", (uint32_t[]){ 0x71, 0 }, 2).words, 1);
	p = decode(&f, PACKETS_PM4, "gfx1100", frame, ARRAY_SIZE(frame));
	assert_field(&p, "all", 7, 8, "");
	know_free(f.know);
	arena_free(&f.arena);
}

static void an_unknown_language_is_words(void **state)
{
	const uint32_t words[] = { 0x12345678, 1 };
	struct packet p = decode(*state, PACKETS_UNKNOWN, "gfx1100", words, ARRAY_SIZE(words));
	assert_false(p.known);
	assert_int_equal(p.words, 1);
}

/** What the driver writes for a submission, again and again, with the ring's end in the middle. */
static size_t fill_ring(uint32_t *ring, size_t n, size_t begin, size_t times)
{
	const uint32_t job[] = { P3(0x3c, 5),
				 3 | 1 << 4,
				 0x3000,
				 0,
				 76,
				 0xffffffff,
				 4,
				 P3(0x3f, 2),
				 0x10000,
				 0,
				 0x400 | 3 << 24,
				 P3(0x49, 6),
				 0x14 | 5 << 8,
				 2 << 24 | 2u << 29,
				 0x2000,
				 0,
				 77,
				 0,
				 0,
				 P3(0x10, 0x3fff),
				 P3(0x10, 0x3fff) };
	for (size_t i = 0; i < times * ARRAY_SIZE(job); i++)
		ring[(begin + i) % n] = job[i % ARRAY_SIZE(job)];
	return (begin + times * ARRAY_SIZE(job)) % n;
}

static void the_packets_before_a_place_are_found(void **state)
{
	struct fixture *f = *state;
	enum { JOB = 21, RING = 256 };
	uint32_t ring[RING] = { 0 };
	size_t rptr = fill_ring(ring, RING, RING - 30, 4);
	static const size_t back[] = { 0, 1, 2, 10, 14, 21, 22, 23, 31 };
	for (size_t i = 0; i < ARRAY_SIZE(back); i++)
		assert_int_equal(
			packets_before(&(struct packet_stream){ f->know, PACKETS_PM4, S("gfx1100"), ring, RING }, rptr, i),
			back[i]);
	// The wait and the IB of the job that is stuck.
	assert_int_equal(packets_before(&(struct packet_stream){ f->know, PACKETS_PM4, S("gfx1100"), ring, RING },
					(rptr + RING - 10) % RING, 2),
			 11);
	// More than there are: all of the four jobs; the rest of the ring is zeros.
	assert_int_equal(packets_before(&(struct packet_stream){ f->know, PACKETS_PM4, S("gfx1100"), ring, RING }, rptr, 1000),
			 4 * JOB);
	// The first job on a fresh ring: the zeros at the end of its fence are no packets.
	memset(ring, 0, sizeof(ring));
	rptr = fill_ring(ring, RING, 0, 1) - 2;
	assert_int_equal(packets_before(&(struct packet_stream){ f->know, PACKETS_PM4, S("gfx1100"), ring, RING }, rptr, 3),
			 19);
	assert_int_equal(packets_before(&(struct packet_stream){ f->know, PACKETS_PM4, S("gfx1100"), ring, RING }, RING, 3), 0);
	assert_int_equal(packets_before(&(struct packet_stream){ f->know, PACKETS_PM4, S("gfx1100"), NULL, 0 }, 0, 3), 0);
}

static void the_packets_before_a_place_are_found_in_sdma_and_aql(void **state)
{
	struct fixture *f = *state;
	// Zeros are NOPs here: those inside of packets must not be taken for such.
	const uint32_t job[] = { 8 | 3 << 28 | 1u << 31,
				 0x7f00,
				 0,
				 5,
				 0xffffffff,
				 0xfff << 16 | 10,
				 4 | 6 << 16,
				 0x1000,
				 0,
				 0x40,
				 0,
				 0,
				 5,
				 0x2000,
				 0,
				 7,
				 6,
				 0 };
	uint32_t ring[8 * ARRAY_SIZE(job)];
	for (size_t i = 0; i < ARRAY_SIZE(ring); i++)
		ring[i] = job[i % ARRAY_SIZE(job)];
	static const size_t back[] = { 0, 2, 6, 12, 18, 20 };
	for (size_t i = 0; i < ARRAY_SIZE(back); i++)
		assert_int_equal(
			packets_before(&(struct packet_stream){ f->know, PACKETS_SDMA, S("gfx1030"), ring, ARRAY_SIZE(ring) },
				       5 * ARRAY_SIZE(job), i),
			back[i]);
	const uint32_t aql[64] = { 2, [16] = 3, [32] = 1, [48] = 1 };
	assert_int_equal(packets_before(&(struct packet_stream){ f->know, PACKETS_AQL, S("gfx942"), aql, 64 }, 32, 2), 32);
}

static void load(const char *name, struct text *ret)
{
	char path[512], chunk[4096];
	snprintf(path, sizeof(path), "%s/packets/%s", SEEDS, name);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	for (size_t n; (n = fread(chunk, 1, sizeof(chunk), f));)
		text_add(ret, (struct str){ chunk, n });
	fclose(f);
}

/** `gc.COMPUTE_PGM_LO=0x12, reads gc.GRBM_STATUS`; those that have no name by their places. */
static struct str told(struct fixture *f, const char *gfx, enum packet_language l, const uint32_t *words, size_t n)
{
	static const char *const accesses[] = { "", "reads ", "polls ", "changes ", "loads " };
	struct register_places places = { .know = f->know, .gfx = str_z(gfx) };
	const struct packet_stream s = { f->know, l, str_z(gfx), words, n, &places };
	struct text t = { 0 };
	struct packet p;
	assert_true(packet_decode(&s, &f->arena, 0, &p));
	assert_null(packet_complaint(&p, n));
	for (size_t i = 0; i < p.nregisters; i++) {
		const struct packet_register *r = &p.registers[i];
		text_printf(&t, "%s%s", i ? ", " : "", accesses[r->access]);
		if (r->is)
			text_printf(&t, STR_FMT, STR_ARG(r->is->reg.name));
		else
			text_printf(&t, "0x%x", r->place);
		if (r->valued)
			text_printf(&t, "=0x%x", r->value);
		if (r->mask != UINT32_MAX)
			text_printf(&t, "&0x%x", r->mask);
		if (r->count != 1)
			text_printf(&t, "*%u", r->count);
	}
	struct str ret = arena_str(&f->arena, text_str(&t));
	text_free(&t);
	register_places_free(&places);
	return ret;
}

#define TOLD(language, gfx, wanted, ...)                                                                                       \
	assert_text(told(*state, gfx, PACKETS_##language, (const uint32_t[]){ __VA_ARGS__ },                                   \
			 sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4),                                                       \
		    wanted)

static void registers_of_packets_are_named(void **state)
{
	TOLD(PM4, "gfx1100", "COMPUTE_NUM_THREAD_X=0x40, COMPUTE_NUM_THREAD_Y=0x2", P3(0x76, 2), 0x207, 0x40, 2);
	TOLD(PM4, "gfx900", "COMPUTE_PGM_LO=0x1234", P3(0x76, 1), 0x20c, 0x1234);
	TOLD(PM4, "gfx1201", "CB_COLOR0_BASE=0x5", P3(0x69, 1), 0x318, 5);
	TOLD(PM4, "gfx1100", "VGT_PRIMITIVE_TYPE=0x4", P3(0x7a, 1), 0x10000242, 4);
	TOLD(PM4, "gfx1100", "COMPUTE_PGM_LO=0x1, COMPUTE_PGM_HI=0x2", P3(0xba, 3), 0x20c, 1, 0x20d, 2);
	TOLD(PM4, "gfx1100", "COMPUTE_PGM_LO=0x1, COMPUTE_PGM_HI=0x2, COMPUTE_PGM_RSRC1=0x3, COMPUTE_PGM_RSRC2=0x4",
	     P3(0xbb, 6), 4, 0x020d020c, 1, 2, 0x02130212, 3, 4);
	TOLD(PM4, "gfx1100", "VGT_PRIMITIVE_TYPE=0x4", P3(0xbe, 1), 0x242, 4);
	// Further values are for the registers behind it, unless all go to one.
	TOLD(PM4, "gfx1100", "COMPUTE_USER_DATA_0=0x7, COMPUTE_USER_DATA_1=0x8", P3(0x37, 4), 0, 0x2e40, 0, 7, 8);
	TOLD(PM4, "gfx1100", "COMPUTE_USER_DATA_0=0x7, COMPUTE_USER_DATA_0=0x8", P3(0x37, 4), 0x10000, 0x2e40, 0, 7, 8);
	TOLD(PM4, "gfx1100", "", P3(0x37, 4), 0x500, 0x2e40, 0, 7, 8);
	TOLD(PM4, "gfx1100", "0x7f00=0x1", P3(0x37, 3), 0, 0x7f00, 0, 1);
	TOLD(PM4, "gfx1100", "polls GRBM_STATUS=0x0&0x80000000", P3(0x3c, 5), 3, 0x1260 + 0xda4, 0, 0, 0x80000000, 10);
	TOLD(PM4, "gfx1100", "GCVM_INVALIDATE_ENG7_SEM=0x1, polls GCVM_INVALIDATE_ENG8_SEM=0x1", P3(0x3c, 5), 0x43, 0x2900,
	     0x2901, 1, 0xffffffff, 10);
	TOLD(PM4, "gfx1100", "reads GRBM_STATUS", P3(0x40, 4), 0x500, 0x1260 + 0xda4, 0, 0x7000, 0);
	TOLD(PM4, "gfx1100", "COMPUTE_USER_DATA_0=0x1, COMPUTE_USER_DATA_1=0x2", P3(0x40, 4), 0x10005, 1, 2, 0x2e40, 0);
	TOLD(PM4, "gfx1100", "changes COMPUTE_START_Y=0x12&0xff", P3(0x21, 2), 0x2e05, 0xffffff00, 0x12);
	TOLD(PM4, "gfx1100", "changes SPI_INTERP_CONTROL_0=0x21&0xff", P3(0x51, 2), 0x1b5, 0xff, 0x21);
	TOLD(PM4, "gfx1100", "loads COMPUTE_USER_DATA_0*16, loads COMPUTE_PGM_LO*2", P3(0x5f, 5), 0x1000, 0x7f, 0x240, 16,
	     0x20c, 2);
	TOLD(PM4, "gfx1100", "COMPUTE_DISPATCH_INITIATOR=0x8021", P3(0x15, 3), 1, 1, 1, 0x8021);
	TOLD(PM4, "gfx90a", "SH_MEM_BASES=0x5, SH_MEM_CONFIG=0x6", P3(0xa1, 5), 1, 0, 0, 5, 6, 0);
	TOLD(SDMA, "gfx1100", "SDMA0_QUEUE0_RB_CNTL=0x1", 0xf000000e, 0x1260 + 0x80, 1);
	TOLD(SDMA, "gfx1100", "polls GRBM_STATUS=0x1&0x1", 0x30000008, (0x1260 + 0xda4) << 2, 0, 1, 1, 0x0fff000a);
	TOLD(MES, "gfx1100", "COMPUTE_USER_DATA_0=0x9", MES(14), 0, 0, 0, 0, 0, 0x2e40, 9);
}

/** Without places nothing is looked up, and of a part that is not known there are none. */
static void registers_of_no_part_have_no_names(void **state)
{
	const uint32_t words[] = { P3(0x76, 1), 0x20c, 0x1234 };
	const struct packet p = decode(*state, PACKETS_PM4, "gfx1100", words, 3);
	assert_int_equal(p.nregisters, 0);
	assert_false(field(&p, "register")->told);
	TOLD(PM4, "gfx2000", "", P3(0x76, 1), 0x20c, 0x1234);
	TOLD(PM4, "", "", P3(0x76, 1), 0x20c, 0x1234);
}

// --- rings that are followed ---

enum { FOLLOWED_WORDS = 64 };

/** A ring of the driver's, and what was told of it: `NOP@0x4*2`, `>0x8`, `|` where packets were lost, `=` where it stands. */
struct followed_ring {
	uint32_t words[FOLLOWED_WORDS];
	uint32_t rptr, wptr;
	struct ring_follower follower;
	struct text told;
};

static void note_followed(void *ctx, const struct ring_follower *f, const struct follow_event *e)
{
	struct followed_ring *r = ctx;
	const char *space = r->told.n ? " " : "";
	switch (e->what) {
	case FOLLOW_PACKET:
		text_printf(&r->told, "%s" STR_FMT "@0x%zx", space, STR_ARG(e->packet->packet->name), e->packet->at);
		if (e->packet->repeat > 1)
			text_printf(&r->told, "*%zu", e->packet->repeat);
		break;
	case FOLLOW_OVERWRITTEN:
		text_printf(&r->told, "%s|", space);
		break;
	case FOLLOW_POSITION:
	case FOLLOW_STILL:
		text_printf(&r->told, "%s%s0x%x", space, e->what == FOLLOW_STILL ? "=" : ">", e->rptr);
		if (f->emitted_known)
			text_printf(&r->told, f->reached_known ? ",%llu/%llu" : ",?%.0llu/%llu",
				    (unsigned long long)(f->reached_known ? f->reached : 0), (unsigned long long)f->emitted);
		break;
	}
}

/** The driver writes a packet. */
static void emit_packet(struct followed_ring *r, const uint32_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++, r->wptr++)
		r->words[r->wptr % FOLLOWED_WORDS] = words[i];
}

#define EMIT(r, ...) emit_packet((r), (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4)
#define FENCE(r, value) EMIT((r), P3(0x49, 6), 0, 0x20000000, 0x1000, 0, (value), 0, 0)

static void followed_is(struct fixture *f, struct followed_ring *r, const char *wanted)
{
	const struct packet_stream like = { f->know, PACKETS_PM4, S("gfx1100"), NULL, 0, NULL };
	const struct ring now = { S("gfx_0.0.0"),           r->rptr % FOLLOWED_WORDS, r->wptr % FOLLOWED_WORDS,
				  r->wptr % FOLLOWED_WORDS, FOLLOWED_WORDS,           r->words };
	text_clear(&r->told);
	ring_follow(&r->follower, &now, &like, 2, note_followed, r);
	assert_text(text_str(&r->told), wanted);
}

static void a_followed_ring_tells_each_packet_once(void **state)
{
	struct followed_ring r = { 0 };
	EMIT(&r, P3(0x10, 0), 1);
	EMIT(&r, P3(0x10, 0), 2);
	FENCE(&r, 7);
	r.rptr = 4;
	followed_is(*state, &r, "NOP@0x2 RELEASE_MEM@0x4 >0x4,?/7");
	followed_is(*state, &r, "=0x4,?/7");
	r.rptr = r.wptr;
	followed_is(*state, &r, ">0xc,7/7");
	followed_is(*state, &r, "");
	// The same packet again and again is one line.
	for (int i = 0; i < 3; i++)
		EMIT(&r, P3(0x10, 0), 3);
	FENCE(&r, 8);
	FENCE(&r, 9);
	r.rptr += 14;
	followed_is(*state, &r, "NOP@0xc*3 RELEASE_MEM@0x12 RELEASE_MEM@0x1a >0x1a,8/9");
	// One that the driver has written only in part comes when it is complete.
	EMIT(&r, P3(0x10, 2), 4);
	followed_is(*state, &r, ">0x1a,8/9");
	EMIT(&r, 5, 6);
	EMIT(&r, P3(0x10, 0), 7);
	followed_is(*state, &r, "NOP@0x22 NOP@0x26 >0x1a,8/9");
	// Around the ring's end.
	EMIT(&r, P3(0x10, 20), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20);
	EMIT(&r, P3(0x10, 2), 11, 12, 13);
	r.rptr = r.wptr;
	followed_is(*state, &r, "NOP@0x28 NOP@0x3e >0x2,9/9");
	ring_follower_free(&r.follower);
	text_free(&r.told);
}

/** More than a whole ring between two looks: what was lost is told, also where wptr is where it was. */
static void a_followed_ring_tells_what_it_lost(void **state)
{
	struct followed_ring r = { 0 };
	EMIT(&r, P3(0x10, 0), 1);
	r.rptr = r.wptr;
	followed_is(*state, &r, "NOP@0x0 >0x2");
	for (uint32_t i = 0; i < FOLLOWED_WORDS / 8; i++)
		FENCE(&r, i);
	r.rptr = r.wptr;
	followed_is(*state, &r,
		    "| RELEASE_MEM@0x2 RELEASE_MEM@0xa RELEASE_MEM@0x12 RELEASE_MEM@0x1a RELEASE_MEM@0x22 RELEASE_MEM@0x2a "
		    "RELEASE_MEM@0x32 "
		    "RELEASE_MEM@0x3a >0x2,7/7");
	EMIT(&r, P3(0x10, 0), 5);
	followed_is(*state, &r, "NOP@0x2 >0x2,7/7");
	ring_follower_free(&r.follower);
	text_free(&r.told);
}

/** Whatever is in it, and wherever its pointers jump. */
static void a_followed_ring_takes_any_words(void **state)
{
	struct fixture *f = *state;
	struct followed_ring r = { 0 };
	uint32_t x = 12345;
	for (int look = 0; look < 3000; look++) {
		for (size_t i = 0; i < 8; i++) {
			x = x * 1664525 + 1013904223;
			r.words[x >> 8 & (FOLLOWED_WORDS - 1)] = look % 3 ? x : P3(x >> 16 & 0xff, x >> 24 & 0x1f);
		}
		const struct packet_stream like = { f->know, (enum packet_language)(look % 4), S("gfx1100"), NULL, 0, NULL };
		const struct ring now = { S("r"), x >> 3, x >> 9, x >> 5, FOLLOWED_WORDS - (look % 97 ? 0 : 16), r.words };
		text_clear(&r.told);
		ring_follow(&r.follower, &now, &like, 3, note_followed, &r);
		assert_true(r.follower.fences.len < 4096);
	}
	ring_follower_free(&r.follower);
	text_free(&r.told);
}

static void try_bytes(const struct know *k, const char *what, size_t at, const struct text *bytes, size_t n)
{
	const char *complaint = packets_bytes_complaint(k, (const uint8_t *)bytes->p, n);
	if (complaint)
		fail_msg("%s, %zu: %s", what, at, complaint);
}

static const char *const seeds[] = { "pm4-gfx1100", "pm4-gfx90a",  "sdma-gfx1030", "sdma-gfx900",
				     "mes-gfx1100", "mes-gfx1201", "aql" };

/** Every packet of a seed is known and whole. */
static void every_seed_is_decoded(void **state)
{
	struct fixture *f = *state;
	static const char *const parts[] = { "gfx1100", "gfx90a", "gfx1030", "gfx900", "gfx1100", "gfx1201", "gfx942" };
	for (size_t i = 0; i < ARRAY_SIZE(seeds); i++) {
		struct text t = { 0 };
		struct packet p;
		load(seeds[i], &t);
		size_t n = (t.n - 2) / 4;
		uint32_t *words = mem_alloc(n * sizeof(*words));
		memcpy(words, t.p + 2, n * sizeof(*words));
		for (size_t at = 0; at < n; at += p.words) {
			const struct packet_stream s = { f->know, (enum packet_language)t.p[0], str_z(parts[i]), words, n };
			assert_true(packet_decode(&s, &f->arena, at, &p));
			if (!p.known || p.cut)
				fail_msg("%s: " STR_FMT " at word %zu", seeds[i], STR_ARG(p.name), at);
		}
		free(words);
		text_free(&t);
	}
}

static void packets_cut_or_changed_harm_nobody(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i < ARRAY_SIZE(seeds); i++) {
		struct text t = { 0 };
		load(seeds[i], &t);
		for (size_t n = 2; n <= t.n; n += 4)
			try_bytes(f->know, seeds[i], n, &t, n);
		for (size_t at = 0; at < t.n; at += 3) {
			t.p[at] = (char)(t.p[at] ^ 0xff);
			try_bytes(f->know, seeds[i], at, &t, t.n);
			t.p[at] = (char)(t.p[at] ^ 0xff);
		}
		text_free(&t);
	}
}

static void random_words_are_decoded_within_bounds(void **state)
{
	struct fixture *f = *state;
	uint64_t random = 0x9e3779b97f4a7c15;
	struct text t = { 0 };
	for (size_t round = 0; round < 200; round++) {
		text_clear(&t);
		for (size_t i = 0; i < 2 + 4 * (round % 97); i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			// Half of the words are small, so that opcodes occur.
			char c = (char)(random >> 56);
			text_add(&t, (struct str){ i % 4 > 1 && random >> 32 & 1 ? "" : &c, 1 });
		}
		try_bytes(f->know, "any words", round, &t, t.n);
	}
	text_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_ring_has_its_language),
		cmocka_unit_test(pm4_indirect_buffers),
		cmocka_unit_test(pm4_waits_say_for_what),
		cmocka_unit_test(pm4_register_writes_name_their_registers),
		cmocka_unit_test(pm4_lengths_of_packets),
		cmocka_unit_test(pm4_fields_differ_by_generation),
		cmocka_unit_test(sdma_waits_and_copies),
		cmocka_unit_test(sdma_lengths_of_packets),
		cmocka_unit_test(mes_messages),
		cmocka_unit_test(aql_packets),
		cmocka_unit_test(wrong_blocks_of_packets_are_told),
		cmocka_unit_test(a_block_of_the_user_decodes_its_packet),
		cmocka_unit_test(an_unknown_language_is_words),
		cmocka_unit_test(the_packets_before_a_place_are_found),
		cmocka_unit_test(the_packets_before_a_place_are_found_in_sdma_and_aql),
		cmocka_unit_test(registers_of_packets_are_named),
		cmocka_unit_test(registers_of_no_part_have_no_names),
		cmocka_unit_test(a_followed_ring_tells_each_packet_once),
		cmocka_unit_test(a_followed_ring_tells_what_it_lost),
		cmocka_unit_test(a_followed_ring_takes_any_words),
		cmocka_unit_test(every_seed_is_decoded),
		cmocka_unit_test(packets_cut_or_changed_harm_nobody),
		cmocka_unit_test(random_words_are_decoded_within_bounds),
	};
	return cmocka_run_group_tests_name("packets", tests, setup, teardown);
}

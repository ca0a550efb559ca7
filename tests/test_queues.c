// What the driver says of user queues (KFD's mqds, hqds, rls), the tables of their descriptors, and devcoredumps as targets. The texts are
// the seeds of the fuzz target; they are cut at every byte and have every byte changed.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "gpu/find/clients.h"
#include "gpu/find/kfd.h"
#include "gpu/queue_words.h"
#include "queues_check.h"

static struct text load(const char *name)
{
	char path[512], chunk[4096];
	struct text ret = { 0 };
	snprintf(path, sizeof(path), "%s/%s", SEEDS, name);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	for (size_t n; (n = fread(chunk, 1, sizeof(chunk), f));)
		text_add(&ret, (struct str){ chunk, n });
	fclose(f);
	return ret;
}

static int setup(void **state)
{
	struct know_problems problems = { 0 };
	*state = know_load(&problems);
	return !*state;
}

static int teardown(void **state)
{
	know_free(*state);
	return 0;
}

/** A text of a client's files in a block of its own, so that a byte behind it is seen. */
static char *cut_at(const char *text, size_t n)
{
	char *p = test_malloc(n + !n);
	memcpy(p, text, n);
	return p;
}

static void files_of_clients_are_parsed_whatever_is_cut_off(void **state)
{
	static const char mqd[] = "queue_type: 1\nmqd_gpu_address: 0x7fff00000000\n";
	static const char older[] = "queue_type 2\nmqd_gpu_address: 0x1745200\n";
	static const char tables[] = "pd_address: 0x3f7dff001\nmax_pfn: 0x1000000000\nnum_level: 0x3\nblock_size: 0x9\n"
				     "fragment_size: 0x9\n";
	struct vm_tables t = { 0 };
	unsigned type = 9;
	uint64_t at = 0;
	(void)state;
	assert_true(mqd_info_parse(str_z(mqd), &type, &at));
	assert_int_equal(type, USER_QUEUE_COMPUTE);
	assert_int_equal(at, 0x7fff00000000);
	assert_true(mqd_info_parse(str_z(older), &type, &at));
	assert_int_equal(type, USER_QUEUE_COPY);
	assert_int_equal(at, 0x1745200);
	assert_true(page_table_info_parse(str_z(tables), &t));
	assert_int_equal(t.root, 0x3f7dff001);
	assert_int_equal(t.last, 0xffffffffffff);
	assert_int_equal(t.depth, 3);
	assert_int_equal(t.block, 0);
	for (size_t n = 0; n < sizeof(mqd); n++) {
		char *p = cut_at(mqd, n);
		if (mqd_info_parse((struct str){ p, n }, &type, &at))
			assert_int_equal(type, USER_QUEUE_COMPUTE);
		test_free(p);
	}
	for (size_t n = 0; n < sizeof(tables); n++) {
		char *p = cut_at(tables, n);
		if (page_table_info_parse((struct str){ p, n }, &t))
			assert_true(t.depth <= 3 && t.block <= 18 && t.last);
		test_free(p);
	}
	assert_false(mqd_info_parse(S("queue_type: 7\nmqd_gpu_address: 0x1000\n"), &type, &at));
	assert_false(mqd_info_parse(S("queue_type: 0\nmqd_gpu_address: 0x0\n"), &type, &at));
	assert_false(page_table_info_parse(
		S("pd_address: 0x1001\nmax_pfn: 0xffffffffffffffff\nnum_level: 0x3\nblock_size: 0x9\n"), &t));
	assert_false(page_table_info_parse(S("pd_address: 0x1001\nmax_pfn: 0x10\nnum_level: 0x9\nblock_size: 0x9\n"), &t));
	assert_false(page_table_info_parse(S("pd_address: 0x1001\nmax_pfn: 0x10\nnum_level: 0x3\nblock_size: 0x1\n"), &t));
}

static void mqds_of_kfd_are_parsed(void **state)
{
	struct arena a = { 0 };
	struct text text = load("queues/mqds");
	const struct kfd_mqd *m;
	const struct know_mqd *layout = mqd_layout(*state, S("gfx1100"));
	struct queue q = { 0 }, copy = { 0 };
	assert_int_equal(kfd_mqds_parse(&a, text_str(&text), &m), 3);
	assert_true(m[0].pid == 4242 && m[0].gpu_id == 0x1234 && m[0].kind == KFD_COMPUTE && m[0].n == 192);
	assert_true(m[1].copy == 1 && m[1].queue == 0 && m[1].words[128] == 0x101000);
	assert_true(m[2].kind == KFD_SDMA && m[2].queue == 1 && !m[2].copy);
	assert_true(mqd_queue(layout, &m[0], &q));
	assert_true(q.ring == 0x7f1234560000 && q.ring_size == 4096 && q.type == QUEUE_AQL);
	assert_true(q.read_address == 0x7f1200000080 && q.write_address == 0x7f1200000038 && q.doorbell == 0x401);
	assert_true(q.save_area == 0x7f0040000000 && q.save_area_size == 0x2c0000);
	assert_true(mqd_queue(layout, &m[2], &copy));
	assert_true(copy.ring == 0x7f3456780000 && copy.ring_size == 8192 && copy.type == QUEUE_SDMA);
	assert_true(copy.read_address == 0x7f1200001000 && copy.write_address == 0x7f1200002000 && copy.doorbell == 0x802);
	arena_free(&a);
	text_free(&text);
}

static void hqds_of_kfd_are_parsed(void **state)
{
	struct arena a = { 0 };
	struct text text = load("queues/hqds");
	const struct kfd_hqd *h;
	const struct know_mqd *layout = mqd_layout(*state, S("gfx1100"));
	unsigned vmid;
	assert_int_equal(kfd_hqds_parse(&a, text_str(&text), &h), 3);
	assert_true(h[0].kind == KFD_SCHEDULER && h[0].me == 2 && h[0].pipe == 1 && h[0].n == 56 &&
		    !hqd_active(layout, &h[0], &vmid));
	assert_true(h[1].kind == KFD_COMPUTE && h[1].me == 1 && h[1].pipe == 1 && h[1].queue == 2 && h[1].address == 0x7ea4);
	assert_true(hqd_active(layout, &h[1], &vmid) && vmid == 8 && hqd_ring(layout, &h[1]) == 0x7f1234560000);
	assert_int_equal(h[1].words[mqd_word(layout, false, true, S("CP_HQD_PQ_RPTR"))], 0x20);
	assert_int_equal(h[1].words[mqd_word(layout, false, true, S("CP_HQD_PQ_WPTR_LO"))], 0x30);
	assert_true(h[2].kind == KFD_SDMA && h[2].pipe == 1 && h[2].queue == 3 && h[2].n == 8);
	assert_true(hqd_active(layout, &h[2], &vmid) && vmid == 8 && hqd_ring(layout, &h[2]) == 0x7f3456780000);
	arena_free(&a);
	text_free(&text);
}

static void runlists_of_kfd_are_parsed(void **state)
{
	struct arena a = { 0 };
	struct text text = load("queues/rls");
	const struct kfd_runlist *l;
	(void)state;
	assert_int_equal(kfd_runlists_parse(&a, text_str(&text), &l), 2);
	assert_true(l[0].gpu_id == 0x1234 && l[0].n == 16 && l[0].words[1] == 0x8001);
	assert_true(l[1].gpu_id == 0x5678 && !l[1].n);
	arena_free(&a);
	text_free(&text);
}

/** Every value of every family is found, where the driver's headers have it. */
static void words_of_mqds_have_their_places(void **state)
{
	static const char *const compute[] = { "mqd-low",  "mqd-high", "active",    "vmid",      "ring-low", "ring-high",
					       "size",     "aql",      "rptr-low",  "rptr-high", "wptr-low", "wptr-high",
					       "doorbell", "save-low", "save-high", "save-size" };
	static const char *const copy[] = { "active",   "vmid",      "ring-low", "ring-high", "size",
					    "rptr-low", "rptr-high", "wptr-low", "wptr-high", "doorbell" };
	static const struct {
		const char *gfx;
		int rptr_low, wptr_low, doorbell;
	} sdma[] = { { "gfx900", 9, 29, 22 },
		     { "gfx942", 9, 29, 22 },
		     { "gfx1030", 9, 29, 22 },
		     { "gfx1100", 8, 27, 19 },
		     { "gfx1201", 7, 24, 17 } };
	uint32_t words[512] = { 0 }, value;
	for (size_t i = 0; i < ARRAY_SIZE(sdma); i++) {
		const struct know_mqd *m = mqd_layout(*state, str_z(sdma[i].gfx));
		assert_non_null(m);
		for (size_t n = 0; n < ARRAY_SIZE(compute); n++)
			assert_true(mqd_value((struct mqd_words){ m, false, false, words, 512 }, compute[n], &value));
		for (size_t n = 0; n < ARRAY_SIZE(copy); n++)
			assert_true(mqd_value((struct mqd_words){ m, true, false, words, 512 }, copy[n], &value));
		assert_int_equal(mqd_word(m, false, false, S("CP_HQD_PQ_CONTROL")), 145);
		assert_int_equal(mqd_word(m, false, false, S("CP_HQD_PQ_WPTR_HI")), 183);
		assert_int_equal(mqd_word(m, true, false, S("RB_RPTR_ADDR_LO")), sdma[i].rptr_low);
		assert_int_equal(mqd_word(m, true, false, S("RB_WPTR_POLL_ADDR_LO")), sdma[i].wptr_low);
		assert_int_equal(mqd_word(m, true, false, S("DOORBELL_OFFSET")), sdma[i].doorbell);
		assert_false(mqd_value((struct mqd_words){ m, false, false, words, 100 }, "ring-low", &value));
	}
	assert_null(mqd_layout(*state, S("gfx803")));
}

static bool ask(struct target *t, const char *name, unsigned instance, struct bank b, uint32_t *ret)
{
	struct reg reg = { .name = str_z(name) };
	struct request r = { .kind = REQUEST_REGISTER, .ip = S("gc"), .ip_instance = instance, .reg = &reg, .bank = b };
	bool given = target_ask(t, &r) == ANSWER_GIVEN;
	*ret = r.value;
	return given;
}

static void a_devcoredump_answers_for_registers_and_rings(void **state)
{
	struct text text = load("queues/dump");
	struct file f = file_memory(S("dump"), text_str(&text));
	struct target *t;
	uint32_t v;
	assert_null(target_devcoredump(*state, &f, &t));
	struct bank xcc = BANK_NONE, queue = BANK_NONE, se = BANK_NONE;
	xcc.xcc = queue.xcc = 1;
	queue.me = 1, queue.pipe = 1, queue.queue = 2;
	se.se = 0;
	assert_true(ask(t, "GRBM_STATUS", 0, BANK_NONE, &v) && v == 0x3028);
	assert_true(ask(t, "GRBM_STATUS", 0, xcc, &v) && v == 0xa0003028);
	assert_true(ask(t, "CP_HQD_ACTIVE", 0, queue, &v) && v == 1);
	assert_false(ask(t, "CP_HQD_ACTIVE", 0, BANK_NONE, &v));
	assert_false(ask(t, "GRBM_STATUS", 0, se, &v));
	assert_true(ask(t, "SDMA_STATUS_REG", 1, BANK_NONE, &v) && v == 0x46dee556);
	assert_true(ask(t, "SDMA1_STATUS_REG", 0, BANK_NONE, &v) && v == 0x46dee556);
	assert_false(ask(t, "GRBM_STATUS2", 0, BANK_NONE, &v));
	struct request rings = { .kind = REQUEST_RINGS }, agents = { .kind = REQUEST_AGENTS };
	assert_true(target_ask(t, &rings) == ANSWER_GIVEN && rings.n == 1);
	assert_true(str_is(rings.rings[0].name, "comp_1.0.0") && rings.rings[0].n == 4 &&
		    rings.rings[0].words[1] == 0xc0023f00);
	assert_true(rings.rings[0].rptr == 8 && rings.rings[0].wptr == 0x18);
	assert_true(target_ask(t, &agents) == ANSWER_GIVEN && agents.agents[0].xccs == 2 &&
		    str_is(agents.agents[0].gfx, "gfx942"));
	const struct device *d = devcoredump_device(t);
	assert_true(d->nips == 4 && str_is(d->ips[3].name, "vcn") && d->ips[3].version[2] == 3 && d->device == 29857);
	target_close(t);
	text_free(&text);
}

static void try_text(const struct know *k, const char *name, size_t at, const char *bytes, size_t size)
{
	// A copy of exactly this size, so that AddressSanitizer sees a read behind its end.
	_cleanup_free_ char *copy = mem_alloc(size);
	if (size)
		memcpy(copy, bytes, size);
	const char *complaint = kfd_complaint(k, copy, size);
	complaint = complaint ? complaint : dump_complaint(k, copy, size);
	if (complaint)
		fail_msg("%s at %zu: %s", name, at, complaint);
}

static void texts_of_kfd_cut_or_changed_harm_nobody(void **state)
{
	static const char *const names[] = { "queues/mqds", "queues/hqds", "queues/rls", "queues/dump", "devcoredump/file" };
	static const char changes[] = { 1, 0x10, (char)0x80, 0x2a };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct text text = load(names[i]);
		for (size_t n = 0; n <= text.n; n++)
			try_text(*state, names[i], n, text.p, n);
		for (size_t at = 0; at < text.n; at++)
			for (size_t c = 0; c < sizeof(changes); c++) {
				text.p[at] = (char)(text.p[at] ^ changes[c]);
				try_text(*state, names[i], at, text.p, text.n);
				text.p[at] = (char)(text.p[at] ^ changes[c]);
			}
		text_free(&text);
	}
}

/** In CPX each XCC is a partition, and a node of KFD with a number of its own. */
static void partitions_have_numbers_of_their_own(void **state)
{
	struct device list[] = { { .pci = S("0000:03:00.0"), .gpu_id = 70 },
				 { .pci = S("0000:04:00.0"), .gpu_id = 80, .shaders.xccs = 8, .compute_partition = S("CPX") } };
	struct kfd_place kfd[] = { { 1, 70, 0, 0 }, { 2, 80, 1, 0 }, { 3, 81, 1, 1 } };
	const struct devices d = { .list = list, .n = 2, .kfd = kfd, .nkfd = 3 };
	unsigned partition = 9;
	(void)state;
	assert_ptr_equal(devices_with_gpu_id(&d, 81, &partition), &list[1]);
	assert_int_equal(partition, 1);
	assert_null(devices_with_gpu_id(&d, 82, &partition));
	assert_int_equal(device_partitions(&list[0]), 1);
	assert_int_equal(device_partitions(&list[1]), 8);
	list[1].compute_partition = S("DPX");
	assert_int_equal(device_partitions(&list[1]), 2);
}

/** A word by its number: its name, the register that it is, and the value that was put there. */
static void named_word(const struct know *k, const char *gfx, struct queue_words w, unsigned at, const char *name,
		       const char *reg)
{
	uint32_t *words = test_calloc(w.n, sizeof(*words)); // a block of its own, so that a byte behind it is seen
	struct arena a = { 0 };
	const struct queue_word *found;
	words[at] = 0x12345;
	w.words = words;
	assert_int_equal(queue_words_named(&a, k, str_z(gfx), &w, &found), w.n);
	if (!str_is(found[at].name, name) || found[at].is_register != !!reg || (reg && !str_is(found[at].reg.name, reg)))
		fail_msg("%s: word %u is " STR_FMT, gfx, at, STR_ARG(found[at].name));
	assert_int_equal(found[at].value, 0x12345);
	assert_int_equal(found[at].at, at);
	arena_free(&a);
	test_free(words);
}

static void words_of_queues_have_names(void **state)
{
	const struct queue_words mqd = { .n = 512 }, hqd = { .hqd = true, .n = 56 }, copy = { .of = WORDS_COPY, .n = 128 };
	const struct queue_words graphics = { .of = WORDS_GRAPHICS, .n = 512 },
				 place = { .of = WORDS_COPY, .hqd = true, .n = 42 };
	const struct know *k = *state;
	named_word(k, "gfx900", mqd, 19, "COMPUTE_PGM_RSRC1", "COMPUTE_PGM_RSRC1");
	named_word(k, "gfx900", mqd, 39, "COMPUTE_STATIC_THREAD_MGMT_SE4", "COMPUTE_STATIC_THREAD_MGMT_SE4");
	named_word(k, "gfx942", mqd, 39, "COMPUTE_CURRENT_LOGIC_XCC_ID", NULL);
	named_word(k, "gfx950", mqd, 39, "COMPUTE_CURRENT_LOGIC_XCC_ID", NULL);
	named_word(k, "gfx1030", mqd, 35, "COMPUTE_RELAUNCH", "COMPUTE_RELAUNCH");
	named_word(k, "gfx1100", mqd, 35, "COMPUTE_REQ_CTRL", "COMPUTE_REQ_CTRL");
	named_word(k, "gfx1100", mqd, 0, "HEADER", NULL);
	named_word(k, "gfx1100", mqd, 53, "", NULL);
	named_word(k, "gfx1100", mqd, 136, "CP_HQD_PQ_BASE", "CP_HQD_PQ_BASE");
	named_word(k, "gfx1201", mqd, 59, "COMPUTE_STATIC_THREAD_MGMT_SE8", "COMPUTE_STATIC_THREAD_MGMT_SE8");
	named_word(k, "gfx1100", mqd, 511, "", NULL);
	named_word(k, "gfx1100", hqd, 8, "CP_HQD_PQ_BASE", "CP_HQD_PQ_BASE");
	named_word(k, "gfx1100", hqd, 16, "", NULL);
	named_word(k, "gfx1100", graphics, 136, "CP_GFX_HQD_BASE", "CP_GFX_HQD_BASE");
	named_word(k, "gfx1201", graphics, 131, "CP_GFX_HQD_VMID", "CP_GFX_HQD_VMID");
	named_word(k, "gfx900", copy, 0, "RB_CNTL", "SDMA0_RLC0_RB_CNTL");
	named_word(k, "gfx942", copy, 0, "RB_CNTL", "SDMA_RLC0_RB_CNTL");
	named_word(k, "gfx1030", copy, 10, "IB_CNTL", "SDMA0_RLC0_IB_CNTL");
	named_word(k, "gfx1100", copy, 9, "IB_CNTL", "SDMA0_QUEUE0_IB_CNTL");
	named_word(k, "gfx1100", place, 6, "RB_WPTR_HI", "SDMA0_QUEUE0_RB_WPTR_HI");
	named_word(k, "gfx1100", place, 7, "", NULL);
	named_word(k, "gfx2000", mqd, 19, "", NULL);
	for (size_t n = 1; n < 200; n += 7) // cut anywhere
		named_word(k, "gfx1100", (struct queue_words){ .n = n }, 0, "HEADER", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_of_clients_are_parsed_whatever_is_cut_off),
		cmocka_unit_test(mqds_of_kfd_are_parsed),
		cmocka_unit_test(hqds_of_kfd_are_parsed),
		cmocka_unit_test(runlists_of_kfd_are_parsed),
		cmocka_unit_test(words_of_mqds_have_their_places),
		cmocka_unit_test(words_of_queues_have_names),
		cmocka_unit_test(a_devcoredump_answers_for_registers_and_rings),
		cmocka_unit_test(texts_of_kfd_cut_or_changed_harm_nobody),
		cmocka_unit_test(partitions_have_numbers_of_their_own),
	};
	return cmocka_run_group_tests_name("queues and devcoredumps", tests, setup, teardown);
}

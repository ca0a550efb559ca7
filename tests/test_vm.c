// Page tables: walks through tables written by hand, as the driver writes them for each generation, and through nonsense.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gpu/memory/vm.h"

static int load(void **state)
{
	struct know_problems problems = { 0 };
	*state = know_load(&problems);
	return problems.count != 0;
}

static int unload(void **state)
{
	know_free(*state);
	return 0;
}

// Bits of entries, from the driver's amdgpu_vm.h.
#define VALID 1ull
#define SYSTEM 2ull
#define SNOOPED 4ull
#define RWX 0x70ull
#define FRAGMENT(n) ((n) << 7ull)
#define PRT (1ull << 51)
#define PDE_PTE (1ull << 54)
#define FURTHER (1ull << 56)
#define BLOCK(n) ((n) << 59ull)
#define PRT_12 (1ull << 56)
#define PTE_12 (1ull << 63)
#define BLOCK_12(n) ((n) << 58ull)
#define NORETRY (VALID | SYSTEM | PRT)

enum { VRAM = 0x1000000 }; // where entries count VRAM from
enum { ENTRIES = 16 };

/** Memory with some entries in it. */
struct memory {
	struct {
		bool system;
		uint64_t address, entry;
	} entries[ENTRIES];
	size_t n;
	unsigned reads;
};

/** The address as entries have it. */
static void put(struct memory *m, uint64_t address, uint64_t entry)
{
	m->entries[m->n].address = address - VRAM;
	m->entries[m->n++].entry = entry;
}

static void put_system(struct memory *m, uint64_t address, uint64_t entry)
{
	m->entries[m->n].system = true;
	m->entries[m->n].address = address;
	m->entries[m->n++].entry = entry;
}

static uint64_t entry_at(struct memory *m, const struct vm_place *at)
{
	m->reads++;
	for (size_t i = 0; i < m->n; i++)
		if (m->entries[i].system == at->system && m->entries[i].address == at->address)
			return m->entries[i].entry;
	return 0;
}

static struct vm_space space(void **state, const char *gfx, unsigned depth, unsigned block, uint64_t root)
{
	struct vm_space s = { .enabled = true,
			      .depth = depth,
			      .block = block,
			      .root = root,
			      .last = (1ull << 48) - 1,
			      .vram = VRAM,
			      .vram_size = 16ull << 30,
			      .fb_first = 1,
			      .agp_first = 1 };
	assert_true(vm_format_of(*state, str_z(gfx), &s.format));
	return s;
}

static struct vm_walk walk(const struct vm_space *s, struct memory *m, uint64_t address)
{
	struct vm_walk w;
	vm_walk_begin(&w, s, address);
	for (m->reads = 0; w.state == VM_WANTS_ENTRY;)
		vm_walk_on(&w, entry_at(m, &w.at));
	assert_in_range(m->reads, 0, VM_LEVELS);
	assert_true(w.state == VM_FOUND || w.why_not);
	return w;
}

static void leads(const struct vm_space *s, struct memory *m, uint64_t address, bool system, uint64_t to, unsigned reads)
{
	struct vm_walk w = walk(s, m, address);
	if (w.state != VM_FOUND)
		print_error("0x%llx: %s\n", (unsigned long long)address, w.why_not);
	assert_int_equal(w.state, VM_FOUND);
	assert_int_equal(w.at.system, system);
	assert_int_equal(w.at.address, to);
	assert_int_equal(m->reads, reads);
}

static void fails(const struct vm_space *s, struct memory *m, uint64_t address, const char *why)
{
	struct vm_walk w = walk(s, m, address);
	assert_int_equal(w.state, VM_NONE);
	if (!strstr(w.why_not, why))
		print_error("0x%llx: %s, not %s\n", (unsigned long long)address, w.why_not, why);
	assert_non_null(strstr(w.why_not, why));
}

static const uint64_t va = 0x7f12345678a4;
#define INDEX(level) (va >> (12 + 9 * (level)) & 511)

/** Four levels, pages of 4 KiB: Vega, and RDNA up to gfx11. */
static void a_walk_through_four_levels(void **state)
{
	static const char *const parts[] = { "gfx900", "gfx906", "gfx1010", "gfx1030", "gfx1100", "gfx1151" };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct vm_space s = space(state, parts[i], 3, 0, (VRAM + 0x10000) | VALID);
		struct memory m = { 0 };
		put(&m, VRAM + 0x10000 + INDEX(3) * 8, (VRAM + 0x20000) | VALID);
		put(&m, VRAM + 0x20000 + INDEX(2) * 8, (VRAM + 0x30000) | VALID);
		put(&m, VRAM + 0x30000 + INDEX(1) * 8,
		    0x12340000 | SYSTEM | SNOOPED | VALID); // a table in the machine's memory
		put_system(&m, 0x12340000 + INDEX(0) * 8, (VRAM + 0x456000) | RWX | FRAGMENT(9ull) | VALID);
		leads(&s, &m, va, false, 0x4568a4, 4);
		m.entries[3].entry = 0xabcdef000 | RWX | SYSTEM | SNOOPED | VALID;
		leads(&s, &m, va, true, 0xabcdef8a4, 4);
		fails(&s, &m, va + 0x1000, "nothing is mapped");
		fails(&s, &m, va + (1ull << 39), "nothing is mapped");
		m.entries[3].entry = NORETRY;
		fails(&s, &m, va, "nothing is mapped");
		m.entries[3].entry = 0xabcdef000 | PRT;
		fails(&s, &m, va, "nothing is mapped");
		// The driver's entry that makes waves fail without trying again.
		m.entries[3].entry = 0x10ull | PDE_PTE | FURTHER;
		fails(&s, &m, va, "nothing is mapped");
	}
}

/** An entry of a directory is a page: 2 MiB, 1 GiB. */
static void pages_that_end_a_walk_early(void **state)
{
	struct vm_space s = space(state, "gfx1100", 3, 0, (VRAM + 0x10000) | VALID);
	struct memory m = { 0 };
	put(&m, VRAM + 0x10000 + INDEX(3) * 8, (VRAM + 0x20000) | VALID);
	put(&m, VRAM + 0x20000 + INDEX(2) * 8, (VRAM + 0x30000) | VALID);
	put(&m, VRAM + 0x30000 + INDEX(1) * 8, (VRAM + 0x40000000) | RWX | FRAGMENT(9ull) | PDE_PTE | VALID);
	leads(&s, &m, va, false, 0x40000000 + (va & 0x1fffff), 3);
	m.entries[1].entry = 0x80000000 | RWX | PDE_PTE | SYSTEM | VALID;
	leads(&s, &m, va, true, 0x80000000 + (va & 0x3fffffff), 2);
}

/** MI100 to MI300: the last table has pages of 2 MiB, or leads to one more. */
static void tables_that_lead_further(void **state)
{
	static const char *const parts[] = { "gfx908", "gfx90a", "gfx942" };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct vm_space s = space(state, parts[i], 2, 9, (VRAM + 0x10000) | VALID);
		struct memory m = { 0 };
		put(&m, VRAM + 0x10000 + INDEX(3) * 8, (VRAM + 0x20000) | VALID);
		put(&m, VRAM + 0x20000 + INDEX(2) * 8, (VRAM + 0x30000) | BLOCK(9ull) | VALID);
		put(&m, VRAM + 0x30000 + INDEX(1) * 8, (VRAM + 0x40000000) | RWX | FRAGMENT(9ull) | VALID);
		leads(&s, &m, va, false, 0x40000000 + (va & 0x1fffff), 3);
		m.entries[2].entry = (VRAM + 0x50000) | FURTHER | VALID;
		put(&m, VRAM + 0x50000 + INDEX(0) * 8, (VRAM + 0x456000) | RWX | VALID);
		leads(&s, &m, va, false, 0x4568a4, 4);
		// No end: a table of pages that are not smaller.
		m.entries[2].entry = (VRAM + 0x30000) | FURTHER | BLOCK(9ull) | VALID;
		fails(&s, &m, va, "contradict");
		m.entries[1].entry = (VRAM + 0x30000) | BLOCK(31ull) | VALID;
		fails(&s, &m, va, "contradict");
		m.entries[1].entry = (VRAM + 0x30000) | VALID; // pages of 4 KiB: the table is large
		put(&m, VRAM + 0x30000 + (va >> 12 & 0x3ffff) * 8, (VRAM + 0x789000) | RWX | VALID);
		leads(&s, &m, va, false, 0x7898a4, 3);
	}
}

/** gfx12 has other bits. */
static void entries_of_gfx12(void **state)
{
	struct vm_space s = space(state, "gfx1201", 3, 0, (VRAM + 0x10000) | VALID);
	struct memory m = { 0 };
	put(&m, VRAM + 0x10000 + INDEX(3) * 8, (VRAM + 0x20000) | VALID);
	put(&m, VRAM + 0x20000 + INDEX(2) * 8, (VRAM + 0x30000) | VALID);
	put(&m, VRAM + 0x30000 + INDEX(1) * 8, (VRAM + 0x40000) | VALID);
	put(&m, VRAM + 0x40000 + INDEX(0) * 8, (VRAM + 0x456000) | RWX | PTE_12 | VALID);
	leads(&s, &m, va, false, 0x4568a4, 4);
	m.entries[3].entry =
		(VRAM + 0x456000) | RWX | (3ull << 54) | VALID; // MTYPE, and no bit: the driver sets it only sometimes
	leads(&s, &m, va, false, 0x4568a4, 4);
	m.entries[3].entry = PRT_12 | SNOOPED | SYSTEM | PTE_12;
	fails(&s, &m, va, "nothing is mapped");
	m.entries[2].entry = (VRAM + 0x40000000) | RWX | PTE_12 | VALID;
	leads(&s, &m, va, false, 0x40000000 + (va & 0x1fffff), 3);
	// One more table.
	s.depth = 2, s.block = 9;
	m.entries[1].entry = (VRAM + 0x30000) | BLOCK_12(9ull) | VALID;
	leads(&s, &m, va, false, 0x40000000 + (va & 0x1fffff), 3);
	m.entries[2].entry = (VRAM + 0x40000) | VALID;
	m.entries[3].entry = (VRAM + 0x456000) | RWX | PTE_12 | VALID;
	leads(&s, &m, va, false, 0x4568a4, 4);
	m.entries[2].entry = (VRAM + 0x30000) | BLOCK_12(9ull) | VALID;
	fails(&s, &m, va, "contradict");
}

/** VMID 0: VRAM and AGP without tables, GART by one flat table. */
static void addresses_of_the_kernel_and_of_hives(void **state)
{
	struct vm_space s = space(state, "gfx1100", 0, 0, (VRAM + 0x10000) | VALID);
	struct memory m = { 0 };
	s.kernel = true;
	s.first = 0x7fff00000000, s.last = 0x7fff1fffffff;
	s.fb_first = s.fb_vram = 0x8000000000, s.fb_last = 0x83ffffffff;
	put(&m, VRAM + 0x10000 + 0x8765 * 8, 0x123456000 | RWX | SYSTEM | SNOOPED | VALID);
	leads(&s, &m, 0x7fff08765010, true, 0x123456010, 1);
	leads(&s, &m, 0x8000001234, false, 0x1234, 0);
	fails(&s, &m, 0x7fff20000000, "outside");
	fails(&s, &m, 0x1000, "outside");
	s.agp_first = 0x9000000000, s.agp_last = 0x9000ffffff, s.agp_base = 0x100000000;
	leads(&s, &m, 0x9000000040, true, 0x100000040, 0);
	// The second of two GPUs in a hive.
	s.fb_vram += 0x100000000;
	leads(&s, &m, 0x8100001234, false, 0x1234, 0);
	fails(&s, &m, 0x8000001234, "another GPU");
	// A process has no such views.
	s.kernel = false;
	fails(&s, &m, 0x8000001234, "outside");
}

/** MI200 whose VRAM the CPU sees: VMID 0 has a directory with pages of 8 GiB, and a large table behind it. */
static void a_first_level_with_large_blocks(void **state)
{
	struct vm_space s = space(state, "gfx90a", 1, 12, (VRAM + 0x10000) | VALID);
	struct memory m = { 0 };
	s.kernel = true;
	s.last = (32ull << 30) - 1;
	put(&m, VRAM + 0x10000 + 8, (VRAM + 0x100000000) | RWX | FRAGMENT(21ull) | PDE_PTE | VALID);
	put(&m, VRAM + 0x10000 + 16, (VRAM + 0x20000) | SNOOPED | VALID);
	put(&m, VRAM + 0x20000 + 0x1234 * 8, 0x5555000 | RWX | SYSTEM | VALID);
	leads(&s, &m, (8ull << 30) + 0x123456, false, 0x100000000 + 0x123456, 1);
	leads(&s, &m, (16ull << 30) + 0x1234010, true, 0x5555010, 2);
}

static void wrong_tables_end_the_walk(void **state)
{
	struct vm_space s = space(state, "gfx1030", 3, 0, (VRAM + 0x10000) | VALID);
	struct memory m = { 0 };
	s.enabled = false;
	fails(&s, &m, va, "no page tables");
	s.enabled = true;
	s.root = VRAM + 0x10000;
	fails(&s, &m, va, "no page tables");
	s.root = 0x1000 | VALID;
	fails(&s, &m, va, "another GPU");
	s.root = (VRAM + (16ull << 30)) | VALID;
	fails(&s, &m, va, "another GPU");
	s.root = UINT64_MAX;
	walk(&s, &m, va);
	// A directory that is its own.
	s.root = (VRAM + 0x10000) | VALID;
	for (unsigned level = 0; level < 4; level++)
		put(&m, VRAM + 0x10000 + INDEX(level) * 8, (VRAM + 0x10000) | VALID);
	leads(&s, &m, va, false, 0x10000 + (va & 0xfff), 4);
	s.depth = 7;
	fails(&s, &m, va, "contradict");
	struct vm_format f;
	assert_false(vm_format_of(*state, S("gfx803"), &f));
	assert_false(vm_format_of(*state, (struct str){ 0 }, &f));
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/** Whatever is in them, and in the registers: it ends. */
static void random_tables_end_the_walk(void **state)
{
	static const char *const parts[] = { "gfx900", "gfx942", "gfx1100", "gfx1201" };
	uint64_t seed = 88172645463325252;
	size_t found = 0;
	for (size_t i = 0; i < 200000; i++) {
		struct vm_space s =
			space(state, parts[i % 4], next_random(&seed) % 5, next_random(&seed) % 20, next_random(&seed));
		struct vm_walk w;
		unsigned reads = 0;
		s.kernel = next_random(&seed) & 1;
		s.vram_size = UINT64_MAX >> next_random(&seed) % 64;
		s.last = UINT64_MAX >> next_random(&seed) % 64;
		s.first = next_random(&seed) >> (20 + next_random(&seed) % 44);
		s.fb_first = next_random(&seed), s.fb_last = next_random(&seed), s.fb_vram = next_random(&seed);
		s.root |= next_random(&seed) & 3;
		vm_walk_begin(&w, &s, next_random(&seed) >> next_random(&seed) % 64);
		for (; w.state == VM_WANTS_ENTRY && reads <= VM_LEVELS; reads++)
			vm_walk_on(&w, next_random(&seed) | (next_random(&seed) & 3));
		assert_int_not_equal(w.state, VM_WANTS_ENTRY);
		assert_true(w.state == VM_FOUND || w.why_not);
		found += w.state == VM_FOUND;
	}
	assert_in_range(found, 1000, 199000);
}

static void hub(void **state, const char *gfx, const char *ring, enum hub want, unsigned instance)
{
	enum hub h;
	unsigned n;
	vm_hub_of(*state, str_z(gfx), str_z(ring), &h, &n);
	assert_int_equal(h, want);
	assert_int_equal(n, instance);
}

static void each_hub_has_its_registers(void **state)
{
	hub(state, "gfx900", "gfx", HUB_GFX, 0);
	hub(state, "gfx900", "comp_1.0.0", HUB_GFX, 0);
	hub(state, "gfx900", "sdma1", HUB_MM, 0);
	hub(state, "gfx908", "sdma4", HUB_MM, 0);
	hub(state, "gfx908", "page5", HUB_MM, 1);
	hub(state, "gfx908", "vcn_dec_0", HUB_MM, 1);
	hub(state, "gfx942", "comp_3.1.2.0", HUB_GFX, 3);
	hub(state, "gfx942", "sdma2.1", HUB_MM, 2);
	hub(state, "gfx1030", "sdma1", HUB_GFX, 0);
	hub(state, "gfx1100", "kiq_0.2.1.0", HUB_GFX, 0);
	hub(state, "gfx1100", "vcn_unified_0", HUB_MM, 0);
	hub(state, "gfx1201", "sdma0", HUB_GFX, 0);
	hub(state, "gfx1201", "", HUB_GFX, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_walk_through_four_levels),
		cmocka_unit_test(pages_that_end_a_walk_early),
		cmocka_unit_test(tables_that_lead_further),
		cmocka_unit_test(entries_of_gfx12),
		cmocka_unit_test(addresses_of_the_kernel_and_of_hives),
		cmocka_unit_test(a_first_level_with_large_blocks),
		cmocka_unit_test(wrong_tables_end_the_walk),
		cmocka_unit_test(random_tables_end_the_walk),
		cmocka_unit_test(each_hub_has_its_registers),
	};
	return cmocka_run_group_tests_name("vm", tests, load, unload);
}

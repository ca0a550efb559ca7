// The driver's table gpu_metrics in each of its versions. The structs are those of the kernel's header, laid out by this compiler, so that
// the layouts of knowledge/ are held against something that was not made of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gpu/bad_pages.h"
#include "gpu/find/device.h"
#include "gpu/metrics.h"
#include "watch/pulse/errors.h"

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

struct head {
	uint16_t size;
	uint8_t format, content;
};

struct v1_0 {
	struct head head;
	uint64_t clock;
	uint16_t temperatures[6], activity[3], power;
	uint32_t energy;
	uint16_t average[7], current[7];
	uint32_t throttle;
	uint16_t fan;
	uint8_t width, speed;
};
struct v1_1 {
	struct head head;
	uint16_t temperatures[6], activity[3], power;
	uint64_t energy, clock;
	uint16_t average[7], current[7];
	uint32_t throttle;
	uint16_t fan, width, speed, padding;
	uint32_t gfx, mem;
	uint16_t hbm[4];
};
struct v1_3 {
	struct v1_1 first;
	uint64_t timestamp;
	uint16_t voltages[3], padding;
	uint64_t indep;
};
struct links {
	uint16_t pcie_width, pcie_speed, xgmi_width, xgmi_speed;
	uint32_t gfx, mem;
	uint64_t bandwidth, now, recoveries, replays, rollovers;
};
struct v1_4 {
	struct head head;
	uint16_t temperatures[3], power, activity[2], vcn[4];
	uint64_t energy, clock;
	uint32_t throttle, lock;
	struct links links;
	uint64_t xgmi[16], timestamp;
	uint16_t clocks[8 + 4 + 4 + 4 + 1], padding;
};
struct v1_5 {
	struct head head;
	uint16_t temperatures[3], power, activity[2], vcn[4], jpeg[32];
	uint64_t energy, clock;
	uint32_t throttle, lock;
	struct links links;
	uint32_t nak_sent, nak_received;
	uint64_t xgmi[16], timestamp;
	uint16_t clocks[8 + 4 + 4 + 4 + 1], padding;
};
struct xcp {
	uint32_t busy[8];
	uint16_t jpeg[32], vcn[4];
	uint64_t acc[8];
};
struct xcp_8 {
	uint32_t busy[8];
	uint16_t jpeg[40], vcn[4];
	uint64_t acc[5 * 8];
};
struct v1_6 {
	struct head head;
	uint16_t temperatures[3], power, activity[2];
	uint64_t energy, clock;
	uint32_t cycles, prochot, ppt, socket, vr, hbm, lock;
	uint16_t pcie_width, pcie_speed, xgmi_width, xgmi_speed;
	uint32_t gfx, mem;
	uint64_t bandwidth, now, recoveries, replays, rollovers;
	uint32_t nak_sent, nak_received;
	uint64_t xgmi[16], timestamp;
	uint16_t clocks[8 + 4 + 4 + 4 + 1], partitions;
	struct xcp xcp[8];
	uint32_t other_end;
};
struct v1_8 {
	struct head head;
	uint16_t temperatures[3], power, activity[2];
	uint64_t most, energy, clock;
	uint32_t cycles, prochot, ppt, socket, vr, hbm, lock;
	uint16_t pcie_width, pcie_speed, xgmi_width, xgmi_speed;
	uint32_t gfx, mem;
	uint64_t bandwidth, now, recoveries, replays, rollovers;
	uint32_t nak_sent, nak_received;
	uint64_t xgmi[16];
	uint16_t link_status[8], padding;
	uint64_t timestamp;
	uint16_t clocks[8 + 4 + 4 + 4 + 1], partitions;
	struct xcp_8 xcp[8];
	uint32_t other_end;
};
struct v2_2 {
	struct head head;
	uint16_t temperatures[12], activity[2];
	uint64_t clock;
	uint16_t powers[12], average[6], current[6], core[8], l3[2];
	uint32_t throttle;
	uint16_t fan, padding[3];
	uint64_t indep;
};
struct v3_0 {
	struct head head;
	uint16_t temperatures[19], activity[1 + 1 + 8 + 16 + 4];
	uint64_t clock;
	uint32_t socket;
	uint16_t ipu;
	uint32_t apu, gfx, dgpu, cores;
	uint16_t core[16], system, limit, limit_now, average[8], current[16], core_most, gfx_most;
	uint32_t prochot, spl, fppt, sppt, thm_core, thm_gfx, thm_soc, alpha;
};

/** A table with all bits set but for its head. */
#define TABLE(type, f, c)                                                                                                      \
	struct type t;                                                                                                         \
	memset(&t, 0xff, sizeof(t));                                                                                           \
	struct head *head = (struct head *)&t;                                                                                 \
	*head = (struct head){ sizeof(t), f, c };                                                                              \
	const struct str bytes = { (const char *)&t, sizeof(t) };                                                              \
	struct metrics m;                                                                                                      \
	uint64_t value = 0;                                                                                                    \
	(void)value

#define HAS(field, index, number)                                                                                              \
	do {                                                                                                                   \
		assert_true(metrics_value(&m, S(field), index, &value));                                                       \
		assert_int_equal(value, number);                                                                               \
	} while (0)

static void test_old(void **state)
{
	{
		TABLE(v1_0, 1, 0);
		t.fan = 1200, t.width = 16, t.speed = 160, t.temperatures[1] = 61;
		assert_true(metrics_of(*state, bytes, &m));
		HAS("pcie_link_width", 0, 16);
		HAS("pcie_link_speed", 0, 160);
		HAS("current_fan_speed", 0, 1200);
		HAS("temperature_hotspot", 0, 61);
	}
	{
		TABLE(v1_1, 1, 1);
		t.width = 8, t.hbm[3] = 70;
		assert_true(metrics_of(*state, bytes, &m));
		HAS("pcie_link_width", 0, 8);
		HAS("temperature_hbm", 3, 70);
		assert_false(metrics_value(&m, S("temperature_hbm"), 4, &value));
		assert_false(metrics_value(&m, S("temperature_hbm"), 0, &value)); // all bits are set: the part does not have it
	}
	TABLE(v1_3, 1, 3);
	t.indep = UINT64_C(1) << 47 | UINT64_C(1) << 34 | 1;
	assert_true(metrics_of(*state, bytes, &m));
	HAS("indep_throttle_status", 0, t.indep);
	struct metrics_cause causes[METRICS_CAUSES];
	_cleanup_arena_ struct arena a = { 0 };
	assert_int_equal(metrics_throttle(&m, &m, causes), 3);
	assert_true(str_is(metrics_throttle_text(&a, causes, 3), "power, memory-temperature, prochot"));
	t.first.throttle = 0xffff; // means something else on each part
	t.indep = 0;
	assert_int_equal(metrics_throttle(&m, &m, causes), 0);
}

static void test_instinct(void **state)
{
	{
		TABLE(v1_4, 1, 4);
		t.links.replays = 7, t.links.pcie_width = 16, t.clocks[20] = 900;
		assert_true(metrics_of(*state, bytes, &m));
		HAS("pcie_replay_count_acc", 0, 7);
		HAS("current_uclk", 0, 900);
	}
	{
		TABLE(v1_5, 1, 5);
		t.nak_received = 3, t.links.pcie_speed = 320, t.timestamp = 12345;
		assert_true(metrics_of(*state, bytes, &m));
		HAS("pcie_nak_rcvd_count_acc", 0, 3);
		HAS("pcie_link_speed", 0, 320);
		HAS("firmware_timestamp", 0, 12345);
	}
	TABLE(v1_8, 1, 8);
	t.link_status[6] = 1, t.link_status[7] = 0, t.other_end = 9, t.replays = 4;
	assert_true(metrics_of(*state, bytes, &m));
	HAS("xgmi_link_status", 6, 1);
	HAS("xgmi_link_status", 7, 0);
	HAS("pcie_lc_perf_other_end_recovery", 0, 9);
	HAS("pcie_replay_count_acc", 0, 4);
}

/** What slows it down is a share of the time between two tables. */
static void test_residency(void **state)
{
	struct metrics_cause causes[METRICS_CAUSES];
	struct metrics older;
	TABLE(v1_6, 1, 6);
	t.cycles = 1000, t.prochot = t.socket = t.vr = t.hbm = 0, t.ppt = 500, t.other_end = 2;
	const struct v1_6 first = t;
	assert_true(metrics_of(*state, (struct str){ (const char *)&first, sizeof(first) }, &older));
	assert_true(metrics_of(*state, bytes, &m));
	HAS("pcie_lc_perf_other_end_recovery", 0, 2);
	assert_true(metrics_counts_throttle(&older));
	assert_int_equal(metrics_throttle(&older, &m, causes), 0);
	t.cycles = 1200, t.prochot = 50, t.ppt = 699;
	assert_int_equal(metrics_throttle(&older, &m, causes), 2);
	assert_true(str_is(causes[0].cause, "prochot") && causes[0].percent == 25);
	assert_true(str_is(causes[1].cause, "power") && causes[1].percent == 99);
	t.cycles = 1000; // the same table again
	assert_int_equal(metrics_throttle(&older, &m, causes), 0);
	t.cycles = 10, t.prochot = 0, t.ppt = 1; // the driver was loaded again
	assert_int_equal(metrics_throttle(&older, &m, causes), 0);
}

static void test_apus(void **state)
{
	struct metrics_cause causes[METRICS_CAUSES];
	{
		TABLE(v2_2, 2, 2);
		t.indep = UINT64_C(1) << 36;
		assert_true(metrics_of(*state, bytes, &m));
		assert_int_equal(metrics_throttle(&m, &m, causes), 1);
		assert_true(str_is(causes[0].cause, "temperature"));
	}
	TABLE(v3_0, 3, 0);
	struct metrics older;
	t.prochot = t.spl = t.fppt = t.sppt = t.thm_core = t.thm_gfx = t.thm_soc = 5;
	const struct v3_0 first = t;
	assert_true(metrics_of(*state, (struct str){ (const char *)&first, sizeof(first) }, &older));
	assert_true(metrics_of(*state, bytes, &m));
	t.thm_gfx = 9, t.sppt = 6;
	assert_int_equal(metrics_throttle(&older, &m, causes), 2);
	assert_true(str_is(causes[0].cause, "power") && causes[0].percent == -1);
	assert_true(str_is(causes[1].cause, "temperature") && causes[1].percent == -1);
}

static size_t put_attribute(char *to, uint64_t id, uint64_t type, uint64_t n, const void *values, size_t size)
{
	const uint64_t what = type << 20 | id << 10 | n;
	memcpy(to, &what, sizeof(what));
	memcpy(to + sizeof(what), values, size);
	return sizeof(what) + size;
}

static size_t make_attributes(char *table, uint64_t cycles, uint32_t prochot)
{
	enum { U16 = 2, U32 = 4, U64 = 6, CYCLES = 9, PROCHOT = 10, LINKS = 31, UNKNOWN = 999 };
	const uint16_t links[8] = { 1, 1, 1, 1, 1, 1, 1, 0 };
	const uint32_t count = 4;
	size_t n = 8;
	n += put_attribute(table + n, UNKNOWN, U16, 3, "\1\2\3\4\5\6", 6);
	n += put_attribute(table + n, CYCLES, U64, 1, &cycles, sizeof(cycles));
	n += put_attribute(table + n, PROCHOT, U32, 1, &prochot, sizeof(prochot));
	n += put_attribute(table + n, LINKS, U16, 8, links, sizeof(links));
	memcpy(table + 4, &count, sizeof(count));
	*(struct head *)table = (struct head){ (uint16_t)n, 1, 9 };
	return n;
}

static void test_attributes(void **state)
{
	_Alignas(8) char one[256], two[256];
	struct metrics older, m;
	struct metrics_cause causes[METRICS_CAUSES];
	uint64_t value;
	const size_t n = make_attributes(one, 100, 7);
	make_attributes(two, 300, 17);
	assert_true(metrics_of(*state, (struct str){ one, n }, &older) && metrics_of(*state, (struct str){ two, n }, &m));
	HAS("xgmi_link_status", 6, 1);
	HAS("xgmi_link_status", 7, 0);
	assert_false(metrics_value(&m, S("xgmi_link_status"), 8, &value));
	assert_int_equal(metrics_throttle(&older, &m, causes), 1);
	assert_true(str_is(causes[0].cause, "prochot") && causes[0].percent == 5);
}

/** Cut at each byte, with each size in its head and each byte changed: nothing is read behind the end, and a table that is cut off is none. */
static void test_hostile(void **state)
{
	const struct know *k = *state;
	char table[4096], *copy;
	for (size_t i = 0; i < k->metrics.len; i++) {
		const struct know_metrics *l = k->metrics.data[i];
		size_t size = 0;
		for (size_t n = 4; n < sizeof(table) && !size; n++) {
			struct metrics m;
			memset(table, 1, sizeof(table));
			*(struct head *)table = (struct head){ (uint16_t)n, (uint8_t)l->format, (uint8_t)l->content };
			size = !l->names.n && metrics_of(k, (struct str){ table, n }, &m) && m.layout == l ? n : 0;
		}
		size = l->names.n ? make_attributes(table, 1, 1) : size;
		assert_true(size);
		for (size_t cut = 0; cut <= size; cut++) {
			struct metrics m;
			uint64_t value;
			copy = malloc(cut + 1); // so that AddressSanitizer sees what is read behind it
			memcpy(copy, table, cut);
			if (cut >= 4 && l->names.n)
				copy[0] = (char)cut, copy[1] = (char)(cut >> 8);
			const bool whole = metrics_of(k, (struct str){ copy, cut }, &m);
			assert_true(l->names.n ? whole == (cut >= 4) : whole == (cut == size));
			metrics_value(&m, S("xgmi_link_status"), 7, &value);
			metrics_value(&m, S("pcie_lc_perf_other_end_recovery"), 0, &value);
			metrics_counts_throttle(&m);
			free(copy);
		}
	}
	for (size_t at = 0; at < 80; at++)
		for (unsigned byte = 0; byte < 256; byte += 5) {
			struct metrics m;
			struct metrics_cause causes[METRICS_CAUSES];
			const size_t n = make_attributes(table, 1, 1);
			copy = malloc(n);
			memcpy(copy, table, n);
			copy[at % n] = (char)byte;
			metrics_of(k, (struct str){ copy, n }, &m);
			metrics_throttle(&m, &m, causes);
			free(copy);
		}
}

// --- counters of the driver ---

static void test_events(void **state)
{
	(void)state;
	const struct ras_events r = ras_events_parse(
		S("current seqno: 7\nFatal Error: count:1, last_seqno:7\nPoison Creation: count:3, last_seqno:2\nPoison Consumption: count:2, last_seqno:6\n"));
	assert_true(r.fatal == 1 && r.poison_created == 3 && r.poison_consumed == 2);
	assert_int_equal(ras_events_parse(S("Fault Error : count:4, last_seqno:0")).fatal, 4);
	assert_true(ras_events_parse(S("current seqno: 2")).odd); // cut off
	assert_false(ras_events_parse(S("")).odd);		  // there is no such file
	static const char *const nonsense[] = { "", "Fatal Error", "Fatal Error: count:", "Fatal Error: count:-1, ", "Fatal Error: count:99999999999999999999, " };
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++)
		assert_int_equal(ras_events_parse(str_z(nonsense[i])).fatal, -1);
	assert_int_equal(link_speed(S("16.0 GT/s PCIe")), 160);
	assert_int_equal(link_speed(S("2.5 GT/s PCIe")), 25);
	assert_int_equal(link_speed(S("Unknown")), -1);
}

/** The watch tells growth once, at the beat after it was seen; what was there when it began is old. */
static void test_growth(void **state)
{
	(void)state;
	const struct device d = { .sysfs = S("/sys/x"), .ras = { 1, 0, 0, 8, true } };
	struct error_count c;
	struct errors_told t, again;
	error_count_begin(&c, &d);
	assert_false(error_count_grew(&c, (struct ras_events){ 1, 0, 0, 1, true }, &t));
	assert_false(error_count_grew(&c, (struct ras_events){ 2, 0, 1, 1, true }, &t));
	assert_true(error_count_grew(&c, (struct ras_events){ 2, 0, 1, 1, true }, &t));
	assert_true(t.fatal == 1 && t.used == 1 && t.gpus == 8);
	assert_false(error_count_grew(&c, (struct ras_events){ 2, 0, 1, 1, true }, &t));
	assert_false(error_count_grew(&c, (struct ras_events){ 2, 5, 1, 1, true }, &t)); // marked data that nobody used
	assert_false(error_count_grew(&c, (struct ras_events){ -1, -1, -1, 1, true }, &t));
	assert_false(error_count_grew(&c, (struct ras_events){ 0, 0, 0, 1, true }, &t)); // another driver
	assert_false(error_count_grew(&c, (struct ras_events){ 0, 0, 0, 1, true }, &t));
	_cleanup_text_ struct text text = { 0 };
	errors_told_text(&(struct errors_told){ S("0000:03:00.0"), 1, 2, 8 }, &text);
	assert_true(errors_told_parse(text_str(&text), &again) && again.fatal == 1 && again.used == 2 && again.gpus == 8);
	for (size_t cut = 0; cut + 1 < text.n; cut++)
		assert_false(errors_told_parse(str_cut(text_str(&text), cut), &again));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_old),        cmocka_unit_test(test_instinct), cmocka_unit_test(test_residency),
		cmocka_unit_test(test_apus),       cmocka_unit_test(test_attributes), cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_events),     cmocka_unit_test(test_growth),
	};
	return cmocka_run_group_tests(tests, load, unload);
}

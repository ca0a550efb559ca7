// Whether a remedy is in force, does not exist or is not needed, by the facts alone; an incident against the machine as it is; and the
// doctor's verdict.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "diagnose/doctor/doctor.h"
#include "diagnose/doctor/verdict.h"
#include "diagnose/engine.h"
#include "diagnose/incident.h"
#include "evidence/reader.h"
#include "host/host.h"

#define REMEDY(id, lines)                                                                                                      \
	"remedy " id "\n    kind workaround\n    title t\n    for mes-unresponsive\n    do x\n    grade B\n    source "        \
	"s\n" lines
static const char blocks[] = REMEDY("sets", "    set amdgpu.cwsr_enable 0\n") REMEDY(
	"two", "    set amdgpu.cwsr_enable 0\n    set iommu pt\n") REMEDY("clears", "    clear amdgpu.ppfeaturemask 0x8000\n")
	REMEDY("env", "    env HSA_ENABLE_SDMA 0\n") REMEDY("drops", "    drop amdgpu.cwsr_enable\n")
		REMEDY("swaps", "    set iommu pt\n    drop amdgpu.cwsr_enable\n") REMEDY("plain", "") REMEDY(
			"old",
			"    set amdgpu.cwsr_enable 0\n    obsolete kernel >= 7.0 and rocm >= 7.2.1\n    until both are new\n")
			REMEDY("done", "    applied linux_firmware >= 20260101\n")
				REMEDY("newer", "    set amdgpu.num_kcq 4\n");

static int setup(void **state)
{
	struct know_problems problems = { 0 };
	*state = know_load_with("test", str_z(blocks), &problems);
	return (int)problems.count;
}

static int teardown(void **state)
{
	know_free(*state);
	return 0;
}

/** Facts as `NAME VALUE ...` words. */
static bool get_word(const void *ctx, struct str name, size_t index, struct str *ret)
{
	struct str rest = *(const struct str *)ctx;
	while (rest.n && !index) {
		struct str key = str_word(&rest), value = str_word(&rest);
		if (str_eq(key, name)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

static void expect(void **state, const char *remedy, const char *facts, enum remedy_state wanted, const char *because)
{
	struct str words = str_z(facts);
	const struct fact_view view = { get_word, &words };
	struct arena arena = { 0 };
	struct remedy_verdict v = remedy_judge(*state, know_remedy(*state, str_z(remedy)), &view, &arena);
	if (v.state != wanted || !str_eq(v.because, str_z(because)))
		fail_msg("%s with '%s' is %s: '" STR_FMT "'", remedy, facts, remedy_state_name(v.state), STR_ARG(v.because));
	arena_free(&arena);
}

#define IN_FORCE " is set, so it did not prevent this"

static void a_remedy_whose_setting_is_there_is_in_force(void **state)
{
	expect(state, "sets", "", REMEDY_TRY, "");
	expect(state, "sets", "param.amdgpu.cwsr_enable 1", REMEDY_TRY, "");
	expect(state, "sets", "param.amdgpu.cwsr_enable -1", REMEDY_TRY, "");
	expect(state, "sets", "param.amdgpu.cwsr_enable off", REMEDY_TRY, "");
	expect(state, "sets", "param.amdgpu.cwsr_enable 0", REMEDY_APPLIED, "amdgpu.cwsr_enable=0" IN_FORCE);
	expect(state, "sets", "param.amdgpu.cwsr_enable 0x00", REMEDY_APPLIED, "amdgpu.cwsr_enable=0" IN_FORCE);
	expect(state, "sets", "param.amdgpu.cwsr_enable N", REMEDY_APPLIED, "amdgpu.cwsr_enable=0" IN_FORCE);
	expect(state, "sets", "param.amdgpu.cwsr_enable Y", REMEDY_TRY, "");
	expect(state, "two", "param.amdgpu.cwsr_enable 0", REMEDY_TRY, "");
	expect(state, "two", "param.amdgpu.cwsr_enable 0 param.iommu nopt", REMEDY_TRY, "");
	expect(state, "two", "param.amdgpu.cwsr_enable 0 param.iommu pt", REMEDY_APPLIED,
	       "amdgpu.cwsr_enable=0 and iommu=pt" IN_FORCE);
	expect(state, "clears", "param.amdgpu.ppfeaturemask 0xfff7bfff", REMEDY_TRY, "");
	expect(state, "clears", "param.amdgpu.ppfeaturemask all", REMEDY_TRY, "");
	expect(state, "clears", "param.amdgpu.ppfeaturemask 0xfff73fff", REMEDY_APPLIED,
	       "amdgpu.ppfeaturemask=0xfff73fff" IN_FORCE);
	expect(state, "clears", "param.amdgpu.ppfeaturemask 0xffffffffffffffffff", REMEDY_TRY, "");
	expect(state, "env", "env.HSA_ENABLE_SDMA 1", REMEDY_TRY, "");
	expect(state, "env", "env.HSA_ENABLE_SDMA 0", REMEDY_APPLIED, "HSA_ENABLE_SDMA=0" IN_FORCE);
	expect(state, "drops", "param.amdgpu.cwsr_enable 0", REMEDY_TRY, "");
	expect(state, "swaps", "param.iommu pt param.amdgpu.cwsr_enable 0", REMEDY_TRY, "");
	expect(state, "plain", "param.amdgpu.cwsr_enable 0", REMEDY_TRY, "");
}

static void a_remedy_that_a_version_brings_is_needless(void **state)
{
	expect(state, "old", "kernel 6.18.1 rocm 7.2.1", REMEDY_TRY, "");
	expect(state, "old", "kernel 7.0.1", REMEDY_TRY, "");
	expect(state, "old", "kernel 7.0.1 rocm 7.2.1", REMEDY_SUPERSEDED,
	       "not needed once both are new: this machine has kernel 7.0.1 and ROCm 7.2.1");
	expect(state, "old", "kernel 7.0.1 rocm 7.2.1 param.amdgpu.cwsr_enable 0", REMEDY_SUPERSEDED,
	       "not needed once both are new: this machine has kernel 7.0.1 and ROCm 7.2.1; amdgpu.cwsr_enable=0 is set "
	       "anyway");
	expect(state, "done", "linux_firmware 20251111", REMEDY_TRY, "");
	expect(state, "done", "linux_firmware 20260221", REMEDY_APPLIED, "this machine has linux-firmware 20260221 already");
	expect(state, "newer", "kernel 6.12.5", REMEDY_TRY, "");
	expect(state, "newer", "", REMEDY_TRY, "");
	expect(state, "newer", "kernel 5.4.0", REMEDY_NO_SUCH, "Linux 5.4.0 has no parameter amdgpu.num_kcq");
}

static void a_mask_is_computed_from_the_one_that_is_set(void **state)
{
	static const struct {
		const char *facts, *numbers;
	} cases[] = {
		{ "", "" },
		{ "param.amdgpu.ppfeaturemask 0xfff7bfff", "amdgpu.ppfeaturemask=0xfff73fff" },
		{ "param.amdgpu.ppfeaturemask 4294967295", "amdgpu.ppfeaturemask=0xffff7fff" },
		{ "param.amdgpu.ppfeaturemask what", "" },
	};
	struct arena arena = { 0 };
	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		struct str words = str_z(cases[n].facts);
		const struct fact_view view = { get_word, &words };
		struct str numbers = remedy_numbers(&know_remedy(*state, S("clears"))->change, &view, &arena);
		assert_true(str_is(numbers, cases[n].numbers));
	}
	arena_free(&arena);
}

// --- an incident against the machine as it is ---

struct reading {
	struct engine *engine;
	struct incident *incident;
};

static void on_event(void *ctx, const struct event *e) { engine_event(((struct reading *)ctx)->engine, e); }

static void on_incident(void *ctx, struct incident *i)
{
	struct reading *r = ctx;
	assert_null(r->incident);
	r->incident = i;
}

static ssize_t read_memory(struct source *s, void *buffer, size_t size, struct uh_error **ret_err)
{
	(void)ret_err;
	struct str *left = s->ctx;
	size_t n = size < left->n ? size : left->n;
	memcpy(buffer, left->p, n);
	*left = str_from(*left, n);
	return (ssize_t)n;
}

static struct incident *mes_hang(const struct know *k)
{
	struct reading r = { 0 };
	struct str text =
		S("[    0.000000] Linux version 6.12.5 (b@h) (gcc) #1\n"
		  "[    0.000000] Command line: amdgpu.cwsr_enable=1\n"
		  "[    3.200000] amdgpu 0000:03:00.0: amdgpu: initializing kernel modesetting (IP DISCOVERY 0x1002:0x1586 "
		  "0x1002:0x1586 0xC1).\n"
		  "[  500.000000] amdgpu 0000:03:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE\n");
	struct source source = { .name = "dmesg", .read = read_memory, .ctx = &text };
	r.engine = engine_new(k, (struct incident_sink){ on_incident, NULL, NULL, &r });
	struct evidence_reader *reader = evidence_reader_new(k, (struct event_sink){ on_event, &r });
	assert_null(evidence_read(reader, &source));
	engine_end(r.engine);
	engine_free(r.engine);
	evidence_reader_free(reader);
	assert_non_null(r.incident);
	return r.incident;
}

static enum remedy_state state_of(const struct incident *i, const char *id)
{
	for (size_t n = 0; n < i->remedies.len; n++)
		if (str_is(i->remedies.data[n].remedy->head.id, id))
			return i->remedies.data[n].verdict.state;
	fail_msg("%s is not among the remedies", id);
	return REMEDY_TRY;
}

static void remedies_are_held_against_this_machine_and_boot_only(void **state)
{
	struct incident *i = mes_hang(*state);
	struct host host = { .know = *state };
	struct host_item *machine = host_add(&host, "machine", NULL);
	host_note(&host, machine, "param.amdgpu.cwsr_enable", S("0"), S("/sys/module/amdgpu/parameters/cwsr_enable"));
	host_note(&host, machine, "rocm", S("7.2.1"), S("/opt/rocm/.info/version"));
	host_note(&host, machine, "kernel", S("7.0.1"), S("/proc/sys/kernel/osrelease"));
	incident_advise(i, *state, NULL);
	assert_int_equal(state_of(i, "cwsr-off"), REMEDY_TRY);
	incident_advise(i, *state, &host); // of an earlier boot, as far as is known
	assert_int_equal(state_of(i, "cwsr-off"), REMEDY_TRY);
	i->this_boot = true;
	incident_advise(i, *state, &host); // what is in effect counts, and the log knows its kernel best
	assert_int_equal(state_of(i, "cwsr-off"), REMEDY_APPLIED);
	assert_true(str_is(i->remedies.data[i->remedies.len - 1].where, "/sys/module/amdgpu/parameters/cwsr_enable"));
	incident_free(i);
	host_free(&host);
}

/** A watch concludes more than once. What turned out to be unrelated is no cause any more, whatever was concluded before. */
static void a_cause_can_be_taken_back(void **state)
{
	struct incident *i = mes_hang(*state);
	assert_true(i->cause && i->root);
	assert_true(incident_conclude(i, *state));
	for (size_t n = 0; n < i->events.len; n++)
		i->events.data[n]->unrelated = true;
	assert_false(incident_conclude(i, *state));
	assert_null(i->root);
	assert_null(i->cause);
	incident_free(i);
}

/** One thing that was needed and not read is enough; debugfs is needed only for firmware that sysfs does not tell. */
static void no_all_clear_without_what_is_needed(void **state)
{
	const struct findings none = { 0 };
	for (int needed = 0; needed <= 2; needed++) {
		struct host host = { .know = *state };
		struct host_item *machine = host_add(&host, "machine", NULL);
		host.devices.n = 1;
		assert_int_equal(doctor_verdict(&host, &none), UH_HEALTHY);
		if (needed)
			host_note(&host, machine, "unread", needed == 1 ? S("the kernel's log") : S("debugfs"), S("/"));
		assert_int_equal(doctor_verdict(&host, &none), needed == 1 ? UH_UNKNOWN : UH_HEALTHY);
		host.devices.n = 0;
		assert_int_equal(doctor_verdict(&host, &none), UH_UNKNOWN);
		host_free(&host);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_remedy_whose_setting_is_there_is_in_force),
		cmocka_unit_test(a_remedy_that_a_version_brings_is_needless),
		cmocka_unit_test(a_mask_is_computed_from_the_one_that_is_set),
		cmocka_unit_test(remedies_are_held_against_this_machine_and_boot_only),
		cmocka_unit_test(a_cause_can_be_taken_back),
		cmocka_unit_test(no_all_clear_without_what_is_needed),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

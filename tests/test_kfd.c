// The emulated KFD from inside: plans, code in memory, memory, events, and what the machine makes of what guests tell.
#include <elf.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "emulator/guest/guest.h"
#include "emulator/machine.h"
#include "emulator/thunk/interface.h"
#include "kfd_check.h"

static const char plan_text[] =
	"gpu gfx90a pci 0000:83:00.0 vram 8G cus 13 name A card\ngpu gfx1030 node 4 # the second\n"
	"hang kernel saxpy launch 3; hang allocation of 64M\n"
	"fault launch 2 at argument 1 plus 0x1000 write\nexception kernel a* math-error\nslow kernel b 0.25\n"
	"vram closed\n";

static void plans_say_what_they_say(void **state)
{
	struct kfd_plan p = { 0 };
	char why[PLAN_WHY];
	(void)state;
	assert_true(plan_read(&p, str_z(plan_text), why));
	assert_int_equal(p.ngpus, 2);
	assert_string_equal(p.gpus[0].name, "A card");
	assert_int_equal(p.gpus[0].location, 0x8300);
	assert_int_equal(p.gpus[0].vram, UINT64_C(8) << 30);
	assert_int_equal(p.gpus[0].cus, 13);
	assert_int_equal(p.gpus[1].node, 4);
	assert_true(p.closed);
	assert_int_equal(p.nrules, 5);
	assert_int_equal(p.rules[0].nth, 3);
	assert_true(p.rules[1].allocation && p.rules[1].bytes == 64 << 20);
	assert_true(p.rules[2].argument == 1 && p.rules[2].address == 0x1000 && p.rules[2].write);
	assert_int_equal(p.rules[3].code, 3);
	assert_true(p.rules[4].seconds == 0.25);
}

static void damaged_plans_are_refused_or_read(void **state)
{
	(void)state;
	for (size_t n = 0; n < sizeof(plan_text); n++) {
		_cleanup_free_ char *cut = mem_alloc(n + 1); // without a NUL behind it
		memcpy(cut, plan_text, n);
		assert_null(plan_complaint(cut, n));
		for (int bit = 0; bit < 8 && n; bit++) {
			cut[n - 1] = (char)(plan_text[n - 1] ^ 1 << bit);
			assert_null(plan_complaint(cut, n));
		}
	}
}

static void names_are_found_in_symbols(void **state)
{
	static const char *const names[][2] = {
		{ "_Z5saxpyPKfPffi", "saxpy" },  { "_ZN2at6native4copyEPf", "copy" }, { "saxpy", "saxpy" },
		{ "_ZL4fillPffi", "fill" },      { "_Z99saxpy", "_Z99saxpy" },        { "_Z", "_Z" },
		{ "_Z4copyIfEvPT_S0_m", "copy" }
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_true(str_is(plan_plain_name(str_z(names[i][0])), names[i][1]));
	struct plan_rule r = { .kernel = "sax*" };
	assert_true(plan_names(&r, S("_Z5saxpyPKfPffi")));
	assert_false(plan_names(&r, S("_Z4fillPffi")));
}

// --- code ---

/** A code object as the runtime lays it out in memory. */
static char *image_of(const char *path, size_t *ret_size)
{
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	size_t n = 0, most = 1 << 20;
	_cleanup_free_ char *bytes = mem_alloc(most);
	n = fread(bytes, 1, most, f);
	fclose(f);
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)(const void *)bytes;
	const Elf64_Phdr *s = (const Elf64_Phdr *)(const void *)(bytes + h->e_phoff);
	*ret_size = 0;
	for (size_t i = 0; i < h->e_phnum; i++)
		if (s[i].p_type == PT_LOAD && s[i].p_vaddr + s[i].p_memsz > *ret_size)
			*ret_size = s[i].p_vaddr + s[i].p_memsz;
	char *image = mem_alloc(*ret_size);
	for (size_t i = 0; i < h->e_phnum; i++)
		if (s[i].p_type == PT_LOAD && s[i].p_offset + s[i].p_filesz <= n)
			memcpy(image + s[i].p_vaddr, bytes + s[i].p_offset, s[i].p_filesz);
	return image;
}

static void kernels_are_found_in_memory(void **state)
{
	size_t size, kernels = 0;
	(void)state;
	_cleanup_free_ char *image = image_of(SAMPLE_KERNEL, &size);
	assert_null(code_in_memory_complaint(image, size, &kernels));
	assert_true(kernels > 0);
	assert_null(code_in_memory_complaint(image + 1, size - 1, &kernels));
	assert_int_equal(kernels, 0);
}

static void damaged_code_does_no_harm(void **state)
{
	enum { BITS = 8 };
	size_t size;
	(void)state;
	_cleanup_free_ char *image = image_of(SAMPLE_KERNEL, &size);
	for (size_t n = 0; n < size; n += n < 4096 ? 1 : 61)
		assert_null(code_in_memory_complaint(image, n, NULL));
	for (size_t at = 0; at < 2048 && at < size; at++) {
		image[at] ^= (char)(1 << at % BITS);
		assert_null(code_in_memory_complaint(image, size, NULL));
		image[at] ^= (char)(1 << at % BITS);
	}
}

// --- memory ---

static bool reaches(uint32_t node, uint64_t address, bool write, uint64_t *ret_size)
{
	struct thunk *t = thunk_get();
	pthread_rwlock_rdlock(&t->memory);
	bool there = memory_reach(t, node, address, write, ret_size);
	pthread_rwlock_unlock(&t->memory);
	return there;
}

static void memory_is_reached_where_it_is_mapped(void **state)
{
	void *p = NULL;
	uint64_t size = 0, other = 0;
	uint32_t first = 1, both[] = { 1, 2 };
	(void)state;
	assert_int_equal(hsaKmtAllocMemory(1, 2 * KMT_PAGE, KMT_MEMORY_HOST, &p), KMT_SUCCESS);
	uint64_t at = (uintptr_t)p;
	assert_false(reaches(1, at, false, &size));
	assert_int_equal(hsaKmtMapMemoryToGPUNodes(p, 2 * KMT_PAGE, &other, 0, 1, &first), KMT_SUCCESS);
	assert_int_equal(other, at);
	assert_true(reaches(1, at + 1, true, &size));
	assert_int_equal(size, 2 * KMT_PAGE - 1);
	assert_false(reaches(2, at, false, &size));
	assert_false(reaches(1, at - 1, false, &size));
	assert_true(reaches(1, at + 2 * KMT_PAGE - 1, false, &size));
	assert_int_equal(size, 1);
	assert_false(reaches(1, at + 2 * KMT_PAGE, false, &size));
	assert_int_equal(hsaKmtMapMemoryToGPUNodes(p, 2 * KMT_PAGE, &other, 0, 2, both), KMT_SUCCESS);
	assert_true(reaches(2, at, false, &size));
	assert_int_equal(hsaKmtUnmapMemoryToGPU(p), KMT_SUCCESS);
	assert_false(reaches(2, at, false, &size));
	assert_int_equal(hsaKmtFreeMemory((char *)p + KMT_PAGE, KMT_PAGE), KMT_INVALID_PARAMETER);
	assert_int_equal(hsaKmtFreeMemory(p, 2 * KMT_PAGE), KMT_SUCCESS);
	assert_int_equal(hsaKmtFreeMemory(p, 2 * KMT_PAGE), KMT_INVALID_PARAMETER);
	assert_int_equal(hsaKmtAllocMemory(1, KMT_PAGE - 1, 0, &p), KMT_INVALID_PARAMETER);
	assert_int_equal(hsaKmtAllocMemory(7, KMT_PAGE, 0, &p), KMT_INVALID_PARAMETER);
	assert_int_equal(hsaKmtAllocMemory(2, UINT64_C(9) << 30, 0, &p), KMT_NO_MEMORY);
}

static void registered_memory_has_an_address_of_its_own(void **state)
{
	_Alignas(64) char own[3 * KMT_PAGE];
	struct kmt_pointer info;
	uint64_t gpu = 0, size;
	uint32_t node = 1;
	(void)state;
	char *p = own + 100;
	assert_int_equal(hsaKmtRegisterMemoryWithFlags(p, KMT_PAGE, 0), KMT_SUCCESS);
	assert_int_equal(hsaKmtMapMemoryToGPUNodes(p, KMT_PAGE, &gpu, 0, 1, &node), KMT_SUCCESS);
	assert_int_not_equal(gpu, (uintptr_t)p);
	assert_int_equal(gpu % KMT_PAGE, (uintptr_t)p % KMT_PAGE);
	assert_true(reaches(1, gpu, true, &size));
	assert_false(reaches(1, (uintptr_t)p, false, &size));
	assert_int_equal(hsaKmtQueryPointerInfo(p + 5, &info), KMT_SUCCESS);
	assert_true(info.type == KMT_POINTER_USER && info.host == p && info.gpu == gpu && info.size == KMT_PAGE);
	assert_int_equal(hsaKmtRegisterMemoryWithFlags(p, KMT_PAGE, 0), KMT_SUCCESS); // twice
	assert_int_equal(hsaKmtDeregisterMemory(p), KMT_SUCCESS);
	assert_true(reaches(1, gpu, true, &size));
	assert_int_equal(hsaKmtDeregisterMemory(p), KMT_SUCCESS);
	assert_false(reaches(1, gpu, true, &size));
	assert_int_equal(hsaKmtDeregisterMemory(p), KMT_INVALID_PARAMETER);
	assert_int_equal(hsaKmtQueryPointerInfo(p, &info), KMT_ERROR);
	assert_int_equal(info.type, KMT_POINTER_UNKNOWN);
}

static void what_is_said_of_ranges_is_answered(void **state)
{
	struct kmt_svm_attribute set[] = { { KMT_SVM_ACCESS, 1 }, { KMT_SVM_PREFERRED, 2 }, { KMT_SVM_SET_FLAGS, 3 } };
	struct kmt_svm_attribute ask[] = {
		{ KMT_SVM_ACCESS, 1 }, { KMT_SVM_ACCESS, 2 }, { KMT_SVM_PREFERRED, 0 }, { KMT_SVM_SET_FLAGS, 0 }
	};
	_Alignas(KMT_PAGE) static char own[2 * KMT_PAGE];
	uint64_t size;
	(void)state;
	assert_int_equal(hsaKmtSVMSetAttr(own, sizeof(own), 3, set), KMT_SUCCESS);
	assert_int_equal(hsaKmtSVMGetAttr(own + KMT_PAGE, KMT_PAGE, 4, ask), KMT_SUCCESS);
	assert_int_equal(ask[0].type, KMT_SVM_ACCESS);
	assert_int_equal(ask[1].type, KMT_SVM_NO_ACCESS);
	assert_true(ask[2].value == 2 && ask[3].value == 3);
	assert_true(reaches(1, (uintptr_t)own, true, &size));
	assert_false(reaches(2, (uintptr_t)own, true, &size));
	set[0].type = KMT_SVM_NO_ACCESS;
	assert_int_equal(hsaKmtSVMSetAttr(own, sizeof(own), 1, set), KMT_SUCCESS);
	assert_false(reaches(1, (uintptr_t)own, true, &size));
	assert_int_equal(hsaKmtSVMSetAttr(own + 1, sizeof(own), 1, set), KMT_INVALID_PARAMETER);
}

// --- events ---

static void *wait_for(void *event) { return (void *)(intptr_t)hsaKmtWaitOnEvent(event, 60000); }

/** Until both wait: they are counted where the driver counts them. */
static void until_waiting(const struct kmt_event *e, unsigned n)
{
	struct thunk *t = thunk_get();
	for (unsigned waiting = 0; waiting < n; sleep_seconds(0.001)) {
		pthread_mutex_lock(&t->lock);
		waiting = t->slots[e->id]->waiters;
		pthread_mutex_unlock(&t->lock);
	}
}

static void events_wake_who_waits(void **state)
{
	struct kmt_event_wanted wanted = { .type = KMT_EVENT_SIGNAL };
	struct kmt_event *e, *f;
	pthread_t threads[2];
	(void)state;
	assert_int_equal(hsaKmtCreateEvent(&wanted, false, false, &e), KMT_SUCCESS);
	assert_int_equal(hsaKmtCreateEvent(&wanted, true, false, &f), KMT_SUCCESS);
	assert_int_equal(hsaKmtWaitOnEvent(e, 1), KMT_WAIT_TIMEOUT);
	hsaKmtSetEvent(e);
	assert_int_equal(hsaKmtWaitOnEvent(e, 0), KMT_SUCCESS);
	assert_int_equal(hsaKmtWaitOnEvent(e, 0), KMT_WAIT_TIMEOUT); // it was taken
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for, e), 0);
	until_waiting(e, 2);
	hsaKmtSetEvent(e);
	for (size_t i = 0; i < 2; i++) {
		void *status;
		assert_int_equal(pthread_join(threads[i], &status), 0);
		assert_null(status);
	}
	hsaKmtSetEvent(f);
	struct kmt_event *all[] = { e, f };
	assert_int_equal(hsaKmtWaitOnMultipleEvents(all, 2, false, 0), KMT_SUCCESS);
	assert_int_equal(hsaKmtWaitOnMultipleEvents(all, 2, true, 1), KMT_WAIT_TIMEOUT);
	assert_int_equal(hsaKmtWaitOnEvent(f, 0), KMT_SUCCESS); // it stays set
	hsaKmtDestroyEvent(e);
	hsaKmtDestroyEvent(f);
}

static void faults_come_with_their_events(void **state)
{
	struct kmt_event_wanted wanted = { .type = KMT_EVENT_MEMORY };
	struct kmt_fault fault = {
		.node = 2, .address = 0x7f0000001000, .failure = KMT_FAULT_NOT_PRESENT, .severity = KMT_FAULT_FATAL
	};
	struct kmt_event *e;
	(void)state;
	assert_int_equal(hsaKmtCreateEvent(&wanted, true, false, &e), KMT_SUCCESS);
	event_fault(thunk_get(), &fault);
	assert_int_equal(e->fault.address, 0); // the runtime sees it when its wait ends
	assert_int_equal(hsaKmtWaitOnEvent(e, 0), KMT_SUCCESS);
	assert_true(e->fault.address == fault.address && e->fault.node == 2 && e->fault.severity == KMT_FAULT_FATAL);
	hsaKmtDestroyEvent(e);
}

// --- guests ---

static struct know *knowledge(void)
{
	struct know_problems problems = { 0 };
	return know_load(&problems);
}

static uint32_t hqd_word(const struct emu_machine *m, size_t queue, const char *name)
{
	uint32_t pairs[256][2];
	struct reg r;
	const struct emu_gpu *g = emu_gpu(m, 0);
	assert_true(emu_gc_register(g, name, &r));
	size_t n = emu_queue_hqd(m, queue, 2, pairs);
	for (size_t i = 0; i < n; i++)
		if (pairs[i][0] == emu_gc_address(g, 0, &r))
			return pairs[i][1];
	fail_msg("%s", name);
	return 0;
}

static bool busy(const struct emu_machine *m)
{
	const struct emu_gpu *g = emu_gpu(m, 0);
	struct reg r;
	assert_true(emu_gc_register(g, "GRBM_STATUS", &r));
	bool active = emu_register(g, &BANK_NONE, emu_gc_address(g, 0, &r), 5) >> 31;
	assert_int_equal(emu_number(g, EMU_BUSY, 5), active ? 100 : 0);
	return active;
}

static void the_machine_shows_guests(void **state)
{
	static volatile uint64_t record[32];
	uint32_t words[WAVE_WORDS_MOST];
	struct know *k = knowledge();
	struct emu_machine *m;
	(void)state;
	assert_null(emu_read(k, "guest", S("gpu 0000:03:00.0\n part gfx90a\nkfd\n hang launch 1\n"), &m));
	struct text text = { 0 };
	emu_kfd_text(m, &text);
	struct kfd_plan plan = { 0 };
	char why[PLAN_WHY] = "", line[256];
	assert_true(plan_read(&plan, text_str(&text), why) && plan.ngpus == 1 && plan.nrules == 1);
	text_free(&text);
	struct emu_process *p = emu_guest_join(m, S("job"), (int)getpid());
	snprintf(line, sizeof(line), "queue 3 gpu %u ring 0x7f1200000000 size 0x10000 read %p write %p",
		 emu_facts(emu_gpu(m, 0))->gpu_id, (const void *)&record[16], (const void *)&record[7]);
	assert_true(emu_guest_tells(m, p, str_z(line), 1));
	assert_false(emu_guest_tells(m, p, str_z(line), 1)); // it has that queue
	record[16] = 41;
	record[7] = 43;
	assert_int_equal(emu_queues(m), 1);
	assert_int_equal(hqd_word(m, 0, "CP_HQD_PQ_RPTR"), 41 * 16);
	assert_int_equal(hqd_word(m, 0, "CP_HQD_PQ_WPTR_LO"), 43 * 16);
	assert_int_equal(hqd_word(m, 0, "CP_HQD_PQ_BASE"), 0x12000000);
	assert_int_equal(hqd_word(m, 0, "CP_HQD_PQ_RPTR_REPORT_ADDR"), (uint32_t)(uintptr_t)&record[16]);
	assert_false(busy(m));
	assert_true(emu_guest_tells(m, p, S("hang 3 pc 0x7f1210000100 waves 7"), 2));
	assert_true(busy(m));
	assert_true(emu_wave(emu_gpu(m, 0), &(struct wave_slot){ 0 }, 3, words) > 3);
	assert_true((words[2] & ~0xffu) == 0x10000100 && words[3] == 0x7f12);
	assert_true(emu_guest_tells(m, p, S("fault 3 address 0x7f0000123000 write 1"), 2.5));
	assert_true(emu_messages(m) > 3 && emu_message(m, 0).time == EMU_UPTIME + 2.5);
	assert_true(str_find(emu_message(m, 0).text, S("no-retry page fault")) > 0);
	assert_true(str_find(emu_message(m, 2).text, S("VM_L2_PROTECTION_FAULT_STATUS:0x00841031")) > 0);
	for (size_t i = 0; i < 3; i++)
		assert_false(
			emu_guest_tells(m, p, ((struct str[]){ S("nonsense"), S("hang 9 pc 1 waves 1"), S("queue") })[i], 3));
	struct emu_process *second = emu_guest_join(m, S("second"), 2);
	assert_true(emu_guest_tells(m, second, str_z(line), 3));
	assert_true(emu_guest_tells(m, second, S("hang 3 pc 0x7f1210000100 waves 7"), 3));
	emu_guest_leave(m, p, 4);
	assert_true(busy(m)); // the other hangs too
	struct emu_process *third = emu_guest_join(m, S("third"), 3);
	assert_int_equal(emu_process_pasid(third), emu_process_pasid(second) + 1);
	emu_guest_leave(m, second, 4);
	emu_guest_leave(m, third, 4);
	assert_int_equal(emu_queues(m), 0);
	assert_int_equal(emu_processes(m), 0);
	assert_false(busy(m));
	emu_free(m);
	know_free(k);
}

static void whatever_guests_tell_is_taken_or_refused(void **state)
{
	static const char told[] = "queue 0 gpu 7890 ring 0x7f1200000000 size 0x10000 read 0x10 write 0x20\nvram 7890 4096\n"
				   "hang 0 pc 0x7f1210000100 waves 3\nfault 0 address 0x1000 write 0\nend 0\n";
	struct know *k = knowledge();
	(void)state;
	for (size_t n = 0; n < sizeof(told); n += n < 80 ? 1 : 3)
		assert_null(guest_complaint(k, told, n));
	know_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans_say_what_they_say),
		cmocka_unit_test(damaged_plans_are_refused_or_read),
		cmocka_unit_test(names_are_found_in_symbols),
		cmocka_unit_test(kernels_are_found_in_memory),
		cmocka_unit_test(damaged_code_does_no_harm),
		cmocka_unit_test(memory_is_reached_where_it_is_mapped),
		cmocka_unit_test(registered_memory_has_an_address_of_its_own),
		cmocka_unit_test(what_is_said_of_ranges_is_answered),
		cmocka_unit_test(events_wake_who_waits),
		cmocka_unit_test(faults_come_with_their_events),
		cmocka_unit_test(the_machine_shows_guests),
		cmocka_unit_test(whatever_guests_tell_is_taken_or_refused),
	};
	setenv("UNHANG_KFD", "gpu gfx90a; gpu gfx1030 vram 8G", 1);
	if (hsaKmtOpenKFD() != KMT_SUCCESS)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// The emulated KFD from inside: plans, code in memory, memory, events, and what the machine makes of what guests tell.
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "emulator/guest/guest.h"
#include "emulator/machine.h"
#include "kfd_check.h"

static const char plan_text[] =
	"gpu gfx90a pci 0000:83:00.0 vram 8G cus 13 name A card\ngpu gfx1030 node 4 # the second\n"
	"hang kernel saxpy launch 3; hang allocation of 64M\n"
	"fault launch 2 at argument 1 plus 0x1000 write\nexception kernel a* math-error\nslow kernel b on 1 chance 30 0.25\n"
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
	assert_true(p.rules[4].seconds == 0.25 && p.rules[4].gpu == 1 && p.rules[4].chance == 30);
	assert_true(p.rules[3].gpu == -1 && p.rules[3].chance == 100);
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

enum { FIRST = 0x5000, SECOND = 0x5001 }; // the GPUs' numbers

static int call(unsigned number, void *arguments, size_t size)
{
	return kfd_ioctl(kfd_begin(), _IOC(_IOC_READ | _IOC_WRITE, 'K', number, size), arguments);
}
#define CALL(number, arguments) call(number, arguments, sizeof(*(arguments)))

static bool reaches(unsigned gpu, uint64_t address, bool write, uint64_t *ret_size)
{
	struct kmt *t = kfd_begin();
	pthread_rwlock_rdlock(&t->memory);
	bool there = memory_reach(t, kfd_gpu(t, gpu), address, write, ret_size);
	pthread_rwlock_unlock(&t->memory);
	return there;
}

static int map(uint64_t handle, uint32_t gpu, bool mapped)
{
	struct kfd_ioctl_map_memory_to_gpu_args a = { .handle = handle,
						      .device_ids_array_ptr = (uintptr_t)&gpu,
						      .n_devices = 1 };
	int result = CALL(mapped ? KMT_MAP_MEMORY_TO_GPU : KMT_UNMAP_MEMORY_FROM_GPU, &a);
	assert_int_equal(a.n_success, 1);
	return result;
}

static void memory_is_reached_where_it_is_mapped(void **state)
{
	const uint64_t at = 0x200000000000;
	uint64_t size = 0;
	struct kfd_ioctl_alloc_memory_of_gpu_args a = { .va_addr = at,
							.size = 2 * KMT_PAGE,
							.gpu_id = FIRST,
							.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM |
								 KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE };
	(void)state;
	assert_int_equal(CALL(KMT_ALLOC_MEMORY_OF_GPU, &a), 0);
	assert_false(reaches(FIRST, at, false, &size));
	assert_int_equal(map(a.handle, FIRST, true), 0);
	assert_true(reaches(FIRST, at + 1, true, &size));
	assert_int_equal(size, 2 * KMT_PAGE - 1);
	assert_false(reaches(SECOND, at, false, &size));
	assert_false(reaches(FIRST, at - 1, false, &size));
	assert_true(reaches(FIRST, at + 2 * KMT_PAGE - 1, false, &size));
	assert_int_equal(size, 1);
	assert_false(reaches(FIRST, at + 2 * KMT_PAGE, false, &size));
	assert_int_equal(map(a.handle, SECOND, true), 0);
	assert_true(reaches(SECOND, at, false, &size));
	assert_int_equal(map(a.handle, SECOND, false), 0);
	assert_false(reaches(SECOND, at, false, &size));
	struct kmt_available left = { .gpu_id = FIRST };
	assert_int_equal(CALL(KMT_AVAILABLE_MEMORY, &left), 0);
	assert_int_equal(left.bytes, (UINT64_C(16) << 30) - KMT_CHARGE); // as the driver counts it, not as it was asked for
	assert_int_equal(CALL(KMT_FREE_MEMORY_OF_GPU, &a.handle), 0);
	assert_int_equal(CALL(KMT_FREE_MEMORY_OF_GPU, &a.handle), -EINVAL);
	assert_false(reaches(FIRST, at, false, &size));
	struct kfd_ioctl_alloc_memory_of_gpu_args wrong = a;
	wrong.size = KMT_PAGE - 1;
	assert_int_equal(CALL(KMT_ALLOC_MEMORY_OF_GPU, &wrong), -EINVAL);
	wrong = a;
	wrong.gpu_id = 7;
	assert_int_equal(CALL(KMT_ALLOC_MEMORY_OF_GPU, &wrong), -EINVAL);
	wrong = a;
	wrong.gpu_id = SECOND;
	wrong.size = UINT64_C(9) << 30;
	assert_int_equal(CALL(KMT_ALLOC_MEMORY_OF_GPU, &wrong), -ENOMEM);
}

static void the_programs_own_memory_has_an_address_of_its_own(void **state)
{
	_Alignas(KMT_PAGE) static char own[KMT_PAGE] = "own";
	const uint64_t at = 0x200000000000;
	uint64_t size;
	struct kfd_ioctl_alloc_memory_of_gpu_args a = { .va_addr = at,
							.size = KMT_PAGE,
							.mmap_offset = (uintptr_t)own,
							.gpu_id = FIRST,
							.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR };
	(void)state;
	assert_int_equal(CALL(KMT_ALLOC_MEMORY_OF_GPU, &a), 0);
	assert_int_equal(map(a.handle, FIRST, true), 0);
	assert_true(reaches(FIRST, at, false, &size));
	assert_false(reaches(FIRST, at, true, &size)); // it was not said to be writable
	assert_false(reaches(FIRST, (uintptr_t)own, false, &size));
	assert_ptr_equal(memory_reach(kfd_begin(), kfd_gpu(kfd_begin(), FIRST), at, false, &size), own);
	assert_int_equal(CALL(KMT_FREE_MEMORY_OF_GPU, &a.handle), 0);
	assert_string_equal(own, "own");
}

static void what_is_said_of_ranges_is_answered(void **state)
{
	_Alignas(KMT_PAGE) static char own[2 * KMT_PAGE];
	struct {
		struct kfd_ioctl_svm_args head;
		struct kfd_ioctl_svm_attribute list[4];
	} a = { { (uintptr_t)own, sizeof(own), KFD_IOCTL_SVM_OP_SET_ATTR, 3 },
		{ { KFD_IOCTL_SVM_ATTR_ACCESS, FIRST },
		  { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, SECOND },
		  { KFD_IOCTL_SVM_ATTR_SET_FLAGS, 3 } } };
	uint64_t size;
	(void)state;
	assert_int_equal(CALL(KMT_SVM, &a), 0);
	assert_true(reaches(FIRST, (uintptr_t)own, true, &size));
	assert_false(reaches(SECOND, (uintptr_t)own, true, &size));
	__typeof__(a) ask = { { (uintptr_t)own + KMT_PAGE, KMT_PAGE, KFD_IOCTL_SVM_OP_GET_ATTR, 4 },
			      { { KFD_IOCTL_SVM_ATTR_ACCESS, FIRST },
				{ KFD_IOCTL_SVM_ATTR_ACCESS, SECOND },
				{ KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 },
				{ KFD_IOCTL_SVM_ATTR_SET_FLAGS, 0 } } };
	assert_int_equal(CALL(KMT_SVM, &ask), 0);
	assert_int_equal(ask.list[0].type, KFD_IOCTL_SVM_ATTR_ACCESS);
	assert_int_equal(ask.list[1].type, KFD_IOCTL_SVM_ATTR_NO_ACCESS);
	assert_true(ask.list[2].value == SECOND && ask.list[3].value == 3);
	a.list[0].type = KFD_IOCTL_SVM_ATTR_NO_ACCESS;
	assert_int_equal(CALL(KMT_SVM, &a), 0);
	assert_false(reaches(FIRST, (uintptr_t)own, true, &size));
	a.head.start_addr++;
	assert_int_equal(CALL(KMT_SVM, &a), -EINVAL);
}

// --- calls ---

static void callers_of_other_versions_get_what_both_know(void **state)
{
	struct {
		uint32_t version[2], behind;
	} v = { { 0 }, 7 };
	(void)state;
	assert_int_equal(call(KMT_GET_VERSION, &v, 4), 0); // shorter
	assert_true(v.version[0] == 1 && !v.version[1]);
	assert_int_equal(call(KMT_GET_VERSION, &v, 8), 0);
	assert_true(v.version[1] && v.behind == 7);
	assert_int_equal(call(0x7f, &v, 8), -EINVAL);
	assert_int_equal(kfd_ioctl(kfd_begin(), _IO('d', 1), &v), -EINVAL);
}

static void sysfs_has_what_the_plan_has(void **state)
{
	static const struct {
		const char *path, *holds;
	} files[] = { { "/sys/class/kfd/kfd/topology/nodes", "0\n1\n2\n" },
		      { "/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "20480\n" },
		      { "/sys/devices/virtual/kfd/kfd/topology/nodes/2/properties", "gfx_target_version 100300\n" },
		      { "/sys/devices/virtual/kfd/kfd/topology/nodes/2/p2p_links/0/properties", "node_to 1\n" },
		      { "/sys/dev/char/226:129/device/drm", "renderD129\n" } };
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct text text = { 0 };
		assert_true(files_look(kfd_begin(), files[i].path, &text) &&
			    str_find(text_str(&text), str_z(files[i].holds)) >= 0);
		text_free(&text);
	}
	static const char *const none[] = { "/sys/class/kfd/kfd/topology/nodes/3/gpu_id",
					    "/sys/class/kfd/kfd/topology/nodes/1/p2p_links/1/properties",
					    "/sys/class/kfd/kfd/topology/nodes/x", "/sys/dev/char/226:130/device/drm",
					    "/sys/class/kfd" };
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		struct text text = { 0 };
		assert_int_equal(files_look(kfd_begin(), none[i], &text), KMT_NO_FILE);
		text_free(&text);
	}
}

// --- events ---

static uint32_t new_event(uint32_t type, bool manual)
{
	struct kfd_ioctl_create_event_args a = { .event_type = type, .auto_reset = !manual };
	assert_int_equal(CALL(KMT_CREATE_EVENT, &a), 0);
	return a.event_id;
}

static int wait_for_events(struct kfd_event_data *events, uint32_t n, bool all, uint32_t ms)
{
	struct kfd_ioctl_wait_events_args a = {
		.events_ptr = (uintptr_t)events, .num_events = n, .wait_for_all = all, .timeout = ms
	};
	int result = CALL(KMT_WAIT_EVENTS, &a);
	return result ? result : (int)a.wait_result;
}

static int wait_for(uint32_t id, uint32_t ms)
{
	return wait_for_events(&(struct kfd_event_data){ .event_id = id }, 1, true, ms);
}

static void *wait_in_thread(void *event) { return (void *)(intptr_t)wait_for((uint32_t)(uintptr_t)event, 60000); }

/** Until both wait: they are counted where the driver counts them. */
static void until_waiting(uint32_t id, unsigned n)
{
	struct kmt *t = kfd_begin();
	for (unsigned waiting = 0; waiting < n; sleep_seconds(0.001)) {
		pthread_mutex_lock(&t->lock);
		waiting = t->slots[id]->waiters;
		pthread_mutex_unlock(&t->lock);
	}
}

static void events_wake_who_waits(void **state)
{
	uint32_t e = new_event(KFD_IOC_EVENT_SIGNAL, false), f = new_event(KFD_IOC_EVENT_SIGNAL, true);
	pthread_t threads[2];
	(void)state;
	assert_int_equal(wait_for(e, 1), KFD_IOC_WAIT_RESULT_TIMEOUT);
	assert_int_equal(CALL(KMT_SET_EVENT, &e), 0);
	assert_int_equal(wait_for(e, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	assert_int_equal(wait_for(e, 0), KFD_IOC_WAIT_RESULT_TIMEOUT); // it was taken
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_in_thread, (void *)(uintptr_t)e), 0);
	until_waiting(e, 2);
	CALL(KMT_SET_EVENT, &e);
	for (size_t i = 0; i < 2; i++) {
		void *status;
		assert_int_equal(pthread_join(threads[i], &status), 0);
		assert_null(status);
	}
	CALL(KMT_SET_EVENT, &f);
	struct kfd_event_data all[] = { { .event_id = e }, { .event_id = f } };
	assert_int_equal(wait_for_events(all, 2, false, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	assert_int_equal(wait_for_events(all, 2, true, 1), KFD_IOC_WAIT_RESULT_TIMEOUT);
	assert_int_equal(wait_for(f, 0), KFD_IOC_WAIT_RESULT_COMPLETE); // it stays set
	CALL(KMT_RESET_EVENT, &f);
	assert_int_equal(wait_for(f, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	struct kfd_event_data aged = { .event_id = e, .last_event_age = 1 };
	assert_int_equal(wait_for_events(&aged, 1, true, 0), KFD_IOC_WAIT_RESULT_COMPLETE); // it was set since it was that old
	assert_int_equal(aged.last_event_age, 3);
	assert_int_equal(wait_for_events(&aged, 1, true, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	assert_int_equal(CALL(KMT_DESTROY_EVENT, &e), 0);
	assert_int_equal(CALL(KMT_DESTROY_EVENT, &f), 0);
	assert_int_equal(CALL(KMT_DESTROY_EVENT, &f), -EINVAL);
	assert_int_equal(wait_for(f, 0), -EIO);
}

static void faults_come_with_their_events(void **state)
{
	struct kfd_hsa_memory_exception_data fault = { .failure = { .NotPresent = 1 }, .va = 0x7f0000001000, .gpu_id = SECOND };
	uint32_t e = new_event(KFD_IOC_EVENT_MEMORY, true);
	(void)state;
	event_fault(kfd_begin(), &fault);
	struct kfd_event_data told = { .event_id = e };
	assert_int_equal(wait_for_events(&told, 1, true, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	assert_memory_equal(&told.memory_exception_data, &fault, sizeof(fault));
	CALL(KMT_DESTROY_EVENT, &e);
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
	assert_true(emu_guest_tells(m, p, S("hang 3 pc 0x7f1210000100 waves 7 packet 41 group-waves 1"), 2));
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
	assert_true(emu_guest_tells(m, second, S("hang 3 pc 0x7f1210000100 waves 7 packet 41 group-waves 1"), 3));
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
				   "hang 0 pc 0x7f1210000100 waves 3 packet 1 group-waves 1\nfault 0 address 0x1000 write 0\nend 0\n";
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
		cmocka_unit_test(the_programs_own_memory_has_an_address_of_its_own),
		cmocka_unit_test(what_is_said_of_ranges_is_answered),
		cmocka_unit_test(callers_of_other_versions_get_what_both_know),
		cmocka_unit_test(sysfs_has_what_the_plan_has),
		cmocka_unit_test(events_wake_who_waits),
		cmocka_unit_test(faults_come_with_their_events),
		cmocka_unit_test(the_machine_shows_guests),
		cmocka_unit_test(whatever_guests_tell_is_taken_or_refused),
	};
	setenv("UNHANG_KFD", "gpu gfx90a; gpu gfx1030 vram 8G", 1);
	if (!kfd_begin())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

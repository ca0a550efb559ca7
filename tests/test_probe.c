// Looking at files of the driver: in a mount namespace of its own whose /sys is made here, with a file system that does not answer.
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "source/probe.h"

#define PCI "/sys/bus/pci/devices/0000:03:00.0"

static void make(const char *path, const char *text)
{
	char part[256];
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		str_copy(part, sizeof(part), (struct str){ path, (size_t)(slash - path) });
		mkdir(part, 0755);
	}
	FILE *f = fopen(path, "w");
	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

/** Whether /sys is ours. */
static bool own_sys(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/sys", "tmpfs", 0, "size=8m"))
		return false;
	make(PCI "/vendor", "0x1002\n");
	make(PCI "/device", "0x744c\n");
	make(PCI "/config", "0123456789abcdef");
	make(PCI "/fw_version/mes_fw_version", "0x00000052\n");
	make("/sys/kernel/debug/dri/0/amdgpu_gpu_recover", "reset\n");
	make("/sys/kernel/debug/dri/0/amdgpu_regs", "0123456789abcdef");
	make("/sys/secret", "secret\n");
	mkdir("/sys/class", 0755);
	mkdir("/sys/class/drm", 0755);
	return symlink("../../../devices/0000:03:00.0", "/sys/class/drm/card0") == 0;
}

static struct probe run_one(struct arena *a, struct probe p)
{
	struct probe_count count = { 0 };
	probe_run(a, &p, 1, 2000, NULL, &count);
	return p;
}

static void files_that_act_when_read_are_never_opened(void **state)
{
	static const struct probe bad[] = {
		{ .kind = PROBE_FILE, .path = "/sys/kernel/debug/dri/0/amdgpu_gpu_recover" },
		{ .kind = PROBE_FILE, .path = "/sys/kernel/debug/dri/0/amdgpu_test_ib" },
		{ .kind = PROBE_FILE, .path = "/sys/kernel/debug/dri/0/amdgpu_evict_vram" },
		{ .kind = PROBE_FILE, .path = "/sys/kernel/debug/dri/0/amdgpu_gfxoff_status" },
		{ .kind = PROBE_FILE, .path = "/sys/kernel/debug/dri/0/amdgpu_regs2/../amdgpu_gpu_recover" },
		{ .kind = PROBE_FILE, .path = "/sys/kernel/debug/dri/../../../secret" },
		{ .kind = PROBE_FILE, .path = "/sys/kernel/debug/dri/0/x/amdgpu_regs" },
		{ .kind = PROBE_FILE, .path = "/sys/kernel/debug/kfd/hang_hws" },
		{ .kind = PROBE_FILE, .path = "/sys/secret" },
		{ .kind = PROBE_FILE, .path = "sys/bus/pci/devices/0000:03:00.0/vendor" },
		{ .kind = PROBE_FILE, .path = PCI "/fw_version/../../../../../secret" },
		{ .kind = PROBE_FILE, .path = "/sys/bus/pci/devices/../vendor" },
		{ .kind = PROBE_FILE, .path = "/proc/./stat" },
		{ .kind = PROBE_FILE, .path = "/proc//stat" },
		{ .kind = PROBE_FILE, .path = PCI "/vendorx" },
		{ .kind = PROBE_FILE, .path = PCI },
		{ .kind = PROBE_FILE, .path = "" },
		{ .kind = PROBE_FILE, .path = "/dev/kfd" },
		{ .kind = PROBE_FILE, .path = "/dev/dri/card0" },
		{ .kind = PROBE_FILE, .path = "/dev/dri/renderD128" },
		{ .kind = PROBE_FILE, .path = "/proc/1/fd/3" },
		{ .kind = PROBE_FILE, .path = PCI "/ras/umc_err_count" }, // the driver clears the counters: in a tree only
		{ .kind = PROBE_LIST, .path = PCI "/ras" },
		{ .kind = PROBE_FILE, .path = "/sys/class/drm/card0/device/../vendor" },
		{ .kind = PROBE_FILE, .path = "/sys/class/drm/card0/device/ras/umc_err_count" },
		{ .kind = PROBE_FILE, .path = "/sys/class/drm/card0/device" },
		{ .kind = PROBE_LIST, .path = "/etc" },
		{ .kind = PROBE_IOCTL, .path = "/dev/dri/renderD128", .request = 0xC0286440 },
		{ .kind = PROBE_IOCTL, .path = "/dev/dri/renderD128", .request = AMDGPU_INFO_IOCTL, .argument_size = 32 },
		{ .kind = PROBE_IOCTL, .path = PCI "/vendor", .request = 0xC0282000, .argument_size = 40 },
		{ .kind = PROBE_IOCTL,
		  .path = "/sys/kernel/debug/dri/0/amdgpu_regs2",
		  .request = 0xC0282000,
		  .argument_size = 4 },
		{ .kind = PROBE_BANKED,
		  .path = "/sys/kernel/debug/dri/0/amdgpu_regs2",
		  .request = 0xC0242000,
		  .argument_size = 36 },
	};
	struct arena a = { 0 };
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct probe p = run_one(&a, bad[i]);
		if (p.end != PROBE_FORBIDDEN || p.n)
			fail_msg("%s", bad[i].path);
	}
	arena_free(&a);
}

static void files_of_the_list_may_be_opened(void **state)
{
	static const struct probe good[] = {
		{ .kind = PROBE_READ, .path = "/sys/kernel/debug/dri/0000:03:00.0/amdgpu_ring_gfx_0.0.0" },
		{ .kind = PROBE_BANKED,
		  .path = "/sys/kernel/debug/dri/0/amdgpu_regs2",
		  .request = 0xC02C2001,
		  .argument_size = 44 },
		{ .kind = PROBE_BANKED,
		  .path = "/sys/kernel/debug/dri/0/amdgpu_gprwave",
		  .request = 0xC0242000,
		  .argument_size = 36 },
		{ .kind = PROBE_QUERY, .path = "/dev/dri/renderD128", .argument_size = 32 },
		{ .kind = PROBE_FILE, .path = PCI "/ip_discovery/die/0/GC/0/base_addr" },
		{ .kind = PROBE_LIST, .path = PCI "/ip_discovery/die/0/GC" },
		{ .kind = PROBE_LIST, .path = "/proc" },
		{ .kind = PROBE_LIST, .path = "/sys/class/drm" },
		{ .kind = PROBE_LINK, .path = "/proc/1/fd/3" },
		{ .kind = PROBE_LINK, .path = PCI },
		{ .kind = PROBE_FILE, .path = "/sys/class/drm/card0/device/vendor" },
		{ .kind = PROBE_FILE, .path = "/sys/class/drm/card0/device/hwmon/hwmon3/power1_average" },
		{ .kind = PROBE_FILE, .path = "/sys/class/drm/card0/device/ip_discovery/die/0/GC/0/major" },
		{ .kind = PROBE_READ, .path = "/proc/1/mem" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (!probe_allowed(&good[i]))
			fail_msg("%s", good[i].path);
}

static void each_operation_has_its_answer(void **state)
{
	struct arena a = { 0 };
	struct probe probes[] = {
		{ .kind = PROBE_FILE, .path = PCI "/vendor" },
		{ .kind = PROBE_FILE, .path = PCI "/unique_id" },
		{ .kind = PROBE_READ, .path = PCI "/config", .offset = 12, .size = 64 },
		{ .kind = PROBE_READ, .path = PCI "/config", .offset = 2, .size = 4 },
		{ .kind = PROBE_READ, .path = PCI "/config", .offset = 1ull << 62, .size = 4 },
		{ .kind = PROBE_FILE, .path = "/sys/secret" },
		{ .kind = PROBE_LIST, .path = PCI "/fw_version" },
		{ .kind = PROBE_FILE, .path = PCI "/config", .size = 3 },
	};
	struct probe_stuck stuck;
	struct probe_count count = { 0 };
	(void)state;
	probe_run(&a, probes, ARRAY_SIZE(probes), 2000, &stuck, &count);
	assert_false(stuck.is);
	assert_int_equal(count.children, 1);
	assert_true(str_is(probe_text(&probes[0]), "0x1002"));
	assert_int_equal(probes[1].end, PROBE_FAILED);
	assert_int_equal(probes[1].error, ENOENT);
	assert_int_equal(probe_text(&probes[1]).n, 0);
	assert_string_equal(probes[2].data, "cdef");
	assert_string_equal(probes[3].data, "2345");
	assert_int_equal(probes[4].end, PROBE_GOOD);
	assert_int_equal(probes[4].n, 0);
	assert_int_equal(probes[5].end, PROBE_FORBIDDEN);
	assert_true(str_is(probe_text(&probes[6]), "mes_fw_version"));
	assert_string_equal(probes[7].data, "012");
	arena_free(&a);
}

/** What an answer says may end the batch, or leave out what is next. */
static void a_word_that_was_read_makes_later_operations_needless(void **state)
{
	struct arena a = { 0 };
	struct probe_count count = { 0 };
	(void)state;
	for (size_t skips = 0; skips < 5; skips++) {
		for (int at = 0; at < 2; at++) {
			struct probe p[4] = { { .kind = PROBE_FILE,
						.path = PCI "/config",
						.unless = S("1234"),
						.unless_at = (size_t)at,
						.skips = skips == 4 ? SIZE_MAX : skips } };
			for (size_t i = 1; i < 4; i++)
				p[i] = (struct probe){ .kind = PROBE_FILE, .path = PCI "/vendor" };
			probe_run(&a, p, 4, 2000, NULL, &count);
			assert_int_equal(p[0].end, PROBE_GOOD);
			for (size_t i = 1; i < 4; i++)
				assert_int_equal(p[i].end, at && i <= skips ? PROBE_NOT_MADE : PROBE_GOOD);
		}
	}
	struct probe cut[2] = { { .kind = PROBE_FILE, .path = PCI "/vendor", .unless = S("2\n3"), .unless_at = 5, .skips = 1 },
				{ .kind = PROBE_FILE, .path = PCI "/vendor" } };
	probe_run(&a, cut, 2, 2000, NULL, &count);
	assert_int_equal(cut[1].end, PROBE_GOOD);
	arena_free(&a);
}

static void many_operations_need_one_child(void **state)
{
	enum { MANY = 20000 };
	struct arena a = { 0 };
	struct probe *probes = mem_alloc(MANY * sizeof(*probes));
	struct probe_count count = { 0 };
	(void)state;
	for (size_t i = 0; i < MANY; i++)
		probes[i] = (struct probe){
			.kind = PROBE_READ, .path = "/sys/kernel/debug/dri/0/amdgpu_regs", .offset = i % 4 * 4, .size = 4
		};
	probe_run(&a, probes, MANY, 10000, NULL, &count);
	assert_int_equal(count.children, 1);
	assert_int_equal(count.operations, MANY);
	for (size_t i = 0; i < MANY; i++)
		assert_memory_equal(probes[i].data, "0123456789abcdef" + i % 4 * 4, 4);
	free(probes);
	arena_free(&a);
}

/** A reader that has just answered is asked again while it goes to sleep. */
static void a_question_that_comes_at_once_is_answered(void **state)
{
	enum { TIMES = 30000 };
	struct probe_count count = { 0 };
	(void)state;
	for (size_t i = 0; i < TIMES; i++) {
		struct arena a = { 0 };
		struct probe p = { .kind = PROBE_READ, .path = "/sys/kernel/debug/dri/0/amdgpu_regs", .size = 4 };
		probe_run(&a, &p, 1, 20000, NULL, &count);
		assert_int_equal(p.end, PROBE_GOOD);
		arena_free(&a);
	}
	assert_int_equal(count.operations, TIMES);
}

/** A batch that asks for more memory than there is for one is refused. */
static void more_than_the_limit_is_not_made(void **state)
{
	struct arena a = { 0 };
	struct probe p = run_one(&a, (struct probe){ .kind = PROBE_FILE, .path = PCI "/vendor", .size = SIZE_MAX - 3 });
	(void)state;
	assert_int_equal(p.end, PROBE_NOT_MADE);
	assert_int_equal(p.error, ENOMEM);
	arena_free(&a);
}

/** A file system that takes requests and never answers them. */
static int silent_server(const char *where)
{
	char options[64], request[FUSE_MIN_READ_BUFFER + 4096];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (mount("silent", where, "fuse", MS_NOSUID | MS_NODEV, options)) {
		close(fd);
		return -1;
	}
	pid_t child = fork();
	if (child) {
		close(fd);
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); // where an assertion ends the test, those that wait for it end too
	while (read(fd, request, sizeof(request)) > 0) {
		const struct fuse_in_header *in = (const struct fuse_in_header *)request;
		const struct fuse_init_in *init = (const struct fuse_init_in *)(in + 1);
		if (in->opcode != FUSE_INIT)
			continue;
		struct {
			struct fuse_out_header header;
			struct fuse_init_out init;
		} out = { { sizeof(out), 0, in->unique }, { .major = init->major, .minor = init->minor, .max_write = 4096 } };
		if (write(fd, &out, sizeof(out)) < 0)
			break;
	}
	_exit(0);
}

#define SILENT "/sys/bus/pci/devices/0000:04:00.0"

static int begin_silence(void)
{
	make(SILENT "/x", "");
	int server = silent_server(SILENT);
	if (server < 0)
		skip();
	return server;
}

static void end_silence(int server)
{
	probe_readers_end();
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	while (waitpid(-1, NULL, 0) > 0) // those that were left behind end with the server
		;
	umount2(SILENT, MNT_DETACH);
}

/** What stands behind a file that does not answer is read by another child, where that is asked for. */
static void what_stands_behind_a_stuck_file_is_read_by_another_child(void **state)
{
	(void)state;
	int server = begin_silence();
	struct arena a = { 0 };
	struct probe_count count = { 0 };
	struct probe p[] = { { .path = SILENT "/vendor" },
			     { .path = PCI "/vendor" },
			     { .path = PCI "/none" },
			     { .path = PCI "/serial_number" } };
	struct probe_batch batch = { .probes = p, .n = 4, .goes_on = true };
	probe_run_all(&a, &batch, 1, 100, &count);
	assert_true(batch.stuck.is);
	assert_int_equal(p[0].end, PROBE_STUCK);
	assert_true(str_is(probe_text(&p[1]), "0x1002"));
	assert_int_equal(p[2].end, PROBE_FORBIDDEN);
	assert_int_equal(p[3].error, ENOENT);
	assert_true(probe_unread(&p[0]));
	for (size_t i = 1; i < 4; i++) // what is not there is known not to be
		assert_false(probe_unread(&p[i]));
	assert_int_equal(count.children, 2);
	arena_free(&a);
	end_silence(server);
}

/** When files that do not answer have taken all the time that a look may take, nothing more is read. */
static void nothing_more_is_read_when_patience_is_used_up(void **state)
{
	(void)state;
	int server = begin_silence();
	struct arena a = { 0 };
	struct probe_patience patience = { .left = 60000 };
	struct probe_count count = { .patience = &patience };
	struct probe late = { .path = SILENT "/vendor" }, good = { .path = PCI "/vendor" };
	struct probe_stuck stuck;
	probe_run(&a, &good, 1, 60000, NULL, &count);
	assert_int_equal(good.end, PROBE_GOOD);
	patience.left = 50;
	probe_run(&a, &late, 1, 60000, &stuck, &count); // not so long, which is too short to call it stuck
	assert_int_equal(late.end, PROBE_NOT_MADE);
	assert_true(stuck.late && !stuck.is && probe_unread(&late));
	assert_int_equal(patience.left, 0);
	size_t children = count.children;
	probe_run(&a, &good, 1, 60000, NULL, &count);
	assert_int_equal(good.end, PROBE_NOT_MADE);
	assert_true(probe_unread(&good));
	assert_int_equal(count.children, children);
	arena_free(&a);
	end_silence(server);
}

static void a_child_that_is_stuck_is_left_behind(void **state)
{
	(void)state;
	int server = begin_silence();
	for (int round = 0; round < 2; round++) {
		struct arena a = { 0 };
		struct probe dead[] = { { .path = PCI "/vendor" },
					{ .path = round ? SILENT "/vendor" : SILENT "/device" },
					{ .path = PCI "/device" } };
		struct probe alive[] = { { .path = PCI "/device" } };
		struct probe_batch batches[] = { { dead, 3, NULL, { 0 } },
						 { alive, 1, NULL, { 0 } },
						 { dead + 1, 0, NULL, { 0 } } };
		struct probe_count count = { 0 };
		int ends[2];
		assert_int_equal(pipe(ends), 0);
		int64_t start = now_ms();
		probe_run_all(&a, batches, 3, 300, &count);
		int64_t took = now_ms() - start;
		if (took < 290 || took > 30000) // a machine that is busy takes its time
			fail_msg("took %d ms", (int)took);
		assert_int_equal(count.children, 2);
		assert_int_equal(dead[0].end, PROBE_GOOD);
		assert_int_equal(dead[1].end, PROBE_STUCK);
		assert_int_equal(dead[2].end, PROBE_NOT_MADE);
		assert_true(batches[0].stuck.is);
		assert_true(batches[0].stuck.uninterruptible);
		assert_true(str_is(batches[0].stuck.at, dead[1].path));
		if (!access("/proc/self/stack", R_OK) && batches[0].stuck.stack.n)
			assert_true(str_find(batches[0].stuck.stack, S("fuse")) >= 0);
		assert_false(batches[1].stuck.is);
		assert_true(str_is(probe_text(&alive[0]), "0x744c"));
		close(ends[1]); // what the stuck child still held would keep the reader waiting
		struct pollfd reader = { .fd = ends[0] };
		assert_int_equal(poll(&reader, 1, 0), 1);
		close(ends[0]);
		arena_free(&a);
	}
	end_silence(server);
}

/** A tree into which the kernel is mounted shows this machine, not the one of the tree. */
static void a_tree_with_the_kernel_in_it_shows_nothing_of_this_machine(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct probe_count count = { 0 };
	struct probe p[] = { { .path = "/proc/cmdline" }, { .kind = PROBE_LIST, .path = "/proc" } };
	struct probe_batch batch = { .probes = p, .n = 2 };
	probe_run_all(&a, &batch, 1, 2000, &count);
	assert_int_equal(p[0].end, PROBE_GOOD);
	batch.root = "/";
	probe_run_all(&a, &batch, 1, 2000, &count);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(p[i].end, PROBE_FAILED);
		assert_int_equal(p[i].error, EXDEV);
	}
	arena_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_that_act_when_read_are_never_opened),
		cmocka_unit_test(files_of_the_list_may_be_opened),
		cmocka_unit_test(each_operation_has_its_answer),
		cmocka_unit_test(a_word_that_was_read_makes_later_operations_needless),
		cmocka_unit_test(many_operations_need_one_child),
		cmocka_unit_test(a_question_that_comes_at_once_is_answered),
		cmocka_unit_test(more_than_the_limit_is_not_made),
		cmocka_unit_test(a_child_that_is_stuck_is_left_behind),
		cmocka_unit_test(what_stands_behind_a_stuck_file_is_read_by_another_child),
		cmocka_unit_test(nothing_more_is_read_when_patience_is_used_up),
		cmocka_unit_test(a_tree_with_the_kernel_in_it_shows_nothing_of_this_machine),
	};
	const struct CMUnitTest without[] = { cmocka_unit_test(files_that_act_when_read_are_never_opened),
					      cmocka_unit_test(files_of_the_list_may_be_opened),
					      cmocka_unit_test(a_tree_with_the_kernel_in_it_shows_nothing_of_this_machine) };
	if (own_sys())
		return cmocka_run_group_tests(tests, NULL, NULL);
	return cmocka_run_group_tests(without, NULL, NULL);
}

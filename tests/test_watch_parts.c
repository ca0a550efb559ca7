// The watch from inside: what it reads of others, cut at every byte: records of incidents, configurations, uevents, what the log reader sends.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/lower.h"
#include "recorder/format.h"
#include "source/kfd/events.h"
#include "store/store.h"
#include "watch/answer.h"
#include "watch/kernel_log.h"
#include "watch/progress.h"
#include "watch/pulse/holds.h"
#include "watch/pulse/pulse.h"
#include "watch/settings.h"

/** In memory of exactly its size, so that a sanitizer sees each byte too far. */
static char *exact(const char *bytes, size_t n)
{
	char *copy = malloc(n ? n : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, n);
	return copy;
}

static const struct stored sample = { .id = { "0123456789abcdef", 16 },
				      .state = STORED_OPEN,
				      .class = { "page-fault", 10 },
				      .title = { "A shader\nread \x1b[31m memory", 26 },
				      .gpu = { "0000:03:00.0", 12 },
				      .began = 1700000000,
				      .first_us = 12,
				      .events = 3,
				      .hooks = 1 };

static void a_record_is_read_as_it_was_written(void **state)
{
	struct text text = { 0 }, again = { 0 };
	struct arena a = { 0 };
	struct stored read;
	(void)state;
	stored_text(&sample, &text);
	assert_true(stored_parse(text_str(&text), &a, &read));
	assert_true(str_eq(read.id, sample.id) && str_eq(read.gpu, sample.gpu) &&
		    str_is(read.title, "A shader read  [31m memory"));
	assert_int_equal(read.began, sample.began);
	assert_int_equal(read.hooks, 1);
	stored_text(&read, &again);
	assert_true(str_eq(text_str(&text), text_str(&again)));
	for (size_t n = 0; n < text.n; n++) {
		char *cut = exact(text.p, n);
		bool whole = stored_parse((struct str){ cut, n }, &a, &read);
		assert_true(!whole || store_is_id(read.id));
		free(cut);
	}
	text_free(&text);
	text_free(&again);
	arena_free(&a);
}

static void only_ids_are_ids(void **state)
{
	(void)state;
	assert_true(store_is_id(S("0123456789abcdef")));
	assert_false(store_is_id(S("0123456789abcde")));
	assert_false(store_is_id(S("0123456789abcdefa")));
	assert_false(store_is_id(S("../3456789abcdef")));
	assert_false(store_is_id(S("0123456789ABCDEF")));
}

static void count(void *ctx, const char *message)
{
	(void)message;
	++*(unsigned *)ctx;
}

static void mistakes_of_a_configuration_are_told(void **state)
{
	static const char good[] = "# comment\nquiet 5\n capture no\nuser-data registers\nstate-dir /tmp/x\nhook-user nobody\n";
	static const char *const wrong[] = { "quiet 0",       "quiet x",         "quiet",
					     "capture maybe", "user-data some",  "state-dir x",
					     "nonsense 1",    "hook-user a b/c", "bundles-per-hour 33" };
	struct watch_settings s = { 0 };
	unsigned told = 0;
	(void)state;
	assert_int_equal(settings_parse(&s, "x.conf", str_z(good), count, &told), 0);
	assert_true(s.quiet == 5 && !s.capture && !strcmp(s.user_data, "registers") && !strcmp(s.state_dir, "/tmp/x"));
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(settings_parse(&s, "x.conf", str_z(wrong[i]), count, &told), 1);
	assert_int_equal(told, ARRAY_SIZE(wrong));
	assert_int_equal(s.quiet, 5);
	for (size_t n = 0; n < sizeof(good); n++) {
		char *cut = exact(good, n);
		settings_parse(&s, "x.conf", (struct str){ cut, n }, count, &told);
		free(cut);
	}
	settings_free(&s);
}

static void uevents_tell_of_evidence(void **state)
{
	static const char core[] =
		"add@/devices/virtual/devcoredump/devcd1\0ACTION=add\0DEVPATH=/devices/virtual/devcoredump/devcd1\0"
		"SUBSYSTEM=devcoredump\0SEQNUM=1";
	static const char wedged[] = "change@/devices/pci/0000:03:00.0/drm/card0\0ACTION=change\0DEVPATH=/devices/pci0000:00/"
				     "0000:03:00.0/drm/card0\0SUBSYSTEM=drm\0"
				     "WEDGED=rebind,bus-reset\0PID=4242\0TASK=blender";
	static const char other[] = "add@/devices/x\0ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=usb";
	struct uevent u;
	(void)state;
	assert_true(uevent_parse((struct str){ core, sizeof(core) }, &u) && uevent_matters(&u));
	assert_true(uevent_parse((struct str){ wedged, sizeof(wedged) }, &u) && uevent_matters(&u));
	assert_true(str_is(u.wedged, "rebind,bus-reset") && str_is(u.pid, "4242") && str_is(u.process, "blender"));
	assert_true(str_is(uevent_pci(&u), "0000:03:00.0"));
	assert_true(uevent_parse((struct str){ other, sizeof(other) }, &u) && !uevent_matters(&u));
	assert_false(uevent_parse(S("libudev"), &u));
	for (size_t n = 0; n < sizeof(wedged); n++) {
		char *cut = exact(wedged, n);
		if (uevent_parse((struct str){ cut, n }, &u))
			uevent_pci(&u);
		free(cut);
	}
}

static size_t take_kfd(struct str bytes, struct kfd_event *last)
{
	struct kfd_lines lines = { 0 };
	struct kfd_event e;
	size_t n = 0;
	while (kfd_event_take(&lines, &bytes, &e)) {
		n += e.kind != 0;
		*last = e.kind ? e : *last;
	}
	return n;
}

static void kfd_tells_of_faults_and_resets(void **state)
{
	static const char all[] = "1 4d2:python3\n3 1 job hang on ring:gfx\n3 2\n1 4d3:a thread of ten\n2 3:4\n4 1\nx\n\n1 "
				  "zz:x\n1 80000000:x\n1 5:";
	struct kfd_event e = { 0 };
	(void)state;
	assert_int_equal(take_kfd(S("1 4d2:python3\n"), &e), 1);
	assert_int_equal(e.number, 1234);
	assert_true(str_is(e.text, "python3"));
	assert_int_equal(take_kfd(str_z(all), &e), 4);
	assert_int_equal(e.number, 1235);
	// A name has fifteen bytes at most: what may be the rest of one is not believed, what cannot be is.
	assert_int_equal(take_kfd(S("1 2:x\n3 1 RAS\n3 2 RAS error\n"), &e), 2);
	assert_int_equal(e.number, 2);
	assert_int_equal(take_kfd(S("1 2:\n3 1\n1 1:init\n3 2\n"), &e), 2);
	assert_int_equal(take_kfd(S("1 2:fifteen letters\n3 1\n"), &e), 2);
	for (size_t n = 0; n < sizeof(all); n++) {
		char *cut = exact(all, n);
		assert_true(take_kfd((struct str){ cut, n }, &e) <= 4);
		free(cut);
	}
}

static void what_kfd_told_is_whole_or_none(void **state)
{
	const struct kfd_told told = { S("0000:03:00.0"), { KFD_PAGE_FAULT, 1235, S("a thread") }, 1234, S("python3") };
	struct kfd_told again;
	struct text text = { 0 };
	(void)state;
	kfd_told_text(&told, &text);
	assert_true(kfd_told_parse(text_str(&text), &again));
	assert_true(str_eq(again.pci, told.pci) && str_eq(again.process, told.process) &&
		    str_eq(again.event.text, told.event.text));
	assert_true(again.pid == told.pid && again.event.kind == told.event.kind && again.event.number == told.event.number);
	for (size_t n = 0; n < text.n; n++) {
		char *cut = exact(text.p, n);
		kfd_told_parse((struct str){ cut, n }, &again);
		free(cut);
	}
	assert_false(kfd_told_parse(S("0000:03:00.0\n1\n"), &again));
	text_free(&text);
}

static void frames_of_the_eye_are_whole_or_wait(void **state)
{
	const uint32_t good[] = { NOTICE_RECORD, 4, 0x64636261 }, kind[] = { NOTICE_KINDS, 0 },
		       size[] = { NOTICE_RECORD, NOTICE_MOST + 1 };
	struct notice frame;
	bool wrong;
	(void)state;
	for (size_t n = 0; n < sizeof(good); n++) {
		char *cut = exact((const char *)good, n);
		struct str bytes = { cut, n };
		assert_false(notice_take(&bytes, &frame, &wrong) || wrong);
		assert_int_equal(bytes.n, n);
		free(cut);
	}
	struct str bytes = { (const char *)good, sizeof(good) };
	assert_true(notice_take(&bytes, &frame, &wrong) && str_is(frame.text, "abcd") && !bytes.n);
	bytes = (struct str){ (const char *)kind, sizeof(kind) };
	assert_true(!notice_take(&bytes, &frame, &wrong) && wrong);
	bytes = (struct str){ (const char *)size, sizeof(size) };
	assert_true(!notice_take(&bytes, &frame, &wrong) && wrong);
}

#define BOOT "00000000-0000-0000-0000-000000001111"

static void records_of_the_journal_stay_what_they_are(void **state)
{
	struct text text = { 0 };
	struct kept_record kept;
	const struct source_record forged = { .text = S("x\n DEVICE=+pci:0000:03:00.0\nGPU reset begin!"),
					      .boot_seconds = 940.0003,
					      .wall_seconds = 1700000000.5,
					      .by = { WRITER_KERNEL, S("usb"), S("+usb:1-1\n SUBSYSTEM=pci") } };
	(void)state;
	kept_text(S(BOOT), &forged, &text);
	assert_true(text.n < NOTICE_MOST && kept_parse(text_str(&text), &kept));
	assert_true(str_is(kept.boot_id, BOOT) && kept.wall_us == 1700000000500000 && kept.record.boot_seconds == 940.0003);
	assert_true(str_is(kept.record.text, "x\\x0a DEVICE=+pci:0000:03:00.0\\x0aGPU reset begin!"));
	assert_true(str_is(kept.record.by.subsystem, "usb") && str_is(kept.record.by.device, "+usb:1-1\\x0a SUBSYSTEM=pci"));
	assert_int_equal(kept.record.by.writer, WRITER_KERNEL);
	for (size_t n = 0; n < text.n; n++) {
		char *cut = exact(text.p, n);
		kept_parse((struct str){ cut, n }, &kept);
		free(cut);
	}
	char *large = malloc(65536);
	assert_non_null(large);
	memset(large, '\n', 65536);
	text_clear(&text);
	kept_text(S(BOOT),
		  &(struct source_record){ .text = { large, 65536 }, .by = { WRITER_INTO_LOG, { large, 31 }, { large, 79 } } },
		  &text);
	assert_true(text.n < NOTICE_MOST && kept_parse(text_str(&text), &kept));
	assert_int_equal(kept.record.by.writer, WRITER_INTO_LOG);
	free(large);
	text_free(&text);
}

/** One whole record, a part of another one, and then nothing for ever. */
static void late_journal(int to, const void *ctx)
{
	const struct source_record r = { .text = S("usb 1-1: new device"), .boot_seconds = 940, .by.writer = WRITER_KERNEL };
	struct text text = { 0 };
	(void)ctx;
	kept_text(S(BOOT), &r, &text);
	notice_send(to, NOTICE_KEPT, text_str(&text));
	if (write(to, text.p, 6) == 6)
		pause();
}

static void a_late_journal_is_not_waited_for(void **state)
{
	struct gap gap = { .from = { BOOT, 4, 900000000 }, .boot_id = BOOT, .end_us = 980000000, .missing = 2 };
	struct notice frame;
	struct text got = { 0 };
	bool wrong;
	int ends[2];
	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_true(child_start(CHILD_DOOR, late_journal, NULL, &gap.reader));
	gap.deadline = now_ms() + 1000;
	gap_send(&gap, ends[1]);
	close(ends[1]);
	got.n = (size_t)read(ends[0], text_room(&got, NOTICE_MOST), NOTICE_MOST);
	struct str bytes = text_str(&got);
	assert_true(notice_take(&bytes, &frame, &wrong) && frame.kind == NOTICE_KEPT);
	assert_true(notice_take(&bytes, &frame, &wrong) && frame.kind == NOTICE_GAP && !bytes.n);
	close(ends[0]);
	text_free(&got);
}

static void interrupts_are_counted(void **state)
{
	static const char text[] = "           CPU0       CPU1\n  9:          3          4   IO-APIC  acpi\n"
				   " 71:         10         20   PCI-MSI 1572864-edge  amdgpu\n 171: 7 1 amdgpu\nNMI: 5 5 x\n";
	(void)state;
	assert_int_equal(pulse_interrupts(str_z(text), S("71")), 30);
	assert_int_equal(pulse_interrupts(str_z(text), S("9\n71\n")), 37);
	assert_int_equal(pulse_interrupts(str_z(text), S("1")), -1);
	assert_int_equal(pulse_interrupts(str_z(text), S("")), -1);
	assert_true(pulse_interrupts(S("1: 9223372036854775807 9223372036854775807"), S("1")) >= 0);
	for (size_t n = 0; n < sizeof(text); n++) {
		char *cut = exact(text, n);
		assert_true(pulse_interrupts((struct str){ cut, n }, S("71")) <= 30);
		free(cut);
	}
}

static void what_proc_says_is_cut_at_every_byte(void **state)
{
	static const char stat[] =
		"42 (a) b (c)) T 7 42 9 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 8 0 981234 1 2 18446744073709551615\n";
	struct process_stat p;
	(void)state;
	assert_true(process_stat_parse(str_z(stat), &p));
	assert_string_equal(p.name, "a) b (c)");
	assert_int_equal(p.state, 'T');
	assert_int_equal(p.parent, 7);
	assert_int_equal(p.session, 9);
	assert_int_equal(p.cpu, 300);
	assert_int_equal(p.began, 981234);
	for (size_t n = 0; n < sizeof(stat) - 1; n++) {
		char *cut = exact(stat, n);
		process_stat_parse((struct str){ cut, n }, &p);
		free(cut);
	}
}

static void jobs_are_named_by_their_cgroup(void **state)
{
	char job[80];
	(void)state;
	assert_true(process_job(S("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"), job, sizeof(job)));
	assert_string_equal(job, "Slurm job 4711");
	assert_true(process_job(S("0::/kubepods.slice/kubepods-pod0a1b2c3d_0000_1111_2222_333344445555.slice/cri-x.scope\n"),
				job, sizeof(job)));
	assert_string_equal(job, "pod 0a1b2c3d-0000-1111-2222-333344445555");
	assert_false(process_job(S("0::/user.slice/user-1000.slice/job_12\n"), job, sizeof(job)));
	// As a kubelet has them.
	static const char *const pods[] = { "default_train-0_0a1b2c3d-0000-1111-2222-333344445555", "ml_server.x_ffffffff-0000-1111-2222-333344445555",
					    "bad;name_x_eeeeeeee-0000-1111-2222-333344445555", "short" };
	char place[] = "/tmp/unhang-pods-XXXXXX";
	_cleanup_text_ struct text name = { 0 };
	assert_non_null(mkdtemp(place));
	for (size_t n = 0; n < ARRAY_SIZE(pods); n++) {
		char path[200];
		snprintf(path, sizeof(path), "%s/%s", place, pods[n]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	assert_true(pod_find(place, S("0a1b2c3d-0000-1111-2222-333344445555"), &name) && str_is(text_str(&name), "default/train-0"));
	text_clear(&name);
	assert_true(pod_find(place, S("ffffffff-0000-1111-2222-333344445555"), &name) && str_is(text_str(&name), "ml/server.x"));
	assert_false(pod_find(place, S("eeeeeeee-0000-1111-2222-333344445555"), &name));
	assert_false(pod_find(place, S("0a1b2c3d"), &name) || pod_find("/nonexistent", S("0a1b2c3d"), &name));
	for (size_t n = 0; n < ARRAY_SIZE(pods); n++) {
		char path[200];
		snprintf(path, sizeof(path), "%s/%s", place, pods[n]);
		rmdir(path);
	}
	rmdir(place);
}

static void lines_of_votes_are_taken(void **state)
{
	static const char lines[] =
		"vote interrupts stood\nvote waves moved\nvote nonsense stood\nvote power\nfact busy 90\nfact nonsense 1\n"
		"fact loop yes\nfact process a b c\n";
	struct know_problems problems = { 0 };
	struct know *k = know_load(&problems);
	struct gpu_progress p;
	(void)state;
	progress_begin(&p, k);
	progress_take(&p, str_z(lines), false, 1000);
	assert_int_equal(progress_vote_of(&p, S("interrupts")).says, VOTE_STOOD);
	assert_int_equal(progress_vote_of(&p, S("waves")).says, VOTE_MOVED);
	assert_int_equal(progress_vote_of(&p, S("power")).says, VOTE_UNKNOWN);
	assert_true(str_is(progress_fact_of(&p, "process"), "a b c"));
	assert_false(progress_fact_of(&p, "loop").n); // a look says that, not the pulse
	progress_take(&p, S("fact busy 5\n"), false, 2000);
	assert_false(progress_fact_of(&p, "process").n);
	for (size_t n = 0; n < sizeof(lines) - 1; n++) {
		char *cut = exact(lines, n);
		progress_take(&p, (struct str){ cut, n }, n % 2, 3000);
		free(cut);
	}
	know_free(k);
}

/** A recording of a stranger: places in it may lead anywhere. */
static void recordings_are_not_believed(void **state)
{
	char name[] = "/tmp/test-recording-XXXXXX";
	int fd = mkstemp(name);
	struct rec_header h = { .version = RECORDING_VERSION, .state = RECORDING_ON };
	struct rec_extent e[3] = { { .kind = EXTENT_QUEUE, .offset = RECORDING_HEAD, .head = sizeof(struct rec_queue) },
				   { .kind = EXTENT_QUEUE, .offset = UINT64_MAX - 8, .head = sizeof(struct rec_queue) },
				   { .kind = EXTENT_QUEUE, .offset = INT64_MAX, .head = sizeof(struct rec_queue) } };
	struct rec_queue q = { .read = 41, .write = 43 };
	uint64_t taken;
	bool waits;
	(void)state;
	memcpy(h.magic, RECORDING_MAGIC, sizeof(h.magic));
	assert_true(pwrite(fd, &h, sizeof(h), 0) > 0 && pwrite(fd, e, sizeof(e), RECORDING_EXTENTS_AT) > 0);
	assert_false(recorded_packets(fd, &taken, &waits)); // its table is cut
	assert_true(pwrite(fd, &q, sizeof(q), RECORDING_HEAD) > 0);
	assert_true(recorded_packets(fd, &taken, &waits));
	assert_int_equal(taken, 41);
	assert_true(waits);
	for (off_t n = 0; n < RECORDING_HEAD; n += 997) {
		assert_int_equal(ftruncate(fd, n), 0);
		recorded_packets(fd, &taken, &waits);
	}
	close(fd);
	unlink(name);
}

static void put_recording(const char *path, const struct rec_header *h, uid_t owner)
{
	unlink(path);
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0 && write(fd, h, sizeof(*h)) == (ssize_t)sizeof(*h) && !ftruncate(fd, RECORDING_HEAD));
	assert_true(!owner || !fchown(fd, owner, owner));
	close(fd);
}

/** Nobody speaks for the program of another, and no recording for a later process of the same number. */
static void a_recording_is_of_the_process_that_it_names(void **state)
{
	enum { STRANGER = 4711 };
	char directory[64], path[128], found[200];
	struct sign_process p = { .pid = getpid(), .stat.began = 5000 };
	const uint64_t tick = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
	struct rec_header h = {
		.version = RECORDING_VERSION, .state = RECORDING_ON, .pid = (uint32_t)getpid(), .start.boot_ns = 5001 * tick
	};
	(void)state;
	memcpy(h.magic, RECORDING_MAGIC, sizeof(h.magic));
	snprintf(directory, sizeof(directory), "/dev/shm/unhang-test-owner-%d", getpid());
	snprintf(path, sizeof(path), "%s/host.%d.recording", directory, getpid());
	assert_int_equal(mkdir(directory, 0755), 0);
	put_recording(path, &h, 0);
	recorded_find(&p, found, sizeof(found));
	assert_string_equal(found, path + sizeof("/dev/shm/") - 1);
	h.start.boot_ns = 4990 * tick;
	put_recording(path, &h, 0);
	recorded_find(&p, found, sizeof(found));
	assert_string_equal(found, ""); // it began before the process did
	h.start.boot_ns = 5001 * tick;
	h.pid++;
	put_recording(path, &h, 0);
	recorded_find(&p, found, sizeof(found));
	assert_string_equal(found, "");
	h.pid--;
	if (!geteuid()) {
		put_recording(path, &h, STRANGER);
		recorded_find(&p, found, sizeof(found));
		assert_string_equal(found, "");
	}
	unlink(path);
	rmdir(directory);
}

/** ROCm has some memory of each process on every GPU: who is waited for is not one of those that wait. */
static void nobody_waits_for_one_who_waits(void **state)
{
	enum { RANKS = 3, LATE = 1 };
	struct device list[RANKS] = { { .pci = S("0000:03:00.0") },
				      { .pci = S("0000:04:00.0") },
				      { .pci = S("0000:05:00.0") } };
	const struct devices devices = { .list = list, .n = RANKS };
	struct pulse_gpu gpus[RANKS] = { 0 };
	struct signs *s = mem_alloc(sizeof(*s));
	struct text said = { 0 };
	(void)state;
	s->devices = &devices;
	s->n = RANKS;
	for (size_t i = 0; i < RANKS; i++) {
		s->processes[i] = (struct sign_process){ .pid = 100 + (int64_t)i, .launcher = 99, .works = true, .gpus = 7 };
		snprintf(s->processes[i].rank, sizeof(s->processes[i].rank), "%zu", i);
		gpus[i] = (struct pulse_gpu){ .busy = i == LATE ? 0 : 100, .pending = i != LATE, .stands = i != LATE };
		if (i != LATE)
			s->queues[s->nqueues++] = (struct sign_queue){ .process = i, .gpu = i, .known = true, .pending = true };
	}
	pulse_text(gpus, s, 0, 0, &said);
	assert_true(str_find(text_str(&said), S("fact lagging rank 1\n")) >= 0);
	assert_true(str_find(text_str(&said), S("fact waiting 2 GPUs\n")) >= 0);
	text_clear(&said);
	s->processes[LATE].rank[0] = '\0'; // then it is called by its name
	snprintf(s->processes[LATE].stat.name, sizeof(s->processes[LATE].stat.name), "loader");
	pulse_text(gpus, s, 0, 0, &said);
	assert_true(str_find(text_str(&said), S("fact lagging loader (pid 101)\n")) >= 0);
	text_free(&said);
	free(s);
}

/** Another user's program that is on all GPUs, and was there first, is no rank of the one that stands. */
static void a_neighbour_is_nobodys_rank(void **state)
{
	enum { NEIGHBOUR, STANDS, GPUS = 2 };
	struct device list[GPUS] = { { .pci = S("0000:03:00.0") }, { .pci = S("0000:04:00.0") } };
	const struct devices devices = { .list = list, .n = GPUS };
	struct pulse_gpu gpus[GPUS] = { { .busy = 100, .pending = true, .stands = true }, { .busy = 0 } };
	struct signs *s = mem_alloc(sizeof(*s));
	struct text said = { 0 };
	(void)state;
	s->devices = &devices;
	s->n = 2;
	s->processes[NEIGHBOUR] = (struct sign_process){ .pid = 100, .uid = 1000, .launcher = 50, .works = true, .gpus = 3 };
	s->processes[STANDS] = (struct sign_process){ .pid = 200, .uid = 2000, .launcher = 60, .gpus = 3 };
	s->queues[s->nqueues++] = (struct sign_queue){ .process = NEIGHBOUR, .known = true, .pending = true, .moved = true };
	s->queues[s->nqueues++] = (struct sign_queue){ .process = STANDS, .known = true, .pending = true };
	pulse_text(gpus, s, 0, 0, &said);
	assert_true(str_find(text_str(&said), S("fact peers none\n")) >= 0);
	text_free(&said);
	free(s);
}

/** Neither one that works nor one that is stopped hides a program whose queue stands. */
static void nobody_hides_another(void **state)
{
	enum { STOPPED, WORKS, STANDS, PROGRAMS };
	struct device gpu = { .pci = S("0000:03:00.0") };
	const struct devices devices = { .list = &gpu, .n = 1 };
	struct pulse_gpu g = { .busy = 100, .power = -1, .interrupts = 7 };
	struct signs *s = mem_alloc(sizeof(*s));
	struct text said = { 0 };
	struct know know = { 0 };
	(void)state;
	s->devices = &devices;
	s->know = &know;
	s->n = PROGRAMS;
	for (size_t i = 0; i < PROGRAMS; i++) {
		s->processes[i] = (struct sign_process){ .pid = 100 + (int64_t)i, .gpus = 1, .launched = true };
		s->queues[s->nqueues++] =
			(struct sign_queue){ .process = i, .known = true, .pending = true, .moved = i == WORKS };
	}
	s->processes[STOPPED].stopped = "a signal";
	pulse_vote(&g, s, 0, 8);
	assert_int_equal(g.queue_vote, VOTE_STOOD);
	pulse_text(&g, s, 0, 0, &said);
	assert_true(str_find(text_str(&said), S("fact pid 102\n")) >= 0);
	assert_true(str_find(text_str(&said), S("fact stopped")) < 0);
	text_clear(&said);
	s->queues[STANDS].pending = false; // then the one that is stopped is no hang, and the other one works
	pulse_vote(&g, s, 0, 9);
	assert_int_equal(g.queue_vote, VOTE_MOVED);
	text_free(&said);
	free(s);
}

/** Ranks that each have an unhang run around them are ranks of one job. */
static void a_wrapper_is_no_launcher(void **state)
{
	int ends[2];
	char ready;
	(void)state;
	assert_int_equal(pipe(ends), 0);
	const pid_t wrapper = fork();
	if (!wrapper) {
		prctl(PR_SET_NAME, "unhang");
		(void)!write(ends[1], "x", 1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ends[0], &ready, 1), 1);
	assert_int_equal(signs_launcher(wrapper), getpid());
	assert_int_equal(signs_launcher(getpid()), getpid());
	kill(wrapper, SIGKILL);
	waitpid(wrapper, NULL, 0);
	close(ends[0]);
	close(ends[1]);
}

/** Who started a process may be gone when it is looked at again: that is remembered until its number is another process's. */
static void a_launcher_is_remembered(void **state)
{
	enum { GONE = 7 };
	const struct devices devices = { 0 };
	const struct know know = { 0 };
	(void)state;
	if (!access("/sys/class/kfd/kfd/proc", F_OK)) // then those that compute here are taken
		skip();
	struct signs *s = mem_alloc(sizeof(*s));
	signs_begin(s, &know, &devices);
	struct sign_process *p = &s->processes[s->n++];
	*p = (struct sign_process){ .pid = getpid(), .seen = true, .search = INT64_MAX };
	assert_true(signs_take(s, 1000));
	assert_int_equal(p->launcher, signs_launcher(getppid()));
	p->launcher = GONE;
	assert_true(signs_take(s, 2000));
	assert_int_equal(p->launcher, GONE);
	p->stat.began++;
	assert_true(signs_take(s, 3000));
	assert_int_equal(p->launcher, signs_launcher(getppid()));
	p->launcher = GONE;
	p->stat.parent++;
	assert_true(signs_take(s, 4000));
	assert_int_equal(p->launcher, signs_launcher(getppid()));
	free(s);
}

static void tell_rights(int fd, const void *ctx)
{
	(void)ctx;
	bool left = lower_privileges(getegid());
	bool alone = socket(AF_UNIX, SOCK_STREAM, 0) < 0 && execl("/bin/true", "true", (char *)NULL) < 0;
	dprintf(fd, "%d %d %d", left, geteuid() != 0, alone);
}

static void a_child_puts_its_rights_down(void **state)
{
	struct text said = { 0 };
	(void)state;
	const struct child_task task = { CHILD_LINES, .deadline = now_ms() + 20000 };
	assert_int_equal(child_collect(&task, tell_rights, NULL, &said), CHILD_GOOD);
	assert_string_equal(said.p, "1 1 1");
	text_free(&said);
}

static void what_is_told_of_holds_is_whole_or_none(void **state)
{
	const struct hold_told told = {
		HOLD_STANDS, 7, 4200, 4242, 90000000001, S("0000:03:00.0"), S("unhang-0/a b.12.recording")
	};
	const struct hold_task task = { WORD_RELEASE, UINT32_MAX, S("unhang-0/a b.12.recording") };
	struct text text = { 0 }, order = { 0 };
	struct hold_told again;
	struct hold_task same;
	(void)state;
	hold_told_text(&told, &text);
	hold_task_text(&task, &order);
	for (size_t n = 0; n <= text.n; n++) {
		char *cut = exact(text.p, n);
		const bool good = hold_told_parse((struct str){ cut, n }, &again);
		assert_true(n < text.n || (good && again.stage == told.stage && again.number == 7 && again.left_ms == 4200 &&
					   again.pid == 4242 && again.began == told.began && str_eq(again.gpu, told.gpu) &&
					   str_eq(again.path, told.path)));
		free(cut);
	}
	for (size_t n = 0; n <= order.n; n++) {
		char *cut = exact(order.p, n);
		const bool good = hold_task_parse((struct str){ cut, n }, &same);
		assert_int_equal(good, n == order.n);
		assert_true(!good || (same.word == WORD_RELEASE && same.number == UINT32_MAX && str_eq(same.path, task.path)));
		free(cut);
	}
	assert_false(hold_task_parse(S("announce 0 ../etc/x.recording"), &same));
	assert_false(hold_task_parse(S("announce 0 other/x.recording"), &same));
	assert_false(hold_task_parse(S("answer 4294967296 unhang-0/x.recording"), &same));
	assert_false(hold_task_parse(S("drop 1 unhang-0/x.recording"), &same));
	assert_false(hold_told_parse(S("asks 1 -1 4242 0 - unhang-0/x.recording"), &again));
	text_free(&text);
	text_free(&order);
}

static struct rec_header head_of(const char *path)
{
	struct rec_header h = { 0 };
	const int fd = open(path, O_RDONLY);
	assert_true(fd >= 0 && read(fd, &h, sizeof(h)) == (ssize_t)sizeof(h));
	close(fd);
	return h;
}

static void put_head(const char *path, uint32_t supervisor, uint32_t holds)
{
	struct rec_header h = {
		.version = RECORDING_VERSION, .supervisor = supervisor, .hold = REC_HOLD_ASKED, .holds = holds
	};
	memcpy(h.magic, RECORDING_MAGIC, sizeof(h.magic));
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0 && write(fd, &h, sizeof(h)) == (ssize_t)sizeof(h));
	close(fd);
}

static void have_answered(enum hold_word word, uint32_t number, const char *path)
{
	struct child c;
	struct text nothing = { 0 };
	const struct hold_task task = { word, number, str_from(str_z(path), sizeof("/dev/shm/") - 1) };
	assert_true(answer_begin(&task, &c));
	assert_int_equal(child_wait(&c, now_ms() + 60000, 1, &nothing), CHILD_GOOD);
	child_kill(&c, 1000);
	text_free(&nothing);
}

/** A recording is a user's file: words are written into it as its owner, and into nothing that its owner put in its place. */
static void an_answerer_writes_into_recordings_alone(void **state)
{
	char directory[64], path[96], other[96];
	(void)state;
	snprintf(directory, sizeof(directory), "/dev/shm/unhang-test-answer-%d", getpid());
	snprintf(path, sizeof(path), "%s/h.1.recording", directory);
	snprintf(other, sizeof(other), "%s/other", directory);
	if (mkdir(directory, 0755))
		skip();
	put_head(path, 0, 3);
	have_answered(WORD_ANSWER, 3, path);
	assert_int_equal(head_of(path).answered, 0); // nobody announced the watch
	have_answered(WORD_ANNOUNCE, 0, path);
	assert_int_equal(head_of(path).supervisor, REC_SUPERVISOR_WATCH);
	have_answered(WORD_ANSWER, 2, path);
	assert_int_equal(head_of(path).answered, 0); // another hold
	have_answered(WORD_ANSWER, 3, path);
	have_answered(WORD_RELEASE, 3, path);
	assert_int_equal(head_of(path).answered, 3);
	assert_int_equal(head_of(path).released, 3);
	put_head(path, 4711, 3);
	have_answered(WORD_ANNOUNCE, 0, path);
	have_answered(WORD_ANSWER, 3, path);
	assert_int_equal(head_of(path).supervisor, 4711); // unhang run looks after it
	assert_int_equal(head_of(path).answered, 0);
	put_head(path, 0, 3);
	assert_int_equal(link(path, other), 0); // perhaps another's file
	have_answered(WORD_ANNOUNCE, 0, path);
	assert_int_equal(head_of(path).supervisor, 0);
	unlink(path);
	assert_int_equal(symlink(other, path), 0);
	have_answered(WORD_ANNOUNCE, 0, path);
	assert_int_equal(head_of(other).supervisor, 0);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	have_answered(WORD_ANNOUNCE, 0, path); // which returns
	unlink(path);
	assert_int_equal(rename(other, path), 0);
	if (!geteuid()) {
		assert_int_equal(chown(directory, 1234, 1234), 0);
		have_answered(WORD_ANNOUNCE, 0, path);
		assert_int_equal(head_of(path).supervisor, 0); // root's file in the directory of a user
		assert_int_equal(chown(path, 1234, 1234), 0);
		have_answered(WORD_ANNOUNCE, 0, path);
		assert_int_equal(head_of(path).supervisor, REC_SUPERVISOR_WATCH);
		put_head(path, 0, 3);
		assert_int_equal(chmod(path, 0400), 0);
		have_answered(WORD_ANNOUNCE, 0, path);
		assert_int_equal(head_of(path).supervisor, 0); // what its owner cannot write, it cannot
	}
	unlink(path);
	rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_is_read_as_it_was_written),
		cmocka_unit_test(only_ids_are_ids),
		cmocka_unit_test(mistakes_of_a_configuration_are_told),
		cmocka_unit_test(uevents_tell_of_evidence),
		cmocka_unit_test(kfd_tells_of_faults_and_resets),
		cmocka_unit_test(what_kfd_told_is_whole_or_none),
		cmocka_unit_test(a_recording_is_of_the_process_that_it_names),
		cmocka_unit_test(frames_of_the_eye_are_whole_or_wait),
		cmocka_unit_test(records_of_the_journal_stay_what_they_are),
		cmocka_unit_test(a_late_journal_is_not_waited_for),
		cmocka_unit_test(interrupts_are_counted),
		cmocka_unit_test(what_proc_says_is_cut_at_every_byte),
		cmocka_unit_test(jobs_are_named_by_their_cgroup),
		cmocka_unit_test(lines_of_votes_are_taken),
		cmocka_unit_test(recordings_are_not_believed),
		cmocka_unit_test(what_is_told_of_holds_is_whole_or_none),
		cmocka_unit_test(an_answerer_writes_into_recordings_alone),
		cmocka_unit_test(nobody_waits_for_one_who_waits),
		cmocka_unit_test(a_neighbour_is_nobodys_rank),
		cmocka_unit_test(nobody_hides_another),
		cmocka_unit_test(a_wrapper_is_no_launcher),
		cmocka_unit_test(a_launcher_is_remembered),
		cmocka_unit_test(a_child_puts_its_rights_down),
	};
	return cmocka_run_group_tests_name("watch_parts", tests, NULL, NULL);
}

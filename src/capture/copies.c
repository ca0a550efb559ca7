// What a capture copies: devcoredumps, the kernel's logs, what a crash left, the output of the job, and what an expert asks for next as far as
// files have it. Each is a step of its own, and puts down the rights that copying does not need.
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/door/door.h"
#include "capture/steps.h"
#include "diagnose/changes/past.h"
#include "source/probe_list.h"

// --- devcoredumps ---

enum { DUMPS_MOST = 64, LIST_MS = 700, PIECE = 1 << 17, SILENT_MS = 5000 };

/** The dumps that there are, of all PCI devices, with the name of each device. */
static size_t copies_find_dumps(struct arena *a, struct str *ret)
{
	struct probe devices = { .kind = PROBE_LIST, .path = "/sys/bus/pci/devices", .size = 1 << 18 };
	struct probe_count count = { 0 };
	size_t n = 0, found = 0;
	probe_run(a, &devices, 1, LIST_MS, NULL, &count);
	struct str names = probe_text(&devices);
	struct probe *lists = arena_alloc(a, (devices.n + 1) * sizeof(*lists));
	struct str *pci = arena_alloc(a, (devices.n + 1) * sizeof(*pci));
	for (; names.n; n++) {
		pci[n] = str_split(&names, '\n');
		lists[n] = (struct probe){
			.kind = PROBE_LIST,
			.path = arena_printf(a, "/sys/bus/pci/devices/" STR_FMT "/devcoredump", STR_ARG(pci[n])).p
		};
	}
	if (n)
		probe_run(a, lists, n, LIST_MS, NULL, &count);
	for (size_t i = 0; i < n && found < DUMPS_MOST; i++)
		if (lists[i].end == PROBE_GOOD && str_find(probe_text(&lists[i]), S("data")) >= 0)
			ret[found++] = pci[i];
	return found;
}

/** The driver formats the dump anew for each read, from its beginning: so it is read in large pieces, and slowness is no sign of a
 * hang. */
static void copy_dump(struct step *s)
{
	struct item_file f;
	_cleanup_free_ char *room = mem_large(PIECE);
	const char *path = s->ctx;
	struct probe allowed = { .kind = PROBE_READ, .path = path };
	_cleanup_close_ int from = probe_allowed(&allowed) ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
	if (from < 0) {
		step_end(s, errno == EACCES ? ITEM_REFUSED : ITEM_FAILED, "%s: %s", path, strerror(errno));
		return;
	}
	if (!item_create(s->capture, s->name, &f)) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		return;
	}
	ssize_t n = 1;
	uint64_t most = step_room(s);
	while (f.bytes < most && (n = read(from, room, PIECE)) > 0 && item_write(&f, (struct str){ room, (size_t)n }))
		step_moved(s);
	s->shared->result.bytes = f.bytes;
	const bool cut = n > 0 && f.bytes >= most;
	if ((n && !cut) || !item_finish(s->capture, &f)) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		item_drop(s->capture, &f);
	} else if (cut) {
		step_end(s, ITEM_CUT, "only its first %llu MB were kept", (unsigned long long)(most >> 20));
	} else {
		step_end(s, ITEM_SAVED, "%s", "");
	}
}

/** Writing to the file frees the dump, so that the driver can make another: only when it was asked for, and the copy is on the disk. */
static void release_dump(struct step *s)
{
	_cleanup_close_ int fd = open(s->ctx, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || write(fd, "1", 1) != 1)
		step_end(s, ITEM_FAILED, "%s: %s", (const char *)s->ctx, strerror(errno));
	else
		step_end(s, ITEM_SAVED, "%s", "");
}

void capture_dumps(struct taking *c)
{
	struct str found[DUMPS_MOST];
	size_t n = copies_find_dumps(c->arena, found);
	for (size_t i = 0; i < n; i++) {
		const struct str pci = found[i];
		const char *name = arena_printf(c->arena, BUNDLE_DUMPS STR_FMT ".txt", STR_ARG(pci)).p;
		const char *path = arena_printf(c->arena, "/sys/bus/pci/devices/" STR_FMT "/devcoredump/data", STR_ARG(pci)).p;
		const char *what = arena_printf(c->arena, "the devcoredump of " STR_FMT, STR_ARG(pci)).p;
		const bool saved =
			step_run(c, &(struct step_plan){ name, what, copy_dump, path, CHILD_CAPTURE_COPY, SILENT_MS, true })
				->state == ITEM_SAVED;
		if (saved && c->options->release_dumps) {
			what = arena_printf(c->arena, "release of the devcoredump of " STR_FMT, STR_ARG(pci)).p;
			step_run(c, &(struct step_plan){ "release", what, release_dump, path, CHILD_CAPTURE_WRITE, SILENT_MS });
		} else {
			vec_push(&c->manifest->notes,
				 arena_printf(c->arena,
					      "The devcoredump of " STR_FMT
					      " still exists. Until the driver frees it, after five minutes, "
					      "it makes no other one%s.",
					      STR_ARG(pci), saved ? "; --release-devcoredump frees it" : ""));
		}
	}
	if (!n)
		step_note(c, BUNDLE_DUMPS, "devcoredumps", ITEM_ABSENT, "there is none");
}

// --- the kernel's logs: of this boot, the end of the one before ---

static const uint64_t log_most = 64 << 20, before_most = 4 << 20;

/** The log as text, for people. */
struct log_text {
	struct item_file file;
	struct text room;
	bool failed;
};

static void log_text_free(struct log_text *t) { text_free(&t->room); }

/** The text is what people read in a bundle without unhang. It is written in large pieces, since a log has a hundred thousand lines. */
static void on_log_record(void *ctx, const char *name, const struct source_record *record)
{
	enum { AT_ONCE = 1 << 18 };
	struct log_text *t = ctx;
	if (record)
		text_printf(&t->room, "[%12.6f] " STR_FMT "\n", record->boot_seconds, STR_ARG(record->text));
	else if (name)
		text_printf(&t->room, "# %s\n", name);
	if (t->room.n < AT_ONCE && record)
		return;
	t->failed |= !item_write(&t->file, text_str(&t->room));
	text_clear(&t->room);
}

/** Files that are no logs, and what is wrong with a part of a log: the tape keeps what was read, and nobody reads a message here. */
static void on_log_visit(void *, struct source *) {}
static void on_log_problem(void *, struct uh_error *err) { uh_error_free(err); }

/** Reads one log. @boot 1: the kernel's buffer. */
static struct uh_error *read_log(struct tape *tape, struct log_text *text, int boot)
{
	const struct source_visitor to = {
		.visit = on_log_visit, .record = on_log_record, .problem = on_log_problem, .ctx = text
	};
	struct tape_log log = { .tape = tape,
				.to = boot < 0 ? NULL : &to,
				.name = boot > 0 ? TAPE_LOG_BUFFER :
					boot     ? TAPE_LOG_BEFORE :
						   TAPE_LOG_BOOT,
				.most = boot < 0 ? before_most : log_most,
				.from_end = boot < 0 };
	const struct source_visitor v = tape_visitor(&log);
	struct uh_error *err = boot > 0 ? source_kmsg("/dev/kmsg", &v) : source_journal(NULL, boot, &v);
	tape_log_end(&log);
	return err;
}

void copy_logs(struct step *s)
{
	_cleanup_(log_text_free) struct log_text text = { 0 };
	struct item_file tape_file;
	if (!item_create(s->capture, LOG_TEXT, &text.file) || !item_create(s->capture, s->name, &tape_file)) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		return;
	}
	prctl(PR_SET_NAME, "unhang-log");
	if (!child_put_down(CHILD_CAPTURE_LOG)) {
		step_end(s, ITEM_FAILED, "its reader could not put its rights down");
		return;
	}
	struct tape *tape = tape_record(&(struct tape_recording){
		.fd = tape_file.fd, .most = step_room(s), .budget = s->capture->budget, .id = s->capture->manifest->id });
	int boots;
	uh_error_free(source_journal_boots(NULL, &boots)); // where it is damaged, the kernel still has the log of this boot
	struct uh_error *of_journal = boots ? read_log(tape, &text, 0) : NULL;
	const bool buffer = !boots || (of_journal && of_journal->errnum == ENODATA); // journald has nothing of this boot
	if (buffer)
		uh_error_free(of_journal);
	_cleanup_error_ struct uh_error *err = buffer ? read_log(tape, &text, 1) : of_journal, *before = NULL;
	if (boots > 1)
		before = read_log(tape, &text, -1);
	const bool whole = tape_end(tape);
	const int why = errno;
	text.failed |= !item_close(&text.file);
	if (err)
		step_end(s,
			 err->errnum == EPERM || err->errnum == EACCES ? ITEM_REFUSED :
			 err->errnum == EBADMSG                        ? ITEM_CUT :
									 ITEM_FAILED,
			 "%s", uh_error_message(err));
	else if (!whole || text.failed)
		step_end(s, ITEM_CUT, "%s",
			 why == EFBIG ? "it has more bytes than an item may have" : strerror(why ? why : EIO));
	else
		step_end(s, ITEM_SAVED, "%s", "");
	s->shared->result.bytes = tape_written(tape) + text.file.bytes;
	tape_free(tape);
	s->shared->result.whole = item_close(&tape_file);
	if (!s->shared->result.whole)
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
}

// --- what changed ---

/** Not the logs of packages themselves, which tell much of their owner: what of them concerns a GPU. */
void copy_changes(struct step *s)
{
	_cleanup_changes_ struct changes c = { 0 };
	_cleanup_past_ struct past past = { 0 };
	_cleanup_(package_cache_free) struct package_cache cache = { 0 };
	struct item_file f;
	if (!item_create(s->capture, s->name, &f)) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		return;
	}
	if (!child_put_down(CHILD_CAPTURE_LOG)) {
		step_end(s, ITEM_FAILED, "its reader could not put its rights down");
		return;
	}
	struct tape *tape = tape_record(&(struct tape_recording){
		.fd = f.fd, .most = step_room(s), .budget = s->capture->budget, .id = s->capture->manifest->id });
	const struct machine_at at = { .tape = tape };
	changes_read(s->capture->options->know, at, (double)time(NULL), &c);
	package_cache_read(at, &cache);
	past_read(s->capture->options->know, at, 0, &past);
	const bool whole = tape_end(tape);
	if (!whole)
		step_end(s, ITEM_CUT, "%s", strerror(errno));
	else if (c.unread.len)
		step_end(s, ITEM_CUT, STR_FMT, STR_ARG(c.unread.data[0]));
	else
		step_end(s, ITEM_SAVED, "%s", "");
	s->shared->result.bytes = tape_written(tape);
	tape_free(tape);
	s->shared->result.whole = item_close(&f);
	if (!s->shared->result.whole)
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
}

// --- what a crash left, and what others hand over ---

enum { CRASH_FILES_MOST = 256, CRASH_FILE_MOST = 16 << 20 };

/** Plain copies; reading them changes nothing. */
static size_t copy_directory(struct step *s, const char *directory)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct door_names names = { 0 };
	size_t n = 0;
	_cleanup_error_ struct uh_error *unlisted = door_names(&(struct named){ .path = directory }, false, &a, &names);
	for (size_t i = 0; i < names.n && i < CRASH_FILES_MOST; i++) {
		struct str bytes;
		const char *name = arena_printf(&a, "%s%s", s->name, names.list[i]).p;
		struct named from = { .path = directory, .below = names.list[i] };
		_cleanup_error_ struct uh_error *err = named_read(&from, CRASH_FILE_MOST, &a, &bytes, NULL);
		if (err || bundle_name_wrong(str_z(name)))
			continue;
		if (!step_save(s, name, bytes)) {
			step_end(s, ITEM_CUT, "%s", strerror(errno));
			break;
		}
		n++;
	}
	return n;
}

void copy_crash_files(struct step *s)
{
	size_t n = copy_directory(s, "/sys/fs/pstore") + copy_directory(s, "/var/lib/systemd/pstore");
	if (s->shared->result.state == ITEM_RUNNING)
		step_end(s, n ? ITEM_SAVED : ITEM_ABSENT, "%s", n ? "" : "there is none, or it may not be read");
}

/** What whoever takes the capture saw before it: the watch's votes. */
void copy_note(struct step *s)
{
	step_end(s, ITEM_SAVED, "%s", "");
	step_save(s, s->name, s->capture->options->note);
}

// --- board and firmware, PCI ---

enum { FILE_LOG_MOST = 256 << 10, LOGS_MOST = 16, CONFIG = 4096 };

/** The last bytes of a file, at most @most; -1: see errno. */
static ssize_t add_file_end(const char *path, size_t most, struct text *to)
{
	struct stat st;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st))
		return -1;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	const off_t from = st.st_size > (off_t)most ? st.st_size - (off_t)most : 0;
	const ssize_t n = pread(fd, text_room(to, most), most, from);
	to->n += n > 0 ? (size_t)n : 0;
	return n;
}

/** Without serial numbers and asset tags. */
void copy_board(struct step *s)
{
	struct str names =
		S("sys_vendor product_name product_version product_family board_vendor board_name board_version bios_vendor "
		  "bios_version bios_date bios_release chassis_type ec_firmware_release");
	_cleanup_text_ struct text all = { 0 };
	while (names.n) {
		char path[96];
		const size_t before = all.n;
		const struct str name = str_split(&names, ' ');
		snprintf(path, sizeof(path), "/sys/class/dmi/id/" STR_FMT, STR_ARG(name));
		text_printf(&all, STR_FMT ": ", STR_ARG(name));
		if (add_file_end(path, CONFIG, &all) <= 0)
			all.n = before;
		else if (all.p[all.n - 1] != '\n')
			text_add(&all, S("\n"));
	}
	step_end(s, all.n ? ITEM_SAVED : ITEM_ABSENT, "%s", all.n ? "" : "this machine does not tell its board");
	if (all.n)
		step_save(s, s->name, text_str(&all));
}

/** A device that sleeps is woken up by who reads its configuration. */
static bool is_awake(const char *device)
{
	_cleanup_text_ struct text status = { 0 };
	_cleanup_arena_ struct arena a = { 0 };
	add_file_end(arena_printf(&a, "%s/power/runtime_status", device).p, CONFIG, &status);
	const struct str said = str_trim(text_str(&status));
	return !said.n || str_is(said, "active") || str_is(said, "unsupported");
}

/** As `lspci -xxxx` writes it, so that `lspci -F` reads it. */
static void add_config(struct step *s, const char *device, struct str address, struct text *to)
{
	enum { ROW = 16 };
	_cleanup_text_ struct text bytes = { 0 };
	_cleanup_arena_ struct arena a = { 0 };
	if (!is_awake(device)) {
		step_end(s, ITEM_CUT, STR_FMT ": it sleeps, and was not woken up", STR_ARG(address));
	} else if (add_file_end(arena_printf(&a, "%s/config", device).p, CONFIG, &bytes) <= 0) {
		if (errno != ENOENT)
			step_end(s, errno == EACCES ? ITEM_REFUSED : ITEM_FAILED, STR_FMT ": %s", STR_ARG(address),
				 strerror(errno));
	} else {
		text_printf(to, STR_FMT " PCI device\n", STR_ARG(address));
		for (size_t at = 0; at < bytes.n; at++) {
			if (at % ROW == 0)
				text_printf(to, "%s%02zx:", at ? "\n" : "", at);
			text_printf(to, " %02x", (unsigned char)bytes.p[at]);
		}
		text_add(to, S("\n\n"));
	}
}

/** Whether a part of a path is the address of a PCI device: 0000:03:00.0. */
static bool is_pci_name(struct str part) { return part.n == 12 && part.p[4] == ':' && part.p[7] == ':' && part.p[10] == '.'; }

/** The GPU and the bridges above it, each once. */
static void add_gpu_config(struct step *s, struct arena *a, struct str pci, struct text *seen, struct text *to)
{
	char real[PATH_MAX];
	if (!realpath(arena_printf(a, "/sys/bus/pci/devices/" STR_FMT, STR_ARG(pci)).p, real))
		return;
	struct str path = str_z(real), rest = path;
	while (rest.n) {
		const struct str part = str_split(&rest, '/');
		if (!is_pci_name(part) || str_find(text_str(seen), part) >= 0)
			continue;
		text_printf(seen, STR_FMT "\n", STR_ARG(part));
		add_config(s, arena_z(a, str_cut(path, (size_t)(part.p - path.p) + part.n)), part, to);
	}
}

/** What a device's file says begins with one of @wanted. */
static bool device_says(const char *device, const char *file, const char *wanted)
{
	_cleanup_text_ struct text said = { 0 };
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", device, file);
	add_file_end(path, CONFIG, &said);
	return str_among(text_str(&said), STR_BEGINS, wanted).n;
}

void copy_pci(struct step *s)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text seen = { 0 }, all = { 0 };
	step_end(s, ITEM_SAVED, "%s", "");
	_cleanup_dir_ DIR *list = opendir("/sys/bus/pci/devices");
	// Displays and accelerators of AMD. Nothing is asked of them: the kernel has these numbers in memory.
	for (struct dirent *e; (e = dir_next(list));)
		if (is_pci_name(str_z(e->d_name)) && device_says(e->d_name, "vendor", "0x1002") &&
		    device_says(e->d_name, "class", "0x03|0x12"))
			add_gpu_config(s, &a, str_z(e->d_name), &seen, &all);
	if (all.n)
		step_save(s, s->name, text_str(&all));
	else if (s->shared->result.state == ITEM_SAVED)
		step_end(s, ITEM_ABSENT, "there is no GPU");
}

// --- logs ---

/** What the driver's build said, of each version and kernel. */
void copy_builds(struct step *s)
{
	static const char *const places[] = { "/var/lib/dkms/amdgpu*/*/build/make.log",
					      "/var/lib/dkms/amdgpu*/*/*/*/log/make.log" };
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_(globfree) glob_t found = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		glob(places[i], i ? GLOB_APPEND : 0, NULL, &found);
	step_end(s, ITEM_SAVED, "%s", "");
	for (size_t i = 0; i < found.gl_pathc && n < LOGS_MOST; i++) {
		_cleanup_text_ struct text log = { 0 };
		text_printf(&log, "# %s\n", found.gl_pathv[i]);
		if (add_file_end(found.gl_pathv[i], FILE_LOG_MOST, &log) > 0)
			step_save(s, arena_printf(&a, "%s%zu.txt", s->name, n++).p, text_str(&log));
	}
	if (!n)
		step_end(s, ITEM_ABSENT, "DKMS has built no driver here");
}

void copy_output(struct step *s)
{
	_cleanup_text_ struct text all = { 0 };
	const ssize_t n = add_file_end(s->capture->options->output, FILE_LOG_MOST, &all);
	if (n > 0) {
		step_end(s, ITEM_SAVED, "%s", "");
		step_save(s, s->name, text_str(&all));
	} else {
		step_end(s, ITEM_ABSENT, "%s", n ? strerror(errno) : "the job wrote nothing");
	}
}

// What an expert asks for next, as far as files have it: board and firmware, PCI configuration, build logs of the driver, the job's output.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/lower.h"
#include "capture/expert/expert.h"

enum { STEP_MS = 3000, LOG_MOST = 256 << 10, LOGS_MOST = 16, CONFIG = 4096 };

/** Writes a member whole. */
static void save(struct step *s, const char *name, struct str text)
{
	struct item_file f = { .fd = -1 };
	const bool good = item_create(s->capture, name, &f) && item_write(&f, text) && item_finish(s->capture, &f);
	s->shared->result.bytes += good ? text.n : 0;
	if (!good) {
		step_end(s, ITEM_FAILED, "%s", strerror(errno));
		if (f.fd >= 0)
			item_drop(s->capture, &f);
	}
}

/** The last bytes of a file, at most @most; -1: see errno. */
static ssize_t add_end(const char *path, size_t most, struct text *to)
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

// --- board and firmware ---

/** Without serial numbers and asset tags. */
static void read_board(struct step *s)
{
	static const char *const names[] = {
		"sys_vendor",   "product_name",  "product_version",     "product_family", "board_vendor",
		"board_name",   "board_version", "bios_vendor",         "bios_version",   "bios_date",
		"bios_release", "chassis_type",  "ec_firmware_release",
	};
	struct text all = { 0 };
	lower_to_reading(); // it copies
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[96];
		const size_t before = all.n;
		snprintf(path, sizeof(path), "/sys/class/dmi/id/%s", names[i]);
		text_printf(&all, "%s: ", names[i]);
		if (add_end(path, CONFIG, &all) <= 0)
			all.n = before;
		else if (all.p[all.n - 1] != '\n')
			text_add(&all, S("\n"));
	}
	step_end(s, all.n ? ITEM_SAVED : ITEM_ABSENT, "%s", all.n ? "" : "this machine does not tell its board");
	if (all.n)
		save(s, s->name, text_str(&all));
	text_free(&all);
}

// --- PCI ---

/** A device that sleeps is woken up by who reads its configuration. */
static bool is_awake(const char *device)
{
	struct text status = { 0 };
	struct arena a = { 0 };
	add_end(arena_printf(&a, "%s/power/runtime_status", device).p, CONFIG, &status);
	const struct str said = str_trim(text_str(&status));
	const bool awake = !said.n || str_is(said, "active") || str_is(said, "unsupported");
	text_free(&status);
	arena_free(&a);
	return awake;
}

/** As `lspci -xxxx` writes it, so that `lspci -F` reads it. */
static void add_config(struct step *s, const char *device, struct str address, struct text *to)
{
	enum { ROW = 16 };
	struct text bytes = { 0 };
	struct arena a = { 0 };
	if (!is_awake(device)) {
		step_end(s, ITEM_CUT, STR_FMT ": it sleeps, and was not woken up", STR_ARG(address));
	} else if (add_end(arena_printf(&a, "%s/config", device).p, CONFIG, &bytes) <= 0) {
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
	text_free(&bytes);
	arena_free(&a);
}

/** Whether a part of a path is the address of a PCI device: 0000:03:00.0. */
static bool is_address(struct str part) { return part.n == 12 && part.p[4] == ':' && part.p[7] == ':' && part.p[10] == '.'; }

/** The GPU and the bridges above it, each once. */
static void add_gpu(struct step *s, struct arena *a, struct str pci, struct text *seen, struct text *to)
{
	char real[PATH_MAX];
	if (!realpath(arena_printf(a, "/sys/bus/pci/devices/" STR_FMT, STR_ARG(pci)).p, real))
		return;
	struct str path = str_z(real), rest = path;
	while (rest.n) {
		const struct str part = str_split(&rest, '/');
		if (!is_address(part) || str_find(text_str(seen), part) >= 0)
			continue;
		text_printf(seen, STR_FMT "\n", STR_ARG(part));
		add_config(s, arena_z(a, str_cut(path, (size_t)(part.p - path.p) + part.n)), part, to);
	}
}

static bool says(struct arena *a, const char *device, const char *file, const char *const *wanted)
{
	struct text said = { 0 };
	bool is = false;
	add_end(arena_printf(a, "/sys/bus/pci/devices/%s/%s", device, file).p, CONFIG, &said);
	for (size_t i = 0; wanted[i] && !is; i++)
		is = str_starts(text_str(&said), str_z(wanted[i]));
	text_free(&said);
	return is;
}

/** Displays and accelerators of AMD. Nothing is asked of them: the kernel has these numbers in memory. */
static bool is_gpu(struct arena *a, const char *device)
{
	static const char *const vendors[] = { "0x1002", NULL }, *const classes[] = { "0x03", "0x12", NULL };
	return says(a, device, "vendor", vendors) && says(a, device, "class", classes);
}

static void read_pci(struct step *s)
{
	struct arena a = { 0 };
	struct text seen = { 0 }, all = { 0 };
	lower_to_reading(); // it copies
	step_end(s, ITEM_SAVED, "%s", "");
	DIR *list = opendir("/sys/bus/pci/devices");
	for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list))
		if (is_address(str_z(e->d_name)) && is_gpu(&a, e->d_name))
			add_gpu(s, &a, str_z(e->d_name), &seen, &all);
	if (list)
		closedir(list);
	if (all.n)
		save(s, s->name, text_str(&all));
	else if (s->shared->result.state == ITEM_SAVED)
		step_end(s, ITEM_ABSENT, "there is no GPU");
	text_free(&seen);
	text_free(&all);
	arena_free(&a);
}

// --- logs ---

/** What the driver's build said, of each version and kernel. */
static void read_builds(struct step *s)
{
	static const char *const places[] = { "/var/lib/dkms/amdgpu*/*/build/make.log",
					      "/var/lib/dkms/amdgpu*/*/*/*/log/make.log" };
	struct arena a = { 0 };
	glob_t found = { 0 };
	size_t n = 0;
	lower_to_reading(); // it copies
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		glob(places[i], i ? GLOB_APPEND : 0, NULL, &found);
	step_end(s, ITEM_SAVED, "%s", "");
	for (size_t i = 0; i < found.gl_pathc && n < LOGS_MOST; i++) {
		struct text log = { 0 };
		text_printf(&log, "# %s\n", found.gl_pathv[i]);
		if (add_end(found.gl_pathv[i], LOG_MOST, &log) > 0)
			save(s, arena_printf(&a, "%s%zu.txt", s->name, n++).p, text_str(&log));
		text_free(&log);
	}
	if (!n)
		step_end(s, ITEM_ABSENT, "DKMS has built no driver here");
	globfree(&found);
	arena_free(&a);
}

static void read_output(struct step *s)
{
	struct text all = { 0 };
	lower_to_reading(); // it copies
	const ssize_t n = add_end(s->capture->options->output, LOG_MOST, &all);
	if (n > 0) {
		step_end(s, ITEM_SAVED, "%s", "");
		save(s, s->name, text_str(&all));
	} else {
		step_end(s, ITEM_ABSENT, "%s", n ? strerror(errno) : "the job wrote nothing");
	}
	text_free(&all);
}

void capture_expert_files(struct taking *c)
{
	if (c->options->output)
		step_run(c, &(struct step_plan){ BUNDLE_TOOLS "job-output.txt", "the end of the job's output", read_output,
						 NULL, STEP_MS, false });
	step_run(c,
		 &(struct step_plan){ BUNDLE_MORE "board.txt", "board and firmware (DMI)", read_board, NULL, STEP_MS, false });
	step_run(c, &(struct step_plan){ EXPERT_PCI, "PCI configuration of the GPUs and their bridges", read_pci, NULL, STEP_MS,
					 false });
	step_run(c, &(struct step_plan){ BUNDLE_MORE "dkms-", "build logs of the driver (DKMS)", read_builds, NULL, STEP_MS,
					 false });
}

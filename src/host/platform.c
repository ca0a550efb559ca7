// The machine around the GPUs: the IOMMU and power saving of links, what the kernel forbids (Secure Boot, lockdown), and what the next
// crash leaves behind: the log, a dump of the kernel, core files and the room for them.
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/child.h"
#include "host/gpus.h"
#include "host/host.h"
#include "source/tape/tape.h"

// The IOMMU in front of the GPUs, and power saving of PCIe links.

/** What the kernel calls the kind of a group's domain. */
static const struct {
	const char *type, *mode;
} types[] = {
	{ "identity", "passthrough" },
	{ "DMA", "translated" },
	{ "DMA-FQ", "translated" },
};

/** Words of the command line that say it. A later row counts more. */
static const struct {
	const char *word, *mode;
} aspm_words[] = {
	{ "iommu=pt", "passthrough" },
	{ "iommu.passthrough=1", "passthrough" },
	{ "iommu.passthrough=0", "translated" },
	{ "iommu=nopt", "translated" },
	{ "amd_iommu=off", "off" },
	{ "intel_iommu=off", "off" },
	{ "iommu=off", "off" },
};

void iommu_note(struct gpu_looks *l, struct gpu_look *g, struct str type, struct str where)
{
	for (size_t n = 0; n < ARRAY_SIZE(types); n++) {
		if (!str_is(type, types[n].type))
			continue;
		g->iommu = str_z(types[n].mode);
		g->iommu_place = where;
		host_note(l->h, g->item, "iommu", g->iommu, where);
	}
}

/** Cards come first: an APU often has a group of its own kind. */
void iommu_note_machine(struct gpu_looks *l)
{
	struct host_item *m = host_machine(l->h);
	const struct gpu_look *best = NULL;
	bool group = false;
	for (size_t n = 0; n < l->n; n++) {
		const struct gpu_look *g = &l->list[n];
		group |= g->grouped;
		if (g->iommu.n &&
		    (!best || (best->d->apu && !g->d->apu) || (best->d->apu == g->d->apu && str_is(g->iommu, "translated"))))
			best = g;
	}
	// The command line wins over the policy that /sys shows at boot.
	const struct host_fact *f = host_fact(l->h, host_machine(l->h), S("cmdline"), 0);
	struct str ret = { 0 };
	for (size_t n = 0; f && n < ARRAY_SIZE(aspm_words); n++) {
		struct str line = f->value;
		for (struct str word = str_word(&line); word.n; word = str_word(&line))
			if (str_is(word, aspm_words[n].word))
				ret = str_z(aspm_words[n].mode);
	}
	struct str said = ret;
	if (best)
		host_note(l->h, m, "iommu", best->iommu, best->iommu_place);
	else if (l->iommus_known && !l->iommus.n && !group)
		host_note(l->h, m, "iommu", S("off"), S("/sys/class/iommu"));
	else if (said.n)
		host_note(l->h, m, "iommu", said, S("/proc/cmdline"));
	else if (l->iommus.n || group)
		host_note(l->h, m, "iommu", S("on"), S("/sys/class/iommu"));
}

/** `default performance [powersave] powersupersave`. */
void aspm_note(struct gpu_looks *l, struct str policy, struct str where)
{
	struct str rest = policy;
	str_split(&rest, '[');
	host_note(l->h, host_machine(l->h), "aspm", str_trim(str_split(&rest, ']')), where);
}

// What the kernel lets nobody do here, and what else of it counts for GPUs: Secure Boot, lockdown, user namespaces, WSL's device.

enum { DEVICES_MOST = 1 << 16, VARIABLE = 8 };

enum asked { SECURE_BOOT, LOCKDOWN, UID_MAP, BALANCING, DEVICES, ASKED };

void host_read_security(struct host *h)
{
	struct probe p[ASKED] = {
		[SECURE_BOOT] = { .path = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
				  .kind = PROBE_READ,
				  .size = VARIABLE },
		[LOCKDOWN] = { .path = "/sys/kernel/security/lockdown" },
		[UID_MAP] = { .path = "/proc/self/uid_map" },
		[BALANCING] = { .path = "/proc/sys/kernel/numa_balancing" },
		[DEVICES] = { .kind = PROBE_LIST, .path = "/dev", .size = DEVICES_MOST },
	};
	struct host_item *m = host_machine(h);
	host_probe(h, p, ASKED);
	// The variable is four bytes of attributes, then 1 or 0.
	if (p[SECURE_BOOT].end == PROBE_GOOD && p[SECURE_BOOT].n >= 5)
		host_note_said(h, m, "secure_boot", p[SECURE_BOOT].data[4] ? S("on") : S("off"), str_z(p[SECURE_BOOT].path));
	// `none [integrity] confidentiality`
	struct str text = probe_text(&p[LOCKDOWN]);
	str_split(&text, '[');
	host_note_said(h, m, "lockdown", str_split(&text, ']'), str_z(p[LOCKDOWN].path));
	// `0 0 4294967295`: all users are those of the machine.
	struct str map = probe_text(&p[UID_MAP]), inside = str_word(&map), outside = str_word(&map), n = str_word(&map);
	const bool whole = str_is(inside, "0") && str_is(outside, "0") && str_is(n, "4294967295");
	if (n.n)
		host_note_said(h, m, "user_namespace", whole ? S("no") : S("yes"), str_z(p[UID_MAP].path));
	host_note_said(h, m, "numa_balancing", str_trim(probe_text(&p[BALANCING])), str_z(p[BALANCING].path));
	// WSL has GPUs behind this device, and no amdgpu.
	str_each (name, probe_text(&p[DEVICES]), '\n')
		if (str_is(name, "dxg"))
			host_note_said(h, m, "dxg", S("yes"), S("/dev/dxg"));
}

// --- what a crash leaves behind ---

enum { NAMES_MOST = 1 << 16, TEXT_MOST = 1 << 14, DROP_INS_MOST = 32 };

/** A configuration: some files, then those of some directories, by name. */
struct platform_settings {
	struct probe probes[2 + DROP_INS_MOST];
	size_t n;
};

static int platform_by_name(const void *a, const void *b)
{
	return str_cmp(str_base(str_z(((const struct probe *)a)->path)), str_base(str_z(((const struct probe *)b)->path)));
}

/** @asked: at most two files, then the names in directories. */
static void read_settings(struct host *h, const struct probe *asked, size_t n, struct platform_settings *ret)
{
	size_t files = 0;
	while (files < n && asked[files].kind == PROBE_FILE) {
		ret->probes[files] = asked[files];
		files++;
	}
	ret->n = files;
	for (size_t i = files; i < n; i++) {
		struct str names = probe_text(&asked[i]);
		while (names.n && ret->n < files + DROP_INS_MOST) {
			struct str name = str_split(&names, '\n');
			if (str_ends(name, S(".conf")))
				ret->probes[ret->n++] = (struct probe){
					.path = arena_printf(&h->arena, "%s/" STR_FMT, asked[i].path, STR_ARG(name)).p,
					.size = TEXT_MOST
				};
		}
	}
	if (ret->n == files)
		return;
	qsort(&ret->probes[files], ret->n - files, sizeof(ret->probes[0]), platform_by_name);
	host_probe(h, &ret->probes[files], ret->n - files);
}

/** The last `KEY=VALUE` counts. */
static struct str setting(const struct platform_settings *s, struct str key, struct str *ret_where)
{
	struct str value = { 0 };
	for (size_t i = 0; i < s->n; i++) {
		struct str text = probe_text(&s->probes[i]);
		while (text.n) {
			struct str rest, line = str_trim(str_split(&text, '\n'));
			if (!str_behind(line, key, &rest) || !str_starts(rest, S("=")))
				continue;
			value = str_trim(str_from(rest, 1));
			*ret_where = str_z(s->probes[i].path);
		}
	}
	return value;
}

static bool lists(const struct probe *p, struct str pattern)
{
	str_each (name, probe_text(p), '\n')
		if (str_glob(pattern, name))
			return true;
	return false;
}

// --- cores ---

struct core_space {
	bool known;
	int64_t bytes;
};
static const struct wire_field space_fields[] = { WIRE_BOOL(struct core_space, known),
						  WIRE_NUMBER(struct core_space, bytes, INT64_MAX) };
static const struct wire_kind space_kind = WIRE_KIND('f', struct core_space, space_fields);

/** A file system may be one that does not answer: asked in a child. */
static void ask_space(const void *path, struct arena *a, void *answer)
{
	struct statvfs v;
	(void)a;
	if (!statvfs(path, &v))
		*(struct core_space *)answer = (struct core_space){ true, (int64_t)(v.f_bavail * v.f_frsize) };
}

static void note_space(struct host *h, struct str directory)
{
	const struct child_task task = { CHILD_SPACE, ask_space, &space_kind };
	struct core_space space = { 0 };
	if (!tape_plays(h->tape))
		child_call(&task, arena_z(&h->arena, directory), &h->arena, &space);
	int64_t bytes = space.known ? space.bytes : -1;
	bytes = tape_number(h->tape, "core space", bytes);
	if (bytes < 0)
		return;
	host_note(h, host_machine(h), "gpu_core_dir", directory, (struct str){ 0 });
	host_note_number(h, host_machine(h), "core_free_gb", bytes >> 30, directory);
}

/** The directory that a core pattern puts files into: the one that it names, or the program's working directory. */
static struct str platform_directory_of(struct str pattern)
{
	size_t n = pattern.n;
	while (n && pattern.p[n - 1] != '/')
		n--;
	return !n ? S(".") : str_cut(pattern, n > 1 ? n - 1 : 1);
}

/** `* soft core unlimited` of pam_limits: for everyone. */
static struct str limit_in(struct str line)
{
	struct str words[4];
	for (size_t i = 0; i < 4; i++)
		words[i] = str_word(&line);
	bool soft = str_is(words[1], "soft") || str_is(words[1], "-");
	if (!str_is(words[0], "*") || !soft || !str_is(words[2], "core"))
		return (struct str){ 0 };
	return str_is(words[3], "infinity") || str_is(words[3], "-1") ? S("unlimited") : words[3];
}

/** Here the limit of this process counts, which programs that are started from it get; of a tree what it recorded of a process, else
 * what a login would get. */
static struct str core_limit(struct host *h, struct str limits, const struct platform_settings *login, struct str *ret_where)
{
	struct rlimit live;
	struct str recorded = h->root ? line_behind(limits, S("Max core file size")) : (struct str){ 0 };
	if (recorded.n)
		return str_word(&recorded);
	if (h->root) {
		// The limit that a login gets; the last line counts. It only tells whether there is a limit, since its unit is another.
		struct str found = { 0 };
		for (size_t i = 0; i < login->n; i++) {
			struct str text = probe_text(&login->probes[i]);
			while (text.n) {
				struct str one = limit_in(str_split(&text, '\n'));
				if (!str_is(one, "unlimited") && !str_is(one, "0"))
					continue;
				found = one;
				*ret_where = str_z(login->probes[i].path);
			}
		}
		return found;
	}
	struct str said = { 0 };
	if (!getrlimit(RLIMIT_CORE, &live))
		said = live.rlim_cur == RLIM_INFINITY ? S("unlimited") :
							arena_printf(&h->arena, "%llu", (unsigned long long)live.rlim_cur);
	return tape_said(h->tape, &h->arena, "core limit", said);
}

/** Whether a program that crashes leaves a core with its GPU state, and where: the pattern, its handler, and the room for it. */
static void note_cores(struct host *h, const struct platform_settings *s, const struct probe *pattern,
		       const struct probe *limits, const struct platform_settings *login)
{
	struct host_item *m = host_machine(h);
	struct str limited = str_z(limits->path), limit = core_limit(h, probe_text(limits), login, &limited);
	struct str text = probe_text(pattern), where = str_z(pattern->path);
	bool pipe = str_starts(text, S("|"));
	int64_t vram = 0;
	bool doubt = h->doubt;
	for (size_t d = 0; d < h->devices.n; d++) {
		vram = h->devices.list[d].vram_total > vram ? h->devices.list[d].vram_total : vram;
		h->doubt |= h->devices.list[d].unread.n > 0;
	}
	if (vram > 0)
		host_note_number(h, m, "vram_gb", vram >> 30, (struct str){ 0 });
	h->doubt = doubt;
	host_note(h, m, "core_limit", limit, limited);
	host_note(h, m, "cores", !limit.n ? limit : str_is(limit, "0") ? S("off") : S("on"), limited);
	host_note(h, m, "core_pattern", text, where);
	if (!text.n)
		return;
	host_note(h, m, "core_to", pipe ? S("pipe") : S("file"), where);
	struct str program = str_from(text, 1); // that a pipe leads to
	if (pipe)
		host_note(h, m, "core_handler", str_base(str_word(&program)), where);
	else
		host_note(h, m, "core_dir", platform_directory_of(text), where);
	struct str storage = setting(s, S("Storage"), &where);
	host_note(h, m, "coredump_storage", storage, where);
	struct str own = tape_said(h->tape, &h->arena, "HSA_COREDUMP_PATTERN", str_z(getenv("HSA_COREDUMP_PATTERN")));
	struct str gpu = own.n ? own : text;
	if (!h->root && vram > 0 && !str_starts(gpu, S("|")))
		note_space(h, platform_directory_of(gpu));
}

/** Whether the kernel's messages are kept, and where. */
static void read_logs(struct host *h)
{
	struct probe p[] = {
		{ .path = "/usr/lib/systemd/journald.conf", .size = TEXT_MOST },
		{ .path = "/etc/systemd/journald.conf", .size = TEXT_MOST },
		{ .kind = PROBE_LIST, .path = "/usr/lib/systemd/journald.conf.d" },
		{ .kind = PROBE_LIST, .path = "/etc/systemd/journald.conf.d" },
		{ .kind = PROBE_LIST, .path = "/var/log", .size = NAMES_MOST },
	};
	struct platform_settings journal;
	host_probe(h, p, ARRAY_SIZE(p));
	read_settings(h, &p[0], 4, &journal);
	// What journald.conf says outright counts; else whether /var/log, where it was recorded, has a journal.
	const struct probe *log = &p[4];
	static const char *const texts[] = { "kern.log", "messages", "syslog", "everything.log" };
	struct str where = S("/var/log"), storage = setting(&journal, S("Storage"), &where);
	// That a tree has no journal says something only where it has the rest of systemd's.
	bool systemd = !h->root || p[0].end == PROBE_GOOD || p[1].end == PROBE_GOOD;
	if (!storage.n || str_is(storage, "auto"))
		storage = lists(log, S("journal"))          ? S("persistent") :
			  log->end == PROBE_GOOD && systemd ? S("volatile") :
							      S("");
	bool kept = false;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		kept |= lists(log, str_z(texts[i]));
	host_note(h, host_machine(h), "journal", storage, where);
	if (log->end == PROBE_GOOD)
		host_note(h, host_machine(h), "kern_log", kept ? S("yes") : S("no"), S("/var/log"));
}

/** Whether a crash of the kernel or of a program leaves something behind. */
static void read_crashes(struct host *h)
{
	struct probe p[] = {
		{ .path = "/usr/lib/systemd/coredump.conf", .size = TEXT_MOST },
		{ .path = "/etc/systemd/coredump.conf", .size = TEXT_MOST },
		{ .kind = PROBE_LIST, .path = "/usr/lib/systemd/coredump.conf.d" },
		{ .kind = PROBE_LIST, .path = "/etc/systemd/coredump.conf.d" },
		{ .path = "/etc/security/limits.conf", .size = TEXT_MOST },
		{ .kind = PROBE_LIST, .path = "/etc/security/limits.d" },
		{ .kind = PROBE_LIST, .path = "/sys/fs/pstore" },
		{ .path = "/sys/kernel/kexec_crash_loaded" },
		{ .path = "/proc/sys/kernel/core_pattern" },
		{ .path = "/proc/self/limits" },
	};
	struct platform_settings cores, login;
	host_probe(h, p, ARRAY_SIZE(p));
	read_settings(h, &p[0], 4, &cores);
	read_settings(h, &p[4], 2, &login);
	const struct probe *pstore = &p[6], *kexec = &p[7];
	struct str loaded = probe_text(kexec);
	if (pstore->end == PROBE_GOOD)
		host_note(h, host_machine(h), "pstore", pstore->n ? S("full") : S("empty"), str_z(pstore->path));
	if (loaded.n)
		host_note(h, host_machine(h), "kdump", str_is(loaded, "1") ? S("yes") : S("no"), str_z(kexec->path));
	note_cores(h, &cores, &p[8], &p[9], &login);
}

void host_read_platform(struct host *h)
{
	read_logs(h);
	read_crashes(h);
	host_read_security(h);
	host_read_container(h);
}

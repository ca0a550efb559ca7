// What the next crash leaves behind: the log, a dump of the kernel, core files and the room for them.
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/child.h"
#include "host/host.h"
#include "source/tape/tape.h"

enum { NAMES_MOST = 1 << 16, TEXT_MOST = 1 << 14, DROP_INS_MOST = 32, SPACE_MS = 300 };

/** A configuration: some files, then those of some directories, by name. */
struct platform_settings {
	struct probe probes[2 + DROP_INS_MOST];
	size_t n;
};

static int by_name(const void *a, const void *b)
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
	qsort(&ret->probes[files], ret->n - files, sizeof(ret->probes[0]), by_name);
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
	struct str names = probe_text(p);
	while (names.n)
		if (str_glob(pattern, str_split(&names, '\n')))
			return true;
	return false;
}

/** What journald.conf says outright counts; else whether /var/log, where it was recorded, has a journal. */
static void note_journal(struct host *h, const struct platform_settings *s, const struct probe *files, const struct probe *log)
{
	static const char *const texts[] = { "kern.log", "messages", "syslog", "everything.log" };
	struct str where = S("/var/log"), storage = setting(s, S("Storage"), &where);
	// That a tree has no journal says something only where it has the rest of systemd's.
	bool systemd = !h->root || files[0].end == PROBE_GOOD || files[1].end == PROBE_GOOD;
	if (!storage.n || str_is(storage, "auto"))
		storage = lists(log, S("journal"))          ? S("persistent") :
			  log->end == PROBE_GOOD && systemd ? S("volatile") :
							      S("");
	bool kept = false;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		kept |= lists(log, str_z(texts[i]));
	host_note(h, host_machine(h), "journal", storage, where);
	if (log->end == PROBE_GOOD)
		host_note(h, host_machine(h), "kern_log", kept ? S("yes") : S("no"), S("/var/log"));
}

static void note_crash(struct host *h, const struct probe *pstore, const struct probe *kexec)
{
	struct str loaded = probe_text(kexec);
	if (pstore->end == PROBE_GOOD)
		host_note(h, host_machine(h), "pstore", pstore->n ? S("full") : S("empty"), str_z(pstore->path));
	if (loaded.n)
		host_note(h, host_machine(h), "kdump", str_is(loaded, "1") ? S("yes") : S("no"), str_z(kexec->path));
}

// --- cores ---

/** A file system may be one that does not answer: asked in a child. */
static void ask_space(int fd, const void *path)
{
	struct statvfs v;
	int64_t bytes;
	if (statvfs(path, &v))
		return;
	bytes = (int64_t)(v.f_bavail * v.f_frsize);
	if (write(fd, &bytes, sizeof(bytes)) < 0)
		return;
}

static void note_space(struct host *h, struct str directory)
{
	struct text answer = { 0 };
	int64_t bytes = -1;
	if (!tape_plays(h->tape) && child_run(ask_space, arena_z(&h->arena, directory), SPACE_MS, sizeof(bytes), &answer) &&
	    answer.n == sizeof(bytes))
		memcpy(&bytes, answer.p, sizeof(bytes));
	text_free(&answer);
	bytes = tape_number(h->tape, "core space", bytes);
	if (bytes < 0)
		return;
	host_note(h, host_machine(h), "gpu_core_dir", directory, (struct str){ 0 });
	host_note_number(h, host_machine(h), "core_free_gb", bytes >> 30, directory);
}

/** The directory that a core pattern puts files into: the one that it names, or the program's working directory. */
static struct str directory_of(struct str pattern)
{
	size_t n = pattern.n;
	while (n && pattern.p[n - 1] != '/')
		n--;
	return !n ? S(".") : str_cut(pattern, n > 1 ? n - 1 : 1);
}

/** The name of the program that a pipe leads to. */
static struct str handler_of(struct str pattern)
{
	struct str rest = str_from(pattern, 1);
	return str_base(str_word(&rest));
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

/** The limit that a login gets; the last line counts. It only tells whether there is a limit, since its unit is another. */
static struct str login_limit(const struct platform_settings *s, struct str *ret_where)
{
	struct str found = { 0 };
	for (size_t i = 0; i < s->n; i++) {
		struct str text = probe_text(&s->probes[i]);
		while (text.n) {
			struct str one = limit_in(str_split(&text, '\n'));
			if (!str_is(one, "unlimited") && !str_is(one, "0"))
				continue;
			found = one;
			*ret_where = str_z(s->probes[i].path);
		}
	}
	return found;
}

static struct str core_limit(struct host *h, struct str limits, const struct platform_settings *login, struct str *ret_where)
{
	struct rlimit live;
	while (h->root && limits.n) {
		struct str rest, line = str_split(&limits, '\n');
		if (str_behind(line, S("Max core file size"), &rest))
			return str_word(&rest);
	}
	if (h->root)
		return login_limit(login, ret_where);
	struct str said = { 0 };
	if (!getrlimit(RLIMIT_CORE, &live))
		said = live.rlim_cur == RLIM_INFINITY ? S("unlimited") :
							arena_printf(&h->arena, "%llu", (unsigned long long)live.rlim_cur);
	return tape_said(h->tape, &h->arena, "core limit", said);
}

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
	host_note(h, m, "core_handler", pipe ? handler_of(text) : (struct str){ 0 }, where);
	host_note(h, m, "core_dir", pipe ? (struct str){ 0 } : directory_of(text), where);
	struct str storage = setting(s, S("Storage"), &where);
	host_note(h, m, "coredump_storage", storage, where);
	struct str own = tape_said(h->tape, &h->arena, "HSA_COREDUMP_PATTERN", str_z(getenv("HSA_COREDUMP_PATTERN")));
	struct str gpu = own.n ? own : text;
	if (!h->root && vram > 0 && !str_starts(gpu, S("|")))
		note_space(h, directory_of(gpu));
}

void host_read_platform(struct host *h)
{
	struct probe p[] = {
		{ .path = "/usr/lib/systemd/journald.conf", .size = TEXT_MOST },
		{ .path = "/etc/systemd/journald.conf", .size = TEXT_MOST },
		{ .kind = PROBE_LIST, .path = "/usr/lib/systemd/journald.conf.d" },
		{ .kind = PROBE_LIST, .path = "/etc/systemd/journald.conf.d" },
		{ .path = "/usr/lib/systemd/coredump.conf", .size = TEXT_MOST },
		{ .path = "/etc/systemd/coredump.conf", .size = TEXT_MOST },
		{ .kind = PROBE_LIST, .path = "/usr/lib/systemd/coredump.conf.d" },
		{ .kind = PROBE_LIST, .path = "/etc/systemd/coredump.conf.d" },
		{ .kind = PROBE_LIST, .path = "/var/log", .size = NAMES_MOST },
		{ .kind = PROBE_LIST, .path = "/sys/fs/pstore" },
		{ .path = "/sys/kernel/kexec_crash_loaded" },
		{ .path = "/proc/sys/kernel/core_pattern" },
		{ .path = "/proc/self/limits" },
		{ .path = "/etc/security/limits.conf", .size = TEXT_MOST },
		{ .kind = PROBE_LIST, .path = "/etc/security/limits.d" },
	};
	struct platform_settings journal, cores, login;
	host_probe(h, p, sizeof(p) / sizeof(p[0]));
	read_settings(h, &p[0], 4, &journal);
	read_settings(h, &p[4], 4, &cores);
	read_settings(h, &p[13], 2, &login);
	note_journal(h, &journal, &p[0], &p[8]);
	note_crash(h, &p[9], &p[10]);
	note_cores(h, &cores, &p[11], &p[12], &login);
	host_read_security(h);
	host_read_container(h);
}

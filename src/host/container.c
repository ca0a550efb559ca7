// Whether this is a container, what it was given, and whether the user may open the GPUs' nodes. The nodes are never opened.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "host/host.h"
#include "source/privileged/privileged.h"
#include "source/source.h"
#include "source/tape/tape.h"

enum { TEXT_MOST = 1 << 15, MOUNTS_MOST = 1 << 17, NAMES_MOST = 1 << 16, SYS_PTRACE = 19 };

enum file {
	FILE_DOCKER,
	FILE_PODMAN,
	FILE_CGROUP,
	FILE_FIRST,  // environment of process 1
	FILE_MOUNTS, // the first of three that say the same
	FILE_OWN_MOUNTS,
	FILE_ALL_MOUNTS,
	FILE_LIMITS,
	FILE_STATUS,
	FILE_MEMORY,
	FILE_GROUPS,
	FILE_DEV,
	FILE_DRI,
	FILES
};

struct container_looked {
	struct host *h;
	struct host_item *m;
	struct probe files[FILES];
};

static struct str host_container_text_of(const struct container_looked *l, enum file f) { return probe_text(&l->files[f]); }
static struct str where_of(const struct container_looked *l, enum file f) { return str_z(l->files[f].path); }

static const struct {
	enum file file;
	const char *word, *kind; // no word: that the file is there is enough
} signs[] = {
	{ FILE_PODMAN, NULL, "podman" },
	{ FILE_CGROUP, "kubepods", "kubernetes" },
	{ FILE_MOUNTS, "/kubelet/", "kubernetes" },
	{ FILE_DOCKER, NULL, "docker" },
	{ FILE_CGROUP, "docker", "docker" },
	{ FILE_CGROUP, "libpod", "podman" },
	{ FILE_CGROUP, "containerd", "containerd" },
	{ FILE_CGROUP, "/lxc", "lxc" },
	{ FILE_FIRST, "container=podman", "podman" },
	{ FILE_FIRST, "container=lxc", "lxc" },
	{ FILE_FIRST, "container=systemd-nspawn", "nspawn" },
	{ FILE_FIRST, "container=oci", "oci" },
};

/** A host's /proc/1/mountinfo may name a kubelet too: only other signs make it a container. */
static const char *host_container_kind_of(const struct container_looked *l, bool known, struct str *ret_where)
{
	for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
		const struct probe *p = &l->files[signs[i].file];
		bool is = signs[i].word ? str_find(probe_text(p), str_z(signs[i].word)) >= 0 : p->end == PROBE_GOOD;
		if (!is || (signs[i].file == FILE_MOUNTS && !known))
			continue;
		*ret_where = str_z(p->path);
		return signs[i].kind;
	}
	return NULL;
}

/** `size=65536k` among the options of the file system that is mounted at /dev/shm; false where the file has none. */
static bool note_shared_memory(struct container_looked *l, enum file file)
{
	struct str text = host_container_text_of(l, file);
	int64_t kb, last = -1;
	str_each (line, text, '\n') {
		ptrdiff_t at = str_find(line, S("size="));
		size_t digits = 0;
		if (str_find(line, S(" /dev/shm ")) < 0 || at < 0)
			continue;
		line = str_from(line, (size_t)at + 5);
		while (digits < line.n && digits < 15 && char_digit(line.p[digits]))
			digits++;
		if (digits < line.n && line.p[digits] == 'k' && str_number(str_cut(line, digits), &kb))
			last = kb; // what was mounted there before lies below it
	}
	if (last >= 0)
		host_note_number(l->h, l->m, "shm_mb", last >> 10, where_of(l, file));
	return last >= 0;
}

/** A tree may hold a part of /dev: what is not there counts only where the usual is. */
static void note_nodes(struct container_looked *l)
{
	struct str names = host_container_text_of(l, FILE_DEV), renders = host_container_text_of(l, FILE_DRI);
	bool kfd = false, dri = false, whole = false, nvidia = false;
	str_each (name, names, '\n') {
		kfd |= str_is(name, "kfd");
		dri |= str_is(name, "dri");
		whole |= str_is(name, "null");
		nvidia |= str_is(name, "nvidiactl");
	}
	// In a container's record that has render nodes, /dev shows what the container was given.
	const struct host_fact *container = host_fact(l->h, l->m, S("container"), 0);
	if (kfd || whole || (dri && container && str_is(container->value, "yes")))
		host_note(l->h, l->m, "kfd_node", kfd ? S("yes") : S("no"), S("/dev"));
	if (whole || dri)
		host_note(l->h, l->m, "render_node", str_find(renders, S("renderD")) >= 0 ? S("yes") : S("no"), S("/dev/dri"));
	if (nvidia)
		host_note(l->h, l->m, "nvidia", S("yes"), S("/dev/nvidiactl"));
}

// --- permissions ---

/** `render:x:105:alice,bob` of @gid; empty where the file has none. */
static struct str group_line(struct str text, int64_t gid)
{
	str_each (line, text, '\n') {
		struct str rest = line;
		int64_t number;
		str_split(&rest, ':');
		str_split(&rest, ':');
		if (str_number(str_split(&rest, ':'), &number) && number == gid)
			return line;
	}
	return (struct str){ 0 };
}

static bool host_container_is_member(struct str line, struct str user)
{
	for (size_t i = 0; i < 3; i++)
		str_split(&line, ':');
	str_each (name, line, ',')
		if (str_eq(str_trim(name), user))
			return true;
	return false;
}

/** As who the user's programs run: where this was started with sudo, not as root. */
static struct str who(void)
{
	static const char *const names[] = { "SUDO_USER", "LOGNAME", "USER" };
	for (size_t i = privileged_uid() ? 1 : 0; i < ARRAY_SIZE(names); i++) {
		const char *name = getenv(names[i]);
		if (name && *name)
			return str_z(name);
	}
	return (struct str){ 0 };
}

static const char kfd[] = "/dev/kfd";

/** Returns the line of its group. */
static struct str note_kfd(struct container_looked *l, const struct stat *st)
{
	struct str line = group_line(host_container_text_of(l, FILE_GROUPS), (int64_t)st->st_gid), name = line;
	host_note(l->h, l->m, "kfd_mode", arena_printf(&l->h->arena, "%04o", (unsigned)st->st_mode & 07777), S(kfd));
	host_note_number(l->h, l->m, "kfd_gid", (int64_t)st->st_gid, S(kfd));
	host_note(l->h, l->m, "kfd_group", str_split(&name, ':'), where_of(l, FILE_GROUPS));
	return line;
}

/** Whether a process with this /proc/self/status has @id in a line: `Groups:\t4 24 104`. */
static bool status_has(struct str status, struct str key, int64_t id)
{
	struct str rest = line_behind(status, key);
	int64_t number;
	for (struct str one = str_word(&rest); one.n; one = str_word(&rest))
		if (str_number(one, &number) && number == id)
			return true;
	return false;
}

/** The node of a tree is not opened either. A copy that is not root's has not kept its owner, so that its permissions say nothing; a file
 * in the place of the node that belongs to group 0 may not have kept its group. */
static void note_recorded_permissions(struct container_looked *l)
{
	struct str status = host_container_text_of(l, FILE_STATUS);
	struct opened what = { 0 };
	door_forget(host_answers(l->h, kfd) ? door_look(&(struct named){ .path = kfd, .root = l->h->root }, &what) : NULL);
	const struct stat st = what.st;
	if ((!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)) || st.st_uid)
		return;
	note_kfd(l, &st);
	if ((!S_ISCHR(st.st_mode) && !st.st_gid) || !line_behind(status, S("Uid:")).n || !line_behind(status, S("Groups:")).n)
		return;
	// There root is no root of the machine: it may open what everybody may.
	bool root = status_has(status, S("Uid:"), 0) && !str_is(host_value(l->h, l->m, "user_namespace"), "yes"),
	     member = status_has(status, S("Gid:"), (int64_t)st.st_gid) || status_has(status, S("Groups:"), (int64_t)st.st_gid);
	unsigned bits = member ? st.st_mode >> 3 & 7 : st.st_mode & 7;
	host_note(l->h, l->m, "user_is_root", root ? S("yes") : S("no"), where_of(l, FILE_STATUS));
	host_note(l->h, l->m, "kfd_access", root || (bits & 6) == 6 ? S("yes") : S("no"), S(kfd));
}

/** Whether the user may open a node; -1: there is none. */
static int64_t may_open(struct host *h, struct str path)
{
	struct stat st;
	struct str name = arena_printf(&h->arena, "access " STR_FMT, STR_ARG(path));
	return tape_number(h->tape, name.p, stat(path.p, &st) ? -1 : !privileged_uid() || !access(path.p, R_OK | W_OK));
}

/** Who may open the GPU, by mode, owner and groups of /dev/kfd: opening it to find out would create a process there. */
static void note_permissions(struct container_looked *l)
{
	struct host *h = l->h;
	struct stat st;
	struct str user = tape_said(h->tape, &h->arena, "user", who()), where = S(kfd);
	host_note(h, l->m, "user", user, (struct str){ 0 });
	host_note(h, l->m, "user_is_root", tape_number(h->tape, "euid", privileged_uid()) ? S("no") : S("yes"),
		  (struct str){ 0 });
	for (size_t d = 0; d < h->devices.n; d++) {
		struct str path = arena_printf(&h->arena, "/dev/dri/renderD%d", h->devices.list[d].render);
		int64_t may = h->devices.list[d].render >= 0 ? may_open(h, path) : -1;
		if (may >= 0)
			host_note(h, host_gpu(h, &h->devices.list[d]), "render_access", may ? S("yes") : S("no"), path);
	}
	// Mode and group of /dev/kfd; there may be none.
	bool there = !stat(kfd, &st);
	int64_t mode = tape_number(h->tape, "mode /dev/kfd", there ? (int64_t)st.st_mode : -1);
	int64_t group = tape_number(h->tape, "group /dev/kfd", there ? (int64_t)st.st_gid : -1);
	st.st_mode = (mode_t)mode;
	st.st_gid = (gid_t)group;
	if (mode < 0)
		return;
	struct str line = note_kfd(l, &st);
	host_note(h, l->m, "kfd_access", may_open(h, where) > 0 ? S("yes") : S("no"), where);
	if (line.n && user.n)
		host_note(h, l->m, "user_in_render", host_container_is_member(line, user) ? S("yes") : S("no"),
			  where_of(l, FILE_GROUPS));
}

void host_read_container(struct host *h)
{
	struct container_looked l = { h,
				      host_machine(h),
				      {
					      [FILE_DOCKER] = { .path = "/.dockerenv" },
					      [FILE_PODMAN] = { .path = "/run/.containerenv" },
					      [FILE_CGROUP] = { .path = "/proc/1/cgroup" },
					      [FILE_FIRST] = { .path = "/proc/1/environ", .size = TEXT_MOST },
					      [FILE_MOUNTS] = { .path = "/proc/self/mountinfo", .size = MOUNTS_MOST },
					      [FILE_OWN_MOUNTS] = { .path = "/proc/self/mounts", .size = MOUNTS_MOST },
					      [FILE_ALL_MOUNTS] = { .path = "/proc/mounts", .size = MOUNTS_MOST },
					      [FILE_LIMITS] = { .path = "/proc/self/limits" },
					      [FILE_STATUS] = { .path = "/proc/self/status" },
					      [FILE_MEMORY] = { .path = "/sys/fs/cgroup/memory.max" },
					      [FILE_GROUPS] = { .path = "/etc/group", .size = TEXT_MOST },
					      [FILE_DEV] = { .kind = PROBE_LIST, .path = "/dev", .size = NAMES_MOST },
					      [FILE_DRI] = { .kind = PROBE_LIST, .path = "/dev/dri" },
				      } };
	host_probe(h, l.files, FILES);
	struct str where = where_of(&l, FILE_CGROUP);
	bool contained = !l.h->root && tape_number(l.h->tape, "container", source_in_container()) > 0;
	bool said = !l.h->root && tape_said(l.h->tape, &l.h->arena, "UNHANG_CONTAINER", str_z(getenv("UNHANG_CONTAINER"))).n;
	// Process 1 at the root of its control groups: its view of them is its own.
	bool is = str_is(host_container_text_of(&l, FILE_CGROUP), "0::/") || contained;
	const char *kind = host_container_kind_of(&l, is, &where);
	is = said ? contained : is || kind;
	if (is || !l.h->root || l.files[FILE_CGROUP].end == PROBE_GOOD) {
		host_note(l.h, l.m, "container", is ? S("yes") : S("no"), is ? where : where_of(&l, FILE_CGROUP));
		if (is && kind)
			host_note(l.h, l.m, "container_kind", str_z(kind), where);
	}
	for (enum file f = FILE_MOUNTS; f <= FILE_ALL_MOUNTS && !note_shared_memory(&l, f); f++)
		;
	// Limits that make ROCm fail inside of a container.
	struct str memory = host_container_text_of(&l, FILE_MEMORY), status = host_container_text_of(&l, FILE_STATUS);
	struct str locked = line_behind(host_container_text_of(&l, FILE_LIMITS), S("Max locked memory"));
	struct str seccomp = line_behind(status, S("Seccomp:")), caps = line_behind(status, S("CapEff:"));
	int64_t bytes;
	uint64_t bits;
	locked = str_word(&locked);
	if (str_number(locked, &bytes))
		host_note_number(l.h, l.m, "memlock_kb", bytes >> 10, where_of(&l, FILE_LIMITS));
	else if (str_is(locked, "unlimited"))
		host_note(l.h, l.m, "memlock_kb", locked, where_of(&l, FILE_LIMITS));
	if (str_number(memory, &bytes))
		host_note_number(l.h, l.m, "memory_limit_mb", bytes >> 20, where_of(&l, FILE_MEMORY));
	if (seccomp.n)
		host_note(l.h, l.m, "seccomp", str_is(seccomp, "0") ? S("no") : S("yes"), where_of(&l, FILE_STATUS));
	if (str_hex(caps, &bits))
		host_note(l.h, l.m, "ptrace", bits >> SYS_PTRACE & 1 ? S("yes") : S("no"), where_of(&l, FILE_STATUS));
	note_nodes(&l);
	if (h->root)
		note_recorded_permissions(&l);
	else
		note_permissions(&l);
}

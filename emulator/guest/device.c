// /dev/kfd: what a guest's library reads of it and tells it, and the guest's directory in sysfs.
#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "emulator/guest/guest.h"
#include "emulator/server.h"
#include "emulator/preload/tell.h"

enum { STATUS_BYTES = 4096 };

/** The process that a thread is of, and its name, as /proc has it. 0: it is gone. */
static int process_of(pid_t thread, struct str *ret_name, char room[static STATUS_BYTES])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)thread);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, room, STATUS_BYTES);
	struct str rest = { room, n > 0 ? (size_t)n : 0 }, value;
	int64_t pid = 0;
	*ret_name = S("");
	while (rest.n) {
		struct str line = str_split(&rest, '\n');
		if (str_behind(line, S("Name:"), &value))
			*ret_name = value;
		else if (str_behind(line, S("Tgid:"), &value) && !str_number(value, &pid))
			pid = 0;
	}
	return (int)pid;
}

/** Without a block `kfd` only the scenario's own processes have it open; nothing else can be done with it. */
static int kfd_open(struct server *s, struct open_file *f, pid_t caller)
{
	for (size_t i = 0; i < emu_processes(s->machine); i++)
		if (emu_process_pid(emu_process(s->machine, i)) == caller)
			return 0;
	f->kfd.server = s;
	return emu_kfd(s->machine) ? 0 : EPERM;
}

static int kfd_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	if (!emu_kfd(s->machine))
		return EINVAL;
	if (!at) {
		text_clear(&f->text);
		emu_kfd_text(s->machine, &f->text);
	}
	text_add(ret, str_cut(str_from(text_str(&f->text), (size_t)at), size));
	return 0;
}

// --- sysfs ---

static const struct emu_process *process_with(const struct server *s, size_t pid)
{
	for (size_t i = 0; i < emu_processes(s->machine); i++)
		if (emu_process_pid(emu_process(s->machine, i)) == (int)pid)
			return emu_process(s->machine, i);
	return NULL;
}

static int fill_vram(struct server *s, const struct node *n, struct text *ret)
{
	const struct emu_process *p = process_with(s, n->index);
	text_printf(ret, "%llu\n", p ? (unsigned long long)emu_process_vram(p, n->seat->gpu) : 0);
	return 0;
}

static void build_guest(struct server *s, const struct emu_process *p)
{
	static const struct kind vram_kind = { .fill = fill_vram };
	struct node *d = tree_directory(s, s->kfd_processes, arena_printf(&s->arena, "%d", emu_process_pid(p)).p, 0755);
	tree_text(s, d, "pasid", arena_printf(&s->arena, "%u\n", emu_process_pasid(p)));
	tree_directory(s, d, "queues", 0755);
	for (size_t i = 0; i < s->nseats; i++) {
		uint32_t id = s->seats[i].facts->gpu_id;
		struct node *n = tree_file(s, d, arena_printf(&s->arena, "vram_%u", id).p, 0444, &vram_kind);
		n->seat = &s->seats[i];
		n->index = (size_t)emu_process_pid(p);
		tree_text(s, d, arena_printf(&s->arena, "sdma_%u", id).p, S("0\n"));
	}
}

/** Its queues as they are now. */
static void build_queues(struct server *s, const struct emu_process *p)
{
	struct str name = arena_printf(&s->arena, "%d", emu_process_pid(p));
	struct node *d = tree_find(s->kfd_processes, name), *queues = d ? tree_find(d, S("queues")) : NULL;
	if (!queues)
		return;
	queues->children.len = 0;
	for (size_t i = 0; i < emu_queues(s->machine); i++) {
		struct emu_queue q = emu_queue(s->machine, i);
		if (q.process == p)
			build_kfd_queue(s, queues, &q);
	}
}

static void remove_guest(struct server *s, const struct emu_process *p)
{
	struct str name = arena_printf(&s->arena, "%d", emu_process_pid(p));
	tree_remove(s->kfd_processes, name);
}

// --- telling ---

static int kfd_ioctl(struct server *s, struct open_file *f, unsigned request, char *data, size_t size, pid_t caller)
{
	if (request != KMT_TELL || size < KMT_TELL_BYTES || f->kfd.server != s)
		return EINVAL;
	struct str line = { data, strnlen(data, KMT_TELL_BYTES) };
	if (!f->kfd.process) {
		char room[STATUS_BYTES];
		struct str name;
		int pid = process_of(caller, &name, room);
		if (!pid)
			return ESRCH;
		f->kfd.process = emu_guest_join(s->machine, name, pid);
		build_guest(s, f->kfd.process);
	}
	size_t queues = emu_queues(s->machine);
	bool good = emu_guest_tells(s->machine, f->kfd.process, line, server_time(s));
	if (emu_queues(s->machine) != queues)
		build_queues(s, f->kfd.process);
	return good ? 0 : EINVAL;
}

static void kfd_close(struct open_file *f)
{
	struct server *s = f->kfd.server;
	if (!s || !f->kfd.process)
		return;
	remove_guest(s, f->kfd.process);
	emu_guest_leave(s->machine, f->kfd.process, server_time(s));
}

static uint64_t no_size(struct server *s, const struct node *n)
{
	(void)s, (void)n;
	return 0;
}

const struct kind kfd_kind = { .open = kfd_open, .read = kfd_read, .ioctl = kfd_ioctl, .close = kfd_close, .size = no_size };

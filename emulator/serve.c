// FUSE: requests to answers. One thread; what has to wait is put aside, so that nothing else waits with it.
#define FUSE_USE_VERSION 35
#include <errno.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "emulator/server.h"

enum { AWAKE_SECONDS = 5 };
static const double never = 1e18;

enum emu_state seat_state(const struct server *s, const struct seat *seat)
{
	double t = server_time(s);
	enum emu_state state = emu_state(seat->gpu, t);
	const bool awake = (state == EMU_SUSPENDED && t < seat->awake_until) || (state == EMU_GFXOFF && t < seat->on_until);
	return awake ? EMU_AWAKE : state;
}

void seat_wake(struct server *s, const struct node *n, pid_t caller)
{
	if (seat_state(s, n->seat) == EMU_SUSPENDED)
		record_event(s, n, "wake", caller);
	n->seat->awake_until = server_time(s) + AWAKE_SECONDS;
}

static struct emu_behaviour behaviour(const struct server *s, const struct node *n)
{
	struct emu_behaviour none = { 0 };
	if (!n->path.n)
		return none;
	double t = server_time(s);
	if (n->seat || !s->nseats)
		return emu_behaviour(s->machine, n->seat ? n->seat->gpu : NULL, n->path, t);
	// Files of the whole machine: any GPU's block may speak of them.
	for (size_t i = 0; i < s->nseats; i++) {
		struct emu_behaviour b = emu_behaviour(s->machine, s->seats[i].gpu, n->path, t);
		if (b.does != EMU_ANSWERS)
			return b;
	}
	return emu_behaviour(s->machine, NULL, n->path, t);
}

static struct server *server_of(fuse_req_t r) { return fuse_req_userdata(r); }
static pid_t caller_of(fuse_req_t r) { return fuse_req_ctx(r)->pid; }
static struct node *node_of(fuse_req_t r, fuse_ino_t number) { return server_of(r)->nodes.data[number - 1]; }
static struct open_file *file_of(struct fuse_file_info *fi) { return (struct open_file *)(uintptr_t)fi->fh; }

/** An ordinary user may not enter debugfs. */
static bool closed(const struct server *s, const struct node *n) { return n->debugfs && emu_user(s->machine); }

static struct stat stat_of(struct server *s, const struct node *n)
{
	struct stat st = { .st_ino = n->number, .st_mode = n->mode, .st_nlink = S_ISDIR(n->mode) ? 2 : 1, .st_blksize = 4096 };
	if (S_ISLNK(n->mode))
		st.st_size = (off_t)strlen(n->link);
	else if (S_ISREG(n->mode) && n->kind->size)
		st.st_size = (off_t)n->kind->size(s, n);
	else if (S_ISREG(n->mode) && !n->debugfs)
		st.st_size = 4096;
	return st;
}

/** What a path is made of is asked for again only after a while, as it costs more than what is read. */
#define REMEMBERED 0.2

static double remembered(const struct node *n) { return S_ISREG(n->mode) ? 0 : REMEMBERED; }

static void on_lookup(fuse_req_t r, fuse_ino_t parent, const char *name)
{
	struct server *s = server_of(r);
	const struct node *directory = node_of(r, parent);
	struct node *n = S_ISDIR(directory->mode) ? tree_find(directory, str_z(name)) : NULL;
	if (closed(s, directory)) {
		fuse_reply_err(r, EACCES);
	} else if (!n || behaviour(s, n).does == EMU_ABSENT) {
		fuse_reply_err(r, ENOENT);
	} else {
		struct fuse_entry_param e = { .ino = n->number, .attr = stat_of(s, n), .entry_timeout = REMEMBERED };
		e.attr_timeout = remembered(n);
		fuse_reply_entry(r, &e);
	}
}

static void on_getattr(fuse_req_t r, fuse_ino_t number, struct fuse_file_info *fi)
{
	(void)fi;
	const struct node *n = node_of(r, number);
	struct stat st = stat_of(server_of(r), n);
	fuse_reply_attr(r, &st, remembered(n));
}

/** Only an open that truncates comes here: nothing of it can be changed. */
static void on_setattr(fuse_req_t r, fuse_ino_t number, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	(void)attr;
	if (to_set & ~FUSE_SET_ATTR_SIZE)
		fuse_reply_err(r, EPERM);
	else
		on_getattr(r, number, fi);
}

static void on_readlink(fuse_req_t r, fuse_ino_t number) { fuse_reply_readlink(r, node_of(r, number)->link); }

static void on_opendir(fuse_req_t r, fuse_ino_t number, struct fuse_file_info *fi)
{
	if (closed(server_of(r), node_of(r, number)))
		fuse_reply_err(r, EACCES);
	else
		fuse_reply_open(r, fi);
}

static void on_readdir(fuse_req_t r, fuse_ino_t number, size_t size, off_t at, struct fuse_file_info *fi)
{
	(void)fi;
	struct server *s = server_of(r);
	const struct node *n = node_of(r, number);
	struct text out = { 0 };
	for (size_t i = (size_t)at; i < n->children.len + 2; i++) {
		const struct node *child = i < 2 ? n : n->children.data[i - 2];
		const char *name = i == 0 ? "." : i == 1 ? ".." : child->name;
		if (i >= 2 && behaviour(s, child).does == EMU_ABSENT)
			continue;
		struct stat st = { .st_ino = child->number, .st_mode = child->mode };
		size_t need = fuse_add_direntry(r, NULL, 0, name, NULL, 0);
		if (out.n + need > size)
			break;
		fuse_add_direntry(r, text_room(&out, need), need, name, &st, (off_t)i + 1);
		out.n += need;
	}
	fuse_reply_buf(r, out.p, out.n);
	text_free(&out);
}

/** As the kernel does under lockdown with files of debugfs. */
static int refused(const struct server *s, const struct node *n, int flags)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	if (n->debugfs && emu_lockdown(s->machine) && (writes || n->kind->locked || (n->mode & 07777 & ~0444)))
		return EPERM;
	return closed(s, n) ? EACCES : 0;
}

static void on_open(fuse_req_t r, fuse_ino_t number, struct fuse_file_info *fi)
{
	struct server *s = server_of(r);
	struct node *n = node_of(r, number);
	struct open_file *f = mem_alloc(sizeof(*f));
	*f = (struct open_file){ .node = n, .flags = fi->flags };
	int error = refused(s, n, fi->flags);
	if (!error && n->kind->open)
		error = n->kind->open(s, f, caller_of(r));
	record_open(s, n, fi->flags, caller_of(r), error);
	if (error) {
		free(f);
		fuse_reply_err(r, error);
		return;
	}
	if (n->kind->wakes_on_open)
		seat_wake(s, n, caller_of(r));
	vec_push(&s->files, f);
	fi->fh = (uintptr_t)f;
	fi->direct_io = 1;
	fuse_reply_open(r, fi);
}

static void file_free(struct open_file *f)
{
	if (f->node->kind->close)
		f->node->kind->close(f);
	text_free(&f->text);
	free(f);
}

static void on_release(fuse_req_t r, fuse_ino_t number, struct fuse_file_info *fi)
{
	(void)number;
	struct server *s = server_of(r);
	struct open_file *f = file_of(fi);
	size_t i = 0;
	while (s->files.data[i] != f)
		i++;
	s->files.data[i] = s->files.data[--s->files.len];
	file_free(f);
	fuse_reply_err(r, 0);
}

/** What the GPU's state makes of an access to one of its files; 0: it goes on. */
static int before(struct server *s, const struct node *n, uint64_t at, pid_t caller)
{
	const struct kind *k = n->kind;
	if (k->acts && !at)
		record_event(s, n, "act", caller);
	if (!n->seat)
		return 0;
	enum emu_state state = seat_state(s, n->seat);
	if (k->smu && state == EMU_RESET)
		return EPERM;
	if (k->smu && state == EMU_OFF_BUS)
		return EIO;
	if (k->wakes)
		seat_wake(s, n, caller);
	return 0;
}

/** A text is made when its beginning is read, and stays what it was for who reads on. */
static int read_text(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	if (at == 0) {
		text_clear(&f->text);
		int error = f->node->kind->fill(s, f->node, &f->text);
		if (error)
			return error;
	}
	if (at < f->text.n)
		text_add(ret, str_cut(str_from(text_str(&f->text), (size_t)at), size));
	return 0;
}

static int answer_read(struct server *s, const struct waiting *w, struct text *ret)
{
	struct open_file *f = w->file;
	const struct kind *k = f->node->kind;
	struct emu_behaviour b = behaviour(s, f->node);
	if (b.does == EMU_FAILS)
		return b.error;
	if (b.does == EMU_ONES) {
		memset(text_room(ret, w->size), 0xff, w->size);
		ret->n += w->size;
		return 0;
	}
	int error = before(s, f->node, w->at, w->caller);
	if (error)
		return error;
	if (b.does == EMU_WAKES && f->node->seat)
		seat_wake(s, f->node, w->caller);
	if (k->fill)
		return read_text(s, f, w->at, w->size, ret);
	return k->read ? k->read(s, f, w->at, w->size, ret) : EINVAL;
}

/** false: it has to wait. */
static bool answer(struct server *s, struct waiting *w)
{
	if (w->ioctl) {
		const struct node *n = w->file->node;
		struct emu_behaviour b = behaviour(s, n);
		int error = b.does == EMU_FAILS ? b.error :
			    n->kind->ioctl      ? n->kind->ioctl(s, w->file, w->number, w->data, w->size, w->caller) :
						  ENOTTY;
		if (error == ANSWER_LATER)
			return false;
		record_ioctl(s, n, w->number, w->data, w->size, w->caller, error);
		if (error)
			fuse_reply_err(w->request, error);
		else
			fuse_reply_ioctl(w->request, 0, w->data, w->out);
		return true;
	}
	struct text out = { 0 };
	int error = answer_read(s, w, &out);
	if (error != ANSWER_LATER) {
		record_read(s, w->file, w->at, w->size, w->caller, error ? -error : (ssize_t)out.n);
		if (error)
			fuse_reply_err(w->request, error);
		else
			fuse_reply_buf(w->request, out.p, out.n);
	}
	text_free(&out);
	return error != ANSWER_LATER;
}

static void on_interrupt(fuse_req_t r, void *data)
{
	struct server *s = data;
	for (size_t i = 0; i < s->waiting.len; i++)
		s->waiting.data[i].interrupted |= s->waiting.data[i].request == r;
}

/** A file that blocks is not answered: its reader sleeps and cannot be killed. */
static void answer_or_wait(struct server *s, struct waiting *w)
{
	struct emu_behaviour b = behaviour(s, w->file->node);
	w->due = -1;
	if (b.does == EMU_BLOCKS) {
		w->due = b.seconds > 0 ? server_time(s) + b.seconds : never;
		record_event(s, w->file->node, "block", w->caller);
	} else if (answer(s, w)) {
		free(w->data);
		return;
	}
	vec_push(&s->waiting, *w);
	if (w->file->node->kind->interruptible && b.does != EMU_BLOCKS)
		fuse_req_interrupt_func(w->request, on_interrupt, s);
}

static void on_read(fuse_req_t r, fuse_ino_t number, size_t size, off_t at, struct fuse_file_info *fi)
{
	(void)number;
	struct open_file *f = file_of(fi);
	f->flags = fi->flags;
	struct waiting w = { .request = r, .file = f, .at = (uint64_t)at, .size = size, .caller = caller_of(r) };
	answer_or_wait(server_of(r), &w);
}

static void on_ioctl(fuse_req_t r, fuse_ino_t number, unsigned cmd, void *arg, struct fuse_file_info *fi, unsigned flags,
		     const void *in, size_t in_size, size_t out_size)
{
	(void)number, (void)arg, (void)flags;
	size_t size = in_size > out_size ? in_size : out_size;
	struct waiting w = { .request = r,
			     .ioctl = true,
			     .file = file_of(fi),
			     .number = cmd,
			     .size = size,
			     .out = out_size,
			     .caller = caller_of(r) };
	w.data = mem_alloc(size + 1);
	if (in_size)
		memcpy(w.data, in, in_size);
	answer_or_wait(server_of(r), &w);
}

static void on_write(fuse_req_t r, fuse_ino_t number, const char *data, size_t size, off_t at, struct fuse_file_info *fi)
{
	(void)number;
	struct server *s = server_of(r);
	struct open_file *f = file_of(fi);
	const struct kind *k = f->node->kind;
	record_write(s, f, (uint64_t)at, data, size, caller_of(r));
	int error = before(s, f->node, (uint64_t)at, caller_of(r));
	if (!error)
		error = k->write ? k->write(s, f, (uint64_t)at, data, size) : EINVAL;
	if (error)
		fuse_reply_err(r, error);
	else
		fuse_reply_write(r, size);
}

static void on_lseek(fuse_req_t r, fuse_ino_t number, off_t at, int whence, struct fuse_file_info *fi)
{
	(void)number, (void)whence;
	struct open_file *f = file_of(fi);
	if (f->node->kind != &log_kind) {
		fuse_reply_err(r, EINVAL);
		return;
	}
	f->log.next = 0;
	f->log.at = (uint64_t)at;
	fuse_reply_lseek(r, at);
}

static void on_poll(fuse_req_t r, fuse_ino_t number, struct fuse_file_info *fi, struct fuse_pollhandle *handle)
{
	(void)number;
	struct open_file *f = file_of(fi);
	if (f->node->kind != &log_kind) {
		if (handle)
			fuse_pollhandle_destroy(handle);
		fuse_reply_poll(r, POLLIN | POLLRDNORM);
		return;
	}
	if (handle) {
		if (f->log.poll)
			fuse_pollhandle_destroy(f->log.poll);
		f->log.poll = handle;
	}
	struct server *s = server_of(r);
	bool more = f->log.next < emu_messages(s->machine) &&
		    emu_message(s->machine, f->log.next).time <= EMU_UPTIME + server_time(s);
	fuse_reply_poll(r, more ? POLLIN | POLLRDNORM : 0);
}

static const struct fuse_lowlevel_ops operations = {
	.lookup = on_lookup,
	.getattr = on_getattr,
	.setattr = on_setattr,
	.readlink = on_readlink,
	.opendir = on_opendir,
	.readdir = on_readdir,
	.open = on_open,
	.release = on_release,
	.read = on_read,
	.write = on_write,
	.ioctl = on_ioctl,
	.lseek = on_lseek,
	.poll = on_poll,
};

struct uh_error *serve_begin(struct server *s, int fuse_fd)
{
	char *arguments[] = { (char[]){ "unhang-emulator" }, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, arguments);
	char mount[32];
	snprintf(mount, sizeof(mount), "/dev/fd/%d", fuse_fd);
	s->session = fuse_session_new(&args, &operations, sizeof(operations), s);
	fuse_opt_free_args(&args);
	if (!s->session || fuse_session_mount(s->session, mount))
		return uh_error_new("FUSE cannot be used");
	return NULL;
}

static void answer_waiting(struct server *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->waiting.len; i++) {
		struct waiting *w = &s->waiting.data[i];
		if (w->interrupted)
			fuse_reply_err(w->request, EINTR);
		if (w->interrupted || (w->due <= server_time(s) && answer(s, w)))
			free(w->data);
		else
			s->waiting.data[kept++] = *w;
	}
	s->waiting.len = kept;
}

/** Whether a request waits for something that comes with time. */
static bool waits(const struct server *s)
{
	for (size_t i = 0; i < s->waiting.len; i++)
		if (s->waiting.data[i].due < never)
			return true;
	return false;
}

/** The next request of the kernel; false: there will be none. */
static bool serve_one(struct server *s)
{
	struct fuse_buf buffer = { .mem = s->received };
	int n = fuse_session_receive_buf(s->session, &buffer);
	s->received = buffer.mem;
	if (n > 0) {
		// The room is a megabyte, which a sanitizer would make anew for each; the request has exactly its size, and its own time.
		buffer.mem = memcpy(mem_alloc((size_t)n), buffer.mem, (size_t)n);
		fuse_session_process_buf(s->session, &buffer);
		free(buffer.mem);
	}
	return !fuse_session_exited(s->session) && (n > 0 || n == -EINTR || n == -EAGAIN);
}

bool serve_some(struct server *s, int timeout_ms, int other_fd, bool *ret_other)
{
	enum { LOOK_MS = 5 };
	struct pollfd fds[] = { { fuse_session_fd(s->session), POLLIN, 0 }, { other_fd, POLLIN, 0 } };
	if ((log_tell(s) || waits(s)) && (timeout_ms < 0 || timeout_ms > LOOK_MS))
		timeout_ms = LOOK_MS;
	*ret_other = false;
	if (poll(fds, 2, timeout_ms) < 0 && errno != EINTR)
		return false;
	*ret_other = fds[1].revents != 0;
	if (fds[0].revents && !serve_one(s))
		return false;
	answer_waiting(s);
	return true;
}

void serve_end(struct server *s)
{
	for (size_t i = 0; i < s->files.len; i++)
		file_free(s->files.data[i]);
	vec_free(&s->files);
	for (size_t i = 0; i < s->waiting.len; i++) {
		free(s->waiting.data[i].data);
		fuse_reply_none(s->waiting.data[i].request); // never answered, but freed
	}
	vec_free(&s->waiting);
	free(s->received);
	fuse_session_unmount(s->session);
	fuse_session_destroy(s->session);
}

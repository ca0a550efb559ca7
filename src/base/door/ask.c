// The side that asks: questions go to the reader in memory that both share. When it does not answer, it is left behind with its memory, and
// the next question begins another, which opens again what was open.
#include "base/door/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/child.h"
#include "base/cleanup.h"

enum { PATIENCE_MS = 10000, PATIENCE_LEAST_MS = 1000, SLICE_MS = 200, END_MS = 100, UNTOLD_MOST = 16 << 10 };

/** A process has one door and one child behind it. Sessions share it as they share the file system. */
static struct door {
	pthread_mutex_t lock; // of all that follows but the boxes
	struct child child;
	struct door_room *room; // NULL: not begun
	bool alone;             // no child could be begun: unhang reads itself
	unsigned generation;    // of the child
	unsigned threads;       // that it has
	unsigned given_up;
	struct text untold; // lines
	struct text silent; // paths that did not answer, each with a newline behind it
	pthread_mutex_t boxes[DOOR_THREADS];
	pthread_mutex_t scan;
} the_door = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.boxes = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER },
	.scan = PTHREAD_MUTEX_INITIALIZER,
};
_Static_assert(DOOR_THREADS == 4, "each box has its lock");

int door_patience_ms(void)
{
	const char *said = getenv("UNHANG_PATIENCE");
	double seconds = said ? strtod(said, NULL) : 0;
	return seconds > 0 && seconds < 86400 ? (int)(seconds * 1000) + 1 : PATIENCE_MS;
}

/** The more paths did not answer, the shorter the wait for the next: a directory on a dead mount may have many files. */
static int patience(const struct door *d)
{
	int ms = door_patience_ms(), least = ms < PATIENCE_LEAST_MS ? ms : PATIENCE_LEAST_MS;
	unsigned shift = d->given_up < 8 ? d->given_up : 8;
	return ms >> shift > least ? ms >> shift : least;
}

int door_patience_now(void) { return patience(&the_door); }

// --- the child ---

static void door_ask_begin(struct door *d, bool for_code)
{
	void *room = mmap(NULL, door_room_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		room = mem_alloc(door_room_size());
	d->room = room;
	d->threads = 1;
	const struct door_start start = { room, for_code };
	d->alone = !child_start(for_code ? CHILD_DOOR_CODE : CHILD_DOOR, door_child, &start, &d->child);
	if (d->alone)
		return;
	fcntl(d->child.fd, F_SETFD, FD_CLOEXEC);
	madvise(room, door_room_size(),
		MADV_DONTFORK); // the child has rights that a later child of this process may have put down
}

/** The room as it is now; begins the child where there is none. */
static struct door_room *room_now(struct door *d, unsigned *ret_generation)
{
	pthread_mutex_lock(&d->lock);
	if (!d->room)
		door_ask_begin(d, false);
	*ret_generation = d->generation;
	struct door_room *room = d->room;
	pthread_mutex_unlock(&d->lock);
	return room;
}

/** Leaves the child of @generation behind, with its memory: it may still write there. */
static void door_ask_abandon(struct door *d, unsigned generation)
{
	pthread_mutex_lock(&d->lock);
	if (d->generation == generation && d->room) {
		child_kill(&d->child, 0);
		d->room = NULL;
		d->generation++;
	}
	pthread_mutex_unlock(&d->lock);
}

void door_end(void)
{
	struct door *d = &the_door;
	pthread_mutex_lock(&d->lock);
	if (d->room && !d->alone)
		child_kill(&d->child, END_MS);
	d->room = NULL;
	d->generation++;
	pthread_mutex_unlock(&d->lock);
}

void door_begin_for_code(void)
{
	struct door *d = &the_door;
	door_end();
	pthread_mutex_lock(&d->lock);
	door_ask_begin(d, true);
	pthread_mutex_unlock(&d->lock);
}

void door_leave(void)
{
	struct door *d = &the_door;
	if (d->room && !d->alone)
		close(d->child.fd);
	d->room = NULL;
	d->generation++;
}

void door_here(void)
{
	door_leave();
	the_door.room = mem_alloc(door_room_size());
	the_door.threads = 1;
	the_door.alone = true;
}

enum answer { ANSWERED, SILENT, LOST };

static enum answer wait_answer(struct door *d, struct door_box *b, unsigned generation)
{
	int64_t last = now_ms();
	int most = patience(d);
	if (b->act == DOOR_NEXT)
		most += b->wait_ms; // which it waits itself
	uint32_t turn, steps = b->steps;
	uint64_t pulse = 0;
	while ((turn = b->turn) & 1) {
		futex_wait(&b->turn, turn, most < SLICE_MS ? most : SLICE_MS);
		if (!(b->turn & 1))
			break;
		if (d->generation != generation || child_ended(&d->child))
			return b->turn & 1 ? LOST : ANSWERED;
		int64_t now = now_ms();
		if (child_moves(d->child.pid, b->thread, &pulse) || b->steps != steps)
			last = now;
		else if (now - last >= most && b->turn & 1)
			return SILENT;
		steps = b->steps;
	}
	return ANSWERED;
}

/** Has the child answer the question in a box. */
static enum answer door_ask_ask(struct door *d, struct door_room *room, struct door_box *b, unsigned generation)
{
	if (d->alone) {
		door_serve(room, b);
		return ANSWERED;
	}
	b->turn++;
	futex_wake(&b->turn);
	enum answer answer = wait_answer(d, b, generation);
	if (answer != ANSWERED)
		door_ask_abandon(d, generation);
	return answer;
}

// --- questions ---

static struct text door_ask_name_of(const struct door_file *f)
{
	struct text name = { 0 };
	text_printf(&name, "%s%s%s", f->path, f->below && !str_ends(str_z(f->path), S("/")) ? "/" : "",
		    f->below ? f->below : "");
	return name;
}

bool door_known_silent(const struct door_file *f)
{
	struct door *d = &the_door;
	struct text name = door_ask_name_of(f);
	pthread_mutex_lock(&d->lock);
	bool found = false;
	for (struct str rest = text_str(&d->silent); rest.n && !found;)
		found = str_eq(str_split(&rest, '\n'), text_str(&name));
	pthread_mutex_unlock(&d->lock);
	text_free(&name);
	return found;
}

struct uh_error *door_no_answer(const char *name, int ms)
{
	struct uh_error *err =
		uh_error_new("%s: no answer for %d.%d s, so unhang gave up on it", name, ms / 1000, ms % 1000 / 100);
	err->errnum = ETIMEDOUT;
	return err;
}

static struct uh_error *no_answer(struct door_file *f, int ms)
{
	struct text name = door_ask_name_of(f);
	if (!f->silent && !door_known_silent(f)) {
		pthread_mutex_lock(&the_door.lock);
		text_printf(&the_door.silent, "%s\n", name.p);
		pthread_mutex_unlock(&the_door.lock);
	}
	f->silent = ms;
	struct uh_error *err = door_no_answer(name.p, ms);
	text_free(&name);
	return err;
}

static struct uh_error *door_ask_failed(const struct door_file *f, int error, const char *why)
{
	if (*why)
		return uh_error_new("%s", why);
	struct text name = door_ask_name_of(f);
	struct uh_error *err =
		error == ESTALE ? uh_error_new("%s: changed while it was opened", name.p) : uh_error_os(error, "%s", name.p);
	text_free(&name);
	return err;
}

static bool fill_names(struct door_box *b, const struct door_file *f)
{
	const struct {
		char *to;
		const char *from;
	} names[] = { { b->path, f->path }, { b->below, f->below }, { b->root, f->root } };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (names[i].from && strlen(names[i].from) >= PATH_MAX)
			return false;
		str_copy(names[i].to, PATH_MAX, names[i].from ? str_z(names[i].from) : S(""));
	}
	b->has_below = f->below;
	b->has_root = f->root;
	b->believed = f->believed;
	b->as_caller = f->as_caller;
	b->inside = f->inside;
	b->why[0] = 0;
	return true;
}

/** If the reader was left behind, the new one opens the file again, and only if it is the same file. */
static enum answer open_anew(struct door *d, struct question *q, unsigned generation)
{
	struct door_box *b = q->box;
	struct door_file *f = q->file;
	if (q->act == DOOR_OPEN || q->act == DOOR_LOOK || q->act == DOOR_THREAD || f->generation == generation)
		return ANSWERED;
	b->act = DOOR_OPEN;
	b->size = 0;
	enum answer answer = door_ask_ask(d, q->room, b, generation);
	bool same = answer == ANSWERED && !b->error && b->opened.st.st_dev == f->opened.st.st_dev &&
		    b->opened.st.st_ino == f->opened.st.st_ino && b->opened.fd >= 0;
	if (answer == ANSWERED && !same) {
		b->error = b->error ? b->error : ESTALE;
		f->generation = generation;
		f->opened.fd = -1;
	} else if (same) {
		f->opened.fd = b->opened.fd;
		f->generation = generation;
	}
	return answer;
}

/** Which box is asked, and where its bytes go. */
static unsigned take_box(struct door *d, struct question *q)
{
	unsigned generation;
	q->room = room_now(d, &generation);
	q->lock = q->thread < d->threads ? q->thread : 0;
	pthread_mutex_lock(&d->boxes[q->lock]);
	q->box = &q->room->boxes[q->lock];
	q->box->to = door_window_at(q->window < 0 ? q->lock : DOOR_THREADS + (unsigned)q->window);
	return generation;
}

void question_end(struct question *q) { pthread_mutex_unlock(&the_door.boxes[q->lock]); }

struct uh_error *question_ask(struct question *q)
{
	struct door *d = &the_door;
	for (int tries = 0; tries < 3; tries++) {
		if (q->file->silent)
			return no_answer(q->file, q->file->silent);
		int ms = patience(d);
		unsigned generation = take_box(d, q);
		struct door_box *b = q->box;
		bool fits = fill_names(b, q->file);
		enum answer answer = fits ? open_anew(d, q, generation) : ANSWERED;
		if (fits && answer == ANSWERED && (q->act <= DOOR_LOOK || q->act == DOOR_THREAD || q->file->opened.fd >= 0)) {
			b->act = q->act;
			b->handle = q->file->opened.fd;
			b->wait_ms = ms;
			b->offset = q->offset;
			b->size = q->size;
			answer = door_ask_ask(d, q->room, b, generation);
		}
		int error = !fits ? ENAMETOOLONG : answer == ANSWERED ? b->error : 0;
		if (answer == ANSWERED && !error) {
			q->file->generation = q->act == DOOR_OPEN ? generation : q->file->generation;
			return NULL;
		}
		if (answer == SILENT && q->act == DOOR_READ && b->n) { // what came counts; who asks for more is told
			uh_error_free(no_answer(q->file, ms));
			d->given_up++;
			return NULL;
		}
		struct uh_error *err = error ? door_ask_failed(q->file, error, b->why) : NULL;
		question_end(q);
		if (err)
			return err;
		if (answer == SILENT) {
			d->given_up++;
			return no_answer(q->file, ms);
		}
	}
	return door_ask_failed(q->file, EIO, "");
}

void door_close_later(const struct door_file *f)
{
	struct door *d = &the_door;
	pthread_mutex_lock(&d->lock);
	struct door_room *room = d->room;
	if (f->opened.fd >= 0 && room && f->generation == d->generation) {
		if (d->alone) {
			close(f->opened.fd);
		} else if (room->to_close - room->closed < DOOR_CLOSES) {
			room->closes[room->to_close % DOOR_CLOSES] = f->opened.fd;
			room->to_close++;
			futex_wake(&room->to_close);
		}
	}
	pthread_mutex_unlock(&d->lock);
}

// --- several threads ---

unsigned door_scan_begin(unsigned wanted)
{
	struct door *d = &the_door;
	struct door_file nobody = { .path = (char *)"", .opened = { .fd = -1 } };
	pthread_mutex_lock(&d->scan);
	wanted = wanted < DOOR_THREADS ? wanted : DOOR_THREADS;
	while (d->threads < wanted) {
		struct question q = { .act = DOOR_THREAD, .file = &nobody, .window = -1 };
		struct uh_error *err = d->alone ? NULL : question_ask(&q);
		uh_error_free(err);
		if (err)
			break;
		if (!d->alone)
			question_end(&q);
		d->threads++;
	}
	return wanted < d->threads ? wanted : d->threads;
}

void door_scan_end(void) { pthread_mutex_unlock(&the_door.scan); }

// --- what did not answer, and nobody was told ---

void door_forget(struct uh_error *err)
{
	struct door *d = &the_door;
	pthread_mutex_lock(&d->lock);
	if (err && err->errnum == ETIMEDOUT && d->untold.n < UNTOLD_MOST)
		text_printf(&d->untold, "%s\n", err->message);
	pthread_mutex_unlock(&d->lock);
	uh_error_free(err);
}

void door_tell(void (*tell)(void *ctx, const char *message), void *ctx)
{
	struct door *d = &the_door;
	pthread_mutex_lock(&d->lock);
	struct text lines = d->untold;
	d->untold = (struct text){ 0 };
	text_free(&d->silent);
	d->silent = (struct text){ 0 };
	pthread_mutex_unlock(&d->lock);
	_cleanup_arena_ struct arena room = { 0 };
	for (struct str rest = text_str(&lines); rest.n;)
		tell(ctx, arena_z(&room, str_split(&rest, '\n')));
	text_free(&lines);
}

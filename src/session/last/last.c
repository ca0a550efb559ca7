// What the flight recorders of one or several processes saw last.
#include "session/last/last.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "evidence/recording/head.h"
#include "evidence/recording/waits.h"
#include "report/last/last.h"
#include "session/session.h"
#include "base/child/put.h"

enum { RECORDINGS_MOST = 4096 };

static int last_by_rank(const void *a, const void *b)
{
	const struct recording_seen *x = a, *y = b;
	const int32_t p = x->recording->header.rank, q = y->recording->header.rank;
	return p != q ? (p < q ? -1 : 1) : str_cmp(x->path, y->path);
}

static struct str last_kernel_of(const struct recorded_packet *p) { return p->kernel ? p->kernel->name : (struct str){ 0 }; }

/** The first packet that both have and that has different kernels: of queues with the same number. */
static void last_part_find(const struct recording_seen *list, size_t one, size_t other, struct ranks_part *ret)
{
	const struct flight_recording *a = list[one].recording, *b = list[other].recording;
	for (size_t q = 0; q < a->nqueues && q < b->nqueues; q++) {
		const struct recorded_queue *x = &a->queues[q], *y = &b->queues[q];
		for (size_t i = 0, k = 0; i < x->n && k < y->n;) {
			const struct recorded_packet *p = &x->packets[i], *o = &y->packets[k];
			if (p->id != o->id) {
				p->id < o->id ? i++ : k++;
				continue;
			}
			if (p->kernel && o->kernel && !str_eq(last_kernel_of(p), last_kernel_of(o)) &&
			    (!ret->known || p->id < ret->packet))
				*ret = (struct ranks_part){ true, p->id, one, other, last_kernel_of(p), last_kernel_of(o) };
			i++;
			k++;
		}
	}
}

static struct ranks_seen ranks_compare(const struct recording_seen *list, size_t n)
{
	struct ranks_seen k = { .known = n > 1 };
	for (size_t i = 0; i < n; i++) {
		uint64_t ended = 0;
		for (size_t q = 0; q < list[i].recording->nqueues; q++)
			ended += list[i].recording->queues[q].read;
		if (!i || ended < k.ended) {
			k.ended = ended;
			k.behind = i;
		}
		k.most = ended > k.most ? ended : k.most;
		if (i)
			last_part_find(list, 0, i, &k.part);
	}
	return k;
}

static struct uh_error *write_perfetto(const struct last_seen *seen)
{
	char *bytes = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&bytes, &n);
	if (!out)
		return uh_error_os(errno, "%s", seen->options->perfetto);
	report_perfetto(seen, out);
	fclose(out);
	struct uh_error *err = put_file(seen->options->perfetto, (struct str){ bytes, n }, 0644, PUT_SAFE, 0);
	free(bytes);
	return err;
}

static void last_read_all(const struct recording_paths *paths, struct last_seen *seen, const struct teller *teller,
			  struct uh_error **ret_err)
{
	struct recording_seen *list = mem_alloc((paths->list.len + 1) * sizeof(*list));
	size_t passed = 0;
	for (size_t i = 0; i < paths->list.len && i < RECORDINGS_MOST; i++) {
		const struct recording_path *p = &paths->list.data[i];
		struct flight_recording *r;
		int64_t owner;
		struct uh_error *err = recording_open(p, &r, &owner);
		if (!err) {
			if (r->alive)
				recording_ask_threads(r, NULL);
			list[seen->n++] = (struct recording_seen){ str_z(p->path), r, owner, owner != getuid() };
			if (paths->one)
				break;
			continue;
		}
		if (*ret_err && paths->one) { // a stranger may have thousands
			passed++;
			uh_error_free(err);
			continue;
		}
		if (*ret_err)
			teller->problem(teller->ctx, uh_error_message(*ret_err));
		uh_error_free(*ret_err);
		*ret_err = err;
	}
	if (passed) {
		struct uh_error *first = *ret_err;
		*ret_err = uh_error_new("%s; and %zu more recording%s could not be read", uh_error_message(first), passed,
					passed == 1 ? "" : "s");
		uh_error_free(first);
	}
	qsort(list, seen->n, sizeof(*list), last_by_rank);
	seen->list = list;
}

static bool waits_somewhere(const struct last_seen *seen)
{
	for (size_t i = 0; i < seen->n; i++)
		for (size_t k = 0; k < seen->list[i].recording->nthreads; k++) {
			const struct rec_thread *t = &seen->list[i].recording->threads[k].raw;
			if (t->call && !t->ended)
				return true;
		}
	return false;
}

/** The incident of a call that does not return; NULL: there is none. It is the session's. */
static const struct incident *waits_explain(struct uh_session *s, const struct last_seen *seen)
{
	const struct source_visitor v = session_visitor(s);
	for (size_t i = 0; i < seen->n; i++)
		source_path(arena_z(&s->arena, seen->list[i].path), &v);
	uh_session_end(s);
	for (size_t i = 0; i < s->ledger.incidents.len; i++) {
		const struct incident *x = s->ledger.incidents.data[i];
		if (x->root && x->root->kind->waits)
			return x;
	}
	return NULL;
}

struct uh_error *uh_last(const struct uh_last_options *o, FILE *out, uh_problem_fn *problem, void *ctx)
{
	const struct teller teller = { problem, ctx };
	struct recording_paths paths = { 0 };
	struct last_seen seen = { .options = o };
	struct uh_error *err = NULL;
	for (size_t i = 0; !err && i < o->ntargets; i++)
		err = recordings_find(o->targets[i], &paths);
	if (!err && !o->ntargets)
		err = recordings_find(NULL, &paths);
	if (!err)
		last_read_all(&paths, &seen, &teller, &err);
	if (seen.n) {
		if (err)
			problem(ctx, uh_error_message(err));
		uh_error_free(err);
		seen.ranks = ranks_compare(seen.list, seen.n);
		struct uh_session *s = waits_somewhere(&seen) ? uh_session_new(tell_nobody, NULL) : NULL;
		seen.waits = s ? waits_explain(s, &seen) : NULL;
		report_last(&seen, out);
		uh_session_free(s);
		err = o->perfetto ? write_perfetto(&seen) : NULL;
	}
	for (size_t i = 0; i < seen.n; i++)
		recording_free((struct flight_recording *)seen.list[i].recording);
	free((void *)seen.list);
	recording_paths_free(&paths);
	return err;
}

/** The one word in the file that anybody but the recorder writes. */
static struct uh_error *write_wanted(const char *path, const struct flight_recording *r, int64_t owner, uint32_t level)
{
	struct rec_header h;
	struct stat st;
	if (level > r->header.max_level)
		return uh_error_new("%s: this process was started for levels up to %u; levels above 3 need other queues, which "
				    "are made when the "
				    "program starts: start it with UNHANG_MAX_LEVEL=%u",
				    path, r->header.max_level, level);
	if (!r->alive || r->header.state != RECORDING_ON)
		return uh_error_new("%s: its process does not record any more", path);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return uh_error_os(errno, "%s", path);
	if (fstat(fd, &st) || st.st_uid != owner || !recording_head(fd, &h) || h.pid != r->header.pid)
		return uh_error_new("%s: another file has taken its place", path);
	const ssize_t n = pwrite(fd, &level, sizeof(level), offsetof(struct rec_header, wanted));
	return n == (ssize_t)sizeof(level) ? NULL : uh_error_os(errno, "%s", path);
}

struct uh_error *uh_record_level(const char *target, unsigned level, FILE *out)
{
	struct recording_paths paths = { 0 };
	struct flight_recording *r = NULL;
	struct uh_error *err = recordings_find(target, &paths);
	for (size_t i = 0; !err && i < paths.list.len; i++) {
		int64_t owner;
		err = recording_open(&paths.list.data[i], &r, &owner);
		if (err)
			break;
		err = write_wanted(paths.list.data[i].path, r, owner, level);
		if (!err)
			fprintf(out, "process %u: level %u, was %u\n", r->header.pid, level, r->header.level);
		recording_free(r);
	}
	recording_paths_free(&paths);
	return err;
}

#include "diagnose/job.h"

#include <stdlib.h>

enum { PROCESSES_MOST = 4096, RANKS_MOST = 1024 };
static const double certain = 0.1; // seconds: a recorder on a busy machine notes that its process lives some times in these

static struct str told_text(const struct event *e, const char *name, struct arena *a)
{
	const struct fact *f = event_fact(e, name);
	return f ? arena_str(a, f->value) : (struct str){ 0 };
}

static int64_t told_number(const struct event *e, const char *name)
{
	const struct fact *f = event_fact(e, name);
	int64_t number;
	return f && str_number(f->value, &number) ? number : -1;
}

void job_take(struct job_seen *j, const struct event *e)
{
	struct arena *a = &j->arena;
	const struct str end = told_text(e, "end", a), since = told_text(e, "accused_since", a);
	const struct job_process p = { .at = e->at,
				       .pid = told_number(e, "pid"),
				       .here = told_number(e, "pid_here"),
				       .rank = told_number(e, "rank"),
				       .packets = told_number(e, "packets"),
				       .gpus = told_text(e, "gpus", a),
				       .gfx = told_text(e, "gfx", a),
				       .sign = e->time.seconds,
				       .end = str_is(end, "well")   ? JOB_WELL :
					      str_is(end, "failed") ? JOB_FAILED :
								      JOB_SILENT,
				       .status = told_number(e, "exit_code"),
				       .since = since.n ? strtod(arena_z(a, since), NULL) : 0,
				       .fault = told_text(e, "fault_seen", a),
				       .place = told_text(e, "fault_place", a),
				       .offset = told_text(e, "fault_offset", a),
				       .kernel = told_text(e, "kernel_name", a),
				       .symbol = told_text(e, "symbol", a),
				       .line = told_text(e, "launch_line", a),
				       .packet = told_number(e, "packet"),
				       .launch = told_number(e, "launch") };
	if (j->list.len < PROCESSES_MOST)
		vec_push(&j->list, p);
}

void job_seen_free(struct job_seen *j)
{
	vec_free(&j->list);
	arena_free(&j->arena);
}

// --- whose kernel ---

const struct job_process *job_suspect(const struct job_seen *j, int64_t rank)
{
	const struct job_process *best = NULL;
	for (size_t i = 0; i < j->list.len; i++) {
		const struct job_process *p = &j->list.data[i];
		if (p->since <= 0 || (!p->fault.n && rank >= 0 && p->rank != rank))
			continue;
		// A fault outweighs what only stands; of the same, the earlier.
		if (!best || (!p->fault.n != !best->fault.n ? p->fault.n > 0 : p->since < best->since))
			best = p;
	}
	return best;
}

// --- which rank was the first to fail ---

/** A rank may have several processes; it ends with the last of them. */
static size_t ranks_of(const struct job_seen *j, const struct job_process **list)
{
	size_t n = 0;
	for (size_t i = 0; i < j->list.len; i++) {
		const struct job_process *p = &j->list.data[i];
		size_t at = 0;
		while (at < n && list[at]->rank != p->rank)
			at++;
		if (p->rank < 0 || at == RANKS_MOST)
			continue;
		if (at == n)
			list[n++] = p;
		else if (p->sign > list[at]->sign)
			list[at] = p;
	}
	return n;
}

/** Of those that did not end well; with @failed, of those that certainly failed. @ret_alone: no other one ended at nearly the same time. */
static const struct job_process *earliest(const struct job_process *const *list, size_t n, bool failed, bool *ret_alone)
{
	const struct job_process *first = NULL;
	*ret_alone = true;
	for (size_t i = 0; i < n; i++) {
		if (list[i]->end == JOB_WELL || (failed && list[i]->end != JOB_FAILED))
			continue;
		const double later = first ? list[i]->sign - first->sign : -certain;
		*ret_alone = later <= -certain || (*ret_alone && later >= certain);
		first = later < 0 ? list[i] : first;
	}
	return first;
}

/** Who ended well did not fail, however early. Who ended without a word most likely did; but a program may also leave so on purpose, and if
 * another one certainly failed later, nobody can tell which of the two was the first. */
struct str job_first(const struct job_seen *j, struct arena *a, const struct job_process **ret)
{
	static const char silent[] = "without a word: it crashed, was killed, or called _exit()";
	_cleanup_free_ const struct job_process **list = mem_alloc(RANKS_MOST * sizeof(*list));
	const size_t n = ranks_of(j, list);
	bool alone, any;
	const struct job_process *first = earliest(list, n, false, &alone), *failed = earliest(list, n, true, &any);
	*ret = NULL;
	if (n < 2 || !first)
		return (struct str){ 0 };
	if (!alone)
		return S("Which rank failed first is not known: several ended at nearly the same time.");
	if (failed && failed != first)
		return arena_printf(
			a,
			"Which rank failed first is not known: rank %lld ended %s; rank %lld ended %.1f s later with "
			"status %lld.",
			(long long)first->rank, silent, (long long)failed->rank, failed->sign - first->sign,
			(long long)failed->status);
	*ret = first;
	if (failed)
		return arena_printf(a, "Rank %lld was the first to fail: it ended with status %lld.", (long long)first->rank,
				    (long long)first->status);
	return arena_printf(a, "Rank %lld was the first to end %s.", (long long)first->rank, silent);
}

// --- what it used ---

int64_t job_packets(const struct job_seen *j, int64_t rank)
{
	int64_t packets = -1;
	for (size_t i = 0; rank >= 0 && i < j->list.len; i++)
		if (j->list.data[i].rank == rank)
			packets = (packets < 0 ? 0 : packets) + j->list.data[i].packets;
	return packets;
}

bool job_uses(const struct job_seen *j, struct str pci)
{
	bool any = false;
	for (size_t i = 0; i < j->list.len; i++) {
		any |= j->list.data[i].gpus.n > 0;
		if (str_find(j->list.data[i].gpus, pci) >= 0)
			return true;
	}
	return !any;
}

// The job's queues stand still: what the GPUs themselves say, and what knowledge/progress.know makes of both.
#include "session/run/run.h"

#include <stdlib.h>

#include "base/print.h"
#include "session/look.h"
#include "session/last/last.h"
#include "session/session.h"
#include "watch/progress.h"

static enum vote run_look_look_of(const struct gpu_observation *g)
{
	return g->unwell || g->stands ? VOTE_STOOD : g->known ? VOTE_MOVED : VOTE_UNKNOWN;
}

void look_votes(const struct gpu_observation *g, FILE *to)
{
	fprintf(to, "vote rings %s\nvote waves %s\nvote firmware %s\nvote look %s\n", vote_name(g->votes.rings),
		vote_name(g->votes.waves), vote_name(g->votes.firmware), vote_name(run_look_look_of(g)));
	if (g->votes.loop)
		print_line(to, "fact loop", S("yes"));
	print_line(to, "fact kernel", g->kernel);
}

struct str look_incident(const struct uh_session *s, struct str pci)
{
	for (size_t i = 0; i < s->ledger.incidents.len; i++) {
		const struct incident *x = s->ledger.incidents.data[i];
		if (x->now && str_eq(x->gpu.device, pci))
			return x->id;
	}
	return (struct str){ 0 };
}

/** What is known of a GPU by now: its recordings stood for so long, and so long looks at it showed what this one shows. */
static void run_look_take(struct gpu_progress *p, const struct gpu_observation *g, const struct job_look *l)
{
	const int64_t begun = 1, now = begun + l->stood_ms;
	_cleanup_free_ char *votes = NULL;
	size_t n = 0;
	FILE *text = open_memstream(&votes, &n);
	if (!text)
		return;
	look_votes(g, text);
	fclose(text);
	p->hung_after = l->hung_after;
	progress_fact(p, "processes", S("1"));
	progress_vote(p, S("recordings"), VOTE_STOOD, begun);
	progress_vote(p, S("recordings"), VOTE_STOOD, now);
	progress_take(p, (struct str){ votes, n }, true, now - l->seen_ms);
	progress_take(p, (struct str){ votes, n }, true, now);
}

/** How bad it is: of several GPUs of the job the worst counts. */
static int run_look_weight(enum pace p)
{
	return p == PACE_HUNG ? 4 : p == PACE_SUSPECTED ? 3 : p == PACE_WAITING ? 2 : p == PACE_UNKNOWN ? 1 : 0;
}

struct worst {
	const struct gpu_observation *gpu;
	struct progress_answer answer;
	struct gpu_progress progress;
};

static void run_look_judge(const struct know *k, const struct gpu_observation *g, const struct job_look *l, struct worst *w)
{
	struct worst own = { .gpu = g };
	progress_begin(&own.progress, k);
	run_look_take(&own.progress, g, l);
	own.answer = progress_judge(&own.progress, 1 + l->stood_ms);
	if (!w->gpu || run_look_weight(own.answer.pace) > run_look_weight(w->answer.pace))
		*w = own;
}

static void run_look_tell(const struct worst *w, FILE *to)
{
	_cleanup_text_ struct text votes = { 0 }, says = { 0 };
	progress_list(&w->progress, &votes);
	progress_say(&w->progress, &w->answer, &says);
	if (!says.n)
		text_add(&says, w->gpu->says.n ? w->gpu->says : w->gpu->health);
	print_line(to, "pace", str_z(pace_name(w->answer.pace)));
	print_line(to, "look", str_z(vote_name(run_look_look_of(w->gpu))));
	print_line(to, "says", text_str(&says));
	const ptrdiff_t unknown = str_find(text_str(&votes), S("; not known"));
	print_line(to, "votes", str_cut(text_str(&votes), unknown < 0 ? votes.n : (size_t)unknown));
}

void run_look(void *ctx, const struct job_look *l, FILE *to)
{
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	struct know *k = look_knowledge((struct teller){ 0 });
	struct worst worst = { 0 };
	(void)ctx;
	recordings_add(s, l->recordings);
	uh_error_free(uh_session_add_machine(s, NULL));
	uh_session_end(s);
	const struct machine_observation *m = s->seen;
	for (size_t i = 0; m && i < m->n; i++)
		if (job_uses(&s->job, m->gpus[i].device->pci))
			run_look_judge(k, &m->gpus[i], l, &worst);
	if (worst.gpu)
		run_look_tell(&worst, to);
	know_free(k);
	uh_session_free(s);
}

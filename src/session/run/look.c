// The job's queues stand still: what the GPUs themselves say, and what knowledge/progress.know makes of both.
#include "session/run/look.h"

#include <stdlib.h>

#include "base/print.h"
#include "session/look.h"
#include "session/run/suspect.h"
#include "session/session.h"
#include "watch/progress.h"

static enum vote look_of(const struct gpu_observation *g)
{
	return g->unwell ? VOTE_STOOD : g->known ? VOTE_MOVED : VOTE_UNKNOWN;
}

void look_votes(const struct gpu_observation *g, FILE *to)
{
	fprintf(to, "vote rings %s\nvote waves %s\nvote firmware %s\nvote look %s\n", vote_name(g->votes.rings),
		vote_name(g->votes.waves), vote_name(g->votes.firmware), vote_name(look_of(g)));
	if (g->votes.loop)
		print_line(to, "fact loop", S("yes"));
	print_line(to, "fact kernel", g->kernel);
}

/** What is known of a GPU by now: its recordings stood for so long, and so long looks at it showed what this one shows. */
static void take(struct gpu_progress *p, const struct gpu_observation *g, const struct job_look *l)
{
	const int64_t begun = 1, now = begun + l->stood_ms;
	char *votes = NULL;
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
	free(votes);
}

/** How bad it is: of several GPUs of the job the worst counts. */
static int weight(enum pace p)
{
	return p == PACE_HUNG ? 4 : p == PACE_SUSPECTED ? 3 : p == PACE_WAITING ? 2 : p == PACE_UNKNOWN ? 1 : 0;
}

struct worst {
	const struct gpu_observation *gpu;
	struct progress_answer answer;
	struct gpu_progress progress;
};

static void judge(const struct know *k, const struct gpu_observation *g, const struct job_look *l, struct worst *w)
{
	struct worst own = { .gpu = g };
	progress_begin(&own.progress, k);
	take(&own.progress, g, l);
	own.answer = progress_judge(&own.progress, 1 + l->stood_ms);
	if (!w->gpu || weight(own.answer.pace) > weight(w->answer.pace))
		*w = own;
}

static void tell(const struct worst *w, FILE *to)
{
	struct text votes = { 0 }, says = { 0 };
	progress_list(&w->progress, &votes);
	progress_say(&w->progress, &w->answer, &says);
	if (!says.n)
		text_add(&says, w->gpu->says.n ? w->gpu->says : w->gpu->health);
	print_line(to, "pace", str_z(pace_name(w->answer.pace)));
	print_line(to, "look", str_z(vote_name(look_of(w->gpu))));
	print_line(to, "says", text_str(&says));
	const ptrdiff_t unknown = str_find(text_str(&votes), S("; not known"));
	print_line(to, "votes", str_cut(text_str(&votes), unknown < 0 ? votes.n : (size_t)unknown));
	text_free(&votes);
	text_free(&says);
}

void run_look(void *ctx, const struct job_look *l, FILE *to)
{
	struct arena a = { 0 };
	struct teller teller = { tell_nobody, NULL };
	struct uh_session *s = uh_session_new(tell_nobody, NULL);
	struct know *k = look_knowledge(&teller);
	struct suspect_gpus own;
	struct worst worst = { 0 };
	(void)ctx;
	suspect_gpus(l->recordings, &a, &own);
	uh_error_free(uh_session_add_machine(s, NULL));
	uh_session_end(s);
	const struct machine_observation *m = s->seen;
	for (size_t i = 0; m && i < m->n; i++)
		if (suspect_uses(&own, m->gpus[i].device->pci))
			judge(k, &m->gpus[i], l, &worst);
	if (worst.gpu)
		tell(&worst, to);
	know_free(k);
	uh_session_free(s);
	arena_free(&a);
}

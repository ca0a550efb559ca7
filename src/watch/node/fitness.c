#include "watch/node/fitness.h"

#include <stdlib.h>

enum { ALONE_S = 60 }; // a GPU that stays stuck so long after its owner ended does not come back by itself

/** The rules of fitness. They come with a release and not with knowledge, because a mistake in one could drain a cluster. One of the newest
 * release is in force on some machines first. */
enum fitness_rule { RULE_ACTION, RULE_STUCK, RULE_MISSING, RULE_PARTITION, RULE_SMOKE, RULE_UNSEEN, RULE_KNOWN, RULES };
static const struct {
	const char *name;
	bool newest; // since this release
} rules[RULES] = {
	[RULE_ACTION] = { "action" },       [RULE_STUCK] = { "stuck" }, [RULE_MISSING] = { "missing" },
	[RULE_PARTITION] = { "partition" }, [RULE_SMOKE] = { "smoke" }, [RULE_UNSEEN] = { "unseen" },
	[RULE_KNOWN] = { "known" },
};

void fitness_add(struct node_answer *to, struct node_finding f)
{
	vec_push(&to->findings, f);
	if (!f.observed && f.status > to->status)
		to->status = f.status;
}

static int worse_first(const void *a, const void *b)
{
	const struct node_finding *one = a, *other = b;
	if (one->observed != other->observed)
		return one->observed - other->observed;
	return (int)other->status - (int)one->status;
}

/** A GPU by itself: what speaks against it, and whether everything about it is known. */
static void judge_each(struct node_answer *a)
{
	for (size_t n = 0; n < a->ngpus; n++) {
		enum node_status worst = NODE_HEALTHY;
		for (size_t k = 0; k < a->findings.len; k++) {
			const struct node_finding *f = &a->findings.data[k];
			if (!f->observed && f->status > worst && (!f->gpu.n || str_eq(f->gpu, a->gpus[n].pci)))
				worst = f->status;
		}
		a->gpus[n].known = worst != NODE_UNKNOWN;
		a->gpus[n].fit = worst < NODE_UNKNOWN;
	}
}

void fitness_end(struct node_answer *a)
{
	judge_each(a);
	if (a->findings.len)
		qsort(a->findings.data, a->findings.len, sizeof(a->findings.data[0]), worse_first);
}

static void add(struct node_answer *to, const struct fitness_asked *asked, enum fitness_rule rule, struct node_finding f)
{
	f.rule = str_z(rules[rule].name);
	f.observed = rules[rule].newest && asked->machine % 100 >= asked->new_rules;
	fitness_add(to, f);
}

void fitness_unknown(struct str why, struct node_answer *ret)
{
	fitness_add(ret, (struct node_finding){ .status = NODE_UNKNOWN,
						.rule = str_z(rules[RULE_UNSEEN].name),
						.class = S("not-watched"),
						.says = why });
}

/** Incidents: what the machine needs decides, not whose fault it was. */
static void judge_incident(const struct stored *i, const struct fitness_asked *asked, struct node_answer *to)
{
	static const char needs[] = "reset|reboot|power-cycle|replace|";
	const bool suspected = i->state == STORED_SUSPECTED;
	const bool unfit = !suspected && str_among(i->action, STR_EQUALS, needs).n;
	const bool open = !suspected && !str_is(i->fit, "yes"); // it may pass by itself, or is not explained yet
	add(to, asked, unfit ? RULE_ACTION : RULE_KNOWN,
	    (struct node_finding){ .status = unfit                             ? NODE_FAILED :
					     open || str_is(i->fit, "unknown") ? NODE_UNKNOWN :
										 NODE_DEGRADED,
				   .gpu = i->gpu,
				   .class = i->class.n ? i->class : S("unexplained"),
				   .says = i->title.n ? i->title : S("An incident is not explained yet."),
				   .fault = i->fault,
				   .action = i->action,
				   .incident = i->id,
				   .bundle = i->bundle,
				   .job = i->job,
				   .since = i->began });
}

static bool fitness_has_incident(const struct watch_state *s, struct str pci)
{
	for (size_t n = 0; n < s->nopen; n++)
		if (s->open[n]->state != STORED_SUSPECTED && str_eq(s->open[n]->gpu, pci))
			return true;
	return false;
}

/** What counters and lists tell of its hardware: bad memory that is in use makes it unfit, a lost lane does not. */
static void judge_hardware(const struct watched_gpu *g, const struct fitness_asked *asked, struct node_answer *to)
{
	const bool unfit = str_is(g->hardware_fit, "no");
	struct str says = g->hardware, first = str_split(&says, '\n');
	add(to, asked, RULE_KNOWN,
	    (struct node_finding){ .status = unfit                               ? NODE_FAILED :
					     str_is(g->hardware_fit, "unknown") ? NODE_UNKNOWN :
										   NODE_DEGRADED,
				   .gpu = g->pci,
				   .class = S("hardware-notes"),
				   .fault = S("node"),
				   .action = unfit ? S("reboot") : (struct str){ 0 },
				   .says = first });
}

static void fitness_judge_gpu(const struct watched_gpu *g, const struct watch_state *s, const struct fitness_asked *asked,
			      struct arena *a, struct node_answer *to)
{
	const bool alone = g->alone_since && asked->now - g->alone_since >= ALONE_S;
	const struct node_finding of = { .gpu = g->pci, .says = g->says, .since = g->alone_since };
	if (g->unwell && (alone || str_is(g->health, "off-bus"))) {
		struct node_finding f = of;
		f.status = NODE_FAILED;
		f.class = alone ? S("gpu-stuck-without-owner") : S("gpu-off-bus");
		f.action = alone ? S("reset") : S("power-cycle");
		f.fault = alone ? S("unknown") : S("node");
		f.says = g->says.n ? g->says :
			 alone     ? S("The GPU is stuck, and no program holds it any more.") :
				     S("The GPU is off the bus.");
		add(to, asked, RULE_STUCK, f);
	} else if (g->unwell && !fitness_has_incident(s, g->pci)) {
		struct node_finding f = of;
		f.status = str_is(g->health, "resetting") ? NODE_UNKNOWN : NODE_DEGRADED;
		f.class = S("gpu-unwell");
		f.says = g->says.n ? g->says : S("The GPU is not well.");
		add(to, asked, RULE_KNOWN, f);
	} else if (!g->seen && !g->unwell) {
		struct node_finding f = of;
		f.status = NODE_UNKNOWN;
		f.class = S("gpu-unseen");
		f.says = g->says.n ? g->says : S("The state of the GPU could not be read.");
		add(to, asked, RULE_UNSEEN, f);
	}
	if (g->hardware_fit.n)
		judge_hardware(g, asked, to);
	if (asked->partition && g->partition.n && !str_is(g->partition, asked->partition))
		add(to, asked, RULE_PARTITION,
		    (struct node_finding){ .status = NODE_FAILED,
					   .gpu = g->pci,
					   .class = S("other-partition"),
					   .fault = S("node"),
					   .says = arena_printf(a, "Its partition mode is " STR_FMT ", not %s.",
								STR_ARG(g->partition), asked->partition) });
}

/** What the watch itself cannot see. */
static void judge_watch(const struct watch_state *s, const struct fitness_asked *asked, struct node_answer *to)
{
	if (!s->looked)
		add(to, asked, RULE_UNSEEN,
		    (struct node_finding){ .status = NODE_UNKNOWN,
					   .class = S("not-looked-yet"),
					   .says = S("The watch has not looked at the GPUs yet.") });
	if (s->unread.n)
		add(to, asked, RULE_UNSEEN,
		    (struct node_finding){ .status = NODE_UNKNOWN, .class = S("log-unread"), .says = s->unread });
	if (s->unlisted.n)
		add(to, asked, RULE_UNSEEN,
		    (struct node_finding){ .status = NODE_UNKNOWN, .class = S("gpus-unread"), .says = s->unlisted });
	if (s->uncounted.n)
		add(to, asked, RULE_KNOWN,
		    (struct node_finding){ .status = NODE_DEGRADED, .class = S("progress-unread"), .says = s->uncounted });
}

static void judge_smoke(const struct fitness_asked *asked, struct node_answer *to)
{
	const bool failed = str_is(asked->smoke, "failed");
	if (!failed && !str_is(asked->smoke, "running"))
		return;
	add(to, asked, RULE_SMOKE,
	    (struct node_finding){ .status = failed ? NODE_FAILED : NODE_UNKNOWN,
				   .class = failed ? S("smoke-test-failed") : S("smoke-test-runs"),
				   .fault = failed ? S("node") : (struct str){ 0 },
				   .action = failed ? S("reboot") : (struct str){ 0 },
				   .says = asked->smoke_says.n ? asked->smoke_says :
					   failed              ? S("The smoke test of this boot failed.") :
								 S("The smoke test of this boot still runs.") });
}

void fitness_judge(const struct watch_state *s, const struct fitness_asked *asked, struct arena *a, struct node_answer *ret)
{
	ret->gpus = arena_alloc(a, (s->ngpus + 1) * sizeof(*ret->gpus));
	ret->ngpus = s->ngpus;
	ret->expected = asked->expected;
	for (size_t n = 0; n < s->ngpus; n++) {
		const struct watched_gpu *g = &s->gpus[n];
		ret->gpus[n] = (struct node_gpu){ g->pci, g->serial, g->unique_id, g->slot, g->partition, g->health };
		fitness_judge_gpu(g, s, asked, a, ret);
	}
	for (size_t n = 0; n < s->nopen; n++)
		judge_incident(s->open[n], asked, ret);
	if (s->looked && s->ngpus < asked->expected)
		add(ret, asked, RULE_MISSING,
		    (struct node_finding){ .status = NODE_FAILED,
					   .class = S("gpu-missing"),
					   .fault = S("node"),
					   .action = S("power-cycle"),
					   .says = arena_printf(a, "%zu of %u GPUs are there.", s->ngpus, asked->expected) });
	if (s->looked && !s->ngpus && !asked->expected)
		add(ret, asked, RULE_UNSEEN,
		    (struct node_finding){ .status = NODE_UNKNOWN, .class = S("no-gpu"), .says = S("There is no AMD GPU.") });
	judge_watch(s, asked, ret);
	judge_smoke(asked, ret);
	fitness_end(ret);
}

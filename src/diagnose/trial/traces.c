// Who launches the two that race, and who allocated the buffer that they share: by one more run, whose recorder notes backtraces.
#include "base/print.h"
#include "diagnose/trial/bisect.h"
#include "evidence/recording/traces.h"

enum { CALLERS_SHOWN = 2 };

struct str bisect_trace_table(const struct bisect_result *r, struct arena *a)
{
	_cleanup_text_ struct text t = { 0 };
	const size_t parties[] = { r->pair.early, r->pair.late };
	text_add(&t, S("unhang-waits 1\n"));
	for (size_t i = 0; i < ARRAY_SIZE(parties); i++) {
		const struct bisect_op *o = &r->launches.ops.data[parties[i]];
		if (o->place == PLACE_HOST)
			continue;
		text_add(&t, S("trace "));
		bisect_op_put(&t, o);
		text_add(&t, S("\n"));
	}
	return arena_str(a, text_str(&t));
}

static size_t op_again(const struct bisect_launches *l, const struct bisect_op *o)
{
	for (size_t i = 0; i < l->ops.len; i++)
		if (l->ops.data[i].place == o->place && str_eq(l->ops.data[i].name, o->name))
			return i;
	return SIZE_MAX;
}

/** The functions that a trace of the recording has; empty: there is none. */
static struct str functions_that(struct bisect_result *r, const struct flight_recording *from, struct module_names *names,
				 struct trace_wanted of)
{
	return trace_say(names, &r->arena, recording_trace(from, of), CALLERS_SHOWN);
}

void bisect_traced(struct bisect_result *r, const struct flight_recording *from)
{
	struct bisect_launches seen;
	struct module_names *names = module_names_new();
	const struct bisect_op *ops = r->launches.ops.data, *early = &ops[r->pair.early], *late = &ops[r->pair.late];
	bisect_launches_of(from, NULL, NULL, &seen);
	const struct bisect_pair *p = bisect_pair_of(&seen, op_again(&seen, early), op_again(&seen, late));
	if (p) {
		const struct bisect_launch a = p->early_launch, b = p->late_launch;
		r->pair.early_launch.in =
			functions_that(r, from, names, (struct trace_wanted){ a.kernel, (uint64_t)early->place, a.time });
		r->pair.late_launch.in =
			functions_that(r, from, names, (struct trace_wanted){ b.kernel, (uint64_t)late->place, b.time });
		r->pair.buffer.in =
			p->buffer.size == r->pair.buffer.size ?
				functions_that(r, from, names,
					       (struct trace_wanted){ p->buffer.begin, REC_TRACE_MEMORY, p->buffer.born }) :
				(struct str){ 0 };
	}
	bisect_launches_free(&seen);
	module_names_free(names);
}

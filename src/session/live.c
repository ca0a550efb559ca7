#include "session/live.h"

#include <stdlib.h>

/** `0000:03:00.0 (Radeon RX 7900 XTX), 0000:43:00.0` */
static void list_devices(const struct devices *d, struct text *to)
{
	for (size_t i = 0; i < d->n; i++) {
		text_printf(to, "%s" STR_FMT, i ? ", " : "", STR_ARG(d->list[i].pci));
		if (d->list[i].name.n)
			text_printf(to, " (" STR_FMT ")", STR_ARG(d->list[i].name));
	}
}

static struct uh_error *choose(const char *gpu, bool one, struct live *l)
{
	struct uh_error *err = NULL;
	struct text names = { 0 };
	const struct device *named = gpu ? devices_named(&l->found.devices, str_z(gpu)) : NULL;
	list_devices(&l->found.devices, &names);
	struct str late = l->found.devices.unread.paths;
	if (!l->found.devices.n && late.n)
		err = uh_error_new(STR_FMT " did not answer, so the GPUs are unknown", STR_ARG(str_split(&late, '\n')));
	else if (!l->found.devices.n)
		err = uh_error_new("this machine has no AMD GPU");
	else if (gpu && !named)
		err = uh_error_new("there is no GPU %s; there is " STR_FMT, gpu, STR_ARG(text_str(&names)));
	else if (!gpu && one && l->found.devices.n > 1)
		err = uh_error_new("which GPU? --gpu names one of " STR_FMT, STR_ARG(text_str(&names)));
	text_free(&names);
	if (err)
		return err;
	l->n = named ? 1 : l->found.devices.n;
	l->list = arena_alloc(&l->arena, l->n * sizeof(*l->list));
	for (size_t i = 0; i < l->n; i++)
		l->list[i] = named ? named : &l->found.devices.list[i];
	return NULL;
}

struct uh_error *live_find(const struct know *k, const struct uh_look_options *o, const char *track, bool one, struct live *ret)
{
	*ret = (struct live){ 0 };
	machine_find(o->machine, k, track, &ret->found);
	struct uh_error *err = choose(o->gpu, one, ret);
	if (err)
		live_free(ret);
	return err;
}

void live_free(struct live *l)
{
	found_devices_free(&l->found);
	arena_free(&l->arena);
}

struct str live_title(struct arena *a, const struct device *d)
{
	struct str comma = S(", "), none = { 0 };
	return arena_printf(a, STR_FMT STR_FMT STR_FMT STR_FMT STR_FMT, STR_ARG(d->pci), STR_ARG(d->name.n ? comma : none),
			    STR_ARG(d->name), STR_ARG(d->gfx.n ? comma : none), STR_ARG(d->gfx));
}

void live_progress(const struct live *l, const struct uh_look_options *o, size_t index)
{
	char pci[32] = "";
	if (index < l->n)
		str_copy(pci, sizeof(pci), l->list[index]->pci);
	if (o->progress)
		o->progress(o->progress_ctx, pci, index, l->n);
}

struct str live_why_not(struct arena *a, struct target *t, enum answer answer)
{
	if (answer == ANSWER_ABSENT)
		return S("this GPU does not have it");
	const struct gate gate = target_gate(t);
	const struct probe_stuck *stuck = target_stuck(t);
	if (answer == ANSWER_REFUSED && gate.why_not.n)
		return arena_str(a, gate.why_not);
	if (stuck && stuck->at.n)
		return arena_printf(a, "the read did not return, at " STR_FMT, STR_ARG(stuck->at));
	return answer == ANSWER_TIMED_OUT ? S("the read did not return") : S("it needs root");
}

static void tell_error(struct uh_error *err, const struct teller *t)
{
	if (err)
		look_tell(t, str_z(uh_error_message(err)));
	uh_error_free(err);
}

void live_cannot(struct uh_error **err, const struct teller *t, struct str gpu, const char *what, struct str why_not)
{
	tell_error(*err, t);
	*err = uh_error_new(STR_FMT ": its %s cannot be read: " STR_FMT, STR_ARG(gpu), what, STR_ARG(why_not));
}

struct uh_error *live_could(struct uh_error *err, const struct teller *t, size_t answered)
{
	if (!answered)
		return err;
	tell_error(err, t);
	return NULL;
}

void live_tell_root(const struct live *l, const struct teller *t)
{
	if (!l->found.devices.root)
		look_tell(t,
			  S("without root, unhang reads only the registers that the render node offers; root adds the others, "
			    "waves and rings"));
}

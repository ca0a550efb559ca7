#include "report/picture/picture.h"

#include <stdlib.h>

/** In the order of enum know_picture. */
static const struct {
	const char *title, *needs;
	const char *from; // kind of evidence that has what it needs, if any has; NULL: not one kind alone
	bool (*make)(const struct diagnosis *d, const struct incident *i, struct picture *p);
} kinds[] = {
	[SHOWS_TIMELINE] = { "What happened when", "times of several events", NULL, picture_of_timeline },
	[SHOWS_ADDRESSES] = { "Addresses around the fault", "a map of the program's memory (a GPU core, or a recording)", "gpu-core",
			      picture_of_addresses },
	[SHOWS_WAITS] = { "What waits for what", "a look at the hung GPU (sudo unhang), or its device core", "devcoredump", picture_of_waits },
	[SHOWS_LANES] = { "The lanes of the wave that stopped", "a wave dump with registers", "debug-agent", picture_of_lanes },
	[SHOWS_RANKS] = { "The ranks of the job", "reports of several ranks", NULL, picture_of_ranks },
	[SHOWS_CHIP] = { "The chip", "a look at the hung GPU with its waves (sudo unhang)", NULL, picture_of_chip },
	[SHOWS_QUEUES] = { "How far queues and rings are", "a look at the GPU (sudo unhang), or a core", "gpu-core", picture_of_queues },
};

const char *picture_title(enum know_picture kind) { return kinds[kind].title; }

const char *picture_needs(enum know_picture kind, const struct incident *i)
{
	for (size_t n = 0; kinds[kind].from && n < i->nevidence; n++)
		if (str_is(i->evidence[n], kinds[kind].from))
			return NULL;
	return kinds[kind].needs;
}

bool picture_make(enum know_picture kind, const struct diagnosis *d, const struct incident *i, struct picture *ret)
{
	*ret = (struct picture){ .kind = kind };
	if (kinds[kind].make(d, i, ret))
		return true;
	picture_free(ret);
	return false;
}

void picture_free(struct picture *p)
{
	vec_free(&p->tracks);
	vec_free(&p->marks);
	vec_free(&p->ticks);
	vec_free(&p->folds);
	vec_free(&p->cells);
	arena_free(&p->arena);
}

void picture_heads(struct picture *p, const char *const *heads, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p->heads[i] = heads[i];
	p->ncolumns = n;
}

void picture_cell(struct picture *p, struct str s) { vec_push(&p->cells, arena_str(&p->arena, s)); }

void picture_count(struct picture *p, int64_t n)
{
	picture_cell(p, n < 0 ? S("") : arena_printf(&p->arena, "%lld", (long long)n));
}

void picture_track(struct picture *p, struct str label) { vec_push(&p->tracks, arena_str(&p->arena, label)); }

void picture_mark(struct picture *p, struct picture_mark m)
{
	m.label = arena_str(&p->arena, m.label);
	vec_push(&p->marks, m);
}

void picture_tick(struct picture *p, double at, struct str label)
{
	const struct picture_tick t = { at, arena_str(&p->arena, label) };
	vec_push(&p->ticks, t);
}

// What a reset of a GPU takes with it, for whoever is told to reset one.
#include "base/command.h"
#include "evidence/silicon/facts.h"

static bool shares_reset(const struct device *a, const struct device *b)
{
	return a == b || (a->hive.n && str_eq(a->hive, b->hive));
}

static void add_holder(struct text *to, const struct holder *h)
{
	struct text one = { 0 };
	// It stands beside a command, so a name with characters that mean something to a shell is left out.
	text_printf(&one, STR_FMT " (%lld)", STR_ARG(piece_plain(PIECE_WORDS, h->name) ? h->name : S("process")),
		    (long long)h->pid);
	if (str_find(text_str(to), text_str(&one)) < 0)
		text_printf(to, "%s" STR_FMT, to->n ? ", " : "", STR_ARG(text_str(&one)));
	text_free(&one);
}

void reset_facts(struct event *e, const struct devices *all, const struct device *d, struct arena *a)
{
	struct text gpus = { 0 }, holders = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < all->n; i++) {
		const struct device *o = &all->list[i];
		if (!shares_reset(d, o))
			continue;
		text_printf(&gpus, "%s" STR_FMT, n++ ? ", " : "", STR_ARG(o->pci));
		for (size_t h = 0; h < o->nholders; h++)
			add_holder(&holders, &o->holders[h]);
	}
	if (n > 1)
		event_add_text(e, a, "reset_gpus", text_str(&gpus));
	if (holders.n)
		event_add_text(e, a, "reset_ends", text_str(&holders));
	text_free(&gpus);
	text_free(&holders);
}

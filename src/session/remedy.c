// unhang remedy: one remedy, as it is done on this machine.
#include "report/remedy.h"

#include "base/error.h"
#include "host/host.h"
#include "session/look.h"

/** What somebody may have meant by @id: ids that have it in them, else the nearest by typing errors. */
static void add_meant(const struct know *k, struct str id, struct text *to)
{
	enum { SHOWN = 4, TYPOS = 4 };
	size_t shown = 0;
	for (size_t n = 0; n < k->remedies.len && shown < SHOWN && id.n > 2; n++)
		if (str_find(k->remedies.data[n]->head.id, id) >= 0)
			text_printf(to, "%s" STR_FMT, shown++ ? ", " : "", STR_ARG(k->remedies.data[n]->head.id));
	for (size_t most = 1; most <= TYPOS && !shown; most++)
		for (size_t n = 0; n < k->remedies.len && shown < SHOWN; n++)
			if (str_typos(k->remedies.data[n]->head.id, id, most) <= most)
				text_printf(to, "%s" STR_FMT, shown++ ? ", " : "", STR_ARG(k->remedies.data[n]->head.id));
}

static struct uh_error *no_such(const struct know *k, const char *id)
{
	struct text meant = { 0 };
	add_meant(k, str_z(id), &meant);
	struct uh_error *err =
		meant.n ? uh_error_new("there is no remedy '%s'; did you mean " STR_FMT "?", id, STR_ARG(text_str(&meant))) :
			  uh_error_new("there is no remedy '%s'; unhang knowledge list remedy lists them", id);
	text_free(&meant);
	return err;
}

struct uh_error *uh_remedy(const struct uh_remedy_options *o, const char *id, FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	struct know *k = look_knowledge(&teller);
	const struct know_remedy *r = know_remedy(k, str_z(id));
	struct uh_error *err = r ? NULL : no_such(k, id);
	if (r) {
		struct host host;
		struct arena room = { 0 };
		host_look_beside(k, NULL, &host);
		const struct host_scope scope = { &host, host_machine(&host) };
		const struct fact_view view = { host_get, &scope };
		struct remedy_view v = { .know = k,
					 .remedy = r,
					 .verdict = remedy_judge(k, r, &view, &room),
					 .numbers = remedy_numbers(&r->change, &view, &room),
					 .distribution = host_value(&host, NULL, "distribution") };
		steps_of_remedy(&room, r, k, &view, &v.steps);
		report_remedy(&v, o, out);
		arena_free(&room);
		host_free(&host);
	}
	know_free(k);
	return err;
}

#include "knowledge/way.h"

struct str know_usual(const struct know *k, struct str distribution, struct str fact)
{
	for (size_t n = k->usuals.len; n-- > 0;) {
		struct str value = k->usuals.data[n]->value, name = str_word(&value);
		if (str_eq(name, fact) && str_glob(k->usuals.data[n]->head.id, distribution))
			return str_trim(value);
	}
	return (struct str){ 0 };
}

/** Evidence may speak of several distributions. Then it is not known which one the machine has. */
static struct str only_value(const struct fact_view *view, struct str name)
{
	struct str value, other;
	bool one = view->get(view->ctx, name, 0, &value) && !view->get(view->ctx, name, 1, &other);
	return one ? value : (struct str){ 0 };
}

static bool usual_get(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct usual_facts *u = ctx;
	struct str own, value, like = S("distribution_like");
	if (u->view->get(u->view->ctx, name, 0, &own))
		return u->view->get(u->view->ctx, name, index, ret);
	if (index || str_starts(name, S("distribution")))
		return false;
	value = know_usual(u->know, only_value(u->view, S("distribution")), name);
	for (size_t n = 0; !value.n && u->view->get(u->view->ctx, like, n, &own); n++)
		value = know_usual(u->know, own, name);
	*ret = value;
	return value.n;
}

static const struct command *usual_command(const void *ctx, struct str name)
{
	const struct usual_facts *u = ctx;
	return u->view->command ? u->view->command(u->view->ctx, name) : NULL;
}

static bool usual_unread(const void *ctx, struct str name)
{
	const struct usual_facts *u = ctx;
	return u->view->unread && u->view->unread(u->view->ctx, name);
}

struct fact_view usual_view(const struct usual_facts *facts)
{
	return (struct fact_view){ .get = usual_get, .ctx = facts, .command = usual_command, .unread = usual_unread };
}

bool know_action_named(const struct know *k, struct str name)
{
	for (size_t n = 0; n < k->ways.len; n++)
		if (str_eq(k->ways.data[n]->head.id, name))
			return true;
	return false;
}

const struct know_way *know_way(const struct know *k, struct str action, const struct fact_view *view)
{
	const struct usual_facts facts = { k, view };
	const struct fact_view usual = usual_view(&facts);
	for (size_t n = 0; n < k->ways.len; n++) {
		const struct know_way *w = k->ways.data[n];
		if (str_eq(w->head.id, action) && condition_eval(w->when, &usual) == TRUTH_YES)
			return w;
	}
	return NULL;
}

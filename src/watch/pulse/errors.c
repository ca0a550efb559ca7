#include "watch/pulse/errors.h"

#include <stdio.h>

#include "evidence/artefact.h"
#include "source/process.h"

void error_count_begin(struct error_count *c, const struct device *d)
{
	*c = (struct error_count){ .told = d->ras, .seen = d->ras };
	if (d->ras.first && d->ras.fatal >= 0)
		snprintf(c->path, sizeof(c->path), STR_FMT "/ras/event_state", STR_ARG(d->sysfs));
}

/** How many came; a driver that was loaded again counts from 0. */
static int64_t came(int64_t before, int64_t now) { return now < 0 ? 0 : before < 0 || now < before ? now : now - before; }

bool error_count_grew(struct error_count *c, struct ras_events now, struct errors_told *ret)
{
	const bool settled = now.fatal == c->seen.fatal && now.poison_consumed == c->seen.poison_consumed;
	*ret = (struct errors_told){ .fatal = came(c->told.fatal, now.fatal),
				     .used = came(c->told.poison_consumed, now.poison_consumed),
				     .gpus = (int64_t)c->told.gpus };
	c->seen = now;
	if (now.fatal < 0 || !settled || (now.fatal == c->told.fatal && now.poison_consumed == c->told.poison_consumed))
		return false;
	now.gpus = c->told.gpus;
	c->told = now;
	return ret->fatal || ret->used;
}

bool error_count_take(struct error_count *c, struct errors_told *ret)
{
	char room[512];
	return c->path[0] && error_count_grew(c, ras_events_parse(small_file(c->path, room, sizeof(room))), ret);
}

void errors_told_text(const struct errors_told *e, struct text *to)
{
	text_printf(to, STR_FMT "\n%lld %lld %lld", STR_ARG(e->pci), (long long)e->fatal, (long long)e->used, (long long)e->gpus);
}

bool errors_told_parse(struct str text, struct errors_told *ret)
{
	*ret = (struct errors_told){ .pci = str_split(&text, '\n') };
	unsigned domain, location;
	return pci_numbers(ret->pci, &domain, &location) && str_number(str_word(&text), &ret->fatal) &&
	       str_number(str_word(&text), &ret->used) && str_number(str_word(&text), &ret->gpus) && ret->fatal >= 0 && ret->used >= 0 &&
	       ret->gpus > 0 && !str_trim(text).n;
}

bool errors_told_event(const struct know *k, const struct errors_told *e, struct arena *a, struct event *ret)
{
	const struct artefact_output out = { .know = k };
	if (!artefact_event(&out, "watch-ras-counted", (struct place){ 0 }, ret))
		return false;
	ret->device = e->pci;
	ret->driver = S("amdgpu");
	event_add(ret, S("ras_severity"), e->fatal ? S("fatal") : S("uncorrected"), FACT_TEXT);
	event_add_number(ret, a, "ras_fatal_new", e->fatal);
	event_add_number(ret, a, "ras_used_new", e->used);
	if (e->gpus > 1)
		event_add_number(ret, a, "ras_gpus", e->gpus);
	ret->text = S("the driver counts hardware errors that its log does not tell");
	return true;
}

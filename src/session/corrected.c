#include "session/corrected.h"

#include <time.h>

#include "base/cleanup.h"
#include "evidence/hardware/cper.h"
#include "report/text/prose.h"
#include "session/session.h"
#include "watch/watch.h"

enum { DAY = 24 * 3600, DATE = 10 };

/** NULL: there are too many. */
static struct corrected *corrected_of(struct corrected_all *c, struct str name, struct str block, struct place at)
{
	struct corrected *known = list_find(
		c->list, c->n, it, str_eq(name, it->gpu.device) && str_eq(block, module_error_value(&it->error, "ras_block")));
	if (known || c->n == CORRECTED_MODULES)
		return known;
	struct corrected *one = &c->list[c->n++];
	*one = (struct corrected){ .at = at, .gpu.device = arena_str(&c->arena, name) };
	return one;
}

/** The driver prints the registers of an error before it counts it. */
static void corrected_follow_bank(struct corrected_all *c, const struct event *e)
{
	const struct fact *severity = event_fact(e, "bank_severity");
	if (severity && e->signature->bank) {
		arena_free(&c->bank_arena);
		c->bank = (struct module_error){ 0 };
		c->bank_corrected = str_is(severity->value, "corrected");
		str_copy(c->bank_device, sizeof(c->bank_device), e->device);
	}
	if (c->bank_corrected && e->signature->bank && str_is(e->device, c->bank_device))
		module_error_add(&c->bank, &(struct fact_view){ event_get, e }, &c->bank_arena);
}

/** What the event says of it, and what the bank of the same block does. */
static struct module_error corrected_error(struct corrected_all *c, const struct corrected *m, const struct event *e, struct arena *a)
{
	struct module_error error = { 0 };
	module_error_add(&error, &(struct fact_view){ event_get, e }, a);
	if (!c->bank_corrected || !str_is(m->gpu.device, c->bank_device) ||
	    !str_eq(module_error_value(&c->bank, "ras_block"), module_error_value(&error, "ras_block")))
		return error;
	const struct module_error *bank = module_error_copy(&c->bank, a);
	for (size_t n = 0; n < ERROR_FIELDS; n++)
		if (!error.values[n].n)
			error.values[n] = bank->values[n];
	return error;
}

/** Errors of one memory channel are of another kind than those of all of them. */
static void corrected_locate(struct corrected_all *c, struct corrected *m, const struct event *e)
{
	static const char *const place[] = { "bank_die", "bank_umc", "bank_channel" };
	_cleanup_arena_ struct arena a = { 0 };
	const struct module_error error = m->scattered ? m->error : corrected_error(c, m, e, &a);
	for (size_t n = 0; n < ARRAY_SIZE(place); n++)
		m->scattered |= !str_eq(module_error_value(&m->error, place[n]), module_error_value(&error, place[n]));
}

void corrected_take(struct corrected_all *c, const struct event *e, struct stamp when)
{
	const bool dated = when.clock == TIME_WALL || when.clock == TIME_LOCAL;
	if (dated && when.seconds > c->newest)
		c->newest = when.seconds;
	if (!e->signature)
		return;
	corrected_follow_bank(c, e);
	if (!e->signature->event || e->signature->event->tells != TELLS_CORRECTED)
		return;
	const struct fact *count = event_fact(e, "ras_count"), *oam = event_fact(e, "bank_oam"), *block = event_fact(e, "ras_block");
	const struct str name = e->device.n ? e->device : oam ? oam->value : S(""), in = block ? block->value : S("");
	struct corrected *m = corrected_of(c, name, in, e->at);
	int64_t n = 1;
	if (!m || (count && (!str_number(count->value, &n) || n <= 0)))
		return;
	if (!m->all) {
		m->error = corrected_error(c, m, e, &c->arena);
		m->begin = when;
	}
	corrected_locate(c, m, e);
	m->all += (uint64_t)n;
	m->end = when;
	if (dated)
		trend_add(&c->days, &(struct trend_day){ name, in, trend_day_of(when.seconds), n });
}

/** What the watch has counted of the GPUs of this machine. */
static void corrected_take_stored(struct uh_session *s)
{
	_cleanup_(trend_free) struct trend kept = { 0 };
	struct corrected_all *c = &s->corrected;
	if (!s->seen || s->asked)
		return;
	trend_load(STATE_DIR, &kept);
	for (size_t n = 0; n < kept.days.len; n++)
		for (size_t g = 0; g < s->seen->n; g++) {
			const struct device *d = s->seen->gpus[g].device;
			struct trend_day one = kept.days.data[n];
			if (!str_eq(one.module, d->serial) && !str_eq(one.module, d->unique_id) && !str_eq(one.module, d->pci))
				continue;
			one.module = d->pci;
			trend_add(&c->stored, &one);
			struct corrected *m = corrected_of(c, d->pci, one.block, (struct place){ 0 });
			if (!m || m->all)
				continue;
			module_error_set(&m->error, "ras_block", arena_str(&c->arena, one.block));
			module_error_set(&m->error, "error_severity", S("corrected"));
		}
}

/** How many came in each of two weeks, for people and for programs. @last: the day on which the second one ends. */
static void corrected_add_rate(struct uh_session *s, const struct trend *t, const struct corrected *m, int64_t last,
			       struct module_error *error, struct text *to)
{
	const struct str name = m->gpu.device, block = module_error_value(&m->error, "ras_block");
	const int64_t now = trend_came(t, name, block, last, TREND_WEEK),
		      before = trend_came(t, name, block, last - TREND_WEEK, TREND_WEEK);
	text_printf(to, "%lld of them in the last 7 days%s and %lld in the 7 days before; the first on " STR_FMT, (long long)now,
		    t == &s->corrected.days ? " of this evidence" : "", (long long)before,
		    STR_ARG(str_cut(utc_text(&s->arena, (double)trend_first(t, name, block) * DAY), DATE)));
	module_error_set(error, "ras_week", arena_printf(&s->arena, "%lld", (long long)now));
	module_error_set(error, "ras_week_before", arena_printf(&s->arena, "%lld", (long long)before));
}

static void corrected_add_channel(const struct corrected *m, struct text *to)
{
	const struct str die = module_error_value(&m->error, "bank_die"), umc = module_error_value(&m->error, "bank_umc"),
			 channel = module_error_value(&m->error, "bank_channel");
	if (!m->scattered && m->all > 1 && umc.n)
		text_printf(to, ". All are of one memory channel (die " STR_FMT ", UMC " STR_FMT " channel " STR_FMT ")", STR_ARG(die),
			    STR_ARG(umc), STR_ARG(channel));
}

static void corrected_add_counts(struct uh_session *s, const struct corrected *m, struct module_error *error, struct text *to)
{
	const struct corrected_all *c = &s->corrected;
	const struct str name = m->gpu.device, block = module_error_value(&m->error, "ras_block");
	const int64_t stored = trend_came(&c->stored, name, block, TREND_EVER, TREND_EVER);
	if (m->all) {
		_cleanup_text_ struct text over = { 0 };
		text_printf(to, ": %llu", (unsigned long long)m->all);
		if (m->begin.clock == TIME_BOOT && prose_between(&over, m->begin, m->end))
			text_printf(to, " in " STR_FMT, STR_ARG(text_str(&over)));
	}
	if (m->all && trend_first(&c->days, name, block) >= 0) {
		text_add(to, S(", "));
		corrected_add_rate(s, &c->days, m, trend_day_of(c->newest), error, to);
	}
	if (stored) {
		text_printf(to, m->all ? ". The watch has counted %lld, " : ", as the watch has counted them: %lld, ", (long long)stored);
		corrected_add_rate(s, &c->stored, m, trend_day_of((double)time(NULL)), error, to);
	}
	module_error_set(error, "ras_count", arena_printf(&s->arena, "%lld", m->all ? (long long)m->all : (long long)stored));
}

static struct str serial_of(const struct uh_session *s, const struct corrected *m)
{
	for (size_t n = 0; s->seen && n < s->seen->n; n++)
		if (str_eq(s->seen->gpus[n].device->pci, m->gpu.device))
			return s->seen->gpus[n].device->serial;
	return (struct str){ 0 };
}

void corrected_tell(struct uh_session *s)
{
	const struct corrected_all *c = &s->corrected;
	corrected_take_stored(s);
	for (size_t n = 0; n < c->n; n++) {
		const struct corrected *m = &c->list[n];
		struct module_error error = m->error;
		struct note note = { S("corrected-errors"), .at = m->at, .seen = true, .gpu = m->gpu, .error = &error };
		const struct str serial = note.gpu.serial = serial_of(s, m), block = module_error_value(&m->error, "ras_block"),
				 afid = module_error_value(&m->error, "bank_afid");
		_cleanup_text_ struct text text = { 0 };
		text_printf(&text, "Corrected hardware errors");
		if (m->gpu.device.n)
			text_printf(&text, " of " STR_FMT, STR_ARG(m->gpu.device));
		if (serial.n)
			text_printf(&text, " (serial " STR_FMT ")", STR_ARG(serial));
		if (block.n)
			text_printf(&text, " in " STR_FMT, STR_ARG(block));
		if (afid.n)
			text_printf(&text, " (AFID " STR_FMT ")", STR_ARG(afid));
		corrected_add_counts(s, m, &error, &text);
		corrected_add_channel(m, &text);
		text_printf(&text, ". They harm nothing. There is no public threshold for them; ask the vendor only if "
				   "the rate keeps growing");
		note.text = text_str(&text);
		session_add_note(s, note);
	}
}

void corrected_free(struct corrected_all *c)
{
	trend_free(&c->days);
	trend_free(&c->stored);
	arena_free(&c->arena);
	arena_free(&c->bank_arena);
}

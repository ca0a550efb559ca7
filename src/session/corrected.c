#include "session/corrected.h"

#include <time.h>

#include "base/cleanup.h"
#include "session/session.h"

enum { DAY = 24 * 3600, WEEK_DAYS = 7, DAYS_MOST = 1024 };

static struct corrected *module_of(struct corrected_all *c, const struct event *e)
{
	const struct fact *oam = event_fact(e, "bank_oam");
	const struct str name = e->device.n ? e->device : oam ? oam->value : S("");
	struct corrected *known = list_find(c->list, c->n, it, str_is(name, it->module));
	if (known || c->n == CORRECTED_MODULES || name.n >= sizeof(known->module))
		return known;
	struct corrected *one = &c->list[c->n++];
	*one = (struct corrected){ .at = e->at };
	str_copy(one->module, sizeof(one->module), name);
	return one;
}

static void corrected_add_day(struct corrected_all *c, size_t module, int64_t day, uint64_t n)
{
	struct corrected_day *known = list_find(c->days.data, c->days.len, it, it->module == module && it->day == day);
	if (known)
		known->n += n;
	else if (c->days.len < DAYS_MOST)
		vec_push(&c->days, ((struct corrected_day){ module, day, n }));
}

void corrected_take(struct corrected_all *c, const struct event *e, struct stamp when)
{
	const bool dated = when.clock == TIME_WALL || when.clock == TIME_LOCAL;
	if (dated && when.seconds > c->newest)
		c->newest = when.seconds;
	if (!e->signature || !e->signature->event || e->signature->event->tells != TELLS_CORRECTED)
		return;
	const struct fact *count = event_fact(e, "ras_count");
	struct corrected *m = module_of(c, e);
	int64_t n = 1;
	if (!m || (count && (!str_number(count->value, &n) || n <= 0)))
		return;
	m->all += (uint64_t)n;
	if (!dated)
		return;
	m->first = !m->timed || when.seconds < m->first ? when.seconds : m->first;
	m->timed += (uint64_t)n;
	corrected_add_day(c, (size_t)(m - c->list), (int64_t)when.seconds / DAY, (uint64_t)n);
}

/** How many came in the @days before and up to @last. */
static uint64_t corrected_came(const struct corrected_all *c, size_t module, int64_t last, int64_t days)
{
	uint64_t n = 0;
	for (size_t i = 0; i < c->days.len; i++) {
		const struct corrected_day *d = &c->days.data[i];
		if (d->module == module && d->day <= last && d->day > last - days)
			n += d->n;
	}
	return n;
}

static void corrected_add_rate(const struct corrected_all *c, const struct corrected *m, struct text *to)
{
	const int64_t last = (int64_t)c->newest / DAY;
	const uint64_t now = corrected_came(c, (size_t)(m - c->list), last, WEEK_DAYS),
		       before = corrected_came(c, (size_t)(m - c->list), last - WEEK_DAYS, WEEK_DAYS);
	const time_t first = (time_t)m->first;
	struct tm tm;
	char day[16] = "";
	if (gmtime_r(&first, &tm))
		strftime(day, sizeof(day), "%Y-%m-%d", &tm);
	text_printf(to, ", %llu of them in the last 7 days of this evidence and %llu in the 7 days before; the first on %s",
		    (unsigned long long)now, (unsigned long long)before, day);
}

static struct str serial_of(const struct uh_session *s, const struct corrected *m)
{
	for (size_t n = 0; s->seen && n < s->seen->n; n++)
		if (str_is(s->seen->gpus[n].device->pci, m->module))
			return s->seen->gpus[n].device->serial;
	return (struct str){ 0 };
}

void corrected_tell(struct uh_session *s)
{
	const struct corrected_all *c = &s->corrected;
	for (size_t n = 0; n < c->n; n++) {
		const struct corrected *m = &c->list[n];
		const struct str serial = serial_of(s, m);
		_cleanup_text_ struct text text = { 0 };
		text_printf(&text, "Corrected hardware errors");
		if (m->module[0])
			text_printf(&text, " of %s", m->module);
		if (serial.n)
			text_printf(&text, " (serial " STR_FMT ")", STR_ARG(serial));
		text_printf(&text, ": %llu", (unsigned long long)m->all);
		if (m->timed)
			corrected_add_rate(c, m, &text);
		text_printf(&text, ". They harm nothing. There is no public threshold for them; ask the vendor only if "
				   "the rate keeps growing");
		session_add_note(s, (struct note){ S("corrected-errors"), text_str(&text), m->at, .seen = true });
	}
}

void corrected_free(struct corrected_all *c) { vec_free(&c->days); }

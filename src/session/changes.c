// What changed on the machine before an incident: its logs of packages, its boots, and the incidents of all of them. Nothing of it is read
// where there is no incident to explain.
#include "base/cleanup.h"
#include "session/session.h"

/** A log may have several boots, which tell what each ran. Quiet lines are no events, so that nobody knows how long a boot was. */
void session_take_boot(struct uh_session *s, const struct event *e)
{
	double when;
	if (s->of_machine || !e->signature || !told_when(s->evidence, e->at.source, e->time, time(NULL), &when))
		return;
	if (e->signature->event && e->signature->event->opens == OPENS_CONTEXT)
		changes_take_line(&s->changes, s->know, e->text, when);
	else if (s->changes.boots.len && s->changes.boots.data[s->changes.boots.len - 1].end < when)
		s->changes.boots.data[s->changes.boots.len - 1].end = when;
}

void session_note_past(struct uh_session *s)
{
	double when;
	for (size_t n = 0; n < s->ledger.incidents.len; n++)
		if (incident_when(s->ledger.incidents.data[n], s->evidence, time(NULL), &when))
			past_add(&s->past, s->ledger.incidents.data[n]->fingerprint, when);
}

/** Of a boot whose log was not read to its end nobody knows what it had. */
static void forget_unread_boots(struct uh_session *s)
{
	for (size_t n = 0; n < s->changes.boots.len; n++) {
		struct boot *b = &s->changes.boots.data[n];
		b->log &= !b->id.n || list_find(s->past.boots.data, s->past.boots.len, id, str_eq(*id, b->id));
	}
}

/** The fingerprint that an incident had before others were joined to it: earlier ones have no more than that. */
static struct str fingerprint_at(const struct uh_session *s, const struct incident *i, double when)
{
	enum { SLACK = 2 };
	struct str best = i->fingerprint;
	double nearest = SLACK;
	for (size_t n = 0; n < s->past.sightings.len; n++) {
		const struct past_sighting *one = &s->past.sightings.data[n];
		const double apart = one->when > when ? one->when - when : when - one->when;
		if (str_eq(one->fingerprint, i->fingerprint))
			return i->fingerprint;
		if (apart < nearest) {
			nearest = apart;
			best = one->fingerprint;
		}
	}
	return best;
}

/** Who reads `lately` learns why no change is blamed. */
static void note_unread_changes(struct uh_session *s)
{
	const size_t n = s->changes.unread.len;
	_cleanup_text_ struct text text = { 0 };
	if (!n)
		return;
	text_printf(&text, "No change of this machine is blamed, because not all was read. " STR_FMT,
		    STR_ARG(s->changes.unread.data[0]));
	if (n > 1)
		text_printf(&text, "; and %zu more", n - 1);
	session_add_note(s, (struct note){ .event = S("changes-unread"), .text = text_str(&text), .quiet = true });
}

/** When the newest incident came: what changed is of the half year before it. 0: nobody knows. */
static double newest_incident(const struct uh_session *s)
{
	double newest = 0, when;
	for (size_t n = 0; n < s->ledger.incidents.len; n++)
		if (incident_when(s->ledger.incidents.data[n], s->evidence, s->told.now, &when) && when > newest)
			newest = when;
	return newest;
}

static void read_changes(struct uh_session *s, struct package_cache *cache)
{
	const struct machine_at at = { s->machine_root, session_plays(s) ? machine_tape(s->asked, BUNDLE_CHANGES) : NULL };
	past_read(s->know, at, -s->boots_read, &s->past);
	changes_free(&s->changes);
	changes_read(s->know, at, newest_incident(s), &s->changes);
	note_unread_changes(s);
	package_cache_read(at, cache);
	forget_unread_boots(s);
}

void session_changes(struct uh_session *s)
{
	double when;
	_cleanup_(package_cache_free) struct package_cache cache = { 0 };
	if (!s->ledger.incidents.len)
		return;
	if (s->of_machine)
		read_changes(s, &cache);
	changes_of_boots(&s->changes, s->know);
	for (size_t n = 0; n < s->ledger.incidents.len; n++) {
		struct incident *i = s->ledger.incidents.data[n];
		if (incident_proof(i) || !incident_when(i, s->evidence, s->told.now, &when))
			continue; // what is shown to be the program's no change of the machine brought
		changes_judge(
			&(struct changes_judge){ .changes = &s->changes,
						 .sightings = s->past.sightings.data,
						 .nsightings = s->past.sightings.len,
						 .when = when,
						 .fingerprint = fingerprint_at(s, i, when),
						 .process = i->processes.len ? i->processes.data[0].name : (struct str){ 0 } },
			&i->changes);
		changes_find_way_back(i, &s->changes, &cache);
	}
}

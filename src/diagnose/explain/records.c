// Hardware errors: how bad one was, and of which time its records are. The driver keeps them after the error is over, so a record alone is no
// failure now.
#include "diagnose/incident.h"
#include "evidence/reader.h"

/** The worst that any event of the incident says; empty: none does. */
static struct str worst_told(const struct incident *i)
{
	static const char *const grades[] = { "fatal", "uncorrected", "corrected" };
	for (size_t g = 0; g < ARRAY_SIZE(grades); g++)
		for (size_t n = 0; n < i->events.len; n++)
			if (str_is(diag_value(i->events.data[n], "ras_severity"), grades[g]) ||
			    str_is(diag_value(i->events.data[n], "bank_severity"), grades[g]))
				return str_z(grades[g]);
	return (struct str){ 0 };
}

/** What it says is of another error than the one that opened the incident. */
static bool was_corrected(const struct diag_event *e)
{
	return str_is(diag_value(e, "bank_severity"), "corrected") || str_is(diag_value(e, "ras_severity"), "corrected");
}

struct str incident_error(const struct incident *i, const char *fact)
{
	struct str value = diag_value(i->root, fact);
	for (size_t n = 0; n < i->events.len && !value.n; n++) {
		const struct diag_event *e = i->events.data[n];
		if ((e->cause || e->kind->opens != OPENS_YES) && !was_corrected(e))
			value = diag_value(e, fact);
	}
	return value;
}

/** What AMD's number says, where only the number is told: tools print no more. */
static void explain_number(struct incident *i, struct diag_event *e, const struct know *k)
{
	const struct str number = diag_value(e, "bank_afid");
	const struct know_afid *afid = list_find_of(k->afids.data, k->afids.len, it, str_eq(it->head.id, number));
	if (!afid || diag_find(e, S("bank_afid_title")))
		return;
	diag_conclude(i, e, "bank_afid_title", afid->title);
	diag_conclude(i, e, "ras_block", afid->block);
}

void incident_weigh_error(struct incident *i, const struct know *k)
{
	for (size_t n = 0; n < i->events.len; n++)
		explain_number(i, i->events.data[n], k);
	const struct str bank = diag_value(i->root, "bank_severity"); // what failed says it better than what announced it
	diag_conclude(i, i->root, "error_severity", bank.n ? bank : worst_told(i));
	diag_conclude(i, i->root, "error_block", incident_error(i, "ras_block"));
	diag_conclude(i, i->root, "error_bank", incident_error(i, "bank"));
	diag_conclude(i, i->root, "error_afid", incident_error(i, "bank_afid"));
}

/** When the machine was started, by the newest source that tells; of no clock: none does. @booted: the newest first line of a boot, which loggers
 * date up to a minute late. */
static struct stamp machine_began(const struct evidence_reader *r, struct stamp booted)
{
	enum { LATE = 60 };
	struct stamp began = { booted.clock, booted.seconds - LATE };
	for (size_t n = 0; n < evidence_count(r); n++) {
		const double most = evidence_at(r, n)->wall_most;
		if (most > 0 && (began.clock != TIME_WALL || most > began.seconds))
			began = (struct stamp){ TIME_WALL, most };
	}
	return began;
}

static bool is_record(const struct diag_event *e)
{
	static const char *const facts[] = { "cper_id", "cper_file", "cper_time", "cper_before" };
	for (size_t n = 0; n < ARRAY_SIZE(facts); n++)
		if (diag_fact(e, facts[n]))
			return true;
	return false;
}

/** Whether a record was written before or after the machine was started; a log without a zone may be hours off. */
static struct str age_by(struct stamp record, struct stamp began)
{
	enum { ZONES_S = 14 * 3600 };
	const double apart = record.seconds - began.seconds, least = began.clock == TIME_LOCAL ? ZONES_S : 0;
	if (record.clock != TIME_WALL || (began.clock != TIME_WALL && began.clock != TIME_LOCAL))
		return S("unknown");
	return apart < -least ? S("earlier-boot") : apart >= least ? S("this-boot") : S("unknown");
}

void incident_weigh_records(struct incident *i, const struct evidence_reader *r, struct stamp booted)
{
	const struct diag_event *record = is_record(i->root) ? i->root : NULL;
	bool driver = false; // it tells of the error itself
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *d = i->events.data[n];
		if (!is_record(d))
			driver |= d->kind->hang;
		else if (!record || (record != i->root && d->time.seconds > record->time.seconds))
			record = d;
	}
	if (!record)
		return;
	i->record_age = diag_find(record, S("cper_before")) ? S("earlier-boot") :
			driver                              ? S("this-incident") :
							      age_by(record->time, machine_began(r, booted));
}

// Of which time the records of a hardware error are. The driver keeps them after the error is over, so a record alone is no failure now.
#include "diagnose/incident.h"
#include "evidence/reader.h"

/** When the machine was started, in seconds since 1970, by the newest source that tells; 0: none does. */
static double machine_began(const struct evidence_reader *r)
{
	double began = 0;
	for (size_t n = 0; n < evidence_count(r); n++) {
		const double most = evidence_at(r, n)->wall_most;
		began = most > began ? most : began;
	}
	return began;
}

void incident_weigh_records(struct incident *i, const struct evidence_reader *r)
{
	const struct diag_event *record = NULL;
	bool driver = false; // it tells of the error itself
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *d = i->events.data[n];
		if (diag_find(d, S("cper_id")) || diag_find(d, S("cper_file")))
			record = record ? record : d;
		else
			driver |= d->kind->hang;
	}
	if (!record)
		return;
	const double began = machine_began(r);
	i->record_age = driver                                    ? S("this-incident") :
			!began || record->time.clock != TIME_WALL ? S("unknown") :
			record->time.seconds < began              ? S("earlier-boot") :
								    S("this-boot");
}

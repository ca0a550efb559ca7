// For other programs: a line for each incident, and for each GPU that has none. docs/OPERATORS.md names the fields, which do not change.
#include <time.h>

#include "base/print.h"
#include "report/report.h"

/** A field that nobody can mistake for two: what separates fields and lines is escaped. */
static void put_field(FILE *out, struct str value, char end)
{
	struct text safe = { 0 };
	for (size_t n = 0; n < value.n; n++) {
		const unsigned char c = (unsigned char)value.p[n];
		if (c == '\\')
			text_add(&safe, S("\\\\"));
		else if (c < ' ' || c == 0x7f)
			text_printf(&safe, "\\x%02x", c);
		else
			text_add(&safe, (struct str){ value.p + n, 1 });
	}
	print_safe(out, safe.n ? text_str(&safe) : S("-"));
	fputc(end, out);
	text_free(&safe);
}

/** 2026-08-27T03:28:27Z; without the Z where the zone is not known, without the year where that is not; boot+12.345. */
static void add_time(struct text *to, struct stamp t)
{
	enum { DAY = 86400, LEAP_YEAR = 730 }; // days from 1970 to 1972, in which dates without a year are counted
	const bool yearless = t.clock == TIME_YEARLESS, calendar = yearless || t.clock == TIME_WALL || t.clock == TIME_LOCAL;
	struct tm tm;
	if (t.clock == TIME_BOOT)
		text_printf(to, "boot+%.3f", t.seconds);
	if (!calendar || !(t.seconds >= DAY) || t.seconds > 4e11)
		return;
	const time_t at = (time_t)t.seconds + (yearless ? (time_t)LEAP_YEAR * DAY : 0);
	if (!gmtime_r(&at, &tm))
		return;
	if (!yearless)
		text_printf(to, "%04d-", tm.tm_year + 1900);
	text_printf(to, "%02d-%02dT%02d:%02d:%02d%s", tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		    t.clock == TIME_WALL ? "Z" : "");
}

static void put_incident(const struct diagnosis *d, const struct incident *i, FILE *out)
{
	struct text time = { 0 }, confidence = { 0 };
	if (i->events.len)
		add_time(&time, evidence_wall(evidence_at(d->evidence, i->events.data[0]->at.source), i->begin));
	text_printf(&confidence, "%d.%02d", i->confidence / 100, i->confidence % 100);
	put_field(out, i->host, '\t');
	put_field(out, text_str(&time), '\t');
	put_field(out, i->gpu.device, '\t');
	put_field(out, i->gpu.serial.n ? i->gpu.serial : i->gpu.unique_id, '\t');
	put_field(out, i->cause->head.id, '\t');
	put_field(out, i->action->action, '\t');
	put_field(out, i->fault, '\t');
	put_field(out, text_str(&confidence), '\t');
	put_field(out, incident_fit(i), '\t');
	put_field(out, i->events.len ? evidence_at(d->evidence, i->events.data[0]->at.source)->path : (struct str){ 0 }, '\n');
	text_free(&time);
	text_free(&confidence);
}

/** What has no incident: a GPU, or all that was read. */
static void put_verdict(const struct diagnosis *d, const struct device *gpu, enum uh_verdict verdict, FILE *out)
{
	static const char *const fits[] = { [UH_HEALTHY] = "yes", [UH_INCIDENT] = "no", [UH_UNKNOWN] = "unknown" };
	const struct str none = { 0 };
	put_field(out, d->host, '\t');
	put_field(out, none, '\t');
	put_field(out, gpu ? gpu->pci : none, '\t');
	put_field(out, gpu ? gpu->serial.n ? gpu->serial : gpu->unique_id : none, '\t');
	put_field(out, str_z(verdict_name(verdict)), '\t');
	put_field(out, verdict == UH_HEALTHY ? S("nothing") : none, '\t');
	put_field(out, none, '\t');
	put_field(out, none, '\t');
	put_field(out, gpu ? str_z(fits[verdict]) : none, '\t');
	put_field(out, none, '\n');
}

static bool has_incident(const struct diagnosis *d, struct str pci)
{
	for (size_t n = 0; n < d->ledger->incidents.len; n++) {
		const struct incident *i = d->ledger->incidents.data[n];
		if (!i->history && str_eq(i->gpu.device, pci))
			return true;
	}
	return false;
}

void report_oneline(const struct diagnosis *d, FILE *out)
{
	for (size_t n = 0; n < d->ledger->incidents.len; n++)
		put_incident(d, d->ledger->incidents.data[n], out);
	for (size_t n = 0; d->machine && n < d->machine->n; n++) {
		const struct gpu_observation *g = &d->machine->gpus[n];
		if (g->looked && !has_incident(d, g->device->pci))
			put_verdict(d, g->device, gpu_verdict(g), out);
	}
	if (!d->ledger->incidents.len && !(d->machine && d->machine->n))
		put_verdict(d, NULL, d->verdict, out);
}

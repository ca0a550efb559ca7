// For other programs: a line for each incident, and for each GPU that has none. docs/OPERATORS.md names the fields, which do not change.
#include <time.h>

#include "base/print.h"
#include "report/report.h"

enum { FIELDS = 10 };

/** Fields that nobody can mistake for more or fewer: what separates fields and lines is escaped. */
static void put_fields(FILE *out, const struct str fields[static FIELDS])
{
	for (size_t f = 0; f < FIELDS; f++) {
		_cleanup_text_ struct text safe = { 0 };
		for (size_t n = 0; n < fields[f].n; n++) {
			const unsigned char c = (unsigned char)fields[f].p[n];
			if (c == '\\')
				text_add(&safe, S("\\\\"));
			else if (c < ' ' || c == 0x7f)
				text_printf(&safe, "\\x%02x", c);
			else
				text_add(&safe, (struct str){ fields[f].p + n, 1 });
		}
		print_safe(out, safe.n ? text_str(&safe) : S("-"));
		fputc(f + 1 < FIELDS ? '\t' : '\n', out);
	}
}

/** 2026-08-27T03:28:27Z; without the Z where the zone is not known, without the year where that is not; boot+12.345. */
static void oneline_add_time(struct text *to, struct stamp t)
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

/** What has no incident: a GPU, or all that was read. */
static void put_verdict(const struct diagnosis *d, const struct device *gpu, enum uh_verdict verdict, FILE *out)
{
	static const char *const fits[] = { [UH_HEALTHY] = "yes", [UH_INCIDENT] = "no", [UH_UNKNOWN] = "unknown" };
	const struct str none = { 0 };
	put_fields(out, (const struct str[FIELDS]){ d->host, none, gpu ? gpu->pci : none,
						    gpu ? gpu->serial.n ? gpu->serial : gpu->unique_id : none,
						    str_z(verdict_name(verdict)), verdict == UH_HEALTHY ? S("nothing") : none,
						    none, none, gpu ? str_z(fits[verdict]) : none, none });
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
	for (size_t n = 0; n < d->ledger->incidents.len; n++) {
		const struct incident *i = d->ledger->incidents.data[n];
		_cleanup_text_ struct text time = { 0 }, confidence = { 0 };
		const struct evidence *first = i->events.len ? evidence_at(d->evidence, i->events.data[0]->at.source) : NULL;
		if (first)
			oneline_add_time(&time, evidence_wall(first, i->begin));
		text_printf(&confidence, "%d.%02d", i->confidence / 100, i->confidence % 100);
		put_fields(out,
			   (const struct str[FIELDS]){ i->host, text_str(&time), i->gpu.device,
						       i->gpu.serial.n ? i->gpu.serial : i->gpu.unique_id, i->cause->head.id,
						       i->action->action, i->fault, text_str(&confidence), incident_fit(i),
						       first ? first->path : (struct str){ 0 } });
	}
	for (size_t n = 0; d->observed && n < d->observed->n; n++) {
		const struct gpu_observation *g = &d->observed->gpus[n];
		if (g->looked && !has_incident(d, g->device->pci))
			put_verdict(d, g->device, gpu_verdict(g), out);
	}
	if (!d->ledger->incidents.len && !(d->observed && d->observed->n))
		put_verdict(d, NULL, d->verdict, out);
}

// What every part of the report for people is written with.
#include <time.h>

#include "base/print.h"
#include "report/text/prose.h"

const char *prose_paint(const struct text_report *t, const char *code) { return t->options->colour ? code : ""; }

const char *prose_plain(const struct text_report *t) { return t->options->colour ? "\033[0m" : ""; }

void prose_wrap(const struct text_report *t, struct str s, size_t indent, size_t column)
{
	print_wrapped(t->out, s, indent, column, t->width);
}

void prose_label(const struct text_report *t, const char *name, struct str s)
{
	const size_t column = strlen(name) < LABEL ? LABEL : strlen(name) + 2;
	fprintf(t->out, "%s%-*s%s", prose_paint(t, "\033[1m"), (int)column, name, prose_plain(t));
	prose_wrap(t, s, LABEL, column);
}

void prose_clock(struct text *to, struct stamp time)
{
	int64_t day = (int64_t)time.seconds % 86400, ms = (int64_t)(time.seconds * 1000) % 1000;
	if (time.clock == TIME_NONE)
		return;
	if (time.clock == TIME_BOOT || time.clock == TIME_RELATIVE) {
		text_printf(to, "%.3f", time.seconds);
		return;
	}
	text_printf(to, "%02d:%02d:%02d", (int)(day / 3600), (int)(day / 60 % 60), (int)(day % 60));
	if (ms)
		text_printf(to, ".%03d", (int)ms);
}

struct stamp prose_stamp(const struct diagnosis *d, const struct diag_event *e)
{
	return evidence_wall(evidence_at(d->evidence, e->at.source), e->time);
}

void prose_date(struct text *to, struct stamp time)
{
	enum { LEAP_YEAR = 730 }; // days from 1970 to 1972, in which dates without a year are counted
	const int64_t seconds = (int64_t)time.seconds, day = seconds / 86400, clock = seconds % 86400;
	const bool calendar = time.clock == TIME_WALL || time.clock == TIME_LOCAL;
	if (!(time.seconds >= 86400) || time.seconds > 4e11 || (!calendar && time.clock != TIME_YEARLESS))
		return; // the day is not known, or is that of a clock that was not set
	// The civil date of a day since 1970.
	static const char *const months[] = {
		"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"
	};
	const time_t at = (calendar ? day : LEAP_YEAR + day) * 86400;
	struct tm tm;
	if (gmtime_r(&at, &tm)) {
		if (calendar)
			text_printf(to, "%04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
		else
			text_printf(to, "%d %s", tm.tm_mday, months[tm.tm_mon]);
	}
	text_printf(to, "%s%02d:%02d:%02d%s", time.clock == TIME_WALL ? "T" : " ", (int)(clock / 3600), (int)(clock / 60 % 60),
		    (int)(clock % 60), time.clock == TIME_WALL ? "Z" : " local time");
}

bool prose_duration(struct text *to, double seconds)
{
	enum { MINUTE = 60, HOUR = 3600, DAY = 86400, ABSURD = 400 * DAY };
	// No incident lasts longer: a clock was set in between.
	if (!(seconds >= 0.001) || seconds > ABSURD)
		return false;
	if (seconds < 1)
		text_printf(to, "%.0f ms", seconds * 1000);
	else if (seconds < 10 * MINUTE)
		text_printf(to, seconds < 100 ? "%.3g s" : "%.0f s", seconds);
	else if (seconds < 2 * HOUR)
		text_printf(to, "%.0f min", seconds / MINUTE);
	else if (seconds < 2 * DAY)
		text_printf(to, "%.0f h", seconds / HOUR);
	else
		text_printf(to, "%.0f days", seconds / DAY);
	return true;
}

bool prose_between(struct text *to, struct stamp begin, struct stamp time)
{
	return time.clock == begin.clock && time.clock != TIME_NONE && prose_duration(to, time.seconds - begin.seconds);
}

void prose_elapsed(struct text *to, struct stamp begin, struct stamp time)
{
	_cleanup_text_ struct text apart = { 0 };
	if (prose_between(&apart, begin, time))
		text_printf(to, "+" STR_FMT, STR_ARG(text_str(&apart)));
}

int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

const char *prose_fitness(const struct incident *i)
{
	static const char *const fits[] = {
		[FIT_UNKNOWN] = "unknown", [FIT_YES] = "fit for the next job", [FIT_NO] = "not fit for the next job"
	};
	return fits[i->fit];
}

const char *prose_confidence(int percent)
{
	return percent >= CONFIDENCE_HIGH ? "high" : percent >= CONFIDENCE_MEDIUM ? "medium" : "low";
}

static struct str file_name(const struct text_report *t, unsigned source)
{
	struct str path = evidence_at(t->diagnosis->evidence, source)->path;
	if (str_ends(path, S(")"))) { // `logs.tar.gz(dir/dmesg.txt)`
		const char *open = memrchr(path.p, '(', path.n);
		path = open ? str_cut(str_from(path, (size_t)(open - path.p) + 1), (size_t)(path.p + path.n - open) - 2) : path;
	}
	const char *slash = memrchr(path.p, '/', path.n);
	return slash ? str_from(path, (size_t)(slash - path.p) + 1) : path;
}

void prose_file(const struct text_report *t, unsigned source, struct text *to) { text_add(to, file_name(t, source)); }

/** Where a row was read. */
void prose_place(const struct text_report *t, struct text *line, struct place at)
{
	// The name of the only file that was given is known; that it was the journal is not.
	bool alone = evidence_count(t->diagnosis->evidence) == 1;
	if (!at.line && alone) // of a core
		return;
	if (!at.line)
		text_printf(line, " [" STR_FMT "]", STR_ARG(file_name(t, at.source)));
	else if (alone && t->options->verbose &&
		 str_starts(evidence_at(t->diagnosis->evidence, at.source)->path, S("journal (")))
		text_printf(line, " [journal, line %llu]", (unsigned long long)at.line);
	else if (alone)
		text_printf(line, " [line %llu]", (unsigned long long)at.line);
	else
		text_printf(line, " [" STR_FMT ":%llu]", STR_ARG(file_name(t, at.source)), (unsigned long long)at.line);
}

void prose_fact(const struct text_report *t, int indent, const struct fact *f)
{
	enum { NAME = 24 };
	const size_t column = (size_t)indent + 1 + (f->name.n > NAME ? f->name.n : NAME);
	fprintf(t->out, "%*s%-*.*s ", indent, "", NAME, STR_ARG(f->name));
	print_wrapped(t->out, f->value, (size_t)indent + NAME + 1, column, t->width);
}

/** Modules that used what is broken on one of them, or elsewhere: who tells of it only met it. */
static void module_users(const struct incident *i, struct text *to)
{
	_cleanup_text_ struct text users = { 0 };
	for (size_t n = 0; n < i->events.len; n++) {
		char name[16];
		const struct str socket = diag_value(i->events.data[n], "bank_socket");
		if (!socket.n || !diag_fact(i->events.data[n], "only_used"))
			continue;
		snprintf(name, sizeof(name), "OAM%.*s", (int)(socket.n < 4 ? socket.n : 4), socket.p);
		if (str_find(text_str(&users), str_z(name)) < 0)
			text_printf(&users, "%s%s", users.n ? ", " : "", name);
	}
	if (users.n)
		text_printf(to, "not known: " STR_FMT " used broken data, whose origin may be any module or the host",
			    STR_ARG(text_str(&users)));
}

void prose_module(const struct incident *i, struct text *to)
{
	const struct {
		const char *before;
		struct str value;
	} rows[] = { { "serial ", i->gpu.serial }, { "slot ", i->gpu.slot }, { "unique id ", i->gpu.unique_id } };
	const struct str oam = incident_error(i, "bank_oam"), socket = incident_error(i, "bank_socket");
	if (!i->action->service.n)
		return;
	if (diag_fact(i->root, "only_used")) {
		module_users(i, to);
		return;
	}
	for (size_t n = 0; n < ARRAY_SIZE(rows); n++)
		if (rows[n].value.n)
			text_printf(to, "%s%s" STR_FMT, to->n ? ", " : "", rows[n].before, STR_ARG(rows[n].value));
	if (oam.n)
		text_printf(to, "%s" STR_FMT, to->n ? ", " : "", STR_ARG(oam));
	else if (i->gpu.oam)
		text_printf(to, "%sposition %lld on its board", to->n ? ", " : "", (long long)i->gpu.oam - 1);
	else if (socket.n) // the driver writes OAM and this number into its records
		text_printf(to, "%sOAM" STR_FMT " on its board", to->n ? ", " : "", STR_ARG(socket));
	// What the boot firmware tells is of a module that no driver runs.
	if (socket.n && !i->gpu.serial.n && pci_length(i->gpu.device) && !incident_error(i, "fw_status").n)
		text_printf(to, ". On the node, its serial number is in /sys/bus/pci/devices/" STR_FMT "/serial_number",
			    STR_ARG(i->gpu.device));
}

#include "report/watch/incidents.h"

#include <time.h>

#include "base/print.h"
#include "report/report.h"
#include "report/sheet.h"

enum { TIME_ROOM = 32, TITLE_INDENT = 4 };

static struct str stamp(char room[static TIME_ROOM], int64_t seconds)
{
	struct tm tm;
	time_t t = (time_t)seconds;
	return seconds && gmtime_r(&t, &tm) && strftime(room, TIME_ROOM, "%Y-%m-%dT%H:%M:%SZ", &tm) ? str_z(room) :
												      (struct str){ 0 };
}

/** Where the texts of an incident's times lie. */
struct times {
	char began[TIME_ROOM], changed[TIME_ROOM], ended[TIME_ROOM];
};

static void put_stored(struct sheet *s, const struct stored *i, struct times *t)
{
	sheet_put(s, "id", v_text(i->id));
	sheet_put(s, "state", v_text(i->state));
	sheet_put(s, "class", v_known(i->class));
	sheet_put(s, "title", v_known(i->title));
	sheet_put(s, "fault", v_known(i->fault));
	sheet_put(s, "action", v_known(i->action));
	sheet_put(s, "fit", v_known(i->fit));
	sheet_put(s, "host", v_known(i->host));
	sheet_put(s, "boot_id", v_known(i->boot_id));
	sheet_open(s, "gpu", '{');
	sheet_put(s, "pci", v_known(i->gpu));
	sheet_put(s, "unique_id", v_known(i->unique_id));
	sheet_put(s, "serial", v_known(i->serial));
	sheet_close(s, '}');
	sheet_put(s, "origin", v_known(i->origin));
	sheet_put(s, "job", v_known(i->job));
	sheet_put(s, "pid", v_if(i->pid, v_int(i->pid)));
	sheet_put(s, "revision", v_int(i->revision));
	sheet_put(s, "began", v_known(stamp(t->began, i->began)));
	sheet_put(s, "changed", v_known(stamp(t->changed, i->changed)));
	sheet_put(s, "ended", v_known(stamp(t->ended, i->ended)));
	sheet_put(s, "closed_by", v_known(i->closed_by));
	sheet_put(s, "events", v_int(i->events));
	sheet_put(s, "bundle", v_known(i->bundle));
	sheet_put(s, "votes", v_known(i->votes));
}

static size_t width_of(const struct uh_incidents_options *o)
{
	return report_width(&(struct uh_report_options){ .width = o->width });
}

void report_no_store(const char *directory, const struct uh_incidents_options *o, FILE *out)
{
	struct text line = { 0 };
	text_printf(&line, "Nothing was stored in %s yet. unhang watch stores incidents there. If it does not run, start it:",
		    directory);
	print_wrapped(out, text_str(&line), 0, 0, width_of(o));
	fputs("    sudo systemctl enable --now unhang-watch\n", out);
	text_free(&line);
}

static void complain(FILE *out, const struct uh_incidents_options *o, const char *what, struct str why)
{
	struct text line = { 0 };
	if (!why.n)
		return;
	text_printf(&line, "%s " STR_FMT, what, STR_ARG(why));
	print_wrapped(out, text_str(&line), 0, 0, width_of(o));
	text_free(&line);
}

/** For people: why there may be more than is listed. */
static void complain_of_watch(const struct watch_said *w, const struct uh_incidents_options *o, FILE *out)
{
	if (w->over) {
		complain(out, o, "No unhang watch runs. What it wrote last was valid until", w->valid_until);
		return;
	}
	complain(out, o, "unhang watch does not read the kernel's log.", w->unread);
	complain(out, o, "unhang watch does not see hangs that the driver does not report.", w->uncounted);
}

static void put_watch(struct sheet *s, const struct watch_said *w)
{
	sheet_open(s, "watch", '{');
	sheet_put(s, "runs", v_bool(!w->over));
	sheet_put(s, "valid_until", v_known(w->valid_until));
	sheet_put(s, "log_unread", v_known(w->unread));
	sheet_put(s, "progress_unread", v_known(w->uncounted));
	sheet_close(s, '}');
}

void report_incidents(const struct stored *const *list, size_t n, const struct watch_said *said,
		      const struct uh_incidents_options *o, FILE *out)
{
	static const struct column line[] = { { "id" },
					      { "began", "  ", .none = "  unknown             " },
					      { "state", "  ", -9 },
					      { "gpu.pci", "  ", .none = "  -" } };
	struct sheet s = sheet_on(o->json, out);
	struct times t;
	if (said && !o->json)
		complain_of_watch(said, o, out);
	sheet_begin(&s, "unhang/incidents/1", NULL);
	if (said && o->json)
		put_watch(&s, said);
	sheet_open(&s, "incidents", '[');
	for (size_t i = 0; i < n; i++) {
		sheet_open(&s, NULL, '{');
		put_stored(&s, list[i], &t);
		sheet_line(&s, 0, COLUMNS(line));
		if (!o->json && list[i]->title.n) {
			fprintf(out, "%*s", TITLE_INDENT, "");
			print_wrapped(out, list[i]->title, TITLE_INDENT, TITLE_INDENT, width_of(o));
		}
		sheet_close(&s, '}');
	}
	sheet_end(&s);
	if (!o->json && !n)
		fputs(o->open ? "No incident is open.\n" : "No incident is stored.\n", out);
}

static void row(FILE *out, const char *label, struct str value)
{
	if (!value.n)
		return;
	fprintf(out, "  %-9s ", label);
	print_safe(out, value);
	fputc('\n', out);
}

static void long_row(FILE *out, const char *label, struct str value, size_t width)
{
	enum { LABEL = 12 };
	if (!value.n)
		return;
	fprintf(out, "  %-9s ", label);
	print_wrapped(out, value, LABEL, LABEL, width);
}

static void show(const struct incident_shown *i, size_t width, FILE *out)
{
	const struct stored *s = i->stored;
	char room[TIME_ROOM];
	print_wrapped(out, s->title.n ? s->title : S("An incident that is not explained"), 0, 0, width);
	fputc('\n', out);
	row(out, "id", s->id);
	row(out, "state", s->state);
	row(out, "class", s->class);
	row(out, "host", s->host);
	row(out, "GPU", s->gpu);
	row(out, "serial", s->serial);
	row(out, "job", s->job);
	row(out, "began", stamp(room, s->began));
	row(out, "ended", stamp(room, s->ended));
	long_row(out, "ended by", s->closed_by, width);
	long_row(out, "votes", s->votes, width);
	long_row(out, "evidence", str_is(s->bundle, "taken") ? (struct str){ 0 } : s->bundle, width);
	row(out, "files", str_z(i->directory));
	if (i->diagnosis.n)
		fputc('\n', out);
	for (struct str rest = i->diagnosis; rest.n;) {
		print_safe(out, str_split(&rest, '\n'));
		fputc('\n', out);
	}
}

void report_incident(const struct incident_shown *i, const struct uh_incidents_options *o, FILE *out)
{
	if (o->json)
		report_incidents(&i->stored, 1, i->said, o, out);
	else
		show(i, width_of(o), out);
}

void report_state(const struct watch_state *w, FILE *out)
{
	struct sheet s = sheet_on(true, out);
	struct times t;
	char written[TIME_ROOM], valid[TIME_ROOM], looked[TIME_ROOM];
	sheet_open(&s, NULL, '{');
	sheet_put(&s, "schema", v_word("unhang/watch-state/1"));
	sheet_put(&s, "host", v_known(w->host));
	sheet_put(&s, "boot_id", v_known(w->boot_id));
	sheet_put(&s, "written", v_known(stamp(written, w->written)));
	sheet_put(&s, "valid_until", v_known(stamp(valid, w->valid_until)));
	sheet_put(&s, "looked", v_known(stamp(looked, w->looked)));
	sheet_put(&s, "log_overruns", v_number(w->lost));
	sheet_put(&s, "log_unread", v_known(w->unread));
	sheet_put(&s, "progress_unread", v_known(w->uncounted));
	sheet_open(&s, "gpus", '[');
	for (size_t i = 0; i < w->ngpus; i++) {
		sheet_open(&s, NULL, '{');
		sheet_put(&s, "pci", v_text(w->gpus[i].pci));
		sheet_put(&s, "unique_id", v_known(w->gpus[i].unique_id));
		sheet_put(&s, "serial", v_known(w->gpus[i].serial));
		sheet_put(&s, "health", v_known(w->gpus[i].health));
		sheet_put(&s, "says", v_known(w->gpus[i].says));
		sheet_put(&s, "unwell", v_bool(w->gpus[i].unwell));
		sheet_put(&s, "seen", v_bool(w->gpus[i].seen));
		sheet_put(&s, "progress", v_known(w->gpus[i].pace));
		sheet_put(&s, "progress_says", v_known(w->gpus[i].waits_for));
		sheet_close(&s, '}');
	}
	sheet_close(&s, ']');
	sheet_open(&s, "incidents", '[');
	for (size_t i = 0; i < w->nopen; i++) {
		sheet_open(&s, NULL, '{');
		put_stored(&s, w->open[i], &t);
		sheet_close(&s, '}');
	}
	sheet_close(&s, ']');
	sheet_close(&s, '}');
}

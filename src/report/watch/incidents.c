#include "report/watch/incidents.h"

#include "base/print.h"
#include "report/report.h"
#include "report/sheet.h"

enum { TITLE_INDENT = 4 };

const char *const stored_states[] = { "", "suspected", "hung", "open", "closed", NULL };

struct str stored_state_word(enum stored_state s) { return str_z(stored_states[s]); }

static void put_stored(struct sheet *s, const struct stored *i)
{
	sheet_fields(s, { "id", v_text(i->id) }, { "state", v_text(stored_state_word(i->state)) },
		     { "class", v_known(i->class) }, { "title", v_known(i->title) }, { "fault", v_known(i->fault) },
		     { "action", v_known(i->action) }, { "fit", v_known(i->fit) }, { "host", v_known(i->host) },
		     { "boot_id", v_known(i->boot_id) });
	sheet_record(s, "gpu", { "pci", v_known(i->gpu) }, { "unique_id", v_known(i->unique_id) },
		     { "serial", v_known(i->serial) });
	sheet_fields(s, { "origin", v_known(i->origin) }, { "job", v_known(i->job) }, { "pid", v_if(i->pid, v_int(i->pid)) },
		     { "revision", v_int(i->revision) }, { "began", v_date(i->began) }, { "changed", v_date(i->changed) },
		     { "ended", v_date(i->ended) }, { "closed_by", v_known(i->closed_by) }, { "events", v_int(i->events) },
		     { "bundle", v_known(i->bundle) }, { "votes", v_known(i->votes) });
}

static size_t watch_incidents_width_of(const struct uh_incidents_options *o)
{
	return report_width(&(struct uh_report_options){ .width = o->width });
}

void report_no_store(const char *directory, const struct uh_incidents_options *o, FILE *out)
{
	_cleanup_text_ struct text line = { 0 };
	text_printf(&line,
		    "Nothing was stored in %s yet. unhang watch and unhang core store incidents there. If the watch does not "
		    "run, start it:",
		    directory);
	print_wrapped(out, text_str(&line), 0, 0, watch_incidents_width_of(o));
	fputs("    sudo systemctl enable --now unhang-watch\n", out);
}

static void watch_incidents_complain(FILE *out, const struct uh_incidents_options *o, const char *what, struct str why)
{
	_cleanup_text_ struct text line = { 0 };
	if (!why.n)
		return;
	text_printf(&line, "%s " STR_FMT, what, STR_ARG(why));
	print_wrapped(out, text_str(&line), 0, 0, watch_incidents_width_of(o));
}

/** For people: why there may be more than is listed. */
static void complain_of_watch(const struct watch_said *w, const struct uh_incidents_options *o, FILE *out)
{
	if (w->over) {
		watch_incidents_complain(out, o, "No unhang watch runs. What it wrote last was valid until", w->valid_until);
		return;
	}
	watch_incidents_complain(out, o, "unhang watch does not read the kernel's log.", w->unread);
	watch_incidents_complain(out, o, "unhang watch does not see hangs that the driver does not report.", w->uncounted);
}

void report_incidents(const struct stored *const *list, size_t n, const struct watch_said *said,
		      const struct uh_incidents_options *o, FILE *out)
{
	struct sheet s = sheet_on(o->json, out);
	if (said && !o->json)
		complain_of_watch(said, o, out);
	sheet_begin(&s, "unhang/incidents/1", NULL);
	if (said && o->json) {
		sheet_record(&s, "watch", { "runs", v_bool(!said->over) }, { "valid_until", v_known(said->valid_until) },
			     { "log_unread", v_known(said->unread) }, { "progress_unread", v_known(said->uncounted) });
	}
	sheet_each (i, &s, "incidents", n) {
		put_stored(&s, list[i]);
		sheet_line(&s, 0,
			   COLUMNS_OF({ "id" }, { "began", "  ", .none = "  unknown             " }, { "state", "  ", -9 },
				      { "gpu.pci", "  ", .none = "  -" }));
		if (!o->json && list[i]->title.n) {
			fprintf(out, "%*s", TITLE_INDENT, "");
			print_wrapped(out, list[i]->title, TITLE_INDENT, TITLE_INDENT, watch_incidents_width_of(o));
		}
	}
	sheet_close(&s, '}');
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
	char room[DATE_ROOM];
	print_wrapped(out, s->title.n ? s->title : S("An incident that is not explained"), 0, 0, width);
	fputc('\n', out);
	row(out, "id", s->id);
	row(out, "state", stored_state_word(s->state));
	row(out, "class", s->class);
	row(out, "host", s->host);
	row(out, "GPU", s->gpu);
	row(out, "serial", s->serial);
	row(out, "job", s->job);
	row(out, "began", date_text(s->began, room));
	row(out, "ended", date_text(s->ended, room));
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
		show(i, watch_incidents_width_of(o), out);
}

void report_state(const struct watch_state *w, FILE *out)
{
	struct sheet s = sheet_on(true, out);
	sheet_open(&s, NULL, '{');
	sheet_fields(&s, { "schema", v_word("unhang/watch-state/1") }, { "host", v_known(w->host) },
		     { "boot_id", v_known(w->boot_id) }, { "written", v_date(w->written) },
		     { "valid_until", v_date(w->valid_until) }, { "looked", v_date(w->looked) },
		     { "log_overruns", v_number(w->lost) }, { "log_unread", v_known(w->unread) },
		     { "progress_unread", v_known(w->uncounted) }, { "gpus_unread", v_known(w->unlisted) });
	sheet_each (i, &s, "gpus", w->ngpus)
		sheet_fields(&s, { "pci", v_text(w->gpus[i].pci) }, { "unique_id", v_known(w->gpus[i].unique_id) },
			     { "serial", v_known(w->gpus[i].serial) }, { "slot", v_known(w->gpus[i].slot) },
			     { "partition", v_known(w->gpus[i].partition) }, { "health", v_known(w->gpus[i].health) },
			     { "says", v_known(w->gpus[i].says) }, { "unwell", v_bool(w->gpus[i].unwell) },
			     { "seen", v_bool(w->gpus[i].seen) }, { "hardware", v_known(w->gpus[i].hardware) },
			     { "hardware_fit", v_known(w->gpus[i].hardware_fit) },
			     { "unowned_since", v_date(w->gpus[i].alone_since) }, { "progress", v_known(w->gpus[i].pace) },
			     { "progress_says", v_known(w->gpus[i].waits_for) });
	sheet_each (i, &s, "incidents", w->nopen)
		put_stored(&s, w->open[i]);
	sheet_close(&s, '}');
}

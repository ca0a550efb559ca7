// The pages that list: the overview, incidents, runs, machines.
#include "report/html/tag.h"
#include "report/history/history.h"
#include "report/site/site.h"

static void site_put_figure(struct html *p, int64_t n, const char *what)
{
	page_numbers(p, "<li><b>%lld</b>", (long long)n);
	page_element(p, "span", "span", str_z(what));
	page_put(p, "</li>\n");
}

static void put_figures(struct html *p, const struct history_totals *t)
{
	page_put(p, "<ul class=\"figures\">\n");
	site_put_figure(p, t->open, t->open == 1 ? "incident is open" : "incidents are open");
	site_put_figure(p, t->this_week, "this week");
	site_put_figure(p, t->last_week, "last week");
	site_put_figure(p, t->incidents - t->older, "in the last 8 weeks");
	site_put_figure(p, t->hosts, t->hosts == 1 ? "node with incidents" : "nodes with incidents");
	if (t->hours > 0)
		site_put_figure(p, (int64_t)(t->hours + 0.5), "GPU-hours of work");
	page_put(p, "</ul>\n");
}

/** A link to the incidents of one fault; in files, where nobody can search, to the newest of them. */
static void put_fault_link(const struct site *s, struct html *p, const struct history_fault *f)
{
	const struct str text = f->title.n ? f->title : f->class.n ? f->class : S("not explained yet");
	if (s->files && f->newest.n) {
		site_link(s, p, "incident", f->newest, text);
		return;
	}
	page_put(p, "<a href=\"");
	site_href(s, p, "incidents", (struct str){ 0 });
	if (!s->files) {
		_cleanup_text_ struct text key = { 0 };
		site_put_name(&key, f->key);
		page_fill(p, "?fingerprint=@", text_str(&key));
	}
	page_fill(p, "\">@</a>", text);
}

static void put_faults(const struct site *s, struct html *p, const struct history_fault_list *list)
{
	page_put(p, "<h2>Faults in the last 8 weeks</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
		    "aria-label=\"Faults\"><table><thead><tr><th scope=\"col\">What "
		    "happens</th><th scope=\"col\" class=\"wideonly\">Part</th><th scope=\"col\" class=\"n\">This week</th><th "
		    "scope=\"col\" "
		    "class=\"n wideonly\">Last week</th><th scope=\"col\" class=\"n\">All</th><th scope=\"col\" "
		    "class=\"n\">Nodes</th><th scope=\"col\" "
		    "class=\"wideonly\">First</th><th scope=\"col\" class=\"wideonly\">Newest</th></tr></thead><tbody>\n");
	for (size_t n = 0; n < list->len; n++) {
		const struct history_fault *f = &list->data[n];
		page_markup(p, f->open ? S("<tr class=\"open\"><td>") : S("<tr><td>"));
		put_fault_link(s, p, f);
		page_markup(p, f->new ? S(" <b>new</b>") : S(""));
		page_fill(p, "</td><td class=\"wideonly\">@</td>", f->part);
		page_numbers(p,
			     "<td class=\"n\">%lld</td><td class=\"n wideonly\">%lld</td><td class=\"n\">%lld</td><td "
			     "class=\"n\">%lld</td><td class=\"wideonly t\">",
			     (long long)f->this_week, (long long)f->last_week, (long long)f->count, (long long)f->hosts);
		site_when(p, f->first);
		page_put(p, "</td><td class=\"wideonly t\">");
		site_when(p, f->last);
		page_put(p, "</td></tr>\n");
	}
	page_put(p, "</tbody></table></div>\n");
}

static void put_machine_rows(const struct site *s, struct html *p, const struct history_machine_list *list, size_t most)
{
	page_put(p, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Machines\"><table><thead><tr><th "
		    "scope=\"col\">Node</th><th "
		    "scope=\"col\">Part</th><th scope=\"col\" class=\"n\">Open</th><th scope=\"col\" "
		    "class=\"n\">Incidents</th><th scope=\"col\" "
		    "class=\"n\">GPU-hours</th><th scope=\"col\" class=\"n\">GPU-hours per incident</th><th "
		    "scope=\"col\">Newest</th></tr></thead><tbody>\n");
	for (size_t n = 0; n < list->len && n < most; n++) {
		const struct history_machine *m = &list->data[n];
		page_markup(p, m->open ? S("<tr class=\"open\"><td>") : S("<tr><td>"));
		if (m->host.n)
			site_link(s, p, "machine", m->host, m->host);
		else
			page_put(p, "<span class=\"unknown\">not named</span>");
		page_fill(p, "</td><td>@</td>", m->part);
		page_numbers(p, "<td class=\"n\">%lld</td><td class=\"n\">%lld</td><td class=\"n\">", (long long)m->open,
			     (long long)m->incidents);
		if (m->hours > 0)
			page_numbers(p, "%.0f</td><td class=\"n\">%.0f", m->hours,
				     m->hours / (double)(m->incidents ? m->incidents : 1));
		else
			page_put(p, "<span class=\"unknown\">not counted</span></td><td class=\"n\">");
		page_put(p, "</td><td class=\"t\">");
		site_when(p, m->last);
		page_put(p, "</td></tr>\n");
	}
	page_put(p, "</tbody></table></div>\n");
}

void site_put_overview(const struct site *s, const struct site_overview *o, FILE *out)
{
	enum { SHOWN = 15 };
	struct html own = site_begin(s, out, SITE_OVERVIEW,
				     o->summary.totals.open ? S("Open incidents") : S("Nothing is open")),
		    *p = &own;
	put_figures(p, &o->summary.totals);
	if (o->open.len)
		site_table(s, p, &o->open, true);
	if (!o->summary.totals.incidents)
		page_put(p, "<p>No incident is in this history yet. <code>unhang watch</code>, <code>unhang run</code> and "
			    "<code>unhang explain "
			    "--store</code> add to it.</p>\n");
	chart_days(p, &o->summary.days, o->since, s->now);
	if (o->summary.faults.len)
		put_faults(s, p, &o->summary.faults);
	if (o->summary.machines.len) {
		page_put(p, "<h2>Nodes with most incidents in the last 8 weeks</h2>\n");
		put_machine_rows(s, p, &o->summary.machines, SHOWN);
	}
	if (o->summary.parts.len > 1) {
		page_put(p, "<h2>By part</h2>\n<dl class=\"facts\">\n");
		for (size_t n = 0; n < o->summary.parts.len; n++) {
			page_fill(p, "<dt>@</dt>",
				  o->summary.parts.data[n].name.n ? o->summary.parts.data[n].name : S("not known"));
			page_numbers(p, "<dd>%lld</dd>\n", (long long)o->summary.parts.data[n].count);
		}
		page_put(p, "</dl>\n");
	}
	site_end(p);
}

// --- lists with pages ---

static void put_field(struct html *p, const char *name, const char *label, struct str value)
{
	page_fill(p, "<label>@<input name=\"@\" value=\"@\" size=\"14\"></label>\n", str_z(label), str_z(name), value);
}

static void put_form(const struct site *s, struct html *p, const struct history_filter *f)
{
	if (s->files)
		return;
	page_put(p, "<form method=\"get\" role=\"search\" aria-label=\"Incidents\">\n");
	put_field(p, "class", "Cause", f->class);
	put_field(p, "node", "Node", f->host);
	put_field(p, "part", "Part", f->part);
	put_field(p, "program", "Program", f->program);
	put_field(p, "serial", "Serial number", f->serial);
	put_field(p, "fingerprint", "Fault", f->fingerprint);
	put_field(p, "id", "Incident", f->id);
	page_put(p, "<label>Since<input name=\"since\" size=\"12\" placeholder=\"2026-11-01\"></label>\n<label>State<select "
		    "name=\"open\"><option "
		    "value=\"\">all</option><option value=\"1\"");
	if (f->open)
		page_put(p, " selected");
	page_put(p, ">open</option></select></label>\n<button>Search</button>\n</form>\n<p class=\"quiet\">* stands for any "
		    "letters: "
		    "gfx94*.</p>\n");
}

static void put_turn(const struct site *s, struct html *p, const struct site_list *l, const char *kind, int64_t skip,
		     const char *text)
{
	page_put(p, "<a href=\"");
	if (s->files) {
		_cleanup_text_ struct text name = { 0 };
		text_printf(&name, "%s", kind);
		if (skip)
			text_printf(&name, "-%lld", (long long)(skip / l->most + 1));
		text_add(&name, S(".html"));
		page_text(p, text_str(&name));
	} else {
		page_fill(p, "/@?@@skip=", str_z(kind), l->query, l->query.n ? S("&") : S(""));
		page_numbers(p, "%lld", (long long)skip);
	}
	page_fill(p, "\">@</a> ", str_z(text));
}

static void put_turns(const struct site *s, struct html *p, const struct site_list *l, const char *kind, size_t shown)
{
	page_put(p, "<p class=\"pages\">");
	if (l->skip > 0)
		put_turn(s, p, l, kind, l->skip > l->most ? l->skip - l->most : 0, "Newer");
	if (l->skip + (int64_t)shown < l->total)
		put_turn(s, p, l, kind, l->skip + (int64_t)shown, "Older");
	page_put(p, "</p>\n");
}

void site_put_incidents(const struct site *s, const struct site_list *l, const struct history_incident_list *list, FILE *out)
{
	struct html own = site_begin(s, out, SITE_INCIDENTS, S("Incidents")), *p = &own;
	put_form(s, p, l->filter);
	page_numbers(p, l->total == 1 ? "<p>%lld incident" : "<p>%lld incidents", (long long)l->total);
	if (!l->filter->since && !l->filter->until)
		page_put(p, " in all, of any age");
	if (list->len && (int64_t)list->len < l->total)
		page_numbers(p, ", %lld to %lld", (long long)l->skip + 1, (long long)l->skip + (long long)list->len);
	page_put(p, "</p>\n");
	if (list->len)
		site_table(s, p, list, true);
	put_turns(s, p, l, "incidents", list->len);
	site_end(p);
}

void site_put_runs(const struct site *s, const struct site_list *l, const struct history_run_list *list, FILE *out)
{
	struct html own = site_begin(s, out, SITE_RUNS, S("Runs")), *p = &own;
	if (!list->len)
		page_put(p, "<p>No run is in this history. <code>unhang run -- COMMAND</code> adds one.</p>\n");
	page_put(p, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Runs\"><table><thead><tr><th "
		    "scope=\"col\">Began</th><th "
		    "scope=\"col\">Command</th><th scope=\"col\">Node</th><th scope=\"col\">Job</th><th scope=\"col\" "
		    "class=\"n\">Tries</th><th "
		    "scope=\"col\">Status</th></tr></thead><tbody>\n");
	for (size_t n = 0; n < list->len; n++) {
		const struct history_run *r = &list->data[n];
		page_put(p, "<tr><td class=\"t\">");
		site_when(p, r->began);
		page_put(p, "</td><td>");
		site_link(s, p, "run", r->id, r->command.n ? r->command : r->id);
		page_put(p, "</td><td>");
		if (r->host.n)
			site_link(s, p, "machine", r->host, r->host);
		page_fill(p, "</td><td>@</td>", r->job);
		page_numbers(p, "<td class=\"n\">%lld</td><td>", (long long)r->tries);
		if (r->status < 0)
			page_text(p, r->state);
		else
			page_numbers(p, "%lld", (long long)r->status);
		page_put(p, "</td></tr>\n");
	}
	page_put(p, "</tbody></table></div>\n");
	put_turns(s, p, l, "runs", list->len);
	site_end(p);
}

static void put_rate_rows(const struct site *s, struct html *p, const struct history_rates *r)
{
	page_numbers(
		p,
		"<h2>How often they fail</h2>\n<p>All together: %.1f incidents in 1000 GPU-hours of work in the last 8 weeks. "
		"Incidents within an hour count as one. Marked nodes fail more often than chance explains.</p>\n",
		1000 * r->all.events / r->all.hours);
	page_put(p, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Rates\"><table><thead><tr><th "
		    "scope=\"col\">Node</th><th scope=\"col\" class=\"n\">Incidents</th><th scope=\"col\" "
		    "class=\"n\">GPU-hours</th><th scope=\"col\" class=\"n\">In 1000 GPU-hours</th><th scope=\"col\" "
		    "class=\"n\">at 95 %</th></tr></thead><tbody>\n");
	for (size_t n = 0; n < r->list.len; n++) {
		const struct history_rate *m = &r->list.data[n];
		if (m->rate.hours <= 0 || m->rate.events <= 0)
			continue;
		page_markup(p, m->outlier ? S("<tr class=\"open\"><td>") : S("<tr><td>"));
		site_link(s, p, "machine", m->host, m->name);
		page_markup(p, m->outlier ? S(" <b>more often</b>") : S(""));
		page_numbers(p,
			     "</td><td class=\"n\">%.0f</td><td class=\"n\">%.0f</td><td class=\"n\">%.1f</td><td "
			     "class=\"n\">%.1f to %.1f</td></tr>\n",
			     m->rate.events, m->rate.hours, 1000 * m->limits.ratio, 1000 * m->limits.low,
			     1000 * m->limits.high);
	}
	page_put(p, "</tbody></table></div>\n");
}

void site_put_machines(const struct site *s, const struct history_machine_list *list, const struct history_rates *rates,
		       FILE *out)
{
	struct html own = site_begin(s, out, SITE_MACHINES, S("Machines")), *p = &own;
	if (rates->all.hours > 0 && rates->all.events > 0)
		put_rate_rows(s, p, rates);
	if (list->len) {
		page_put(p, "<h2>All with an incident in the last 8 weeks</h2>\n");
		put_machine_rows(s, p, list, SIZE_MAX);
	} else {
		page_put(p, "<p>No machine has an incident in the last 8 weeks.</p>\n");
	}
	site_end(p);
}

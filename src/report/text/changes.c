// What changed before an incident, in words: the row of the first screen, and each change in the long report.
#include "report/text/prose.h"

#include <time.h>

/** `2025-07-08` */
static void add_day(struct text *to, double when)
{
	const time_t at = (time_t)when;
	struct tm tm;
	char day[32];
	if (when > 0 && gmtime_r(&at, &tm) && strftime(day, sizeof(day), "%Y-%m-%d", &tm))
		text_add(to, str_z(day));
}

static void add_versions(struct text *to, struct str name, struct str from, struct str to_version)
{
	text_add(to, name);
	if (from.n && to_version.n)
		text_printf(to, " " STR_FMT " -> " STR_FMT, STR_ARG(from), STR_ARG(to_version));
	else if (to_version.n)
		text_printf(to, " " STR_FMT, STR_ARG(to_version));
	else if (from.n)
		text_printf(to, " (" STR_FMT " was removed)", STR_ARG(from));
}

/** The parts of a transaction, each once: `the kernel, Mesa`. */
static void add_parts(struct text *to, const struct transaction *t)
{
	const size_t before = to->n;
	for (size_t n = 0; n < t->changes.len; n++) {
		const struct know_package *kind = t->changes.data[n].kind;
		if (!list_find(t->changes.data, n, c, c->kind == kind))
			text_printf(to, "%s" STR_FMT, to->n > before ? ", " : "", STR_ARG(kind->title));
	}
}

/** One package, where that is all of it that concerns a GPU; else the transaction. */
static void add_change(struct text *to, const struct incident *i, const struct transaction *t, bool blamed)
{
	const struct change *only = transaction_only(t);
	struct str before, since;
	if (only && blamed && changes_get(&i->changes, S("kernel_before"), 0, &before) &&
	    changes_get(&i->changes, S("kernel_since"), 0, &since)) {
		add_versions(to, S("kernel"), before, since);
	} else if (only) {
		const bool versions = only->from.n || only->to.n;
		add_versions(to, t->changes.len > 1 ? only->kind->title : only->package, only->from, only->to);
		if (!versions)
			text_add(to, S(" was changed"));
	} else {
		text_printf(to, "the update of ");
		add_day(to, t->when);
		text_add(to, S(" ("));
		add_parts(to, t);
		text_add(to, S(")"));
	}
}

static void add_blame(const struct incident *i, struct text *to)
{
	const struct diag_changes *c = &i->changes;
	size_t beside = 0;
	for (size_t n = 1; n < c->list.len; n++)
		beside += c->list.data[n].role == CHANGE_BESIDE;
	text_add(to, S("first seen "));
	if (!prose_duration(to, c->after * 3600))
		text_add(to, S("right"));
	text_add(to, S(" after "));
	add_change(to, i, c->list.data[0].transaction, true);
	if (beside == 1) {
		text_add(to, S(" and "));
		add_change(to, i, c->list.data[1].transaction, false);
	} else if (beside) {
		text_printf(to, " and %zu more changes", beside);
	}
	if (c->boots > 1)
		text_printf(to, "; not once in the %zu boots before, in %u %s", c->boots, c->seen,
			    c->undone ? "with it" : "since");
	else
		text_printf(to, "; not once in the %.0f hours before, in %u boot%s %s", c->all - c->since, c->seen,
			    c->seen == 1 ? "" : "s", c->undone ? "with it" : "since");
	if (c->undone)
		text_add(to, c->pending ? S("; taken back since; takes effect at the next boot") : S("; taken back since"));
}

void prose_changed(const struct incident *i, struct text *to)
{
	enum { NAMED = 2 };
	const struct diag_changes *c = &i->changes;
	if (!c->list.len)
		return;
	if (c->list.data[0].role == CHANGE_TO_BLAME) {
		add_blame(i, to);
		return;
	}
	text_add(to, S("lately: "));
	for (size_t n = 0; n < c->list.len && n < NAMED; n++) {
		_cleanup_text_ struct text before = { 0 };
		text_add(to, n ? S("; ") : S(""));
		add_change(to, i, c->list.data[n].transaction, false);
		if (prose_duration(&before, c->first - c->list.data[n].effect))
			text_printf(to, ", " STR_FMT " before", STR_ARG(text_str(&before)));
	}
	if (c->list.len > NAMED)
		text_printf(to, "; and %zu more (-v)", c->list.len - NAMED);
}

void prose_not_blamed(const struct incident *i, struct text *to)
{
	const struct diag_changes *c = &i->changes;
	if (c->list.len || !c->earlier)
		return;
	text_add(to, S("nothing to blame: the same incident was seen on "));
	add_day(to, c->first);
	text_printf(to, ", before every%s change", c->earliest ? "" : " recent");
}

/** The days that the row of the first screen leaves out. */
static void add_days(const struct incident *i, struct text *to)
{
	const struct diag_change *blamed = &i->changes.list.data[0];
	_cleanup_text_ struct text installed = { 0 }, used = { 0 };
	add_day(&installed, blamed->transaction->when);
	add_day(&used, blamed->effect);
	text_printf(to, "changed on " STR_FMT, STR_ARG(text_str(&installed)));
	if (!str_eq(text_str(&installed), text_str(&used)))
		text_printf(to, ", in use from " STR_FMT " on", STR_ARG(text_str(&used)));
	text_add(to, S("; first seen on "));
	add_day(to, i->changes.first);
	text_add(to, S(" (UTC). Hours are hours of use: those that the machine ran"));
}

const char *change_role_name(enum change_role role)
{
	static const char *const names[] = {
		[CHANGE_TO_BLAME] = "to-blame", [CHANGE_BESIDE] = "beside", [CHANGE_LATELY] = "lately"
	};
	return names[role];
}

void prose_change_line(const struct diag_change *c, struct text *to)
{
	const struct transaction *t = c->transaction;
	add_day(to, t->when);
	text_printf(to, " " STR_FMT, STR_ARG(t->manager));
	if (t->id.n)
		text_printf(to, " " STR_FMT, STR_ARG(t->id));
	text_add(to, S(": "));
	for (size_t n = 0; n < t->changes.len; n++) {
		text_add(to, n ? S(", ") : S(""));
		add_versions(to, t->changes.data[n].package, t->changes.data[n].from, t->changes.data[n].to);
	}
	if (t->others)
		text_printf(to, "; and %zu package%s that concern%s no GPU", t->others, t->others == 1 ? "" : "s",
			    t->others == 1 ? "s" : "");
}

void prose_why_blamed(const struct incident *i, struct text *to)
{
	const struct diag_changes *c = &i->changes;
	text_printf(to,
		    "seen in %u boot%s, all of them after it: in %.0f of %.0f hours that this machine is known to have run. By "
		    "chance that happens in %.2g %% of cases (%u change%s held against it)",
		    c->seen, c->seen == 1 ? "" : "s", c->since, c->all, c->chance * 100, c->tried, c->tried == 1 ? "" : "s");
	if (c->unknown)
		text_printf(to, "; %zu earlier boot%s not counted: no kernel log, or no orderly end", c->unknown,
			    c->unknown == 1 ? " is" : "s are");
}

// --- callbacks ---

void brief_change(void *ctx, const struct incident *i, const struct diag_change *c)
{
	struct text_report *t = ctx;
	_cleanup_text_ struct text line = { 0 };
	if (!t->full || c != i->changes.list.data)
		return;
	prose_changed(i, &line);
	struct block *p = screen_add(&t->screen, (struct block){ .label = "Changed", .indent = LABEL, .least = 3, .most = 3 });
	p->spare = c->role == CHANGE_LATELY; // what is not to blame is left out sooner than cut
	screen_text(&t->screen, p, text_str(&line));
}

void brief_not_blamed(struct text_report *t, const struct incident *i)
{
	_cleanup_text_ struct text line = { 0 };
	prose_not_blamed(i, &line);
	if (!line.n)
		return;
	struct block *p = screen_add(&t->screen, (struct block){ .label = "Changed", .indent = LABEL, .least = 2, .most = 2 });
	p->spare = true;
	screen_text(&t->screen, p, text_str(&line));
}

void prose_change(void *ctx, const struct incident *i, const struct diag_change *c)
{
	struct text_report *t = ctx;
	_cleanup_text_ struct text line = { 0 };
	if (c == i->changes.list.data) {
		prose_changed(i, &line);
		prose_label(t, "Changed", text_str(&line));
		text_clear(&line);
		if (c->role == CHANGE_TO_BLAME) {
			add_days(i, &line);
			prose_label(t, "", text_str(&line));
			text_clear(&line);
			prose_why_blamed(i, &line);
			prose_label(t, "", text_str(&line));
			text_clear(&line);
		}
	}
	prose_change_line(c, &line);
	if (c->transaction->where.n)
		text_printf(&line, "  [" STR_FMT "]", STR_ARG(c->transaction->where));
	prose_label(t, "", text_str(&line));
}

void prose_no_change(const struct text_report *t, const struct incident *i)
{
	_cleanup_text_ struct text line = { 0 };
	prose_not_blamed(i, &line);
	if (line.n)
		prose_label(t, "Changed", text_str(&line));
}

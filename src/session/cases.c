// The base of public cases: what is left out of it, its list, what is like an incident, and drafts for it.
#include "base/door/door.h"
#include "report/cases.h"
#include "session/session.h"

struct uh_error *uh_session_without(struct uh_session *s, const char *list)
{
	enum { LIST_MOST = 4 << 20 };
	struct str text = str_z(list);
	struct uh_error *err = list[0] == '@' ? root_read(NULL, list + 1, LIST_MOST, &s->arena, &text, NULL) : NULL;
	if (!err)
		cases_leave_out(&s->cases, s->know, text);
	return err;
}

void uh_session_list_cases(struct uh_session *s, FILE *out, const struct uh_cases_options *o)
{
	report_cases(s->know, &s->cases, o, out);
}

void uh_session_report_cases(struct uh_session *s, FILE *out, const struct uh_cases_options *o)
{
	const struct diagnosis d = session_diagnosis(s);
	report_like(&d, o, out);
}

bool uh_session_like_case(struct uh_session *s, const char *source, FILE *out, const struct uh_cases_options *o)
{
	const struct know_case *c = case_called(s->know, str_z(source));
	if (c)
		report_like_case(s->know, c, o, out);
	return c;
}

/** https://github.com/OWNER/REPO/issues/NUMBER as OWNER/REPO#NUMBER; another as it is. */
static struct str source_of_link(struct arena *a, struct str link)
{
	struct str rest = link;
	if (!str_behind(rest, S("https://github.com/"), &rest) &&
	    !str_behind(rest, S("https://gitlab.freedesktop.org/"), &rest))
		return link;
	const struct str owner = str_split(&rest, '/'), repository = str_split(&rest, '/');
	if (str_starts(rest, S("-/")))
		rest = str_from(rest, 2);
	str_split(&rest, '/'); // issues, pull, discussions, work_items
	const struct str number = str_cut(rest, str_run(rest, char_digit));
	return number.n ?
		       arena_printf(a, STR_FMT "/" STR_FMT "#" STR_FMT, STR_ARG(owner), STR_ARG(repository), STR_ARG(number)) :
		       link;
}

struct uh_error *uh_session_draft_case(struct uh_session *s, const char *link, FILE *out)
{
	const struct diagnosis d = session_diagnosis(s);
	return report_case_draft(&d, source_of_link(&s->arena, str_z(link)), out) ?
		       NULL :
		       uh_error_new("there is no incident in it, so there is nothing to draft a case from");
}

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

/** Whether the base has a fact of this kind that is like it. */
static bool base_has(const struct know *k, enum know_term_kind kind, const char *asked)
{
	return list_find(k->base.terms.list.data, k->base.terms.list.len, t,
			 t->kind == (uint32_t)kind && str_like(str_z(asked), t->text));
}

struct uh_error *uh_session_list_cases(struct uh_session *s, FILE *out, const struct uh_cases_options *o)
{
	const struct know *k = s->know;
	if (o->cause && !base_has(k, TERM_CLASS, o->cause) &&
	    !list_find_of(k->classes.data, k->classes.len, c, str_like(str_z(o->cause), c->head.id)))
		return uh_error_new("there is no class '%s'; unhang knowledge list class has them", o->cause);
	if (o->part && !base_has(k, TERM_GFX, o->part) &&
	    !list_find_of(k->parts.data, k->parts.len, p, str_like(str_z(o->part), p->gfx)))
		return uh_error_new("there is no part '%s'; parts are written as in gfx1100 or gfx11*", o->part);
	report_cases(k, &s->cases, o, out);
	return NULL;
}

void uh_session_report_cases(struct uh_session *s, FILE *out, const struct uh_cases_options *o)
{
	const struct diagnosis d = session_diagnosis(s);
	report_like(&d, o, out);
}

/** https://github.com/OWNER/REPO/issues/NUMBER as OWNER/REPO#NUMBER; another as it is: it says on which host it is. */
static struct str source_of_link(struct arena *a, struct str link)
{
	struct str rest = link;
	if (!str_behind(rest, S("https://github.com/"), &rest))
		return link;
	const struct str owner = str_split(&rest, '/'), repository = str_split(&rest, '/');
	str_split(&rest, '/'); // issues, pull, discussions
	const struct str number = str_cut(rest, str_run(rest, char_digit));
	return number.n ?
		       arena_printf(a, STR_FMT "/" STR_FMT "#" STR_FMT, STR_ARG(owner), STR_ARG(repository), STR_ARG(number)) :
		       link;
}

/** An address, or OWNER/REPO#NUMBER. */
static bool is_thread(struct str s)
{
	struct str number = s, repository = str_split(&number, '#'), name = repository, owner = str_split(&name, '/');
	return str_starts(s, S("https://")) || (owner.n && name.n && number.n && str_run(number, char_digit) == number.n);
}

bool uh_session_is_thread(const char *word) { return is_thread(str_z(word)); }

bool uh_session_like_case(struct uh_session *s, const char *source, FILE *out, const struct uh_cases_options *o)
{
	const struct know_case *c = case_called(s->know, source_of_link(&s->arena, str_z(source)));
	if (c)
		report_like_case(s->know, c, o, out);
	return c;
}

struct uh_error *uh_session_draft_case(struct uh_session *s, const char *link, FILE *out)
{
	const struct diagnosis d = session_diagnosis(s);
	if (!is_thread(str_z(link)))
		return uh_error_new("'%s' is no link: it begins with https://, or is OWNER/REPO#NUMBER", link);
	return report_case_draft(&d, source_of_link(&s->arena, str_z(link)), out) ?
		       NULL :
		       uh_error_new("there is no incident in it, so there is nothing to draft a case from");
}

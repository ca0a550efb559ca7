// The one question of an answer: the command to repeat, and the replies that were given.
#include "session/session.h"

void uh_session_ask(struct uh_session *s, char *const *words, size_t n)
{
	struct command_maker *m = command_begin(&s->arena);
	s->asks = true;
	command_add(m, "unhang");
	for (size_t i = 0; words && i < n; i++) {
		command_add(m, " ");
		// An option keeps its minus; what a shell would not take as it stands is quoted.
		const bool option = words[i][0] == '-';
		command_add_value(m, option ? PIECE_PARAMETER : PIECE_PATH, str_z(words[i]));
	}
	const struct command *again = command_end(m);
	s->again = words ? again : NULL;
}

bool uh_session_has_question(const struct uh_session *s, const char *id)
{
	return list_find_of(s->know->questions.data, s->know->questions.len, q, str_is(q->head.id, id));
}

struct uh_error *uh_session_answer(struct uh_session *s, const char *text)
{
	struct str reply = str_z(text), id = str_split(&reply, '=');
	const struct know_question *q = NULL;
	_cleanup_text_ struct text valid = { 0 };
	for (size_t n = 0; n < s->know->questions.len; n++) {
		const struct know_question *one = s->know->questions.data[n];
		if (str_eq(one->head.id, id))
			q = one;
	}
	if (!q)
		return uh_error_new("there is no question '" STR_FMT "'; unhang knowledge list question has them", STR_ARG(id));
	for (size_t n = 0; n < s->answers.len; n++)
		if (s->answers.data[n].question == q)
			return uh_error_new("'" STR_FMT "' was answered twice; give one reply", STR_ARG(id));
	for (const struct know_list *r = q->replies; r; r = r->next) {
		const struct diag_answer answer = { q, r->text };
		if (str_eq(r->text, reply)) {
			vec_push(&s->answers, answer);
			return NULL;
		}
		text_printf(&valid, "%s" STR_FMT, valid.n ? ", " : "", STR_ARG(r->text));
	}
	if (!reply.n)
		return uh_error_new("-a " STR_FMT " needs a reply: " STR_FMT, STR_ARG(id), STR_ARG(text_str(&valid)));
	return uh_error_new("'" STR_FMT "' is no reply to '" STR_FMT "'; it takes: " STR_FMT, STR_ARG(reply), STR_ARG(id),
			    STR_ARG(text_str(&valid)));
}

void session_tell_unused(const struct uh_session *s, const bool *used)
{
	for (size_t n = 0; n < s->answers.len; n++) {
		const struct diag_answer *a = &s->answers.data[n];
		_cleanup_text_ struct text line = { 0 };
		text_printf(&line, "-a " STR_FMT "=" STR_FMT " is not used: the evidence tells it, or tells enough",
			    STR_ARG(a->question->head.id), STR_ARG(a->reply));
		if (!used[n] && s->problem && s->ledger.incidents.len)
			s->problem(s->ctx, line.p);
	}
}

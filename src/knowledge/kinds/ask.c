// The keys of questions and explanations, and what must hold between them.
#include "knowledge/kinds/kinds.h"
#include "base/command.h"
#include "base/print.h"

const struct kind_key question_keys[] = {
	{ "ask", KEY_TEXT, offsetof(struct know_question, ask), .required = true },
	{ "why", KEY_TEXT, offsetof(struct know_question, why), .required = true },
	{ "fact", KEY_TEXT, offsetof(struct know_question, fact), .required = true },
	{ "replies", KEY_WORDS, offsetof(struct know_question, replies), .required = true },
	{ "work", KEY_WORDS, offsetof(struct know_question, work), .refers = "work-kind" },
	{ "when", KEY_WHEN, offsetof(struct know_question, when) },
	{ "unless", KEY_WHEN, offsetof(struct know_question, unless) },
	{ "readable", KEY_FLAG, offsetof(struct know_question, readable) },
	{ "decides", KEY_FLAG, offsetof(struct know_question, decides) },
	{ 0 },
};
const struct kind_key explanation_keys[] = {
	{ "title", KEY_TEXT, offsetof(struct know_explanation, title), .required = true },
	{ "fault", KEY_TEXT, offsetof(struct know_explanation, fault), .required = true, .choices = "job driver node unknown" },
	{ "for", KEY_WORDS, offsetof(struct know_explanation, for_classes), .required = true, .refers = "class" },
	{ "work", KEY_WORDS, offsetof(struct know_explanation, work), .refers = "work-kind" },
	{ "when", KEY_WHEN, offsetof(struct know_explanation, when) },
	{ "unless", KEY_WHEN, offsetof(struct know_explanation, unless) },
	{ "prior", KEY_NUMBER, offsetof(struct know_explanation, prior), .required = true },
	{ "likely", KEY_SET, offsetof(struct know_explanation, likely), .refers = "question" },
	{ "try", KEY_WORDS, offsetof(struct know_explanation, tries), .refers = "remedy" },
	{ 0 },
};

static size_t list_length(const struct know_list *list)
{
	size_t n = 0;
	for (; list; list = list->next)
		n++;
	return n;
}

/** It is typed into a shell, and printed where one row of the first screen has room. */
bool check_question(struct loader *l, struct know_head *object)
{
	const struct know_question *q = (const void *)object;
	const size_t n = list_length(q->replies);
	bool plain = piece_plain(PIECE_NAME, object->id) && piece_plain(PIECE_NAME, q->fact);
	for (const struct know_list *r = q->replies; r; r = r->next)
		plain &= piece_plain(PIECE_NAME, r->text);
	if (n >= 2 && n <= QUESTION_REPLIES && plain && print_columns(q->ask) <= QUESTION_COLUMNS)
		return true;
	know_problem(l->problems, object->file, object->line,
		     "a question has 2 to %d replies of one plain word, and at most %d columns", QUESTION_REPLIES,
		     QUESTION_COLUMNS);
	return false;
}

static size_t replies_told(const struct know_question *q, struct str told, int *ret_sum)
{
	size_t known = 0;
	for (struct str reply = str_word(&told); reply.n; reply = str_word(&told)) {
		int64_t percent;
		if (!str_number(str_word(&told), &percent) || percent < 1 || percent > 99)
			return 0;
		for (const struct know_list *r = q->replies; r; r = r->next)
			known += str_eq(r->text, reply);
		*ret_sum += (int)percent;
	}
	return known;
}

void explanations_resolve(const struct know *k, struct know_problems *problems)
{
	for (size_t n = 0; n < k->explanations.len; n++) {
		const struct know_explanation *e = k->explanations.data[n];
		for (const struct know_pair *p = e->likely; p; p = p->next) {
			const struct know_question *q = KNOW_BY_ID(k->questions, p->name);
			int sum = 0;
			if (q && (replies_told(q, p->value, &sum) != list_length(q->replies) || sum != 100))
				know_problem(problems, e->head.file, e->head.line,
					     "'likely " STR_FMT "' needs each reply with a percentage, 100 in all",
					     STR_ARG(p->name));
		}
	}
}

int explanation_likely(const struct know_explanation *e, const struct know_question *q, struct str reply)
{
	for (const struct know_pair *p = e->likely; p; p = p->next) {
		struct str told = p->value;
		if (!str_eq(p->name, q->head.id))
			continue;
		for (struct str word = str_word(&told); word.n; word = str_word(&told)) {
			int64_t percent = 0;
			const bool number = str_number(str_word(&told), &percent);
			if (number && str_eq(word, reply))
				return (int)percent;
		}
	}
	return 100 / (int)list_length(q->replies);
}

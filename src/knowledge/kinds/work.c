// The keys of the blocks that say who is who. They stand apart because the table of kinds is long enough.
#include "knowledge/kinds/kinds.h"

const struct kind_key work_kind_keys[] = {
	{ "title", KEY_TEXT, offsetof(struct know_work_kind, title), .required = true },
	{ "when", KEY_WHEN, offsetof(struct know_work_kind, when) },
	{ 0 },
};
const struct kind_key blame_keys[] = {
	{ "when", KEY_WHEN, offsetof(struct know_blame, when), .required = true },
	{ "fault", KEY_TEXT, offsetof(struct know_blame, fault), .required = true, .choices = "job driver node unknown" },
	{ "confidence", KEY_NUMBER, offsetof(struct know_blame, confidence), .required = true },
	{ "say", KEY_TEXT, offsetof(struct know_blame, say) },
	{ 0 },
};

bool check_remedy(struct loader *l, struct know_head *object)
{
	if (((const struct know_remedy *)object)->work || l->user)
		return true;
	know_problem(l->problems, object->file, object->line, "a remedy says for which kinds of work it is meant");
	return false;
}

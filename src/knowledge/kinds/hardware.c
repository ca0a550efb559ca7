// Error banks of the hardware: what their blocks hold.
#include "knowledge/kinds/kinds.h"

const struct kind_key bank_keys[] = {
	{ "ip", KEY_WORDS, offsetof(struct know_bank, ip), .required = true },
	{ "title", KEY_TEXT, offsetof(struct know_bank, title), .required = true },
	{ "kind", KEY_TEXT, offsetof(struct know_bank, kind), .required = true },
	{ "fields", KEY_TEXT, offsetof(struct know_bank, fields), .refers = "register" },
	{ "error", KEY_SET, offsetof(struct know_bank, errors) },
	{ "instance", KEY_LIST, offsetof(struct know_bank, instances) },
	{ "units", KEY_SET, offsetof(struct know_bank, units) },
	{ 0 },
};
const struct kind_key error_severity_keys[] = {
	{ "is", KEY_TEXT, offsetof(struct know_error_severity, is), .required = true,
	  .choices = "fatal uncorrected corrected unknown" },
	{ "when", KEY_WHEN, offsetof(struct know_error_severity, when) },
	{ 0 },
};
const struct kind_key afid_keys[] = {
	{ "title", KEY_TEXT, offsetof(struct know_afid, title), .required = true },
	{ "when", KEY_WHEN, offsetof(struct know_afid, when) },
	{ 0 },
};

bool check_bank(struct loader *l, struct know_head *object)
{
	struct know_bank *b = (struct know_bank *)object;
	if (str_hex(b->ip->text, &b->hardware) && b->ip->next && str_hex(b->ip->next->text, &b->type))
		return true;
	know_problem(l->problems, object->file, object->line, "a bank's 'ip' is: HARDWARE TYPE, in hexadecimal");
	return false;
}

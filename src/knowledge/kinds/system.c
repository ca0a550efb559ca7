// The keys of the blocks that say how systems are kept. They stand apart because the table of kinds is long enough.
#include "knowledge/kinds/kinds.h"

const struct kind_key way_keys[] = {
	{ "when", KEY_WHEN, offsetof(struct know_way, when) },
	{ "run", KEY_TEXT, offsetof(struct know_way, run) },
	{ "say", KEY_TEXT, offsetof(struct know_way, say) },
	{ "undo", KEY_TEXT, offsetof(struct know_way, undo) },
	{ "writes", KEY_CHOICE, offsetof(struct know_way, writes),
	  .choices = "nothing grub-file grub-line entry-lines entry-words record options" },
	{ "source", KEY_TEXT, offsetof(struct know_way, source), .required = true },
	{ 0 },
};
const struct kind_key sign_keys[] = {
	{ "says", KEY_SET, offsetof(struct know_sign, says), .required = true },
	{ "path", KEY_WORDS, offsetof(struct know_sign, paths) },
	{ "text", KEY_TEXT, offsetof(struct know_sign, text) },
	{ "when", KEY_WHEN, offsetof(struct know_sign, when) },
	{ "unless", KEY_WHEN, offsetof(struct know_sign, unless) },
	{ 0 },
};
const struct kind_key package_keys[] = {
	{ "title", KEY_TEXT, offsetof(struct know_package, title), .required = true },
	{ "names", KEY_WORDS, offsetof(struct know_package, names), .required = true },
	{ "not", KEY_WORDS, offsetof(struct know_package, not ) },
	{ "process", KEY_WORDS, offsetof(struct know_package, processes) },
	{ "managers", KEY_WORDS, offsetof(struct know_package, managers) },
	{ "effect", KEY_CHOICE, offsetof(struct know_package, effect), .required = true, .choices = "boot start" },
	{ 0 },
};

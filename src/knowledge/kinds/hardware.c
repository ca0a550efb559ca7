// What blocks about hardware hold: error banks, what the power controller counts, queue descriptors and page tables.
#include "knowledge/kinds/kinds.h"

const struct kind_key mqd_keys[] = {
	{ "parts", KEY_WORDS, offsetof(struct know_mqd, parts), .required = true },
	{ "registers", KEY_WORDS, offsetof(struct know_mqd, registers), .required = true },
	{ "first", KEY_NUMBER, offsetof(struct know_mqd, first), .required = true },
	{ "sdma", KEY_WORDS, offsetof(struct know_mqd, sdma), .required = true },
	{ "bits", KEY_SET, offsetof(struct know_mqd, bits), .required = true },
	{ "sdma-bits", KEY_SET, offsetof(struct know_mqd, sdma_bits), .required = true },
	{ "sdma-table", KEY_SET, offsetof(struct know_mqd, sdma_table) },
	{ 0 },
};

const struct kind_key mqd_words_keys[] = {
	{ "of", KEY_TEXT, offsetof(struct know_mqd_words, of), .required = true },
	{ "parts", KEY_WORDS, offsetof(struct know_mqd_words, parts), .required = true },
	{ "words", KEY_WORDS, offsetof(struct know_mqd_words, words), .required = true },
	{ 0 },
};

const struct kind_key page_table_keys[] = {
	{ "parts", KEY_WORDS, offsetof(struct know_page_table, parts), .required = true },
	{ "bits", KEY_SET, offsetof(struct know_page_table, bits), .required = true },
	{ "page", KEY_SET, offsetof(struct know_page_table, page) },
	{ "pasid", KEY_TEXT, offsetof(struct know_page_table, pasid) },
	{ "mmhub", KEY_WORDS, offsetof(struct know_page_table, mmhub), .required = true },
	{ "second-mmhub", KEY_WORDS, offsetof(struct know_page_table, second_mmhub) },
	{ "guests-from-zero", KEY_FLAG, offsetof(struct know_page_table, guests_from_zero) },
	{ 0 },
};

const struct kind_key bank_keys[] = {
	{ "ip", KEY_WORDS, offsetof(struct know_bank, ip), .required = true },
	{ "title", KEY_TEXT, offsetof(struct know_bank, title), .required = true },
	{ "kind", KEY_TEXT, offsetof(struct know_bank, kind), .required = true },
	{ "block", KEY_TEXT, offsetof(struct know_bank, block) },
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
	{ "block", KEY_TEXT, offsetof(struct know_afid, block) },
	{ "when", KEY_WHEN, offsetof(struct know_afid, when) },
	{ 0 },
};

const struct kind_key metrics_keys[] = {
	{ "version", KEY_WORDS, offsetof(struct know_metrics, version), .required = true },
	{ "fields", KEY_WORDS, offsetof(struct know_metrics, fields) },
	{ "names", KEY_TEXT, offsetof(struct know_metrics, names), .refers = "names" },
	{ "residency", KEY_SET, offsetof(struct know_metrics, residencies) },
	{ "cycles", KEY_TEXT, offsetof(struct know_metrics, cycles) },
	{ "status", KEY_TEXT, offsetof(struct know_metrics, status) },
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

/** Whether a word of `fields` is a width, or a name of one or several. */
static bool metrics_word_right(struct str word)
{
	enum { MOST = 1024 };
	struct str times = word, name = str_split(&times, '*');
	int64_t number;
	return str_among(word, STR_EQUALS, "u8|u16|u32|u64").n ||
	       (name.n && (name.n == word.n || (str_number(times, &number) && number > 0 && number <= MOST)));
}

bool check_metrics(struct loader *l, struct know_head *object)
{
	enum { BYTE = 255 };
	struct know_metrics *m = (struct know_metrics *)object;
	int64_t format = -1, content = -1;
	bool right = str_number(m->version->text, &format) && m->version->next &&
		     str_number(m->version->next->text, &content) && format >= 0 && format <= BYTE && content >= 0 &&
		     content <= BYTE && !m->fields == !!m->names.n;
	// Before the first width nothing can lie anywhere.
	right = right && (!m->fields || str_among(m->fields->text, STR_EQUALS, "u8|u16|u32|u64").n);
	for (const struct know_list *f = m->fields; f && right; f = f->next)
		right = metrics_word_right(f->text);
	m->format = (int)format;
	m->content = (int)content;
	if (!right)
		know_problem(l->problems, object->file, object->line,
			     "metrics are: version FORMAT CONTENT, and fields WIDTH NAME[*N]... or names ID");
	return right;
}

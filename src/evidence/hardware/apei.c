// Hardware errors that the platform's firmware tells the kernel of (APEI): sections of AMD's GPUs, which the kernel does not know and prints as
// words. GHES tells of errors when they happen, BERT of those that ended the boot before.
#include "evidence/hardware/cper.h"

enum { SECTION_MOST = 2048, WORDS = 4, WORD = 4 };
enum apei_severity { SAYS_NOTHING, SAYS_CORRECTED, SAYS_UNCORRECTED, SAYS_FATAL };

struct apei {
	struct artefact_output out;
	bool before;             // its records are of the boot before
	bool open;               // a section is being read
	enum apei_severity says; // what the kernel printed of it
	enum cper_section kind;
	struct place at;
	struct stamp time;
	char fru[24];
	size_t length, n; // bytes that it has, and that were read
	char bytes[SECTION_MOST];
};

/** What stands behind `[Hardware Error]:`, with the kernel's number before it or without. */
static bool apei_behind(struct str line, struct str *ret)
{
	struct str rest = line;
	if (str_starts(rest, S("{"))) {
		str_split(&rest, '}');
		line = rest;
	}
	return str_behind(line, S("[Hardware Error]:"), ret);
}

static bool apei_begins(struct str line)
{
	struct str rest;
	return str_starts(line, S("BERT: Error records from previous boot")) ||
	       (apei_behind(line, &rest) &&
		str_starts(str_trim(rest), S("Hardware error from APEI Generic Hardware Error Source")));
}

// --- a section ---

/** `fatal`; the kernel's words and those of the banks. */
static enum apei_severity apei_severity(struct str word)
{
	static const char *const words[] = { "corrected", "uncorrected", "fatal", "info", "recoverable", "unknown" };
	static const enum apei_severity says[] = { SAYS_CORRECTED, SAYS_UNCORRECTED, SAYS_FATAL,
						   SAYS_CORRECTED, SAYS_UNCORRECTED, SAYS_UNCORRECTED };
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (str_is(word, words[i]))
			return says[i];
	return SAYS_NOTHING;
}

/** The name of its signature: the worse of what was printed and what its registers say (@has). @whole: they were read, and fit to that. */
static const char *apei_signature(const struct apei *p, enum apei_severity has, bool whole)
{
	static const char *const now[] = { "apei-cut", "apei-section-corrected", "apei-section-uncorrected",
					   "apei-section-fatal" };
	static const char *const alone[] = { "apei-cut", "apei-cut", "apei-said-uncorrected", "apei-said-fatal" };
	static const char *const before[] = { "apei-cut", "bert-corrected", "bert-uncorrected", "bert-fatal" };
	const enum apei_severity worse = has > p->says ? has : p->says;
	return (!whole && (!p->before || worse < SAYS_UNCORRECTED) ? alone : p->before ? before : now)[worse];
}

/** A section that is cut off, or whose registers were lost, is told by what the kernel printed of it. */
static void apei_tell(struct apei *p)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct str section = { p->bytes, p->n };
	struct error_bank bank = { .grave = p->says > SAYS_CORRECTED };
	struct event facts = { .nfacts = 0 }, e;
	if (!p->open)
		return;
	p->open = false;
	cper_section_facts(p->out.know, p->kind, section, &bank, &facts, &a);
	const struct fact *severity = event_fact(&facts, "bank_severity");
	const enum apei_severity has = bank.boot.n ? SAYS_FATAL : severity ? apei_severity(severity->value) : SAYS_NOTHING;
	if (!artefact_event(&p->out, apei_signature(p, has, has != SAYS_NOTHING), p->at, &e))
		return;
	for (size_t i = 0; i < facts.nfacts; i++)
		event_add(&e, facts.facts[i].name, facts.facts[i].value, facts.facts[i].type);
	event_add_text(&e, &a, "bank_oam", str_z(p->fru));
	e.time = p->time;
	e.text = S("a section of an AMD GPU in a record of the firmware (APEI)");
	artefact_tell(&p->out, &e);
}

static void apei_section(struct apei *p, struct str guid, const struct logline *line, struct place at)
{
	static const char *const guids[] = { [SECTION_CRASH] = "32ac0c78-2623-48f6-b0d0-7365725fd6ae",
					     [SECTION_RUNTIME] = "32ac0c78-2623-48f6-81a2-ac691780551d" };
	apei_tell(p);
	for (size_t i = 0; i < ARRAY_SIZE(guids); i++)
		if (str_is(guid, guids[i])) {
			p->open = true;
			p->kind = (enum cper_section)i;
			p->at = at;
			p->time = line->stamps.best;
			p->n = 0;
			p->length = SECTION_MOST;
		}
}

/** `00000010: 00000001 00000000 ...`: words as the processor reads them. false: it is no such line, or not the next one. */
static bool apei_words(struct apei *p, struct str text)
{
	struct str rest = text, offset = str_split(&rest, ':');
	uint64_t at, value;
	if (!p->open || offset.n != 2 * WORD || !str_hex(offset, &at) || at != p->n)
		return false;
	for (size_t i = 0; i < WORDS && p->n < p->length && p->n + WORD <= SECTION_MOST; i++) {
		const struct str word = str_word(&rest);
		if (word.n != 2 * WORD || !str_hex(word, &value))
			break;
		for (size_t b = 0; b < WORD; b++)
			p->bytes[p->n++] = (char)(value >> 8 * b);
	}
	if (p->n >= p->length)
		apei_tell(p);
	return true;
}

// --- lines ---

static enum taken apei_line(void *self, const struct logline *line, struct place at)
{
	struct apei *p = self;
	struct str text = str_trim(line->message.n ? line->message : line->text), value;
	uint64_t length;
	if (apei_begins(text)) {
		apei_tell(p);
		p->before = str_starts(text, S("BERT:"));
		p->says = SAYS_NOTHING;
		p->fru[0] = 0;
		return TAKEN_LOOKS_LIKE;
	}
	if (!apei_behind(text, &text))
		return TAKEN_NO;
	text = str_trim(text);
	if (apei_words(p, text))
		return TAKEN_YES;
	if (str_behind(text, S("fru_text: "), &value)) {
		str_copy(p->fru, sizeof(p->fru), str_trim(value));
	} else if (str_behind(text, S("section type: unknown, "), &value)) {
		apei_section(p, str_trim(value), line, at);
	} else if (str_behind(text, S("section length: "), &value) && str_hex(str_trim(value), &length)) {
		p->length = length < SECTION_MOST ? (size_t)length : SECTION_MOST;
	} else if (str_behind(text, S("event severity: "), &value)) {
		p->says = apei_severity(str_trim(value));
	} else if (str_starts(text, S("Error "))) {
		apei_tell(p);
		p->fru[0] = 0;
		if (str_after(text, S("type: "), &value) && apei_severity(str_trim(value)))
			p->says = apei_severity(str_trim(value));
	}
	return TAKEN_LOOKS_LIKE; // other lines of such a record have messages of their own
}

static void apei_close(void *self) { apei_tell(self); }

ARTEFACT_READER(apei, "apei", 8);

// Hardware errors that the platform's firmware tells the kernel of (APEI): sections of AMD's GPUs, which the kernel does not know and prints as
// words. GHES tells of errors when they happen, BERT of those that ended the boot before. Sections of PCIe devices the kernel does know: the port
// that tells of an error is seldom the device that made it.
#include "evidence/hardware/cper.h"

enum { SECTION_MOST = 2048, WORDS = 4, WORD = 4 };
enum apei_severity { SAYS_NOTHING, SAYS_CORRECTED, SAYS_UNCORRECTED, SAYS_FATAL };

/** A section of a PCIe device, as the kernel prints it. */
struct apei_pcie {
	bool open;
	struct place at;
	struct stamp time;
	char pci[16], type[40], slot[8];
	uint64_t behind, vendor, device, class, errors; // @behind: the bus behind a port; @errors: those that were not corrected
};

struct apei {
	struct artefact_output out;
	struct apei_pcie pcie;
	bool begun;              // its first line was there
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

// --- a section of a PCIe device ---

/** What bits of its register mean, as the kernel's AER names them: the completion that did not come says most. */
static const char *apei_bit(uint64_t errors)
{
	static const struct {
		unsigned bit;
		const char *name;
	} bits[] = { { 14, "CmpltTO" }, { 5, "SDES" },    { 4, "DLP" },        { 12, "TLP" },   { 13, "FCP" },    { 15, "CmpltAbrt" },
		     { 16, "UnxCmplt" }, { 17, "RxOF" }, { 18, "MalfTLP" }, { 19, "ECRC" }, { 20, "UnsupReq" } };
	for (size_t i = 0; i < ARRAY_SIZE(bits); i++)
		if (errors >> bits[i].bit & 1)
			return bits[i].name;
	return "";
}

static void apei_tell_pcie(struct apei *p)
{
	enum { AMD = 0x1002, DISPLAY = 0x03, ACCELERATOR = 0x12, CLASS_SHIFT = 16 };
	_cleanup_arena_ struct arena a = { 0 };
	const struct apei_pcie d = p->pcie;
	struct event e;
	const bool bad = p->says > SAYS_CORRECTED || d.errors, amd = d.vendor == AMD, other = bad && d.vendor && !amd;
	const uint64_t class = d.class >> CLASS_SHIFT;
	p->pcie.open = false;
	if (!d.open || !artefact_event(&p->out, other ? "apei-port" : bad ? "apei-pcie-bad" : "apei-pcie", d.at, &e))
		return;
	event_add_text(&e, &a, "pci", str_z(d.pci));
	event_add_text(&e, &a, "port_type", str_z(d.type));
	if (d.slot[0] && strcmp(d.slot, "0") != 0)
		event_add_text(&e, &a, "slot", str_z(d.slot));
	if (d.behind)
		event_add_code(&e, &a, "bus_behind", d.behind);
	if (d.vendor) {
		event_add(&e, S("pci_id"), arena_printf(&a, "%04llx:%04llx", (unsigned long long)d.vendor, (unsigned long long)d.device), FACT_TEXT);
		event_add(&e, S("apei_vendor"), arena_printf(&a, "0x%04llx", (unsigned long long)d.vendor), FACT_TEXT);
	}
	event_add_text(&e, &a, "aer_error", str_z(apei_bit(d.errors)));
	event_add(&e, S("link_severity"), p->says == SAYS_FATAL ? S("fatal") : bad ? S("uncorrected") : S("corrected"), FACT_TEXT);
	if (p->before)
		event_add(&e, S("cper_before"), S("yes"), FACT_TEXT);
	if (amd && !d.behind && d.pci[0] && (class == 0 || class == DISPLAY || class == ACCELERATOR)) {
		e.device = str_z(d.pci);
		e.driver = S("amdgpu");
	}
	e.time = d.time;
	e.text = S("a section of a PCIe device in a record of the firmware (APEI)");
	artefact_tell(&p->out, &e);
}

static bool apei_pcie_line(struct apei *p, struct str text, const struct logline *line, struct place at)
{
	struct apei_pcie *d = &p->pcie;
	struct str value;
	if (str_starts(text, S("section_type: PCIe error"))) {
		apei_tell_pcie(p);
		*d = (struct apei_pcie){ .open = true, .at = at, .time = line->stamps.best };
	} else if (!d->open) {
		return false;
	} else if (str_behind(text, S("port_type: "), &value)) {
		str_split(&value, ',');
		str_copy(d->type, sizeof(d->type), str_trim(value));
	} else if (str_behind(text, S("device_id: "), &value) && pci_length(value)) {
		str_copy(d->pci, sizeof(d->pci), str_cut(value, pci_length(value)));
	} else if (str_behind(text, S("slot: "), &value)) {
		str_copy(d->slot, sizeof(d->slot), str_cut(value, str_run(value, char_digit)));
	} else if (str_behind(text, S("secondary_bus: "), &value)) {
		str_hex(str_trim(value), &d->behind);
	} else if (str_behind(text, S("vendor_id: "), &value)) {
		str_hex(str_split(&value, ','), &d->vendor);
		if (str_after(value, S("device_id: "), &value))
			str_hex(str_trim(value), &d->device);
	} else if (str_behind(text, S("class_code: "), &value)) {
		str_hex(str_trim(value), &d->class);
	} else if (str_behind(text, S("aer_uncor_status: "), &value)) {
		str_hex(str_split(&value, ','), &d->errors);
	} else {
		return false;
	}
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
		apei_tell_pcie(p);
		p->begun = true;
		p->before = str_starts(text, S("BERT:"));
		p->says = SAYS_NOTHING;
		p->fru[0] = 0;
		return TAKEN_LOOKS_LIKE;
	}
	if (!apei_behind(text, &text))
		return TAKEN_NO;
	text = str_trim(text);
	if (apei_words(p, text) || apei_pcie_line(p, text, line, at))
		return TAKEN_YES;
	if (str_behind(text, S("fru_text: "), &value)) {
		str_copy(p->fru, sizeof(p->fru), str_trim(value));
	} else if (str_behind(text, S("section type: unknown, "), &value)) {
		apei_section(p, str_trim(value), line, at);
	} else if (str_behind(text, S("section length: "), &value) && str_hex(str_trim(value), &length)) {
		p->length = length < SECTION_MOST ? (size_t)length : SECTION_MOST;
	} else if (str_behind(text, S("event severity: "), &value)) {
		p->says = apei_severity(str_trim(value));
		return p->begun ? TAKEN_YES : TAKEN_LOOKS_LIKE;
	} else if (str_starts(text, S("Error "))) {
		apei_tell(p);
		apei_tell_pcie(p);
		p->fru[0] = 0;
		if (str_after(text, S("type: "), &value) && apei_severity(str_trim(value)))
			p->says = apei_severity(str_trim(value));
		return p->begun ? TAKEN_YES : TAKEN_LOOKS_LIKE;
	}
	return TAKEN_LOOKS_LIKE; // other lines of such a record have messages of their own
}

static void apei_close(void *self)
{
	apei_tell(self);
	apei_tell_pcie(self);
}

ARTEFACT_READER(apei, "apei", 8);

#include "evidence/hardware/cper.h"

#include <time.h>

#include "base/bytes.h"
#include "evidence/hardware/bank.h"

// Where things are in a record: linux drivers/gpu/drm/amd/include/amd_cper.h.
enum {
	RECORD_SECTIONS = 10,
	RECORD_SEVERITY = 12,
	RECORD_VALID = 16,
	RECORD_LENGTH = 20,
	RECORD_TIME = 24,
	RECORD_PLATFORM = 32,
	RECORD_CREATOR = 64,
	RECORD_ID = 96,
	RECORD_HEAD = 128,
	SECTION_OFFSET = 0,
	SECTION_LENGTH = 4,
	SECTION_FLAGS = 12,
	SECTION_TYPE = 16,
	SECTION_SEVERITY = 48,
	SECTION_FRU = 52,
	SECTION_HEAD = 72,
	CONTEXT_TYPE = 128, // in a section
	CONTEXT_WORDS = 144,
	TIME_VALID = 2,
	OVER_THRESHOLD = 8, // of a section's flags
	CONTEXT_BOOT = 9,
	BOOT_MESSAGES = 8,
	BOOT_ERROR = 0xa4, // the lowest byte of such a message
	RING_POINTERS = 12,
	RING_MOST = 1 << 22,
	SECTIONS_MOST = 32,
	SEVERITIES = 3,
	SEVERITY_CORRECTED = 2,
	VENDOR_AMD = 0x1002,
};

static const char signature[] = "CPER\0\1\xff\xff\xff\xff";
static const struct str signature_str = { signature, sizeof(signature) - 1 };

/** The three pointers that stand before the driver's ring. */
static bool is_ring(struct str head)
{
	if (head.n < RING_POINTERS)
		return false;
	for (size_t i = 0; i < RING_POINTERS; i += 4)
		if (get_u32(head.p + i) > RING_MOST)
			return false;
	return true;
}

/** A ring that was full begins inside of the record that was overwritten last. */
bool cper_begins(struct str head)
{
	return str_starts(head, signature_str) ||
	       (is_ring(head) && str_find(str_from(head, RING_POINTERS), signature_str) >= 0);
}

// --- one section ---

static enum cper_section section_kind(const char *type)
{
	static const struct {
		char guid[17];
		enum cper_section kind;
	} kinds[] = {
		{ "\x78\x0c\xac\x32\x23\x26\xf6\x48\xb0\xd0\x73\x65\x72\x5f\xd6\xae", SECTION_CRASH },
		{ "\x78\x0c\xac\x32\x23\x26\xf6\x48\x81\xa2\xac\x69\x17\x80\x55\x1d", SECTION_RUNTIME },
		{ "\xb0\xa0\x3e\xdc\x44\xa1\x97\x47\xb9\x5b\x53\xfa\x24\x2b\x6e\x1d", SECTION_RUNTIME },
	};
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!memcmp(type, kinds[i].guid, 16))
			return kinds[i].kind;
	return SECTION_OTHER;
}

/** Words of a section's registers, by their place. */
static bool section_bank(struct str section, enum cper_section kind, struct error_bank *b)
{
	static const struct {
		size_t words;           // that there must be
		int at[BANK_REGISTERS]; // of each register; -1: it has none
	} forms[] = {
		[SECTION_CRASH] = { 4,
				    { [BANK_STATUS] = 0,
				      [BANK_ADDR] = 1,
				      [BANK_MISC] = -1,
				      [BANK_IPID] = 2,
				      [BANK_SYND] = 3 } },
		[SECTION_RUNTIME] = { 7,
				      { [BANK_STATUS] = 1,
					[BANK_ADDR] = 2,
					[BANK_MISC] = 3,
					[BANK_IPID] = 5,
					[BANK_SYND] = 6 } },
	};
	const struct str words = str_from(section, CONTEXT_WORDS);
	if (words.n < 8 * forms[kind].words)
		return false;
	for (int r = 0; r < BANK_REGISTERS; r++)
		if (forms[kind].at[r] >= 0)
			bank_set(b, (enum bank_register)r, get_u64(words.p + 8 * forms[kind].at[r]));
	return true;
}

/** What failed at boot: the first message that has the mark of an error. */
static bool section_boot(const struct know *k, struct str section, struct error_bank *b, struct event *e, struct arena *a)
{
	const struct str words = str_from(section, CONTEXT_WORDS);
	b->boot = S("unhandled");
	for (size_t i = 0; i < BOOT_MESSAGES && 8 * (i + 1) <= words.n; i++) {
		const uint64_t message = get_u64(words.p + 8 * i);
		const bool newer = message >> 13 & 7;
		if ((message & 0xff) != BOOT_ERROR)
			continue;
		const struct str name = know_name(k, newer ? S("boot-errors") : S("boot-errors-0"), message >> 8 & 31);
		b->boot = name.n ? name : b->boot;
		event_add_number(e, a, "bank_socket", newer ? message >> 20 & 15 : message >> 32 & 255);
		event_add_number(e, a, "bank_die", newer ? message >> 16 & 15 : message >> 40 & 255);
		return true;
	}
	return words.n >= 8;
}

bool cper_section_boots(enum cper_section kind, struct str section)
{
	return kind == SECTION_CRASH && section.n >= CONTEXT_WORDS && get_u16(section.p + CONTEXT_TYPE) == CONTEXT_BOOT;
}

void cper_section_facts(const struct know *k, enum cper_section kind, struct str section, struct error_bank *b, struct event *e,
			struct arena *a)
{
	const bool read = kind == SECTION_OTHER             ? false :
			  cper_section_boots(kind, section) ? section_boot(k, section, b, e, a) :
							      section_bank(section, kind, b);
	if (read)
		bank_facts(k, b, BANK_REGISTERS, e, a);
	if (bank_has(b, BANK_STATUS))
		event_add_code(e, a, "aca_status", b->value[BANK_STATUS]);
}

// --- one record ---

struct str utc_text(struct arena *a, double seconds)
{
	static const double year_10000 = 253402300800;
	const bool is_date = seconds >= 0 && seconds < year_10000;
	const time_t when = is_date ? (time_t)seconds : 0;
	struct tm tm;
	char text[64] = "";
	if (is_date && gmtime_r(&when, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return arena_str(a, str_z(text));
}

static struct str cper_word(const char *p, size_t n)
{
	struct str text = { p, strnlen(p, n) };
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] < ' ' || text.p[i] > '~')
			return (struct str){ 0 };
	return text;
}

/** Seconds since 1970; the driver writes UTC. false: the record has no time. */
static bool record_time(const char *record, double *ret)
{
	const unsigned char *t = (const unsigned char *)record + RECORD_TIME;
	struct tm tm = { .tm_sec = t[0], .tm_min = t[1], .tm_hour = t[2], .tm_mday = t[4], .tm_mon = t[5] - 1 };
	tm.tm_year = t[7] * 100 + t[6] - 1900;
	if (!(get_u32(record + RECORD_VALID) & TIME_VALID) || tm.tm_sec > 60 || tm.tm_min > 59 || tm.tm_hour > 23 ||
	    tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_mon < 0 || tm.tm_mon > 11 || tm.tm_year < 100)
		return false;
	*ret = (double)timegm(&tm);
	return true;
}

/** `0x1002:0x74A1`; false: the record does not say. */
static bool record_platform(const char *record, uint64_t *ret_vendor, uint64_t *ret_device)
{
	struct str device = cper_word(record + RECORD_PLATFORM, 16), vendor = str_split(&device, ':');
	return str_hex(vendor, ret_vendor) && str_hex(device, ret_device);
}

static void add_head(struct event *e, struct arena *a, const char *record)
{
	double seconds;
	uint64_t vendor, device;
	event_add_text(e, a, "cper_id", cper_word(record + RECORD_ID, 8));
	event_add_text(e, a, "cper_creator", cper_word(record + RECORD_CREATOR, 16));
	if (record_platform(record, &vendor, &device)) {
		event_add_code(e, a, "vendor", vendor);
		event_add_code(e, a, "device_id", device);
	}
	if (!record_time(record, &seconds))
		return;
	e->time = (struct stamp){ TIME_WALL, seconds };
	event_add(e, S("cper_time"), utc_text(a, seconds), FACT_TEXT);
}

/** What the record itself says of how bad it is counts, whatever its sections hold. */
static const char *record_signature(const char *record, bool boots, bool threshold)
{
	static const char *const events[SEVERITIES] = { "cper-record-uncorrected", "cper-record-fatal",
							"cper-record-corrected" };
	const uint32_t severity = get_u32(record + RECORD_SEVERITY);
	uint64_t vendor, device;
	if (record_platform(record, &vendor, &device) && vendor != VENDOR_AMD)
		return "cper-record-other";
	return boots                 ? "cper-record-boot" :
	       threshold             ? "cper-record-threshold" :
	       severity < SEVERITIES ? events[severity] :
				       "cper-record-odd";
}

/** Whether a section of a record that calls itself corrected says worse, or nothing that can be so. */
static bool is_contradicted(struct str head, const struct error_bank *b, bool boots)
{
	static const uint64_t valid = 1ULL << 63, grave = 1ULL << 61 | 1ULL << 57; // UC, PCC
	const uint64_t status = b->value[BANK_STATUS];
	return boots || (head.n && get_u32(head.p + SECTION_SEVERITY) < SEVERITY_CORRECTED) ||
	       (bank_has(b, BANK_STATUS) && (!(status & valid) || status & grave));
}

/** @head: empty for a record that has no section. */
static void tell_section(const struct artefact_output *out, const char *record, struct str head, struct str section,
			 uint64_t number)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct error_bank bank = { .threshold = head.n && get_u32(head.p + SECTION_FLAGS) & OVER_THRESHOLD,
				   .grave = get_u32(record + RECORD_SEVERITY) != SEVERITY_CORRECTED };
	const enum cper_section kind = head.n ? section_kind(head.p + SECTION_TYPE) : SECTION_OTHER;
	const bool boots = cper_section_boots(kind, section), known = kind != SECTION_OTHER;
	struct event e;
	if (!artefact_event(out, record_signature(record, boots, known && bank.threshold),
			    (struct place){ out->source, number }, &e))
		return;
	add_head(&e, &a, record);
	if (head.n)
		event_add_text(&e, &a, "bank_oam", cper_word(head.p + SECTION_FRU, SECTION_HEAD - SECTION_FRU));
	cper_section_facts(out->know, kind, section, &bank, &e, &a);
	artefact_tell(out, &e);
	if (!bank.grave && is_contradicted(head, &bank, boots) &&
	    artefact_event(out, "cper-record-odd", (struct place){ out->source, number }, &e))
		artefact_tell(out, &e);
}

/** A record whose end or sections lie outside of what was read. */
static void tell_cut(const struct artefact_output *out, uint64_t number)
{
	struct event e;
	if (artefact_event(out, "cper-cut", (struct place){ out->source, number }, &e))
		artefact_tell(out, &e);
}

/** false: it is cut off or damaged. */
static bool tell_record(const struct artefact_output *out, struct str record, uint64_t number)
{
	const size_t sections = get_u16(record.p + RECORD_SECTIONS);
	bool whole = sections > 0;
	if (!sections)
		tell_section(out, record.p, (struct str){ 0 }, (struct str){ 0 }, number);
	for (size_t i = 0; i < sections && i < SECTIONS_MOST; i++) {
		const struct str head = str_cut(str_from(record, RECORD_HEAD + i * SECTION_HEAD), SECTION_HEAD);
		if (head.n < SECTION_HEAD) {
			whole = false;
			break;
		}
		const uint32_t offset = get_u32(head.p + SECTION_OFFSET), length = get_u32(head.p + SECTION_LENGTH);
		const struct str section = str_cut(str_from(record, offset), length);
		whole &= section.n == length;
		tell_section(out, record.p, head, section, number);
	}
	if (!whole)
		tell_cut(out, number);
	return whole;
}

/** What is left of a record that the ring has overwritten. */
static bool is_overwritten(struct str bytes)
{
	for (size_t i = 0; i < bytes.n; i++)
		if (bytes.p[i])
			return true;
	return false;
}

bool cper_read(const struct artefact_output *out, struct str bytes)
{
	struct str rest = str_starts(bytes, signature_str) ? bytes : str_from(bytes, RING_POINTERS);
	const ptrdiff_t first = str_find(rest, signature_str);
	bool whole = first <= 0 || !is_overwritten(str_cut(rest, (size_t)first));
	if (!whole)
		tell_cut(out, 1);
	for (uint64_t number = 1;; number++) {
		const ptrdiff_t at = str_find(rest, signature_str);
		if (at < 0)
			return whole;
		rest = str_from(rest, (size_t)at);
		const uint32_t length = rest.n >= RECORD_HEAD ? get_u32(rest.p + RECORD_LENGTH) : 0;
		// A length that was damaged may reach over the records behind it.
		const ptrdiff_t next = str_find(str_from(str_cut(rest, length), signature_str.n), signature_str);
		const size_t end = next < 0 ? length : signature_str.n + (size_t)next;
		if (end < RECORD_HEAD || end > rest.n) {
			tell_cut(out, number);
			whole = false;
			rest = str_from(rest, signature_str.n);
			continue;
		}
		if (next >= 0)
			tell_cut(out, number);
		whole &= tell_record(out, str_cut(rest, end), number) && next < 0;
		rest = str_from(rest, end);
	}
}

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
	RECORDS_MOST = 4096, // of one file
	SECTIONS_MOST = 32,
	SEVERITIES = 3,
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

bool cper_begins(struct str head)
{
	return str_starts(head, signature_str) || (is_ring(head) && str_starts(str_from(head, RING_POINTERS), signature_str));
}

// --- one section ---

/** Sections of AMD: a crash dump, or an error at run time; their registers lie at the same place. The third is the processor's form. */
enum section { SECTION_CRASH, SECTION_RUNTIME, SECTION_OTHER };

static enum section section_kind(const char *type)
{
	static const struct {
		char guid[17];
		enum section kind;
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
static bool section_bank(struct str section, enum section kind, struct error_bank *b)
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

// --- one record ---

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

/** `0x1002:0x74A1` */
static void add_platform(struct event *e, struct arena *a, struct str platform)
{
	struct str device = platform, vendor = str_split(&device, ':');
	uint64_t v, d;
	if (!str_hex(vendor, &v) || !str_hex(device, &d))
		return;
	event_add_code(e, a, "vendor", v);
	event_add_code(e, a, "device_id", d);
}

static void add_head(struct event *e, struct arena *a, const char *record)
{
	double seconds;
	char text[32];
	event_add_text(e, a, "cper_id", cper_word(record + RECORD_ID, 8));
	event_add_text(e, a, "cper_creator", cper_word(record + RECORD_CREATOR, 16));
	add_platform(e, a, cper_word(record + RECORD_PLATFORM, 16));
	if (!record_time(record, &seconds))
		return;
	const time_t when = (time_t)seconds;
	struct tm tm;
	e->time = (struct stamp){ TIME_WALL, seconds };
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&when, &tm));
	event_add_text(e, a, "cper_time", str_z(text));
}

static void tell_section(const struct artefact_output *out, const char *record, struct str head, struct str section,
			 uint64_t number)
{
	static const char *const events[SEVERITIES] = { "cper-record-uncorrected", "cper-record-fatal",
							"cper-record-corrected" };
	_cleanup_arena_ struct arena a = { 0 };
	struct error_bank bank = { .threshold = get_u32(head.p + SECTION_FLAGS) & OVER_THRESHOLD };
	const enum section kind = section_kind(head.p + SECTION_TYPE);
	const uint32_t severity = get_u32(record + RECORD_SEVERITY);
	const bool boot =
		kind == SECTION_CRASH && section.n >= CONTEXT_WORDS && get_u16(section.p + CONTEXT_TYPE) == CONTEXT_BOOT;
	struct event e;
	const char *id = boot                  ? "cper-record-boot" :
			 bank.threshold        ? "cper-record-threshold" :
			 severity < SEVERITIES ? events[severity] :
						 "cper-record-odd";
	const struct place at = { out->source, number };
	if (!artefact_event(out, kind == SECTION_OTHER ? "cper-record-odd" : id, at, &e))
		return;
	add_head(&e, &a, record);
	event_add_text(&e, &a, "bank_oam", cper_word(head.p + SECTION_FRU, SECTION_HEAD - SECTION_FRU));
	const bool read = kind == SECTION_OTHER ? false :
			  boot                  ? section_boot(out->know, section, &bank, &e, &a) :
						  section_bank(section, kind, &bank);
	if (read)
		bank_facts(out->know, &bank, BANK_REGISTERS, &e, &a);
	if (bank_has(&bank, BANK_STATUS))
		event_add_code(&e, &a, "aca_status", bank.value[BANK_STATUS]);
	artefact_tell(out, &e);
}

/** A record whose end or sections lie outside of what was read. */
static void tell_cut(const struct artefact_output *out, uint64_t number)
{
	struct event e;
	if (artefact_event(out, "cper-cut", (struct place){ out->source, number }, &e))
		artefact_tell(out, &e);
}

static void tell_record(const struct artefact_output *out, struct str record, uint64_t number)
{
	const size_t sections = get_u16(record.p + RECORD_SECTIONS);
	bool cut = !sections;
	for (size_t i = 0; i < sections && i < SECTIONS_MOST; i++) {
		const struct str head = str_cut(str_from(record, RECORD_HEAD + i * SECTION_HEAD), SECTION_HEAD);
		if (head.n < SECTION_HEAD) {
			cut = true;
			break;
		}
		const uint32_t offset = get_u32(head.p + SECTION_OFFSET), length = get_u32(head.p + SECTION_LENGTH);
		const struct str section = str_cut(str_from(record, offset), length);
		cut |= section.n < length;
		tell_section(out, record.p, head, section, number);
	}
	if (cut)
		tell_cut(out, number);
}

bool cper_read(const struct artefact_output *out, struct str bytes)
{
	bool whole = true;
	struct str rest = str_starts(bytes, signature_str) ? bytes : str_from(bytes, RING_POINTERS);
	for (uint64_t number = 1; number <= RECORDS_MOST; number++) {
		const ptrdiff_t at = str_find(rest, signature_str);
		if (at < 0)
			return whole;
		rest = str_from(rest, (size_t)at);
		const uint32_t length = rest.n >= RECORD_HEAD ? get_u32(rest.p + RECORD_LENGTH) : 0;
		if (length < RECORD_HEAD || length > rest.n) {
			tell_cut(out, number);
			whole = false;
			rest = str_from(rest, signature_str.n);
			continue;
		}
		tell_record(out, str_cut(rest, length), number);
		rest = str_from(rest, length);
	}
	return whole;
}

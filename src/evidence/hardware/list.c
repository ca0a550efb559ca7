// Hardware errors as tools and the driver list them in tables: the records that `amd-smi ras` names, and the table of bad pages that a module
// keeps in its EEPROM (the driver's ras_eeprom_table).
#include "evidence/hardware/list.h"

#include <time.h>

#include "evidence/hardware/cper.h"

enum { PAGES_MOST = 65536, CHANNELS = 256 };
enum { TABLE_GOOD = 0x414d4452, TABLE_BAD = 0x42414447 }; // how the driver marks the table of a module

enum list_form { LIST_RECORDS, LIST_FILES, LIST_PAGES, LIST_ASKED };

struct error_list {
	struct artefact_output out;
	enum list_form form;
	struct place at;
	char file[64]; // whose numbers the command asked for
	// Of the table of bad pages:
	bool headed, bad;
	size_t pages;
	uint64_t newest; // seconds since 1970
	unsigned char channels[CHANNELS / 8];
};

/** `$ amd-smi ras --afid --cper-file /tmp/fatal-1.cper`, behind which its numbers stand. */
static struct str list_asked(struct str line)
{
	struct str rest, path;
	if (!str_after(line, S("amd-smi ras "), &rest) || str_find(rest, S("--afid")) < 0 || !str_after(rest, S("--cper-file"), &rest))
		return (struct str){ 0 };
	str_behind(rest, S("="), &rest);
	path = str_word(&rest);
	return str_ends(path, S(".cper")) ? str_base(path) : (struct str){ 0 };
}

static bool list_form(struct str line, enum list_form *ret)
{
	static const struct {
		const char *begins, *has;
		enum list_form form;
	} heads[] = { { "timestamp ", " severity", LIST_RECORDS },
		      { "file_name ", "list of afids", LIST_FILES },
		      { "Signature ", " FirstOffs", LIST_PAGES } };
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		if (str_starts(line, str_z(heads[i].begins)) && str_find(line, str_z(heads[i].has)) >= 0) {
			*ret = heads[i].form;
			return true;
		}
	*ret = LIST_ASKED;
	return list_asked(line).n > 0;
}

static bool error_list_begins(struct str line)
{
	enum list_form form;
	return list_form(str_trim(line), &form);
}

// --- records ---

/** `FATAL` in the table, `fatal` in the file beside a record, or the beginning of a file's name. */
static const char *list_signature(struct str word)
{
	static const struct {
		const char *word, *plain, *file, *signature;
	} grades[] = { { "FATAL", "fatal", "fatal-", "list-record-fatal" },
		       { "NONFATAL-UNCORRECTED", "non_fatal_uncorrected", "uncorrected-", "list-record-uncorrected" },
		       { "NONFATAL-CORRECTED", "non_fatal_corrected", "corrected-", "list-record-corrected" },
		       { "BOOT", "boot", "boot-", "list-record-boot" },
		       { "UNKNOWN", "unknown", "unknown-", "list-record-odd" } };
	for (size_t i = 0; i < ARRAY_SIZE(grades); i++)
		if (str_is(word, grades[i].word) || str_is(word, grades[i].plain) || str_starts(word, str_z(grades[i].file)))
			return grades[i].signature;
	return NULL;
}

bool list_tell(const struct artefact_output *out, const struct listed_record *r, struct place at, struct str text)
{
	int64_t number;
	struct event e;
	const char *signature = list_signature(r->grade);
	if (!signature && str_ends(r->grade, S(".cper"))) // somebody gave the file a name of his own
		signature = str_number(r->afid, &number) ? "list-record-named" : str_is(r->afid, "decode") ? "cper-cut" : NULL;
	if (!signature || !artefact_event(out, signature, at, &e))
		return false;
	_cleanup_arena_ struct arena a = { 0 };
	if (str_ends(r->file, S(".cper")))
		event_add(&e, S("cper_file"), str_cut(r->file, r->file.n - strlen(".cper")), FACT_TEXT);
	if (str_number(r->gpu, &number))
		event_add_number(&e, &a, "gpu_index", number);
	if (str_number(r->afid, &number))
		event_add(&e, S("bank_afid"), r->afid, FACT_NUMBER);
	struct str form = arena_printf(&a, STR_FMT "T" STR_FMT "Z", STR_ARG(r->date), STR_ARG(r->clock));
	for (size_t i = 0; i < form.n; i++)
		if (form.p[i] == '/')
			((char *)form.p)[i] = '-';
	const struct stamps s = stamps_read(out->know, form);
	if (r->clock.n && s.found && s.best.clock == TIME_WALL) {
		e.time = s.best;
		event_add(&e, S("cper_time"), form, FACT_TEXT);
	}
	e.text = text;
	artefact_tell(out, &e);
	return true;
}

/** `2026/05/28 11:22:33  0  FATAL  fatal-1.cper  30`, or from the file's name on. The time is that of the record, in UTC. */
static bool list_record(const struct error_list *l, const struct logline *line, struct str text, struct place at)
{
	struct str rest = text;
	struct listed_record r = { .date = str_word(&rest) };
	if (l->form == LIST_RECORDS) {
		r.clock = str_word(&rest);
		r.gpu = str_word(&rest);
		r.grade = str_word(&rest);
		r.file = str_word(&rest);
		r.afid = str_word(&rest);
	} else {
		r.file = l->form == LIST_ASKED ? str_z(l->file) : r.date;
		r.afid = l->form == LIST_ASKED ? r.date : str_word(&rest);
		r.grade = r.file;
		r.date = (struct str){ 0 };
	}
	return list_tell(&l->out, &r, at, line->text);
}

/** `30 31`, the line behind the command. */
static bool list_numbers(struct error_list *l, const struct logline *line, struct str text, struct place at)
{
	const bool here = l->file[0] && str_run(text, char_digit) > 0 && list_record(l, line, text, at);
	l->file[0] = 0;
	return here;
}

// --- bad pages ---

/** Seconds since 1970: as amdgpu writes them, or as the newer RAS core and the host's driver of virtual functions pack a date since 2000, which is
 * beyond 2038 as seconds. 0: neither. */
static uint64_t page_time(uint64_t kept)
{
	struct tm tm = { .tm_sec = kept & 63, .tm_min = kept >> 6 & 63, .tm_hour = kept >> 12 & 31, .tm_mday = kept >> 17 & 63 };
	tm.tm_mon = (int)(kept >> 23 & 15) - 1;
	tm.tm_year = (int)(kept >> 27 & 31) + 100;
	if (kept <= INT32_MAX)
		return kept;
	return kept <= UINT32_MAX && tm.tm_sec < 60 && tm.tm_min < 60 && tm.tm_hour < 24 && tm.tm_mday && tm.tm_mday < 32 && tm.tm_mon >= 0 && tm.tm_mon < 12 ?
		       (uint64_t)timegm(&tm) :
		       0;
}

/** `    0 0x00014      ue    0x00 0x000000006837C1A9 0x000000000000   0x05    0x02 0x000001D1E3F0`; the first row says how the table is marked. */
static bool list_page(struct error_list *l, struct str text)
{
	enum { MARK, MARK_LAST = 4, TYPE = 2, TIME = 4, CHANNEL = 6, PAGE = 8, WORDS };
	struct str rest = text, words[WORDS] = { 0 };
	uint64_t values[WORDS] = { 0 };
	size_t n = 0;
	for (; n < WORDS && rest.n; n++) {
		words[n] = str_word(&rest);
		str_hex(words[n], &values[n]);
	}
	if (n == MARK_LAST + 1 && (values[MARK] == TABLE_GOOD || values[MARK] == TABLE_BAD)) {
		l->headed = true;
		l->bad |= values[MARK] == TABLE_BAD;
		return true;
	}
	if (n < WORDS || !str_starts(words[PAGE], S("0x")) || !(str_is(words[TYPE], "ue") || str_is(words[TYPE], "re")))
		return str_starts(text, S("Index "));
	l->pages += l->pages < PAGES_MOST;
	const uint64_t time = page_time(values[TIME]);
	l->newest = time > l->newest ? time : l->newest;
	if (values[CHANNEL] < CHANNELS)
		l->channels[values[CHANNEL] / 8] |= (unsigned char)(1 << values[CHANNEL] % 8);
	return true;
}

static void list_tell_pages(struct error_list *l)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct event e;
	int64_t channels = 0;
	for (unsigned i = 0; i < CHANNELS; i++)
		channels += l->channels[i / 8] >> i % 8 & 1;
	if (!l->headed || !artefact_event(&l->out, l->bad ? "list-pages-bad" : "list-pages", l->at, &e))
		return;
	event_add_number(&e, &a, l->bad ? "ras_count" : "pages", (int64_t)l->pages);
	if (channels)
		event_add_number(&e, &a, "page_channels", channels);
	if (l->newest)
		event_add_text(&e, &a, "page_newest", utc_text(&a, (double)l->newest));
	artefact_tell(&l->out, &e);
}

// --- lines ---

static void error_list_close(void *self)
{
	struct error_list *l = self;
	if (l->form == LIST_PAGES)
		list_tell_pages(l);
	*l = (struct error_list){ .out = l->out };
}

static enum taken error_list_line(void *self, const struct logline *line, struct place at)
{
	struct error_list *l = self;
	const struct str text = str_trim(line->text);
	enum list_form form;
	if (list_form(text, &form)) {
		error_list_close(l);
		l->form = form;
		l->at = at;
		if (form == LIST_ASKED)
			str_copy(l->file, sizeof(l->file), list_asked(text));
		return TAKEN_YES;
	}
	const bool taken = l->form == LIST_PAGES ? list_page(l, text) :
			   l->form == LIST_ASKED ? list_numbers(l, line, text, at) :
						   list_record(l, line, text, at);
	return taken ? TAKEN_YES : TAKEN_NO;
}

ARTEFACT_READER(error_list, "error-list", 2);

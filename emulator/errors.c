// Hardware errors as the driver keeps them: the bad pages of a module, in its list and in the table of its EEPROM, and the ring of records (CPER).
// Both change with time: a statement may begin later. And the PCIe link, which may be less than it could be.
#include "emulator/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ERRORS_MOST = 256, PAGE_BYTES = 4096 };

// --- bad pages ---

bool emu_bad_page_read(struct cursor *c, void *gpu)
{
	static const char *const states[] = { "retired", "pending", "failed" };
	static const char letters[] = "RPF";
	struct emu_gpu *g = gpu;
	struct emu_bad_page p = { .when = 1700000000 };
	if (!cursor_number(c, "the page", UINT64_C(1) << 36, &p.page))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(states) && !p.state; i++)
		p.state = cursor_is(c, states[i]) ? letters[i] : 0;
	if (!p.state)
		return emu_wrong(c, "bad-page NUMBER retired, pending or failed");
	while (cursor_more(c)) {
		if (cursor_is(c, "channel") ? !cursor_unsigned(c, "the channel", 255, &p.channel) :
		    cursor_is(c, "when")    ? !cursor_number(c, "seconds since 1970", UINT32_MAX, &p.when) :
		    cursor_is(c, "from")    ? !cursor_seconds(c, &p.from) :
					      !emu_wrong(c, "channel N, when SECONDS or from SECONDS"))
			return false;
	}
	if (g->bad_pages.len == ERRORS_MOST)
		return emu_wrong(c, "more than %d bad pages", ERRORS_MOST);
	vec_push(&g->bad_pages, p);
	return true;
}

bool emu_eeprom_read(struct cursor *c, void *gpu)
{
	if (!cursor_is(c, "bad"))
		return emu_wrong(c, "eeprom bad");
	((struct emu_gpu *)gpu)->eeprom_bad = true;
	return true;
}

/** As debugfs prints the table. */
static void put_eeprom(const struct emu_gpu *g, double t, struct text *to)
{
	enum { HEAD = 20 + 256, ROW = 24 };
	size_t n = 0;
	for (size_t i = 0; i < g->bad_pages.len; i++)
		n += g->bad_pages.data[i].from <= t;
	text_printf(to, " Signature    Version  FirstOffs       Size   Checksum\n0x%08X 0x%08X 0x%08X 0x%08X 0x%08X\n",
		    g->eeprom_bad ? 0x42414447u : 0x414d4452u, 0x21000u, (unsigned)HEAD, (unsigned)(HEAD + ROW * n), 0xa3u);
	text_printf(to, "Index  Offset ErrType Bank/CU          TimeStamp      Offs/Addr MemChl MCUMCID    RetiredPage\n");
	for (size_t i = n = 0; i < g->bad_pages.len; i++) {
		const struct emu_bad_page *p = &g->bad_pages.data[i];
		if (p->from > t)
			continue;
		text_printf(to, "%5zu 0x%05X %7s    0x%02X 0x%016llX 0x%012llX   0x%02X    0x%02X 0x%012llX\n", n,
			    (unsigned)(HEAD + ROW * n), "ue", 0u, (unsigned long long)p->when, 0ull, p->channel, 0u,
			    (unsigned long long)p->page);
		n++;
	}
}

static void put_pages(const struct emu_gpu *g, double t, struct text *to)
{
	for (size_t i = 0; i < g->bad_pages.len; i++)
		if (g->bad_pages.data[i].from <= t)
			text_printf(to, "0x%08llx : 0x%08x : %c\n", (unsigned long long)g->bad_pages.data[i].page, PAGE_BYTES,
				    g->bad_pages.data[i].state);
}

// --- records ---

bool emu_record_read(struct cursor *c, void *gpu)
{
	static const char *const grades[] = { "uncorrected", "fatal", "corrected" };
	struct emu_gpu *g = gpu;
	struct emu_record r = { .severity = 3, .when = 1700000000 };
	for (unsigned i = 0; i < ARRAY_SIZE(grades) && r.severity == 3; i++)
		r.severity = cursor_is(c, grades[i]) ? i : 3;
	if (r.severity == 3)
		return emu_wrong(c, "record fatal, uncorrected or corrected, STATUS and IPID");
	if (!cursor_number(c, "STATUS", UINT64_MAX, &r.status) || !cursor_number(c, "IPID", UINT64_MAX, &r.ipid))
		return false;
	while (cursor_more(c)) {
		if (cursor_is(c, "synd")  ? !cursor_number(c, "SYND", UINT64_MAX, &r.synd) :
		    cursor_is(c, "misc")  ? !cursor_number(c, "MISC", UINT64_MAX, &r.misc) :
		    cursor_is(c, "addr")  ? !cursor_number(c, "ADDR", UINT64_MAX, &r.address) :
		    cursor_is(c, "oam")   ? !cursor_unsigned(c, "the module", 255, &r.oam) :
		    cursor_is(c, "when")  ? !cursor_number(c, "seconds since 1970", UINT32_MAX, &r.when) :
		    cursor_is(c, "limit") ? (r.limit = true, false) :
		    cursor_is(c, "from")  ? !cursor_seconds(c, &r.from) :
					    !emu_wrong(c, "synd, misc, addr, oam, when, from with a number, or limit"))
			return false;
	}
	if (g->records.len == ERRORS_MOST)
		return emu_wrong(c, "more than %d records", ERRORS_MOST);
	vec_push(&g->records, r);
	return true;
}

static void put_bytes(struct text *to, uint64_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		text_add(to, (struct str){ &(char){ (char)(value >> 8 * i) }, 1 });
}

static void put_name(struct text *to, const char *name, size_t n)
{
	const size_t length = strnlen(name, n);
	text_add(to, (struct str){ name, length });
	for (size_t i = length; i < n; i++)
		put_bytes(to, 0, 1);
}

static void put_zeros(struct text *to, size_t n) { put_name(to, "", n); }

/** What a section holds: four registers of a crash, or sixteen of an error at run time, behind a head of 128 bytes. */
static void put_section(struct text *to, const struct emu_record *r, bool crash)
{
	const uint64_t fatal[] = { r->status, r->address, r->ipid, r->synd };
	const uint64_t runtime[] = { 1, r->status, r->address, r->misc, 0x1ff00000002, r->ipid, r->synd, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	const size_t n = crash ? ARRAY_SIZE(fatal) : ARRAY_SIZE(runtime);
	put_zeros(to, 128);
	put_bytes(to, 1, 2);
	put_bytes(to, n * 8, 2);
	put_zeros(to, 12);
	for (size_t i = 0; i < n; i++)
		put_bytes(to, crash ? fatal[i] : runtime[i], 8);
}

/** One record, as linux drivers/gpu/drm/amd/include/amd_cper.h lays it out. */
static void put_record(struct text *to, const struct emu_record *r, size_t number, unsigned device)
{
	enum { HEAD = 128, SECTION_HEAD = 72 };
	static const char crash_type[] = "\x78\x0c\xac\x32\x23\x26\xf6\x48\xb0\xd0\x73\x65\x72\x5f\xd6\xae";
	static const char runtime_type[] = "\x78\x0c\xac\x32\x23\x26\xf6\x48\x81\xa2\xac\x69\x17\x80\x55\x1d";
	const bool crash = r->severity == 1 && !r->limit;
	struct text section = { 0 };
	char name[32];
	const time_t when = (time_t)r->when;
	struct tm tm = { 0 };
	gmtime_r(&when, &tm);
	put_section(&section, r, crash);
	text_add(to, S("CPER"));
	put_bytes(to, 0x100, 2);
	put_bytes(to, UINT32_MAX, 4);
	put_bytes(to, 1, 2);
	put_bytes(to, r->severity, 4);
	put_bytes(to, 3, 4); // platform and time are valid
	put_bytes(to, HEAD + SECTION_HEAD + section.n, 4);
	const int clock[] = { tm.tm_sec, tm.tm_min, tm.tm_hour, 0, tm.tm_mday, tm.tm_mon + 1, tm.tm_year % 100, 19 + tm.tm_year / 100 };
	for (size_t i = 0; i < ARRAY_SIZE(clock); i++)
		put_bytes(to, (uint64_t)clock[i], 1);
	snprintf(name, sizeof(name), "0x1002:0x%04X", device);
	put_name(to, name, 16);
	put_zeros(to, 16);
	put_name(to, "amdgpu", 16);
	put_zeros(to, 16);
	snprintf(name, sizeof(name), "%u:%zX", r->oam, number);
	put_name(to, name, 8);
	put_zeros(to, 24);
	put_bytes(to, HEAD + SECTION_HEAD, 4);
	put_bytes(to, section.n, 4);
	put_bytes(to, 0x2201, 2);
	put_bytes(to, 2, 2);
	put_bytes(to, r->limit ? 9 : 1, 4);
	text_add(to, (struct str){ crash ? crash_type : runtime_type, 16 });
	put_zeros(to, 16);
	put_bytes(to, r->severity, 4);
	snprintf(name, sizeof(name), "OAM%u", r->oam);
	put_name(to, name, 20);
	text_add(to, text_str(&section));
	text_free(&section);
}

/** Three positions, in words, and what is between them. */
static void put_ring(const struct emu_gpu *g, double t, struct text *to)
{
	struct text all = { 0 };
	for (size_t i = 0; i < g->records.len; i++)
		if (g->records.data[i].from <= t)
			put_record(&all, &g->records.data[i], i + 1, g->facts.device);
	put_bytes(to, 0, 4);
	put_bytes(to, all.n / 4, 4);
	put_bytes(to, all.n / 4, 4);
	text_add(to, text_str(&all));
	text_free(&all);
}

// --- the link ---

static bool read_speed(struct cursor *c, unsigned *ret)
{
	static const struct {
		const char *word;
		unsigned tenths;
	} speeds[] = { { "2.5", 25 }, { "5", 50 }, { "8", 80 }, { "16", 160 }, { "32", 320 }, { "64", 640 } };
	for (size_t i = 0; i < ARRAY_SIZE(speeds); i++)
		if (cursor_is(c, speeds[i].word)) {
			*ret = speeds[i].tenths;
			return true;
		}
	return emu_wrong(c, "a speed is 2.5, 5, 8, 16, 32 or 64 (GT/s)");
}

bool emu_link_read(struct cursor *c, void *gpu)
{
	struct emu_link *l = &((struct emu_gpu *)gpu)->facts.link;
	while (cursor_more(c)) {
		if (cursor_is(c, "speed")      ? !read_speed(c, &l->speed) :
		    cursor_is(c, "width")      ? !cursor_unsigned(c, "lanes", 32, &l->width) :
		    cursor_is(c, "port-speed") ? !read_speed(c, &l->port_speed) :
		    cursor_is(c, "port-width") ? !cursor_unsigned(c, "lanes", 32, &l->port_width) :
						 !emu_wrong(c, "link speed, width, port-speed or port-width"))
			return false;
	}
	return true;
}

// --- all of it ---

static int by_time(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

bool emu_errors_finish(struct emu_reader *r, struct emu_gpu *g, unsigned line)
{
	static const struct {
		enum emu_tree tree;
		const char *path;
		void (*put)(const struct emu_gpu *g, double t, struct text *to);
		bool records;
	} files[] = { { EMU_SYSFS, "ras/gpu_vram_bad_pages", put_pages, false },
		      { EMU_DEBUGFS, "ras/ras_eeprom_table", put_eeprom, false },
		      { EMU_DEBUGFS, "amdgpu_ring_cper", put_ring, true } };
	double times[2 * ERRORS_MOST + 1] = { 0 };
	size_t n = 1;
	for (size_t i = 0; i < g->bad_pages.len; i++)
		times[n++] = g->bad_pages.data[i].from;
	for (size_t i = 0; i < g->records.len; i++)
		times[n++] = g->records.data[i].from;
	qsort(times, n, sizeof(times[0]), by_time);
	for (size_t f = 0; f < ARRAY_SIZE(files); f++) {
		if (files[f].records ? !g->records.len : !g->bad_pages.len && !g->eeprom_bad)
			continue;
		for (size_t i = 0; i < n; i++) {
			struct text text = { 0 };
			if (i && times[i] <= times[i - 1])
				continue;
			files[f].put(g, times[i], &text);
			const bool room = emu_file_put(g, files[f].tree, str_z(files[f].path), times[i], text_str(&text));
			text_free(&text);
			if (!room)
				return emu_wrong(&(struct cursor){ r, { 0 }, line }, "more than %d files", EMU_FEW);
		}
	}
	return true;
}

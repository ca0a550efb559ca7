// Packets of a buffer in a GPU's memory, or of words in a file: those of a log, a dump, a debugger.
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "session/live/space.h"
#include "source/file.h"

enum { BUFFER_BYTES = 4096, BUFFER_MOST = 1 << 20, FILE_MOST = 4 << 20 };

struct packets_look {
	struct looking at;
	struct space_opened space;
	bool opened;
	struct ring_reading reading;
	struct ring_view view;
	struct register_places places;
	VEC(uint32_t) words;
	struct arena arena;
};

static void packets_look_close(struct packets_look *l)
{
	vec_free(&l->view.packets);
	vec_free(&l->words);
	register_places_free(&l->places);
	arena_free(&l->reading.arena);
	if (l->opened)
		space_close(&l->space);
	arena_free(&l->arena);
	looking_end(&l->at);
}

static struct uh_error *language_named(const char *name, enum packet_language *ret)
{
	static const char *const names[] = {
		[PACKETS_PM4] = "pm4", [PACKETS_SDMA] = "sdma", [PACKETS_MES] = "mes", [PACKETS_AQL] = "aql"
	};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!name || !strcmp(name, names[i])) {
			*ret = (enum packet_language)i;
			return NULL;
		}
	return uh_error_new("'%s' is none of pm4, sdma, mes, aql", name);
}

// --- files ---

static bool is_text(struct str bytes)
{
	for (size_t i = 0; i < bytes.n; i++)
		if (!isprint((unsigned char)bytes.p[i]) && !isspace((unsigned char)bytes.p[i]))
			return false;
	return true;
}

/** Hexadecimal numbers with anything of blanks, commas and brackets between; what stands before a colon is an address, and a # begins a
 * remark. */
static struct uh_error *words_of_text(struct packets_look *l, struct str text)
{
	size_t number = 0;
	str_each (whole, text, '\n') {
		struct str rest = whole, line = str_split(&rest, '#');
		const void *colon = memchr(line.p, ':', line.n);
		line = colon ? str_from(line, (size_t)((const char *)colon - line.p) + 1) : line;
		number++;
		for (size_t at = 0; at < line.n;) {
			size_t end = at;
			while (end < line.n && !memchr(" \t\r,;[]{}|", line.p[end], 11))
				end++;
			struct str word = str_cut(str_from(line, at), end - at);
			uint64_t value;
			at = end + 1;
			if (!word.n)
				continue;
			word = str_starts(word, S("0x")) ? str_from(word, 2) : word;
			if (!str_hex(word, &value) || value > UINT32_MAX)
				return uh_error_new("line %zu: '" STR_FMT "' is no word of 32 bits", number,
						    STR_ARG(str_cut(word, 40)));
			vec_push(&l->words, (uint32_t)value);
		}
	}
	return NULL;
}

static struct uh_error *bytes_of_file(const char *path, struct text *to)
{
	struct file f;
	struct uh_error *err = file_open(path, &f);
	if (err)
		return err;
	const size_t n = f.size <= FILE_MOST ? (size_t)f.size : FILE_MOST + 1;
	if (file_read(&f, 0, text_room(to, n), n))
		to->n += n;
	else
		err = uh_error_new("%s could not be read to its end", path);
	file_close(&f);
	return err;
}

static struct uh_error *bytes_of_stdin(struct text *to)
{
	size_t n;
	do {
		char *room = text_room(to, 65536);
		n = fread(room, 1, 65536, stdin);
		to->n += n;
	} while (n && to->n <= FILE_MOST);
	return NULL;
}

static struct uh_error *words_of_file(struct packets_look *l, const char *path)
{
	_cleanup_text_ struct text bytes = { 0 };
	struct uh_error *err = strcmp(path, "-") ? bytes_of_file(path, &bytes) : bytes_of_stdin(&bytes);
	if (err)
		return err;
	if (bytes.n > FILE_MOST)
		return uh_error_new("%s has more than %d bytes", path, FILE_MOST);
	if (is_text(text_str(&bytes)))
		return words_of_text(l, text_str(&bytes));
	for (size_t i = 0; i + 4 <= bytes.n; i += 4) {
		uint32_t word;
		memcpy(&word, bytes.p + i, sizeof(word));
		vec_push(&l->words, word);
	}
	return NULL;
}

// --- a GPU ---

static struct uh_error *words_of_gpu(struct packets_look *l, const struct uh_packets_query *q, uint64_t *ret_address)
{
	const uint64_t length = q->at.length ? q->at.length : BUFFER_BYTES;
	struct uh_error *err = space_address(q->at.address, ret_address);
	if (!err && length > BUFFER_MOST)
		err = uh_error_new("at most %d bytes are read at once", BUFFER_MOST);
	if (err)
		return err;
	l->opened = true;
	err = space_open(&l->at, &q->at, "packets", &l->space);
	if (err)
		return err;
	l->words.data = mem_alloc(length / 4 * sizeof(uint32_t) + 4);
	l->words.len = l->words.cap = length / 4;
	// A buffer may end before its page's end: without a length, as much is read as is there.
	struct request r = { .kind = REQUEST_MEMORY,
			     .address = *ret_address,
			     .size = length / 4 * 4,
			     .to = l->words.data,
			     .vmid = l->space.of.vmid,
			     .hub_instance = l->space.of.xcc,
			     .contents = true };
	if (!q->at.length && (*ret_address & 4095) + r.size > 4096)
		r.size = 4096 - (*ret_address & 4095);
	l->words.len = r.size / 4;
	if (target_ask(l->space.target, &r) == ANSWER_GIVEN)
		return NULL;
	return uh_error_new("0x%llx of VMID %u cannot be read: " STR_FMT, (unsigned long long)*ret_address, l->space.of.vmid,
			    STR_ARG(r.why_not ? str_z(r.why_not) : live_why_not(&l->arena, l->space.target, r.answer)));
}

static struct uh_error *look_packets(struct packets_look *l, const struct uh_packets_query *q, FILE *out)
{
	enum packet_language language = PACKETS_PM4;
	uint64_t address = 0;
	struct uh_error *err = language_named(q->language, &language);
	if (!err)
		err = q->path ? words_of_file(l, q->path) : words_of_gpu(l, q, &address);
	if (!err && !l->words.len)
		err = uh_error_new("there are no words");
	if (err)
		return err;
	const struct str gfx = q->part ? str_z(q->part) : l->space.of.gfx;
	l->places = (struct register_places){ .know = l->at.know, .gfx = gfx };
	l->places.device = l->space.target ? target_device_of(l->space.target) : NULL;
	const struct packet_stream stream = { l->at.know, language, gfx, l->words.data, l->words.len, &l->places };
	l->reading = (struct ring_reading){
		.know = l->at.know, .target = l->space.target, .gfx = gfx, .places = &l->places, .all = true
	};
	l->view.hub_instance = l->space.of.xcc;
	buffer_read_packets(&l->reading, &l->view, stream, address, l->space.of.vmid);
	err = l->opened ? space_still(&l->space) : NULL;
	if (err)
		return err;
	struct packets_seen seen = { .gfx = gfx, .target = l->space.of.target, .view = &l->view, .words = l->words.len };
	seen.title = l->opened ? arena_printf(&l->arena, STR_FMT ", 0x%llx of VMID %u", STR_ARG(l->space.of.title),
					      (unsigned long long)address, l->space.of.vmid) :
				 str_z(strcmp(q->path, "-") ? q->path : "standard input");
	report_packets(&seen, &l->at.options, out);
	return NULL;
}

struct uh_error *uh_look_packets(const struct uh_look_options *o, const struct uh_packets_query *q, FILE *out,
				 uh_problem_fn *problem, void *ctx)
{
	_cleanup_(packets_look_close) struct packets_look l = { 0 };
	struct uh_error *err = looking_begin(&l.at, o, out, (struct teller){ problem, ctx });
	return err ? err : look_packets(&l, q, out);
}

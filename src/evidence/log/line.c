#include "evidence/log/line.h"

/** Length of the terminal escape sequence at the front of @s, or 0. */
static size_t escape_length(struct str s)
{
	size_t i;
	if (s.n < 2 || s.p[0] != 0x1b)
		return 0;
	if (s.p[1] == '[') {
		for (i = 2; i < s.n && !(s.p[i] >= '@' && s.p[i] <= '~'); i++)
			;
		return i < s.n ? i + 1 : s.n;
	}
	return 2;
}

static bool is_clean(struct str raw)
{
	unsigned odd = 0;
	for (size_t i = 0; i < raw.n; i++)
		odd |= (unsigned char)raw.p[i] - 0x20u > 0x7eu - 0x20u;
	return !odd && raw.n < LINE_MAX_BYTES;
}

static struct str trim_end(struct str s)
{
	while (s.n && char_space(s.p[s.n - 1]))
		s.n--;
	return s;
}

struct str line_clean(struct str raw, struct line_room *room)
{
	if (is_clean(raw))
		return lifetime_begin(&room->lent, trim_end(raw));
	static const struct {
		const char *utf8;
		char ascii;
	} folded[] = { { "\xe2\x80\x99", '\'' },
		       { "\xe2\x80\x98", '\'' },
		       { "\xe2\x80\x9c", '"' },
		       { "\xe2\x80\x9d", '"' },
		       { "\xc2\xa0", ' ' } };
	size_t n = 0;
	while (raw.n && n < LINE_MAX_BYTES - 1) {
		size_t skip = escape_length(raw);
		if (skip) {
			raw = str_from(raw, skip);
			continue;
		}
		char c = raw.p[0];
		skip = 1;
		if ((unsigned char)c >= 0xc2) {
			for (size_t i = 0; i < ARRAY_SIZE(folded); i++) {
				if (str_starts(raw, str_z(folded[i].utf8))) {
					c = folded[i].ascii;
					skip = strlen(folded[i].utf8);
				}
			}
		}
		room->bytes[n++] = (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
		raw = str_from(raw, skip);
	}
	return lifetime_begin(&room->lent, trim_end((struct str){ room->bytes, n }));
}

static int hex_value(char c) { return char_digit(c) ? c - '0' : (c | 32) - 'a' + 10; }

/** Undoes JSON's escapes; \n stays a newline, characters beyond ASCII become '?'. */
static struct str json_unescape(struct str s, char *room)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n && n < LINE_MAX_BYTES - 1; i++) {
		char c = s.p[i];
		if (c == '\\' && i + 1 < s.n) {
			c = s.p[++i];
			if (c == 'n')
				c = '\n';
			else if (c == 't' || c == 'r' || c == 'b' || c == 'f')
				c = ' ';
			else if (c == 'u' && i + 4 < s.n && char_hex(s.p[i + 1]) && char_hex(s.p[i + 2]) &&
				 char_hex(s.p[i + 3]) && char_hex(s.p[i + 4])) {
				int v = hex_value(s.p[i + 3]) << 4 | hex_value(s.p[i + 4]);
				bool ascii = s.p[i + 1] == '0' && s.p[i + 2] == '0' && v < 0x80;
				c = ascii ? (char)v : s.p[i + 1] == '2' && s.p[i + 2] == '0' && v == 0x19 ? '\'' : '?';
				i += 4;
			}
		}
		room[n++] = c;
	}
	return (struct str){ room, n };
}

/** The string at the front of @s ('"' first), without its quotes; moves @s behind it. */
static bool json_string(struct str *s, struct str *ret)
{
	if (!s->n || s->p[0] != '"')
		return false;
	size_t i = 1;
	while (i < s->n && s->p[i] != '"')
		i += s->p[i] == '\\' ? 2 : 1;
	if (i > s->n)
		i = s->n;
	*ret = (struct str){ s->p + 1, i - 1 }; // a line that was cut inside the string still counts
	*s = str_from(*s, i + 1);
	return true;
}

static void json_skip_spaces(struct str *s) { *s = str_from(*s, str_run(*s, char_space)); }

static bool line_microseconds(struct str s, double *ret)
{
	int64_t v;
	if (!str_number(s, &v) || v < 0)
		return false;
	*ret = (double)v / 1e6;
	return true;
}

bool line_field(struct str key, struct str value, struct logline *out)
{
	const struct {
		const char *name;
		struct str *to;
	} fields[] = { { "_TRANSPORT", &out->transport },
		       { "SYSLOG_FACILITY", &out->facility },
		       { "_KERNEL_SUBSYSTEM", &out->by.subsystem },
		       { "_KERNEL_DEVICE", &out->by.device },
		       { "_BOOT_ID", &out->boot_id } };
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (str_is(key, fields[i].name)) {
			*fields[i].to = value;
			return true;
		}
	return false;
}

void line_settle_writer(struct logline *out)
{
	if (out->transport.n)
		out->by.writer = !str_is(out->transport, "kernel")              ? WRITER_PROGRAM :
				 out->facility.n && !str_is(out->facility, "0") ? WRITER_INTO_LOG :
										  WRITER_KERNEL;
}

void line_wrapped_field(struct str key, struct str value, struct str *text, struct logline *out)
{
	static const char *const text_keys[] = { "MESSAGE", "message", "msg", "log", "data", "line", "text", "body" };
	double seconds;
	if (str_is(key, "__REALTIME_TIMESTAMP") && line_microseconds(value, &seconds) && !out->stamps.found) {
		out->stamps.best = (struct stamp){ TIME_WALL, seconds };
		out->stamps.found = true;
	} else if ((str_is(key, "_SOURCE_MONOTONIC_TIMESTAMP") || str_is(key, "__MONOTONIC_TIMESTAMP")) &&
		   line_microseconds(value, &seconds)) {
		// journald's own monotonic time is that of receipt; the kernel's own stands in _SOURCE_.
		if (out->stamps.best.clock != TIME_BOOT || key.p[1] == 'S')
			out->stamps.best = (struct stamp){ TIME_BOOT, seconds };
		out->stamps.found = true;
	} else if (str_is(key, "time") || str_is(key, "timestamp") || str_is(key, "@timestamp") || str_is(key, "ts")) {
		out->time_text = value;
	} else if (str_is(key, "stream")) {
		out->contained = true;
	} else if (!line_field(key, value, out)) {
		for (size_t i = 0; i < ARRAY_SIZE(text_keys); i++)
			if (str_is(key, text_keys[i]) && value.n > text->n)
				*text = value;
	}
}

bool line_unwrap(struct str line, struct line_room *room, struct logline *out)
{
	struct str s = str_trim(line), text = { 0 };
	if (s.n < 2 || s.p[0] != '{')
		return false;
	s = str_from(s, 1);
	for (;;) {
		struct str key, value;
		json_skip_spaces(&s);
		if (!json_string(&s, &key))
			break;
		json_skip_spaces(&s);
		if (!s.n || s.p[0] != ':')
			break;
		s = str_from(s, 1);
		json_skip_spaces(&s);
		if (json_string(&s, &value)) {
			line_wrapped_field(key, value, &text, out);
		} else { // a number, null or something nested: not what we look for
			while (s.n && s.p[0] != ',' && s.p[0] != '"')
				s = str_from(s, 1);
		}
		while (s.n && s.p[0] != ',')
			s = str_from(s, 1);
		if (!s.n)
			break;
		s = str_from(s, 1);
	}
	line_settle_writer(out);
	if (!text.n)
		return false;
	out->wrapped = true;
	out->text = lifetime_begin(&room->lent, json_unescape(text, room->bytes));
	return true;
}

static bool starts_word(struct str s, size_t at) { return at == 0 || char_space(s.p[at - 1]); }

/** The first `driver 0000:03:00.0` of the message, or FreeBSD's drmn0. amdgpu grew out of radeon and prints the same of its
 * GPUs, so that both go by one name. */
static void find_device(struct str s, struct logline *out)
{
	for (size_t i = 0; i + 7 <= s.n; i++) {
		if (!char_hex(s.p[i]) || !starts_word(s, i))
			continue;
		struct str here = str_from(s, i);
		size_t n = pci_length(here);
		if (n != 12 || (here.n > n && char_hex(here.p[n])))
			continue;
		out->device = str_cut(here, n);
		size_t end = i;
		while (end && char_space(s.p[end - 1]))
			end--;
		size_t begin = end;
		while (begin && !char_space(s.p[begin - 1]))
			begin--;
		out->driver = (struct str){ s.p + begin, end - begin };
		if (str_among(out->driver, STR_EQUALS, "radeon|fglrx_pci").n)
			out->driver = S("amdgpu");
		return;
	}
	ptrdiff_t drmn = str_find(s, S("drmn"));
	if (drmn >= 0 && starts_word(s, (size_t)drmn)) {
		size_t n = 4;
		struct str here = str_from(s, (size_t)drmn);
		while (n < here.n && char_digit(here.p[n]))
			n++;
		if (n > 4 && n < here.n && here.p[n] == ':') {
			out->device = str_cut(here, n);
			out->driver = S("amdgpu");
		}
	}
}

/** The module of `[drm:function [module]]`. */
static void find_module(struct str s, struct logline *out)
{
	ptrdiff_t drm = str_find(s, S("[drm:"));
	if (drm < 0)
		return;
	struct str inside = str_from(s, (size_t)drm + 5);
	ptrdiff_t open = str_find(str_cut(inside, 120), S(" [")), close = str_find(str_cut(inside, 160), S("]"));
	if (open >= 0 && close > open)
		out->module = (struct str){ inside.p + open + 2, (size_t)(close - open) - 2 };
}

/** A bare number in front may be that of a line. */
static bool writer_named(const struct writer *w)
{
	return w->pid.n || w->worker.n || (w->rank.n && !w->numbered);
}

void line_parse_front(const struct know *k, struct str clean, struct logline *out)
{
	enum { PREFIXES = 6 };
	out->text = out->message = clean;
	// Times and the names of who wrote it stand in any order.
	for (int i = 0; i < PREFIXES; i++) {
		struct stamps stamps = stamps_read(k, out->message);
		const struct stamps before = out->stamps;
		if (!out->stamps.found)
			out->stamps = stamps;
		out->stamps.kernel = before.kernel || stamps.kernel;
		out->stamps.program = (before.program && (!stamps.kernel || writer_named(&out->writer))) || stamps.program;
		out->stamps.foreign = before.foreign || stamps.foreign;
		prefix_in_bracket(stamps.inside, &out->writer);
		out->message = str_from(out->message, stamps.end);
		size_t prefix = prefix_read(out->message, &out->writer);
		out->message = str_from(out->message, prefix);
		if (!prefix)
			break;
		if (writer_named(&out->writer)) {
			out->stamps.program = true;
			out->stamps.kernel = false;
		}
	}
}

void line_parse(const struct know *k, struct str clean, struct logline *out)
{
	out->text = out->message = clean;
	out->opening = opening_read(k, clean, &out->by);
	if (!out->opening.live) {
		line_parse_front(k, clean, out);
		if (out->stamps.foreign && out->by.writer == WRITER_UNTOLD)
			out->by.writer = WRITER_INTO_LOG;
	} else if (!out->opening.n) { // its names may be a user's words
		return;
	}
	find_device(out->message, out);
	find_module(out->message, out);
}

/** Whether the line is another driver's, so that a message of amdgpu's form in it is not amdgpu's. */
static bool is_foreign(const struct logline *line)
{
	const char *ours = "drm|drm_kms_helper|gpu_sched|ttm|amdttm|amdkcl|amd_sched|amdkfd|radeon|radeonkms";
	if (line->module.n && !str_starts(line->module, S("amdgpu")) && !str_among(line->module, STR_EQUALS, ours).n)
		return true;
	if (line->driver.n && str_starts(line->message, line->driver))
		return !str_is(line->driver, "amdgpu");
	// `usb 2-2: [drm] ...`: a device that is on no PCI bus.
	ptrdiff_t drm = str_find(line->message, S(": [drm]"));
	struct str device = drm > 0 ? str_cut(line->message, (size_t)drm) : S("");
	return device.n && device.n < 40 && str_find(device, S("amdgpu")) < 0 && str_find(device, S("kernel")) < 0 &&
	       str_find(device, S("drmn")) < 0;
}

bool line_is_of_other_drm(const struct logline *line)
{
	return is_foreign(line) && (line->module.n || str_find(line->message, S("[drm")) >= 0);
}

/** Whether one of these words stands somewhere in the text; the list ends with NULL. */
static bool line_has_one(struct str text, const char *const *words)
{
	while (*words && str_find(text, str_z(*words)) < 0)
		words++;
	return *words;
}

bool line_speaks_of_error(struct str text)
{
	static const char *const words[] = { "rror:",          "rror ",     "RROR:", "RROR ",     "RROR]",      "RROR*",
					     "ailed",          "FAILED",    "bort",  "Returned ", "returned H", "returned h",
					     "returned error", "xception:", "!!!",   "terminate", "rror(",      "rror'",
					     "rror code",      "fatal",     NULL };
	return line_has_one(text, words);
}

bool line_recognise(const struct know *k, const struct logline *line, struct match *ret)
{
	static const char *const buses[] = { "pcieport", "PCIe", "AMD-Vi", "vfio-pci", NULL };
	static const char *const marks[] = { "amdgpu", "[drm", "kfd", "drmn", "*ERROR* drm_", NULL };
	enum {
		TELLING = 24, // characters by which a message is the driver's even without its prefix
		OVERLAP = 4,  // a message may begin with the driver's own word, `drm_sched...`
	};
	bool foreign = is_foreign(line);
	if (foreign && !line_has_one(line->message, buses)) // quickly: machines with other GPUs have many such lines
		return false;
	if (!(line->opening.live ? opening_match(k, &line->opening, line->message, ret) : know_match(k, line->message, ret)) ||
	    (match_signature(ret)->beside.n && !line_speaks_of_error(line->text) &&
	     ret->end - ret->begin < str_trim(line->message).n) || // something else is on the line
	    !match_is_meant(ret))
		return false;
	const struct know_signature *s = match_signature(ret);
	// What every driver's devices share: the bus, the IOMMU, the kernel itself.
	if (foreign && !str_among(s->subsystem, STR_EQUALS, "pcie|iommu|kernel").n)
		return false;
	return (!s->message && !s->vague) || (!s->vague && ret->weight >= TELLING) ||
	       line_has_one(str_cut(line->message, ret->begin + OVERLAP), marks);
}

bool line_recognise_typed(const struct know *k, const struct logline *line, struct match *ret)
{
	struct match exact;
	// What is known but does not count here is not mistyped; but a part of the line may be a message of its own.
	return !is_foreign(line) && know_match_typed(k, line->message, ret) && !match_signature(ret)->beside.n &&
	       match_is_meant(ret) && !(know_match(k, line->message, &exact) && exact.weight >= ret->weight);
}

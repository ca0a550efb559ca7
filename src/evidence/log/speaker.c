// Whose words a message is, where nobody noted who wrote the line: the kernel's lines begin with what the kernel prints, and a program's log
// has words of its own before it.
#include "evidence/log/line.h"

/** Whether the kernel's own beginnings (`opening`), or a GPU's address, lead from @at to the message at @begin. */
static bool leads_from(const struct know *k, const struct logline *line, size_t at, size_t begin)
{
	static const struct source_note kernel = { .writer = WRITER_KERNEL };
	enum { DRIVER = 8 }; // `amdgpu `, before the address
	const struct str text = str_from(line->message, at);
	const struct opening o = opening_read(k, text, &kernel);
	const bool address = line->device.n && line->device.p >= text.p && line->device.p < text.p + DRIVER;
	return (o.n && (o.own || o.begins[o.n] + at >= begin)) || (address && str_is(line->driver, "amdgpu"));
}

/** Behind its clock or its name, which something else stands before. */
static bool named_kernel(const struct know *k, const struct logline *line, size_t at, size_t begin)
{
	const struct str text = str_from(line->message, at);
	const struct stamps s = stamps_read(k, text);
	const size_t end = at + (s.found ? s.end : str_starts(text, S("kernel: ")) ? 8 : 0);
	return (s.kernel || (!s.found && end > at)) && (end >= begin || leads_from(k, line, end, begin));
}

static size_t marks_length(struct str s)
{
	size_t n = 0;
	while (n < s.n && !char_word(s.p[n]) && !char_among(s.p[n], "[{*"))
		n++;
	return n;
}

/** What stands before the driver's own words, which begin with its name or the address and end with the message at @begin. false: the message
 * has none. */
static bool before_driver(const struct logline *line, size_t begin, struct str *ret)
{
	enum { LEAD = 24 }; // `: amdgpu: {1}`
	static const char name[] = "amdgpu ";
	const struct str text = line->message;
	const bool inside = line->device.n && line->device.p >= text.p && line->device.p + line->device.n <= text.p + begin;
	if (!inside || !str_is(line->driver, "amdgpu") || (size_t)(text.p + begin - line->device.p) > line->device.n + LEAD)
		return false;
	*ret = str_cut(text, (size_t)(line->device.p - text.p));
	*ret = str_trim(str_ends(*ret, str_z(name)) ? str_cut(*ret, ret->n - strlen(name)) : *ret);
	return true;
}

/** Whose words they are by what stands right before the driver's own: the kernel's time with nothing but marks before it, or its name. */
static enum line_speaker by_neighbour(const struct logline *line, size_t begin)
{
	enum { NAME = 16, CLOCK = 8 };
	struct str before;
	size_t at, words = 0;
	if (!before_driver(line, begin, &before))
		return SPEAKER_PROGRAM;
	for (at = before.n; at > 1 && (char_digit(before.p[at - 2]) || char_among(before.p[at - 2], ". ")); at--)
		;
	const bool clock = str_ends(before, S("]")) && at > 1 && at + CLOCK < before.n && before.p[at - 2] == '[';
	for (size_t i = 0; clock && i + 2 < at; i++)
		words += char_alpha(before.p[i]) || char_digit(before.p[i]);
	if (clock)
		return words ? SPEAKER_DOUBTFUL : SPEAKER_KERNEL;
	const struct str name = str_from(before, before.n > NAME ? before.n - NAME : 0);
	return str_find(name, S("kernel")) >= 0 ? SPEAKER_DOUBTFUL : SPEAKER_PROGRAM;
}

static enum line_speaker by_form(const struct know *k, const struct logline *line, size_t begin)
{
	const bool kernel = line->stamps.kernel;
	const struct str text = line->message;
	const size_t front = marks_length(text);
	if ((line->stamps.program || line->contained) && !kernel)
		return SPEAKER_PROGRAM;
	if (front <= begin && leads_from(k, line, front, begin))
		return kernel || !(line->wrapped || line->stamps.borrowed) ? SPEAKER_KERNEL : SPEAKER_DOUBTFUL;
	if (front >= begin)
		return kernel ? SPEAKER_KERNEL : SPEAKER_DOUBTFUL;
	if (kernel)
		return SPEAKER_PROGRAM;
	// The name of a file or of a host, as grep and pdsh print it before a line.
	size_t at = front;
	while (at < begin && !char_space(text.p[at])) {
		at++;
		if (char_among(text.p[at - 1], ":-") && !char_space(text.p[at]) &&
		    (leads_from(k, line, at, begin) || named_kernel(k, line, at, begin)))
			return SPEAKER_KERNEL;
	}
	const bool name = at && char_among(text.p[at - 1], ":|]") && !line->stamps.found;
	while (at < begin && char_space(text.p[at]))
		at++;
	if (named_kernel(k, line, at, begin))
		return SPEAKER_KERNEL;
	return name && leads_from(k, line, at, begin) ? SPEAKER_DOUBTFUL : SPEAKER_PROGRAM;
}

enum line_speaker line_speaker(const struct know *k, const struct logline *line, size_t begin)
{
	const bool program = line->stamps.program || line->contained;
	const enum line_speaker s = by_form(k, line, begin);
	if (s == SPEAKER_PROGRAM)
		return program ? s : by_neighbour(line, begin);
	return program ? SPEAKER_DOUBTFUL : s;
}

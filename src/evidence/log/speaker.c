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

enum line_speaker line_speaker(const struct know *k, const struct logline *line, size_t begin)
{
	const bool kernel = line->stamps.kernel;
	const struct str text = line->message;
	const size_t front = marks_length(text);
	if (line->stamps.program && !kernel)
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

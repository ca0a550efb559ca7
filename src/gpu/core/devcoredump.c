#include "gpu/core/devcoredump.h"

enum { NAME_BYTES = 96, NUMBER_MOST = 1 << 16 };

/** Takes the digits behind @word, and what separates them. */
static bool number_behind(struct str *s, const char *word, unsigned *ret)
{
	uint64_t n = 0;
	ptrdiff_t found = str_find(*s, str_z(word));
	if (found < 0)
		return false;
	size_t at = (size_t)found + strlen(word), begin;
	while (at < s->n && (s->p[at] == ' ' || s->p[at] == ':' || s->p[at] == '['))
		at++;
	for (begin = at; at < s->n && char_digit(s->p[at]); at++)
		n = n < NUMBER_MOST ? 10 * n + (uint64_t)(s->p[at] - '0') : n;
	*s = str_from(*s, at);
	*ret = (unsigned)n;
	return at > begin;
}

/** `mec 0, pipe 1, queue 2`, `me 0, pipe 0, queue 0`, `xcc:0 mec:0, pipe:1, queue:2` */
static bool queue_line(struct str line, struct dump_line *d)
{
	struct str rest = line;
	bool xcc = str_starts(line, S("xcc:"));
	if (xcc && !number_behind(&rest, "xcc", &d->numbers[0]))
		return false;
	rest = str_trim(rest);
	bool mec = str_starts(rest, S("mec")), me = str_starts(rest, S("me ")) || str_starts(rest, S("me:"));
	if ((!mec && !me) || !number_behind(&rest, mec ? "mec" : "me", &d->numbers[1]) ||
	    !number_behind(&rest, "pipe", &d->numbers[2]) || !number_behind(&rest, "queue", &d->numbers[3]))
		return false;
	d->numbers[1] += mec; // ME 0 is the one of graphics
	d->kind = DUMP_QUEUE;
	return true;
}

static bool register_line(struct str line, struct dump_line *d)
{
	struct str rest = line, name = str_word(&rest), number = str_word(&rest);
	bool named = str_starts(name, S("reg")) || str_starts(name, S("mm")) || str_starts(name, S("ix"));
	if (!named || name.n > NAME_BYTES || !str_starts(number, S("0x")) || !str_hex(number, &d->value) || str_trim(rest).n)
		return false;
	d->kind = DUMP_REGISTER;
	d->name = name;
	return true;
}

static bool word_line(struct str line, struct dump_line *d)
{
	struct str rest = line, first = str_word(&rest), second = str_word(&rest);
	if (!str_starts(first, S("0x")) || str_trim(rest).n || !str_hex(second.n ? second : first, &d->value))
		return false;
	if (second.n && !str_hex(first, &d->other))
		return false;
	d->kind = second.n ? DUMP_RING_WORD : DUMP_IB_WORD;
	return true;
}

static bool ib_line(struct str line, struct dump_line *d)
{
	struct str rest;
	if (!str_behind(line, S("IB #"), &rest))
		return false;
	d->name = str_word(&rest);
	d->kind = DUMP_IB;
	return str_hex(str_word(&rest), &d->value);
}

static bool ring_line(struct str line, struct dump_line *d)
{
	struct str rest;
	uint64_t mask;
	if (str_behind(line, S("ring name: "), &d->name)) {
		d->kind = DUMP_RING;
	} else if (str_behind(line, S("Rptr:"), &rest)) {
		struct str rptr = str_word(&rest), mark = str_word(&rest), wptr = str_word(&rest);
		bool good = str_hex(rptr, &d->value) && str_is(mark, "Wptr:") && str_hex(wptr, &d->other);
		d->kind = good ? DUMP_RING_POINTERS : DUMP_RING_HEAD;
		if (str_behind(str_trim(rest), S("RB mask:"), &rest) && str_hex(rest, &mask))
			d->numbers[0] = (unsigned)mask;
	} else if (str_starts(line, S("Ring size in dwords")) || str_starts(line, S("Ring contents")) ||
		   str_starts(line, S("Offset"))) {
		d->kind = DUMP_RING_HEAD;
	}
	return d->kind != DUMP_OTHER;
}

static bool version_line(struct str line, struct dump_line *d)
{
	struct str rest;
	if (!str_behind(line, S("HWIP: "), &rest))
		return false;
	d->name = str_split(&rest, '[');
	ptrdiff_t v = str_find(rest, S(": v"));
	if (v < 0 || !d->name.n || d->name.n > 24)
		return false;
	struct str place = str_cut(rest, (size_t)v);
	number_behind(&place, "][", &d->numbers[0]);
	d->text = str_trim(str_from(rest, (size_t)v + 3));
	d->kind = DUMP_VERSION;
	return true;
}

static bool other_line(struct str line, struct dump_line *d)
{
	static const struct {
		const char *begin;
		enum dump_kind kind;
	} numbered[] = { { "SOC Device id: ", DUMP_DEVICE }, { "SOC PCI Revision id: ", DUMP_REVISION } };
	struct str rest;
	int64_t n;
	if (str_behind(line, S("IP: "), &d->name)) {
		d->kind = DUMP_BLOCK;
		return true;
	}
	for (size_t i = 0; i < sizeof(numbered) / sizeof(numbered[0]); i++)
		if (str_behind(line, str_z(numbered[i].begin), &rest) && str_number(rest, &n) && n >= 0) {
			d->kind = numbered[i].kind;
			d->value = (uint64_t)n;
			return true;
		}
	struct str number = line;
	if (str_starts(line, S("Instance")) || str_starts(line, S("Active Instance:")))
		if (number_behind(&number,
				  str_find(line, S("VCN")) >= 0         ? "VCN" :
				  str_find(line, S("Instance id")) >= 0 ? "Instance id" :
									  "Instance",
				  &d->numbers[0]))
			d->kind = DUMP_INSTANCE;
	return d->kind != DUMP_OTHER;
}

struct dump_line dump_line_parse(struct str line)
{
	static bool (*const readers[])(struct str line, struct dump_line * d) = { register_line, word_line,  ib_line,
										  ring_line,     queue_line, version_line,
										  other_line };
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
		struct dump_line d = { .text = line };
		if (readers[i](line, &d))
			return d;
	}
	return (struct dump_line){ .kind = DUMP_OTHER, .text = line };
}

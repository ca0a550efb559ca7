// When a run counts as failed.
#include <math.h>

#include "job/trial/runs.h"

static struct uh_error *fails_term(struct str term, struct fails_if *f)
{
	const ptrdiff_t equals = str_find(term, S("="));
	const struct str name = equals < 0 ? term : str_cut(term, (size_t)equals);
	const struct str value = equals < 0 ? (struct str){ 0 } : str_from(term, (size_t)equals + 1);
	if (str_is(name, "status") && (equals < 0 || (str_number(value, &f->status_is) && f->status_is >= 0)))
		f->status = true;
	else if (str_is(term, "hang"))
		f->hang = true;
	else if (str_is(name, "output") && value.n)
		f->contains = value;
	else if (str_is(name, "nan") && value.n)
		f->nan_in = value;
	else
		return uh_error_new("--fails-if: '" STR_FMT "' is none of status, status=N, hang, output=TEXT, nan=FILE",
				    STR_ARG(str_cut(term, 60)));
	return NULL;
}

struct uh_error *fails_if_parse(struct str text, struct fails_if *ret)
{
	struct fails_if f = { .status_is = -1 };
	for (bool more = true; more;) {
		const ptrdiff_t at = str_find(text, S(" or "));
		more = at >= 0;
		struct uh_error *err = fails_term(str_trim(more ? str_cut(text, (size_t)at) : text), &f);
		if (err)
			return err;
		text = more ? str_from(text, (size_t)at + 4) : text;
	}
	*ret = f;
	return NULL;
}

/** The bytes of one number and how to see that it is none. */
static bool nan_among(struct str numbers, size_t size)
{
	for (size_t i = 0; i + size <= numbers.n; i += size) {
		uint64_t bits = 0;
		memcpy(&bits, numbers.p + i, size);
		const uint64_t exponent = size == 8 ? 0x7ff0000000000000u : size == 4 ? 0x7f800000u : 0x7c00u;
		const uint64_t fraction = size == 8 ? 0x000fffffffffffffu : size == 4 ? 0x007fffffu : 0x03ffu;
		if ((bits & exponent) == exponent && bits & fraction)
			return true;
	}
	return false;
}

static bool nan_word(struct str text)
{
	for (struct str word = str_word(&text); word.n; word = str_word(&text)) {
		struct str w = word;
		while (w.n && char_among(w.p[0], "-+[(,"))
			w = str_from(w, 1);
		if (w.n >= 3 &&
		    (str_is(str_cut(w, 3), "nan") || str_is(str_cut(w, 3), "NaN") || str_is(str_cut(w, 3), "NAN")) &&
		    (w.n == 3 || !char_word(w.p[3])))
			return true;
	}
	return false;
}

enum nan_answer nan_look(struct str bytes)
{
	enum { HEAD = 10 };
	static const char magic[] = "\x93NUMPY\x01";
	if (bytes.n < HEAD || memcmp(bytes.p, magic, sizeof(magic) - 1))
		return nan_word(bytes) ? NAN_THERE : NAN_NONE;
	const size_t head = HEAD + ((unsigned char)bytes.p[8] | (size_t)(unsigned char)bytes.p[9] << 8);
	if (head > bytes.n)
		return NAN_UNKNOWN;
	const struct str says = str_cut(bytes, head), numbers = str_from(bytes, head);
	const size_t size = str_find(says, S("'<f4'")) >= 0 ? 4 :
			    str_find(says, S("'<f8'")) >= 0 ? 8 :
			    str_find(says, S("'<f2'")) >= 0 ? 2 :
							      0;
	return !size ? NAN_UNKNOWN : nan_among(numbers, size) ? NAN_THERE : NAN_NONE;
}

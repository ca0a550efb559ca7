// Numbers of scenarios. A scenario is typed by people, so a word that is no number is told and never taken for 0.
#include "emulator/number.h"

bool emu_number_of(struct str word, uint64_t *ret)
{
	static const struct {
		char letter;
		unsigned shift;
	} units[] = { { 'K', 10 }, { 'M', 20 }, { 'G', 30 } };
	unsigned shift = 0;
	int64_t v;
	if (!word.n || !char_digit(word.p[0]))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (word.p[word.n - 1] == units[i].letter)
			shift = units[i].shift;
	if (!str_number(str_cut(word, word.n - (shift ? 1 : 0)), &v))
		return false;
	*ret = (uint64_t)v << shift;
	return *ret >> shift == (uint64_t)v;
}

bool emu_seconds_of(struct str word, double *ret)
{
	double v = 0, unit = 1;
	bool point = false, right = word.n && word.n <= 18 && char_digit(word.p[0]);
	for (size_t i = 0; i < word.n && right; i++) {
		if (word.p[i] == '.') {
			right = !point;
			point = true;
		} else if (char_digit(word.p[i])) {
			v = v * 10 + (word.p[i] - '0');
			unit = point ? unit * 10 : unit;
		} else {
			right = false;
		}
	}
	*ret = v / unit;
	return right && *ret < 1e9;
}

static unsigned digit(char c) { return char_digit(c) ? (unsigned)(c - '0') : (unsigned)(char_lower(c) - 'a' + 10); }

struct gfx_version emu_gfx_version(struct str gfx)
{
	struct gfx_version v = { 0 };
	if (gfx.n < 6 || !str_starts(gfx, S("gfx")))
		return v;
	for (size_t i = 3; i + 2 < gfx.n; i++)
		v.major = v.major * 10 + digit(gfx.p[i]);
	v.minor = digit(gfx.p[gfx.n - 2]);
	v.stepping = digit(gfx.p[gfx.n - 1]);
	return v;
}

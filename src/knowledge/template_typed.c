// What people mistype when they copy a message by hand.
#include "knowledge/template.h"

/** Whether both go on alike, as far as @literal goes. */
static bool typed_goes_on(struct str literal, size_t i, struct str line, size_t at)
{
	return i >= literal.n || (at < line.n && char_lower(literal.p[i]) == char_lower(line.p[at])) ||
	       (literal.p[i] == ' ' && at < line.n && char_space(line.p[at]));
}

/** How many characters of the literal and the line one typing error at @i and @at takes; false: it is none. Never a digit, and never
 * the first letter of a word, which would make another word of it (`uncorrectable`). */
static bool slip_at(struct str literal, size_t i, struct str line, size_t at, size_t *ret_i, size_t *ret_at)
{
	char a = literal.p[i], b = at < line.n ? line.p[at] : 0;
	bool inside = i && char_alpha(literal.p[i - 1]) && (char_alpha(a) || char_alpha(b));
	if (!inside || char_digit(a) || char_digit(b))
		return false;
	bool swapped = i + 1 < literal.n && at + 1 < line.n && literal.p[i + 1] == b && line.p[at + 1] == a;
	*ret_i = *ret_at = swapped ? 2 : 1;
	if (swapped || (char_alpha(a) && char_alpha(b) && typed_goes_on(literal, i + 1, line, at + 1)))
		return true;
	if (char_alpha(a) && typed_goes_on(literal, i + 1, line, at)) { // a letter is missing
		*ret_at = 0;
		return true;
	}
	*ret_i = 0;
	return char_alpha(b) && typed_goes_on(literal, i, line, at + 1);
}

size_t literal_match_typed(struct str literal, struct str line, size_t at, unsigned *slips_left)
{
	for (size_t i = 0; i < literal.n;) {
		size_t skip = 1, typed = 1;
		bool space = literal.p[i] == ' ' && at < line.n && char_space(line.p[at]);
		if (space)
			while (at + 1 < line.n && char_space(line.p[at + 1]))
				at++;
		else if (at >= line.n || char_lower(line.p[at]) != char_lower(literal.p[i])) {
			if (!*slips_left || !slip_at(literal, i, line, at, &skip, &typed))
				return SIZE_MAX;
			--*slips_left;
		}
		i += skip;
		at += typed;
	}
	return at;
}

// Texts that quote messages without being logs: source code, patches, templates, manuals, commands that search for a message.
#include "evidence/log/log_reader.h"

void quotes_line(struct quotes *q, struct str line)
{
	while (str_starts(line, S(">"))) // the marks of a mail that is answered
		line = str_from(line, str_starts(line, S("> ")) ? 2 : 1);
	if (str_among(line, STR_BEGINS, "@@ -|diff --git |--- a/").n)
		q->hunk = true;
	else if (q->hunk && line.n) // the other lines of a patch's head end no hunk: none has begun
		q->hunk = char_among(line.p[0], "+- \t@\\") || str_among(line, STR_BEGINS, "index |new file |deleted file ").n;
}

void quotes_text(struct quotes *q, struct str which)
{
	q->unstamped = true;
	q->all |= str_is(which, "all");
}

/** A conversion of printf's: %s, %08x, %llu. What was printed has none left. */
static bool has_conversion(struct str text)
{
	for (size_t i = 0; i + 1 < text.n; i++) {
		if (text.p[i] != '%')
			continue;
		size_t n = i + 1;
		while (n < text.n && (char_digit(text.p[n]) || char_among(text.p[n], "-+#.")))
			n++;
		while (n < text.n && char_among(text.p[n], "hlzjtL"))
			n++;
		if (n < text.n && char_among(text.p[n], "diouxXscp") &&
		    (n + 1 == text.n || !char_word(text.p[n + 1]) || text.p[n] == 'p'))
			return true;
	}
	return false;
}

/** `ring (\S+) timeout`, `ring .* timeout`: what looks for a message. */
static bool has_pattern(struct str text)
{
	return str_find(text, S("\\S")) >= 0 || str_find(text, S("\\d")) >= 0 || str_find(text, S("\\w")) >= 0 ||
	       str_find(text, S(".*")) >= 0 || str_find(text, S("[^")) >= 0;
}

/** Whether the message is a literal in source code: behind a quotation mark that opens an argument or a line, and with a line's end
 * spelt out, or before the end of a statement. JSON has a colon before its texts. */
static bool is_literal(struct str message, size_t at)
{
	size_t quote = at;
	while (quote && message.p[quote - 1] != '"')
		quote--;
	if (!quote)
		return false;
	struct str before = str_trim(str_cut(message, quote - 1)), behind = str_from(message, at);
	bool argument = !before.n || char_among(before.p[before.n - 1], "(,+-=");
	return argument &&
	       (str_find(behind, S("\\n\"")) >= 0 || str_find(behind, S("\");")) >= 0 || str_find(behind, S("\";")) >= 0);
}

/** Commands that search for a message, comments and labels of source code, and subjects of the driver's commits. */
static bool is_mentioned(struct str before)
{
	struct str start = str_trim(before);
	ptrdiff_t subject = str_find(before, S("drm/amd"));
	if (subject == 0 || (subject > 0 && char_among(before.p[subject - 1], " *-\"'(")))
		return true;
	return str_find(before, S("grep ")) >= 0 || str_starts(start, S("//")) || str_starts(start, S("/*")) ||
	       str_starts(start, S("case "));
}

/** A number, address or time of its own, which people copy but do not make up. */
static bool has_own_value(struct str text)
{
	enum { DIGITS = 3 };
	size_t digits = 0;
	for (size_t i = 0; i < text.n; i++) {
		digits = char_digit(text.p[i]) || (digits && char_hex(text.p[i])) ? digits + 1 : 0;
		if (digits == DIGITS)
			return true;
	}
	return false;
}

/** A sentence about the message: `A line such as "GPU reset begin!" means ...`, or a list of messages in a program. Programs quote what
 * failed, too, but say so; people quote what they met. */
static bool is_in_prose(struct str message, size_t begin, size_t end, bool program)
{
	static const char marks[] = "\"'`/";
	size_t mark = begin;
	while (mark && begin - mark < 24 && !char_among(message.p[mark - 1], marks)) // `"amdgpu: GPU reset begin!"`
		mark--;
	if (!mark || !char_among(message.p[mark - 1], marks))
		return false;
	char closing[] = { message.p[mark - 1], 0 };
	struct str before = str_cut(message, mark - 1), behind = str_from(message, begin);
	ptrdiff_t close = str_find(behind, str_z(closing));
	char last = before.n ? before.p[before.n - 1] : ' ', word = before.n > 1 ? before.p[before.n - 2] : 'a';
	bool listed = close >= 0 && str_starts(str_from(behind, (size_t)close + 1), S(","));
	bool code = (listed && !str_trim(before).n) || closing[0] == '/' || (last == 'r' && char_among(word, "( "));
	// Words of who tells what a message is like, not that it came.
	const char *hearsay =
		"*f you see*|*f you get*|*hen you see*|*uch as*|*essages like*|*rrors like*|*ook for*|*earch for*|* means *|"
		"*ndicates*|*.g. *|*or example*|*ill print*|*is printed*|*is logged*|*end in*|*ypical*|*known iss*|*ixed*|"
		"*ixes*|*no longer*";
	bool told = str_among(message, STR_MATCHES, hearsay).n &&
		    (char_among(last, "(`") || (last == ' ' && (char_alpha(word) || char_among(word, ",.-*("))));
	return close >= 0 && (code || told) && (size_t)close + begin + 8 >= end &&
	       !has_own_value(str_cut(behind, (size_t)close)) &&
	       !(program && str_among(before, STR_MATCHES, "*rror*|*RROR*|*ail*|*AIL*|*xception*|*eturned*|*what()*").n);
}

bool quotes_message(const struct quotes *q, const struct logline *line, size_t begin, size_t end, bool program)
{
	struct str message = line->message;
	bool stamped = line->stamps.found;
	if (q->all || (q->unstamped && !stamped) || (q->hunk && !stamped))
		return true;
	return has_conversion(message) || is_literal(message, begin) || is_mentioned(str_cut(message, begin)) ||
	       (!stamped && (has_pattern(message) || is_in_prose(message, begin, end, program)));
}

#include "job/profile.h"

/** As shell_quote() writes it: what needs it stands between single quotes, and a single quote behind a backslash. */
static bool unquote(struct str s, struct text *to)
{
	bool quoted = false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\'')
			quoted = !quoted;
		else if (!quoted && s.p[i] == '\\' && i + 1 < s.n)
			text_add(to, (struct str){ &s.p[++i], 1 });
		else
			text_add(to, (struct str){ &s.p[i], 1 });
	}
	return !quoted;
}

static bool take_line(struct str line, struct text *to)
{
	struct str rest, name;
	if (!line.n || line.p[0] == '#')
		return true;
	if (!str_behind(line, S("export "), &rest))
		return false;
	name = rest;
	name = str_split(&name, '=');
	bool good = name.n && name.n < rest.n && !char_digit(name.p[0]);
	for (size_t i = 0; good && i < name.n; i++)
		good = char_word(name.p[i]);
	good = good && unquote(rest, to);
	text_add(to, S("\n"));
	return good;
}

bool profile_parse(struct str text, struct text *to, struct str *ret_wrong)
{
	while (text.n) {
		*ret_wrong = str_trim(str_split(&text, '\n'));
		if (!take_line(*ret_wrong, to))
			return false;
	}
	return true;
}

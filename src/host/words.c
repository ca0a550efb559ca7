#include "host/words.h"

bool word_next(struct str *rest, struct str *ret)
{
	*rest = str_trim(*rest);
	size_t n = 0;
	for (bool quoted = false; n < rest->n && (quoted || !char_space(rest->p[n])); n++)
		quoted ^= rest->p[n] == '"';
	*ret = str_cut(*rest, n);
	*rest = str_from(*rest, n);
	return ret->n;
}

static struct str without_end_quote(struct str s) { return str_ends(s, S("\"")) ? str_cut(s, s.n - 1) : s; }

bool word_split(struct str word, struct str *ret_name, struct str *ret_value)
{
	if (str_starts(word, S("\"")))
		word = without_end_quote(str_from(word, 1));
	struct str value = word;
	*ret_name = str_split(&value, '=');
	bool has = ret_name->n < word.n;
	if (str_starts(value, S("\"")))
		value = without_end_quote(str_from(value, 1));
	*ret_value = has ? value : S("");
	return has;
}

struct str word_plain(struct arena *a, struct str name)
{
	char *plain = arena_z(a, name);
	for (size_t i = 0; i < name.n; i++)
		plain[i] = plain[i] == '-' ? '_' : plain[i];
	return (struct str){ plain, name.n };
}

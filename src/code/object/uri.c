#include "code/object/uri.h"

static bool number(struct str s, uint64_t *ret)
{
	int64_t v;
	if (str_starts(s, S("0x")))
		return str_hex(s, ret);
	if (!s.n || !char_digit(s.p[0]) || !str_number(s, &v))
		return false;
	*ret = (uint64_t)v;
	return true;
}

static bool range(struct str s, struct code_uri *ret)
{
	bool offset = false, size = false;
	while (s.n) {
		struct str value = str_split(&s, '&'), key = str_split(&value, '=');
		if (str_is(key, "offset") && !offset)
			offset = number(value, &ret->offset);
		else if (str_is(key, "size") && !size)
			size = number(value, &ret->size);
		else
			return false;
	}
	return ret->has_range = offset && size;
}

static struct str decode(struct arena *a, struct str s)
{
	char *to = arena_alloc(a, s.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		uint64_t code;
		if (s.p[i] == '%' && s.n - i > 2 && char_hex(s.p[i + 1]) && str_hex(str_cut(str_from(s, i + 1), 2), &code)) {
			to[n++] = (char)code;
			i += 2;
		} else {
			to[n++] = s.p[i];
		}
	}
	return (struct str){ to, n };
}

bool code_uri_parse(struct arena *a, struct str uri, struct code_uri *ret)
{
	struct code_uri u = { .memory = str_starts(uri, S("memory://")) };
	if (!u.memory && !str_starts(uri, S("file://")))
		return false;
	struct str place = str_from(uri, u.memory ? 9 : 7);
	for (size_t i = place.n; i--;) {
		if (place.p[i] != '#' && place.p[i] != '?')
			continue;
		if (!range(str_from(place, i + 1), &u))
			return false;
		place = str_cut(place, i);
		break;
	}
	uint64_t pid = 0;
	if (u.memory) // old debuggers write memory://1234/mem
		place = str_split(&place, '/');
	if (u.memory ? !u.has_range || !number(place, &pid) || pid > INT32_MAX : !place.n)
		return false;
	u.pid = (int64_t)pid;
	u.path = u.memory ? (struct str){ 0 } : decode(a, place);
	*ret = u;
	return true;
}

bool code_uri_saved_as(struct str uri, struct str filename)
{
	if (uri.n != filename.n || !uri.n)
		return false;
	for (size_t i = 0; i < uri.n; i++) {
		char c = memchr(":/#?&=", uri.p[i], 6) ? '_' : uri.p[i];
		if (c != filename.p[i])
			return false;
	}
	return true;
}

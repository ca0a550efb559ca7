#include "base/base64.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_write(struct text *to, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i += 3) {
		size_t have = n - i < 3 ? n - i : 3;
		uint32_t v = (uint32_t)bytes[i] << 16;
		v |= have > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
		v |= have > 2 ? bytes[i + 2] : 0;
		char four[4] = { letters[v >> 18], letters[v >> 12 & 63], '=', '=' };
		if (have > 1)
			four[2] = letters[v >> 6 & 63];
		if (have > 2)
			four[3] = letters[v & 63];
		text_add(to, (struct str){ four, 4 });
	}
}

bool base64_read(struct str s, uint8_t *ret, size_t n)
{
	if (s.n != (n + 2) / 3 * 4)
		return false;
	uint32_t v = 0;
	size_t have = 0;
	for (size_t i = 0; i < s.n && have < n; i++) {
		const char *at = s.p[i] ? strchr(letters, s.p[i]) : NULL;
		if (!at)
			return false;
		v = v << 6 | (uint32_t)(at - letters);
		size_t bits = (i % 4 + 1) * 6;
		if (bits >= 12)
			ret[have++] = (uint8_t)(v >> (bits % 8));
	}
	// Only the canonical form is accepted: unused bits are zero, and the padding is right.
	_cleanup_text_ struct text again = { 0 };
	base64_write(&again, ret, n);
	return str_eq(text_str(&again), s);
}

#include "base/print.h"

size_t utf8_length(struct str s)
{
	unsigned char c = (unsigned char)s.p[0];
	size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
	if (!n || n > s.n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if (((unsigned char)s.p[i] & 0xc0) != 0x80)
			return 0;
	unsigned char d = n > 1 ? (unsigned char)s.p[1] : 0;
	if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) || (c == 0xf0 && d < 0x90) || (c == 0xf4 && d > 0x8f))
		return 0;
	return n;
}

void print_safe(FILE *out, struct str s)
{
	while (s.n) {
		unsigned char c = (unsigned char)s.p[0];
		size_t n = utf8_length(s);
		bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && n == 2 && (unsigned char)s.p[1] < 0xa0);
		if (!n)
			fputc('?', out);
		else if (control)
			fputc(' ', out);
		else
			fwrite(s.p, 1, n, out);
		s = str_from(s, n ? n : 1);
	}
}

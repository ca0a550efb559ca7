#include "gpu/bad_pages.h"

/** The driver writes whole lines of 28 characters, as many as end before what it was asked for. */
enum { PAGE_LINE = 28, PAGE_LINES = 145 };

void bad_pages_ask(const char *path, struct probe ret[static BAD_PAGES_READS])
{
	for (size_t n = 0; n < BAD_PAGES_READS; n++)
		ret[n] = (struct probe){ .kind = PROBE_READ,
					 .path = path,
					 .size = PAGE_LINES * PAGE_LINE + 1,
					 .offset = n * PAGE_LINES * PAGE_LINE };
}

bool bad_pages_count(const struct probe *asked, size_t reads, struct bad_pages *ret)
{
	*ret = (struct bad_pages){ .more = asked[reads - 1].n > PAGE_LINES * PAGE_LINE };
	for (size_t n = 0; n < reads; n++) {
		// `0x00000001 : 0x00001000 : R`.
		struct str text = { asked[n].data, asked[n].end == PROBE_GOOD ? asked[n].n : 0 };
		text = str_cut(text, PAGE_LINES * PAGE_LINE);
		while (text.n) {
			struct str line = str_trim(str_split(&text, '\n'));
			const char letter = line.n > 1 && !char_space(line.p[line.n - 2]) ? 0 : line.n ? line.p[line.n - 1] : 0;
			ret->retired += letter == 'R';
			ret->pending += letter == 'P';
			ret->failed += letter == 'F';
		}
	}
	return asked[0].end == PROBE_GOOD;
}

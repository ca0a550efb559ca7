// UNHANG_*: numbers, texts, paths and globs, as the recorder and the allocator (preload/) read them.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "recorder/ranks.h"
#include "recorder/recorder.h"

uint64_t setting_number(const char *name, uint64_t otherwise, uint64_t most)
{
	const char *text = getenv(name);
	if (!text || !*text)
		return otherwise;
	char *end;
	errno = 0;
	uint64_t v = strtoull(text, &end, 10);
	const uint64_t unit = *end == 'K' ? 1u << 10 : *end == 'M' ? 1u << 20 : *end == 'G' ? 1u << 30 : 1;
	if (unit > 1)
		end++;
	if (errno || *end || !isdigit((unsigned char)*text) || v > most / unit) {
		rec_line("%s=%s is no number up to %llu; %llu is used", name, text, (unsigned long long)most,
			 (unsigned long long)otherwise);
		return otherwise;
	}
	return v * unit;
}

void setting_text(const char *name, char *ret, size_t size)
{
	const char *text = getenv(name);
	ret[0] = 0;
	if (!text)
		return;
	if (strlen(text) >= size)
		rec_line("%s is longer than %zu characters and is not used", name, size - 1);
	else
		memcpy(ret, text, strlen(text) + 1);
}

void line_harmless(char *line, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
}

int32_t setting_rank(void)
{
	static const char *const names[] = { RANK_VARIABLES, RANK_OF_NODE };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *text = getenv(names[i]);
		char *end;
		if (!text || !isdigit((unsigned char)*text))
			continue;
		unsigned long v = strtoul(text, &end, 10);
		if (!*end && v <= INT32_MAX)
			return (int32_t)v;
	}
	return -1;
}

bool setting_path(const char *pattern, int32_t rank, char *ret, size_t size)
{
	char host[65] = "";
	size_t n = 0;
	gethostname(host, sizeof(host) - 1);
	for (const char *p = pattern; *p; p++) {
		char room[80] = { *p, 0 };
		if (*p == '%' && p[1]) {
			switch (*++p) {
			case 'i':
				snprintf(room, sizeof(room), "%d", rank < 0 ? 0 : rank);
				break;
			case 'p':
				snprintf(room, sizeof(room), "%d", (int)getpid());
				break;
			case 'u':
				snprintf(room, sizeof(room), "%u", (unsigned)getuid());
				break;
			case 'h':
				snprintf(room, sizeof(room), "%s", host);
				break;
			case '%':
				break;
			default:
				snprintf(room, sizeof(room), "%%%c", *p);
			}
		}
		const size_t len = strlen(room);
		if (n + len + 1 > size)
			return false;
		memcpy(ret + n, room, len);
		n += len;
	}
	ret[n] = 0;
	return true;
}

bool core_beside(const char *recording, char *ret, size_t size)
{
	static const char suffix[] = RECORDING_SUFFIX;
	size_t n = strlen(recording);
	if (n > sizeof(suffix) && !strcmp(recording + n - sizeof(suffix) + 1, suffix))
		n -= sizeof(suffix) - 1;
	const int len = snprintf(ret, size, "%.*s.gpucore", (int)n, recording);
	return n && len > 0 && (size_t)len < size;
}

bool text_matches(const char *pattern, size_t n, const char *text)
{
	size_t p = 0, star = SIZE_MAX;
	const char *mark = NULL;
	while (*text) {
		if (p < n && pattern[p] == '*') {
			star = p++;
			mark = text;
		} else if (p < n && (pattern[p] == '?' || pattern[p] == *text)) {
			p++;
			text++;
		} else if (mark) {
			p = star + 1;
			text = ++mark;
		} else {
			return false;
		}
	}
	while (p < n && pattern[p] == '*')
		p++;
	return p == n;
}

// UNHANG_* and the one line on stderr.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "recorder/ranks.h"
#include "recorder/recorder.h"

enum { LINES_MOST = 16, HOLD_SECONDS = 5 };

static uint64_t number_of(const char *name, uint64_t otherwise, uint64_t most)
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

static void text_of(const char *name, char *ret, size_t size)
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

/** The rank as launchers tell it. */
static int32_t rank_of(void)
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

/** %i rank, %p pid, %h host, %u user, %% percent. false: it does not fit. */
static bool path_fill(const char *pattern, int32_t rank, char *ret, size_t size)
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

/** Words that users try. */
static bool means_off(const char *text) { return !strcmp(text, "off") || !strcmp(text, "0") || !strcmp(text, "/dev/null"); }

void settings_read(struct rec_settings *s)
{
	char pattern[PATH_MOST];
	*s = (struct rec_settings){ .rank = rank_of() };
	s->level = (int)number_of("UNHANG_LEVEL", LEVEL_LAUNCHES, LEVEL_INPUTS);
	s->max_level = (int)number_of("UNHANG_MAX_LEVEL", s->level > LEVEL_ARGUMENTS ? (uint64_t)s->level : LEVEL_ARGUMENTS,
				      LEVEL_INPUTS);
	if (s->level > s->max_level)
		s->level = s->max_level;
	s->space = number_of("UNHANG_SPACE", 256u << 20, UINT64_MAX);
	s->argument_bytes = (uint32_t)number_of("UNHANG_ARGUMENT_BYTES", 240, ARGUMENTS_MOST);
	s->keep = (uint32_t)number_of("UNHANG_KEEP", 8, 10000);
	s->dump_bytes = number_of("UNHANG_DUMP_BYTES", 1u << 30, UINT64_MAX);
	s->dump_count = (uint32_t)number_of("UNHANG_DUMP_COUNT", 16, 100000);
	s->supervisor = (uint32_t)number_of("UNHANG_SUPERVISOR", 0, INT32_MAX);
	s->core_bytes = number_of("UNHANG_CORE_BYTES", 64u << 20, UINT64_MAX);
	s->hold = (uint32_t)number_of("UNHANG_HOLD", HOLD_SECONDS, HOLD_SECONDS);
	text_of("UNHANG_INCLUDE", s->include, sizeof(s->include));
	text_of("UNHANG_EXCLUDE", s->exclude, sizeof(s->exclude));
	text_of("UNHANG_RECORDING", pattern, sizeof(pattern));
	s->off = means_off(pattern);
	s->path_named = pattern[0];
	if (!path_fill(pattern[0] ? pattern : "%h.%p" RECORDING_SUFFIX, s->rank, s->path, sizeof(s->path)))
		s->path[0] = 0;
	text_of("UNHANG_CORE", pattern, sizeof(pattern));
	s->core_asked = pattern[0];
	if (!path_fill(pattern, s->rank, s->core, sizeof(s->core)))
		s->core[0] = 0;
	text_of("UNHANG_DUMPS", pattern, sizeof(pattern));
	if (!path_fill(pattern[0] ? pattern : "unhang-dumps.%p", s->rank, s->dumps, sizeof(s->dumps)))
		s->dumps[0] = 0;
}

/** '*' is any characters, '?' one. */
static bool glob(const char *pattern, size_t n, const char *text)
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

static bool any_glob(const char *list, const char *name)
{
	while (*list) {
		const size_t n = strcspn(list, ",");
		if (n && glob(list, n, name))
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

uint32_t filter_of(const struct rec_settings *s, const char *name)
{
	return (!s->include[0] || any_glob(s->include, name) ? FILTER_IN : 0) | (any_glob(s->exclude, name) ? FILTER_OUT : 0);
}

static void tell(const char *format, va_list ap)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "unhang: recorder: ");
	const int more = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
	n = more < 0 ? n : n + more > (int)sizeof(line) - 2 ? (int)sizeof(line) - 2 : n + more;
	if (rec.header) {
		memcpy(rec.header->note, line, (size_t)n);
		rec.header->note[n] = 0;
		if (__atomic_fetch_add(&rec.header->lines, 1, __ATOMIC_RELAXED) >= LINES_MOST)
			return;
	}
	line[n++] = '\n';
	int old;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old); // a thread that holds a lock must not end here
	if (quiet_write(STDERR_FILENO, line, (size_t)n) < 0)
		line[0] = 0; // nobody listens
	pthread_setcancelstate(old, NULL);
}

void rec_line(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	tell(format, ap);
	va_end(ap);
}

void rec_aside(const char *format, ...)
{
	va_list ap;
	atomic_store(&rec.level, 0);
	atomic_store(&rec.on, false);
	va_start(ap, format);
	tell(format, ap);
	va_end(ap);
	if (rec.header)
		__atomic_store_n(&rec.header->state, RECORDING_ASIDE, __ATOMIC_RELEASE);
}

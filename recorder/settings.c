// UNHANG_* and the one line on stderr.
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "recorder/recorder.h"

enum { LINES_MOST = 16, HOLD_SECONDS = 5 };

const struct file_kind file_kind = { .magic = RECORDING_MAGIC,
				     .suffix = RECORDING_SUFFIX,
				     .variable = "UNHANG_RECORDING",
				     .removed = offsetof(struct rec_header, removed) };

/** Words that users try. */
static bool means_off(const char *text) { return !strcmp(text, "off") || !strcmp(text, "0") || !strcmp(text, "/dev/null"); }

void settings_read(struct rec_settings *s)
{
	char pattern[PATH_MOST];
	*s = (struct rec_settings){ .rank = setting_rank() };
	s->level = (int)setting_number("UNHANG_LEVEL", LEVEL_LAUNCHES, LEVEL_INPUTS);
	s->max_level = (int)setting_number("UNHANG_MAX_LEVEL",
					   s->level > LEVEL_ARGUMENTS ? (uint64_t)s->level : LEVEL_ARGUMENTS, LEVEL_INPUTS);
	if (s->level > s->max_level)
		s->level = s->max_level;
	s->space = setting_number("UNHANG_SPACE", 256u << 20, UINT64_MAX);
	s->argument_bytes = (uint32_t)setting_number("UNHANG_ARGUMENT_BYTES", 240, ARGUMENTS_MOST);
	s->keep = (uint32_t)setting_number("UNHANG_KEEP", 8, 10000);
	s->dump_bytes = setting_number("UNHANG_DUMP_BYTES", 1u << 30, UINT64_MAX);
	s->dump_count = (uint32_t)setting_number("UNHANG_DUMP_COUNT", 16, 100000);
	s->supervisor = (uint32_t)setting_number("UNHANG_SUPERVISOR", 0, INT32_MAX);
	s->core_bytes = setting_number("UNHANG_CORE_BYTES", 64u << 20, UINT64_MAX);
	s->hold = (uint32_t)setting_number("UNHANG_HOLD", HOLD_SECONDS, HOLD_SECONDS);
	setting_text("UNHANG_WAITS", s->waits, sizeof(s->waits));
	setting_text("UNHANG_INCLUDE", s->include, sizeof(s->include));
	setting_text("UNHANG_EXCLUDE", s->exclude, sizeof(s->exclude));
	setting_text("UNHANG_RECORDING", pattern, sizeof(pattern));
	s->off = means_off(pattern);
	s->path_named = pattern[0];
	if (!setting_path(pattern[0] ? pattern : "%h.%p" RECORDING_SUFFIX, s->rank, s->path, sizeof(s->path)))
		s->path[0] = 0;
	setting_text("UNHANG_CORE", pattern, sizeof(pattern));
	s->core_asked = pattern[0];
	if (!setting_path(pattern, s->rank, s->core, sizeof(s->core)))
		s->core[0] = 0;
	setting_text("UNHANG_DUMPS", pattern, sizeof(pattern));
	if (!setting_path(pattern[0] ? pattern : "unhang-dumps.%p", s->rank, s->dumps, sizeof(s->dumps)))
		s->dumps[0] = 0;
}

static bool any_glob(const char *list, const char *name)
{
	while (*list) {
		const size_t n = strcspn(list, ",");
		if (n && text_matches(list, n, name))
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
	line_harmless(line, (size_t)n);
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

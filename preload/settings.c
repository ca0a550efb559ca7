// UNHANG_GUARD, UNHANG_POOL and what belongs to them.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/guard.h"
#include "recorder/recorder.h"

enum { VMAS_OF_OTHERS = 4096, VMAS_EACH = 2, QUARANTINE_COUNT = 16384, POOL_MOST = 256 << 10 };
#define QUARANTINE_BYTES (UINT64_C(1) << 40)
#define MEMORY_MOST (UINT64_C(1) << 30)
#define SLAB_BYTES (2 * MIB)

static bool says_no(const char *text) { return text && (!strcmp(text, "off") || !strcmp(text, "0") || !strcmp(text, "no")); }

enum alloc_mode mode_wanted(void)
{
	const char *guarded = getenv("UNHANG_GUARD"), *pooled = getenv("UNHANG_POOL");
	if (pooled && *pooled && !says_no(pooled))
		return ALLOC_MODE_POOL;
	return says_no(guarded) ? ALLOC_MODE_NONE : ALLOC_MODE_GUARD;
}

bool guard_wanted(void) { return mode_wanted() != ALLOC_MODE_NONE; }

/** That this process has by now. */
static uint64_t mappings_used(void)
{
	char text[4096];
	uint64_t used = 0;
	_cleanup_close_ int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	for (ssize_t n; fd >= 0 && (n = read(fd, text, sizeof(text))) > 0;)
		for (ssize_t i = 0; i < n; i++)
			used += text[i] == '\n';
	return used;
}

/** The kernel lets a process have so many mappings: allocations that they are enough for. */
static uint64_t mappings_possible(void)
{
	char text[32] = "";
	_cleanup_close_ int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	const uint64_t most = n > 0 ? strtoull(text, NULL, 10) : 0, used = mappings_used(), left = most > used ? most - used : 0;
	return left > 2 * VMAS_OF_OTHERS ? (left - VMAS_OF_OTHERS) / VMAS_EACH : left / (2 * VMAS_EACH);
}

/** A word of UNHANG_GUARD: above, below, sample:N, match:GLOB. */
static bool word_take(struct guard_settings *s, const char *word)
{
	char *end;
	if (!*word || !strcmp(word, "above") || !strcmp(word, "1") || !strcmp(word, "on"))
		return true;
	if (!strcmp(word, "below"))
		return s->below = true;
	if (!strncmp(word, "sample:", 7)) {
		const unsigned long n = strtoul(word + 7, &end, 10);
		s->sample = (uint32_t)n;
		return n && n <= UINT32_MAX && !*end;
	}
	if (!strncmp(word, "match:", 6) && word[6] && strlen(word + 6) < sizeof(s->match))
		return memcpy(s->match, word + 6, strlen(word + 6) + 1), true;
	return false;
}

static void words_take(struct guard_settings *s)
{
	char words[256];
	setting_text("UNHANG_GUARD", words, sizeof(words));
	for (char *rest = words, *word; (word = strsep(&rest, ","));)
		if (!word_take(s, word))
			rec_line("UNHANG_GUARD: '%s' is none of above, below, sample:N, match:GLOB", word);
}

void guard_settings_read(struct guard_settings *s)
{
	*s = (struct guard_settings){ .mode = mode_wanted() };
	if (s->mode == ALLOC_MODE_GUARD)
		words_take(s);
	const uint64_t align = setting_number("UNHANG_GUARD_ALIGN", 256, PAGE);
	s->align = align && !(align & (align - 1)) ? (uint32_t)align : 256;
	if (s->align != align)
		rec_line("UNHANG_GUARD_ALIGN=%llu is no power of two; 256 is used", (unsigned long long)align);
	s->quarantine_bytes = setting_number("UNHANG_QUARANTINE_BYTES", QUARANTINE_BYTES, UINT64_MAX);
	s->quarantine_count = setting_number("UNHANG_QUARANTINE_COUNT", QUARANTINE_COUNT, UINT32_MAX);
	s->mappings = setting_number("UNHANG_GUARD_MAPPINGS", mappings_possible(), UINT32_MAX);
	s->memory = setting_number("UNHANG_GUARD_MEMORY", MEMORY_MOST, UINT64_MAX);
	s->pool_most = setting_number("UNHANG_POOL_MOST", POOL_MOST, SLAB_BYTES / 2);
	s->slab = SLAB_BYTES;
	s->reported = setting_number("UNHANG_ALLOCATOR_REPORT", 0, 1);
}

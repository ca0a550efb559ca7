// The checkpoint that the next try would go on from, and what the work since then was worth.
#include <glob.h>
#include <sys/stat.h>

#include "job/parts.h"

void checkpoint_find(const char *pattern, struct arena *a, struct run_try *t)
{
	glob_t found;
	int64_t best = -1;
	if (!pattern || glob(pattern, GLOB_NOSORT, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct stat st;
		if (stat(found.gl_pathv[i], &st))
			continue;
		const int64_t written = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
		if (written <= best)
			continue;
		best = written;
		t->checkpoint = arena_str(a, str_z(found.gl_pathv[i]));
	}
	globfree(&found);
	if (best < 0 || t->ran_ms < 0)
		return;
	// One that is older than the try: all of the try was lost.
	const int64_t since = t->began + t->ran_ms - best;
	t->lost_ms = since < 0 ? 0 : since < t->ran_ms ? since : t->ran_ms;
}

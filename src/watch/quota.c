// Bundles are few in an hour: evidence costs time and space, and nobody reads the same fault forty times. What repeats itself, or one program
// that fails again and again, must not use up those of others.
#include <time.h>

#include "watch/parts.h"

enum { HOUR_MS = 3600000, ALIKE_MOST = 4, PROCESS_MOST = 4 };

static uint64_t hash(struct str s) { return str_hash(STR_HASH_BEGIN, s); }

static struct taken_bundle bundle_of(const struct stored *i, int64_t when)
{
	struct arena a = { 0 };
	// What only a look tells of has no class before it is explained.
	const struct str pid = i->pid ? arena_printf(&a, "%lld", (long long)i->pid) : i->job;
	const struct taken_bundle b = { when, hash(i->class.n ? i->class : i->origin),
					hash(i->fingerprint.n ? i->fingerprint : i->gpu), pid.n ? hash(pid) : 0 };
	arena_free(&a);
	return b;
}

static void forget_old(struct watcher *w, int64_t now)
{
	size_t kept = 0;
	for (size_t n = 0; n < w->nbundles; n++)
		if (now - w->bundles[n].when < HOUR_MS)
			w->bundles[kept++] = w->bundles[n];
	w->nbundles = kept;
}

static void count(struct watcher *w, struct taken_bundle b)
{
	if (w->nbundles == BUNDLES_MOST)
		memmove(w->bundles, w->bundles + 1, --w->nbundles * sizeof(b));
	w->bundles[w->nbundles++] = b;
}

int64_t quota_left(struct watcher *w, int64_t now)
{
	forget_old(w, now);
	return w->settings.bundles_per_hour > (int64_t)w->nbundles ? w->settings.bundles_per_hour - (int64_t)w->nbundles : 0;
}

struct str quota_take(struct watcher *w, const struct stored *i, int64_t now)
{
	const struct taken_bundle b = bundle_of(i, now);
	const int64_t left = quota_left(w, now);
	unsigned of_class = 0, alike = 0, of_process = 0;
	for (size_t n = 0; n < w->nbundles; n++) {
		of_class += w->bundles[n].class == b.class;
		alike += w->bundles[n].class == b.class && w->bundles[n].fingerprint == b.fingerprint;
		of_process += b.process && w->bundles[n].process == b.process;
	}
	if (of_class && !left)
		return S("there were as many bundles in an hour as the configuration allows");
	if (of_class && alike >= ALIKE_MOST)
		return S("there were enough bundles of the same fault in this hour");
	if (of_class && of_process >= PROCESS_MOST)
		return S("there were enough bundles of this program in this hour");
	count(w, b);
	return (struct str){ 0 };
}

void quota_remember(struct watcher *w)
{
	const int64_t now = now_ms(), seconds = (int64_t)time(NULL);
	for (size_t n = w->before.list.len; n-- > 0;) { // the oldest is the last of them
		const struct stored *i = w->before.list.data[n];
		if (str_is(i->bundle, "taken"))
			count(w, bundle_of(i, now - (seconds - i->began) * 1000));
	}
	forget_old(w, now);
}

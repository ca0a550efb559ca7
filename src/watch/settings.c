#include "watch/settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/door/door.h"

enum { FILE_MOST = 256 << 10, DAY = 86400 };

enum setting_type { SETTING_PATH, SETTING_NAME, SETTING_WORD, SETTING_YES, SETTING_NUMBER };

static const struct setting {
	const char *key;
	enum setting_type type;
	size_t offset;
	int64_t least, most;
	const char *words; // of a SETTING_WORD
} settings[] = {
	{ "state-dir", SETTING_PATH, offsetof(struct watch_settings, state_dir), 0, 0, NULL },
	{ "run-dir", SETTING_PATH, offsetof(struct watch_settings, run_dir), 0, 0, NULL },
	{ "hooks-dir", SETTING_PATH, offsetof(struct watch_settings, hooks_dir), 0, 0, NULL },
	{ "hook-user", SETTING_NAME, offsetof(struct watch_settings, hook_user), 0, 0, NULL },
	{ "hook-deadline", SETTING_NUMBER, offsetof(struct watch_settings, hook_deadline), 1, 3600, NULL },
	{ "capture", SETTING_YES, offsetof(struct watch_settings, capture), 0, 0, NULL },
	{ "user-data", SETTING_WORD, offsetof(struct watch_settings, user_data), 0, 0, "none registers all" },
	{ "capture-deadline", SETTING_NUMBER, offsetof(struct watch_settings, capture_deadline), 1, 3600, NULL },
	{ "bundles-per-hour", SETTING_NUMBER, offsetof(struct watch_settings, bundles_per_hour), 1, 32, NULL },
	{ "settle-ms", SETTING_NUMBER, offsetof(struct watch_settings, settle), 10, 60000, NULL },
	{ "silent-hangs", SETTING_YES, offsetof(struct watch_settings, silent), 0, 0, NULL },
	{ "kfd-events", SETTING_YES, offsetof(struct watch_settings, kfd_events), 0, 0, NULL },
	{ "may-block", SETTING_YES, offsetof(struct watch_settings, may_block), 0, 0, NULL },
	{ "suspect-after", SETTING_NUMBER, offsetof(struct watch_settings, suspect_after), 0, 3600, NULL },
	{ "hung-after", SETTING_NUMBER, offsetof(struct watch_settings, hung_after), 0, DAY, NULL },
	{ "quiet", SETTING_NUMBER, offsetof(struct watch_settings, quiet), 1, DAY, NULL },
	{ "keep-incidents", SETTING_NUMBER, offsetof(struct watch_settings, keep_incidents), 1, 10000, NULL },
	{ "keep-megabytes", SETTING_NUMBER, offsetof(struct watch_settings, keep_megabytes), 1, 1 << 30, NULL },
	{ "keep-history-days", SETTING_NUMBER, offsetof(struct watch_settings, keep_history_days), 1, 36500, NULL },
	{ "keep-history-megabytes", SETTING_NUMBER, offsetof(struct watch_settings, keep_history_megabytes), 1, 1 << 20, NULL },
	{ "spool-dir", SETTING_PATH, offsetof(struct watch_settings, spool_dir), 0, 0, NULL },
	{ "spool-bundles", SETTING_YES, offsetof(struct watch_settings, spool_bundles), 0, 0, NULL },
};

static const struct watch_settings usual = {
	.state_dir = "/var/lib/unhang",
	.run_dir = "/run/unhang",
	.hooks_dir = "/etc/unhang/hooks.d",
	.hook_user = "nobody",
	.user_data = "none",
	.capture = true,
	.capture_deadline = 30,
	.hook_deadline = 30,
	.settle = 2000,
	.silent = true,
	.quiet = 90,
	.bundles_per_hour = 12,
	.keep_incidents = 500,
	.keep_megabytes = 4096,
	.keep_history_days = 730,
	.keep_history_megabytes = 256,
};

static bool is_among(struct str word, const char *words)
{
	struct str rest = str_z(words), one;
	while ((one = str_word(&rest)).n)
		if (str_eq(one, word))
			return true;
	return false;
}

/** NULL: it was taken; else what it should be. */
static const char *setting_take(struct watch_settings *s, const struct setting *k, struct str value)
{
	void *to = (char *)s + k->offset;
	int64_t number;
	switch (k->type) {
	case SETTING_PATH:
		if (!str_starts(value, S("/")))
			return "it needs a path that begins with /";
		break;
	case SETTING_NAME:
		for (size_t i = 0; i < value.n; i++)
			if (!char_word(value.p[i]) && value.p[i] != '-')
				return "it needs a name";
		break;
	case SETTING_WORD:
		if (!is_among(value, k->words))
			return k->words;
		break;
	case SETTING_YES:
		if (!str_is(value, "yes") && !str_is(value, "no"))
			return "it needs yes or no";
		*(bool *)to = str_is(value, "yes");
		return NULL;
	case SETTING_NUMBER:
		if (!str_number(value, &number) || number < k->least || number > k->most)
			return "it needs a number";
		*(int64_t *)to = number;
		return NULL;
	}
	*(const char **)to = arena_z(&s->arena, value);
	return NULL;
}

static void setting_complain(struct text *to, const struct setting *k, const char *needs, struct str key)
{
	if (!k)
		text_printf(to, "there is no option '" STR_FMT "'", STR_ARG(key));
	else if (k->type == SETTING_NUMBER)
		text_printf(to, "%s: %s from %lld to %lld", k->key, needs, (long long)k->least, (long long)k->most);
	else if (k->type == SETTING_WORD)
		text_printf(to, "%s: it needs one of: %s", k->key, needs);
	else
		text_printf(to, "%s: %s", k->key, needs);
}

static const struct setting *setting_of(struct str key)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (str_is(key, settings[i].key))
			return &settings[i];
	return NULL;
}

unsigned settings_parse(struct watch_settings *s, const char *path, struct str text,
			void (*tell)(void *ctx, const char *message), void *ctx)
{
	unsigned mistakes = 0;
	for (unsigned line = 1; text.n; line++) {
		struct str value = str_split(&text, '\n'), key = str_word(&value);
		value = str_trim(value);
		if (!key.n || key.p[0] == '#')
			continue;
		const struct setting *k = setting_of(key);
		const char *needs = !k                                         ? "" :
				    !value.n || memchr(value.p, '\0', value.n) ? "it needs a value" :
										 setting_take(s, k, value);
		if (!needs)
			continue;
		_cleanup_text_ struct text message = { 0 };
		text_printf(&message, "%s:%u: ", path, line);
		setting_complain(&message, k, needs, str_cut(key, 64));
		tell(ctx, message.p);
		mistakes++;
	}
	return mistakes;
}

static struct uh_error *read_one(struct watch_settings *s, const char *path, void (*tell)(void *ctx, const char *message),
				 void *ctx, unsigned *mistakes)
{
	struct str text;
	struct uh_error *err = named_read(&(struct named){ .path = path, .believed = true }, FILE_MOST, &s->arena, &text, NULL);
	if (!err)
		*mistakes += settings_parse(s, path, text, tell, ctx);
	return err;
}

struct uh_error *settings_load(struct watch_settings *s, const char *file, void (*tell)(void *ctx, const char *message),
			       void *ctx, unsigned *ret_mistakes)
{
	struct door_names names = { 0 };
	struct uh_error *err = NULL;
	*s = usual;
	*ret_mistakes = 0;
	const char *path = file ? file : WATCH_CONF;
	if (file || !access(path, F_OK))
		err = read_one(s, path, tell, ctx, ret_mistakes);
	const char *more = arena_printf(&s->arena, "%s.d", path).p;
	if (!err && !access(more, F_OK))
		err = door_names(&(struct named){ .path = more }, false, &s->arena, &names);
	for (size_t i = 0; !err && i < names.n; i++)
		if (str_ends(str_z(names.list[i]), S(".conf")))
			err = read_one(s, arena_printf(&s->arena, "%s/%s", more, names.list[i]).p, tell, ctx, ret_mistakes);
	return err;
}

void settings_free(struct watch_settings *s) { arena_free(&s->arena); }

void settings_replace(struct watch_settings *s, struct watch_settings *by)
{
	const struct watch_settings before = *s;
	*s = *by;
	*by = before;
}

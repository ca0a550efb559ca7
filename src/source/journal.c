// The journal through libsystemd, loaded when it is asked for: a machine without systemd needs none of it.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>

#include "base/arena.h"
#include "source/source.h"

struct journal_api {
	void *library;
	typeof(sd_journal_open) *open;
	typeof(sd_journal_open_directory) *open_directory;
	typeof(sd_journal_open_files) *open_files;
	typeof(sd_journal_close) *close;
	typeof(sd_journal_add_match) *add_match;
	typeof(sd_journal_flush_matches) *flush_matches;
	typeof(sd_journal_next) *next;
	typeof(sd_journal_previous) *previous;
	typeof(sd_journal_seek_tail) *seek_tail;
	typeof(sd_journal_seek_head) *seek_head;
	typeof(sd_journal_seek_monotonic_usec) *seek_monotonic;
	typeof(sd_journal_get_data) *get_data;
	typeof(sd_journal_get_monotonic_usec) *get_monotonic;
	typeof(sd_journal_get_realtime_usec) *get_realtime;
};

static struct uh_error *journal_load(struct journal_api *api)
{
	*api = (struct journal_api){ .library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL) };
	if (!api->library)
		return uh_error_new("the journal: libsystemd is not on this machine");
	const struct {
		const char *name;
		void *at;
	} symbols[] = {
		{ "sd_journal_open", &api->open },
		{ "sd_journal_open_directory", &api->open_directory },
		{ "sd_journal_open_files", &api->open_files },
		{ "sd_journal_close", &api->close },
		{ "sd_journal_add_match", &api->add_match },
		{ "sd_journal_flush_matches", &api->flush_matches },
		{ "sd_journal_next", &api->next },
		{ "sd_journal_previous", &api->previous },
		{ "sd_journal_seek_tail", &api->seek_tail },
		{ "sd_journal_seek_head", &api->seek_head },
		{ "sd_journal_seek_monotonic_usec", &api->seek_monotonic },
		{ "sd_journal_get_data", &api->get_data },
		{ "sd_journal_get_monotonic_usec", &api->get_monotonic },
		{ "sd_journal_get_realtime_usec", &api->get_realtime },
	};
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(api->library, symbols[i].name);
		if (!symbol)
			return uh_error_new("the journal: libsystemd lacks %s", symbols[i].name);
		memcpy(symbols[i].at, &symbol, sizeof(symbol));
	}
	return NULL;
}

static void journal_unload(struct journal_api *api)
{
	if (api->library)
		dlclose(api->library);
}

static struct str journal_field(const struct journal_api *api, sd_journal *j, const char *field)
{
	const void *data;
	size_t n;
	if (api->get_data(j, field, &data, &n) < 0)
		return (struct str){ 0 };
	return str_from((struct str){ data, n }, strlen(field) + 1);
}

static void journal_records(const struct journal_api *api, sd_journal *j, const char *name, const struct source_visitor *v)
{
	v->record(v->ctx, name, NULL);
	while (api->next(j) > 0) {
		struct source_record out = { .boot_seconds = -1, .wall_seconds = -1 };
		uint64_t usec;
		int64_t source_usec;
		sd_id128_t boot;
		if (api->get_realtime(j, &usec) >= 0)
			out.wall_seconds = (double)usec / 1e6;
		if (api->get_monotonic(j, &usec, &boot) >= 0)
			out.boot_seconds = (double)usec / 1e6;
		// Each field is valid only until the next one is asked for, so what is kept is copied.
		if (str_number(journal_field(api, j, "_SOURCE_MONOTONIC_TIMESTAMP"), &source_usec))
			out.boot_seconds = (double)source_usec / 1e6;
		char boot_id[33] = "";
		struct str id = journal_field(api, j, "_BOOT_ID");
		if (id.n == 32) {
			memcpy(boot_id, id.p, 32);
			out.boot_id = (struct str){ boot_id, 32 };
		}
		out.text = journal_field(api, j, "MESSAGE");
		if (out.text.n)
			v->record(v->ctx, name, &out);
	}
	v->record(v->ctx, NULL, NULL);
}

/** The boots in the journal, newest last, by walking back from its end one boot at a time. */
static size_t journal_boot_list(const struct journal_api *api, sd_journal *j, sd_id128_t *boots, size_t max)
{
	size_t n = 0;
	api->flush_matches(j);
	api->add_match(j, "_TRANSPORT=kernel", 0);
	api->seek_tail(j);
	while (n < max && api->previous(j) > 0) {
		uint64_t usec;
		sd_id128_t boot;
		if (api->get_monotonic(j, &usec, &boot) < 0)
			break;
		if (n && !memcmp(&boots[n - 1], &boot, sizeof(boot)))
			break; // it does not go back any further
		boots[n++] = boot;
		// To the first message of this boot, then one back.
		api->seek_monotonic(j, boot, 0);
		if (api->next(j) <= 0)
			break;
	}
	for (size_t i = 0; i < n / 2; i++) {
		sd_id128_t swap = boots[i];
		boots[i] = boots[n - 1 - i];
		boots[n - 1 - i] = swap;
	}
	return n;
}

enum { BOOTS_MAX = 512 };

static struct uh_error *journal_open(const struct journal_api *api, const char *directory, sd_journal **ret)
{
	int r = directory ? api->open_directory(ret, directory, 0) : api->open(ret, SD_JOURNAL_LOCAL_ONLY);
	if (r < 0)
		return uh_error_os(-r, "the journal%s%s", directory ? " in " : "", directory ? directory : "");
	return NULL;
}

int source_journal_boots(const char *directory)
{
	struct journal_api api;
	sd_journal *j;
	sd_id128_t boots[BOOTS_MAX];
	size_t n = 0;
	struct uh_error *err = journal_load(&api);
	if (!err)
		err = journal_open(&api, directory, &j);
	if (!err) {
		n = journal_boot_list(&api, j, boots, BOOTS_MAX);
		api.close(j);
	}
	uh_error_free(err);
	journal_unload(&api);
	return (int)n;
}

static struct uh_error *journal_one_boot(const struct journal_api *api, sd_journal *j, int boot, const struct source_visitor *v)
{
	sd_id128_t boots[BOOTS_MAX];
	size_t n = journal_boot_list(api, j, boots, BOOTS_MAX);
	if (!n)
		return uh_error_new(
			"the journal holds no kernel messages that this user may read; try as root, or with the group "
			"systemd-journal");
	if (boot > 0 || (size_t)-boot >= n)
		return uh_error_new("the journal knows %zu boots; there is no boot %d", n, boot);
	struct text match = { 0 };
	sd_id128_t id = boots[n - 1 - (size_t)-boot];
	text_printf(&match, "_BOOT_ID=");
	for (int i = 0; i < 16; i++)
		text_printf(&match, "%02x", id.bytes[i]);
	api->flush_matches(j);
	api->add_match(j, "_TRANSPORT=kernel", 0);
	api->add_match(j, match.p, 0);
	api->seek_head(j);
	char name[64];
	snprintf(name, sizeof(name), "journal (boot %d)", boot);
	journal_records(api, j, name, v);
	text_free(&match);
	return NULL;
}

struct uh_error *source_journal(const char *directory, int boot, const struct source_visitor *v)
{
	struct journal_api api;
	sd_journal *j;
	struct uh_error *err = journal_load(&api);
	if (!err)
		err = journal_open(&api, directory, &j);
	if (!err) {
		err = journal_one_boot(&api, j, boot, v);
		api.close(j);
	}
	journal_unload(&api);
	return err;
}

struct uh_error *source_journal_file(const char *path, const struct source_visitor *v)
{
	struct journal_api api;
	sd_journal *j;
	const char *paths[] = { path, NULL };
	struct uh_error *err = journal_load(&api);
	if (!err) {
		int r = api.open_files(&j, paths, 0);
		if (r < 0)
			err = uh_error_os(-r, "%s", path);
	}
	if (!err) {
		api.add_match(j, "_TRANSPORT=kernel", 0);
		api.seek_head(j);
		journal_records(&api, j, path, v);
		api.close(j);
	}
	journal_unload(&api);
	return err;
}

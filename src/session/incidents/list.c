// unhang incidents: what the watch stored, and whether it still watches.
#include <time.h>
#include <unistd.h>

#include "base/door/door.h"
#include "base/save.h"
#include "evidence/documents/document.h"
#include "session/session.h"
#include "store/store.h"
#include "watch/watch.h"

/** What the watch wrote last of itself. false: it wrote nothing. */
static bool read_said(const char *run_dir, struct arena *a, struct watch_said *ret)
{
	enum { STATE_MOST = 4 << 20 };
	struct str text;
	struct tm tm = { 0 };
	const char *path = arena_printf(a, "%s/state.json", run_dir).p;
	struct uh_error *err = named_read(&(struct named){ .path = path }, STATE_MOST, a, &text, NULL);
	json_t *root = err ? NULL : json_loadb(text.p, text.n, 0, NULL);
	uh_error_free(err);
	*ret = (struct watch_said){ .valid_until = arena_str(a, document_text(root, "valid_until")),
				    .unread = arena_str(a, document_text(root, "log_unread")),
				    .uncounted = arena_str(a, document_text(root, "progress_unread")) };
	json_decref(root);
	if (!ret->valid_until.n || !strptime(arena_z(a, ret->valid_until), "%Y-%m-%dT%H:%M:%SZ", &tm))
		return false;
	ret->over = timegm(&tm) <= time(NULL);
	return true;
}

static void show_list(const struct uh_incidents_options *o, struct stored_list *l, const struct watch_said *said, FILE *out)
{
	size_t n = 0;
	for (size_t i = 0; i < l->list.len; i++)
		if (!o->open || !str_is(l->list.data[i]->state, "closed"))
			l->list.data[n++] = l->list.data[i];
	report_incidents(l->list.data, n, said, o, out);
}

struct uh_error *uh_session_add_incident(struct uh_session *s, const char *state_dir, const char *id)
{
	struct arena a = { 0 };
	const char *directory = absolute_path(&a, state_dir ? state_dir : STATE_DIR);
	struct stored one;
	struct uh_error *err = store_load(directory, str_z(id), &a, &one);
	const char *bundle = err ? NULL : arena_printf(&a, "%s/" STORE_BUNDLE, store_path(&a, directory, str_z(id))).p;
	if (bundle && access(bundle, F_OK))
		err = uh_error_new("incident %s has no bundle to explain", id);
	if (!err)
		uh_session_add_path(s, bundle);
	arena_free(&a);
	return err;
}

struct uh_error *uh_incidents(const struct uh_incidents_options *o, FILE *out)
{
	struct arena a = { 0 };
	const char *directory = absolute_path(&a, o->state_dir ? o->state_dir : STATE_DIR);
	struct stored_list all;
	enum { TEXT_MOST = 4 << 20 };
	struct uh_error *err;
	struct watch_said said;
	const char *run_dir = o->run_dir   ? o->run_dir :
			      o->state_dir ? NULL :
					     RUN_DIR; // of another place nobody knows the watch
	const struct watch_said *heard = run_dir && read_said(run_dir, &a, &said) ? &said : NULL;
	if (!o->id) {
		err = store_list(directory, &all);
		if (!err && !o->json && !heard && !store_begun(directory))
			report_no_store(directory, o, out);
		else if (!err)
			show_list(o, &all, heard, out);
		stored_list_free(&all);
		arena_free(&a);
		return err;
	}
	struct stored one;
	struct incident_shown shown = { .stored = &one, .directory = store_path(&a, directory, str_z(o->id)), .said = heard };
	err = store_load(directory, str_z(o->id), &a, &one);
	const char *text = arena_printf(&a, "%s/" STORE_TEXT, shown.directory).p;
	if (!err) // an incident without a bundle has none
		uh_error_free(named_read(&(struct named){ .path = text }, TEXT_MOST, &a, &shown.diagnosis, NULL));
	if (!err)
		report_incident(&shown, o, out);
	arena_free(&a);
	return err;
}

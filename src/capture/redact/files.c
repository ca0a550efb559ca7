// Redacts what was saved, file by file, before it is packed. A child does it, without rights: what it takes apart was written by strangers. It
// opens each file, and what takes its place, while it still has rights.
#include "capture/redact/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "capture/steps.h"

enum { REDACT_MS = 300000, ANSWER_MOST = 16 << 20, ITEMS_MOST = 1 << 16 };

/** One that is open before the rights are put down: what was saved, and what takes its place. */
struct redact_open {
	int from;
	struct item_file to;
};

struct redact_files {
	const struct taking *capture;
	struct redaction redaction;
	struct arena arena;
	struct partial_names names;
	struct redact_open *opened; // in the child: each of them
};

static void redact_files_free(struct redact_files *r)
{
	vec_free(&r->names.list);
	arena_free(&r->arena);
}

static void redact_file_free(struct redact_file *f) { cleanup_free(&f->bytes); }

/** Whole, since a name may stand anywhere. A capture bounds the size of an item. */
static bool load_saved(int fd, struct str name, struct redact_file *ret)
{
	struct stat st;
	*ret = (struct redact_file){ .name = name };
	if (fstat(fd, &st))
		return false;
	ret->bytes = mem_large((size_t)st.st_size + 1);
	while (ret->n < (size_t)st.st_size) {
		ssize_t n = pread(fd, ret->bytes + ret->n, (size_t)st.st_size - ret->n, (off_t)ret->n);
		if (n <= 0)
			break;
		ret->n += (size_t)n;
	}
	return true;
}

// --- the child ---

/** What went wrong; NULL. */
static const char *open_for_redaction(struct redact_files *r)
{
	partial_allow_files();
	r->opened = mem_alloc((r->names.list.len + 1) * sizeof(*r->opened));
	for (size_t i = 0; i < r->names.list.len; i++) {
		struct redact_open *o = &r->opened[i];
		o->from = openat(r->capture->dir, r->names.list.data[i].p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (o->from < 0 || !item_create(r->capture, r->names.list.data[i].p, &o->to))
			return strerror(errno);
	}
	return child_put_down(CHILD_REDACT) ? NULL : "it could not put its rights down";
}

static bool replace_file(struct redact_files *r, const struct redact_file *f, struct item_file *item)
{
	_cleanup_text_ struct text to = { 0 };
	redaction_replace(&r->redaction, f, &to);
	return item_write(item, text_str(&to)) && item_close(item);
}

/** First all names are found, then those that evidence needs are held, then what is left is replaced: each file is read three times, since
 * all of them together may be more than the memory has. */
enum redact_pass { REDACT_FIND, REDACT_HOLD, REDACT_REPLACE };

static const char *each_file(struct redact_files *r, enum redact_pass pass)
{
	bool held = false;
	for (size_t i = 0; i < r->names.list.len; i++) {
		_cleanup_(redact_file_free) struct redact_file f = { 0 };
		if (!load_saved(r->opened[i].from, r->names.list.data[i], &f))
			return strerror(errno);
		if (pass == REDACT_FIND)
			redaction_find(&r->redaction, &f);
		else if (pass == REDACT_HOLD)
			held |= redaction_hold(&r->redaction, r->capture->options->know, &f);
		else if (!replace_file(r, &f, &r->opened[i].to))
			return strerror(errno);
	}
	if (pass == REDACT_FIND || held)
		redact_ready(&r->redaction.redactor);
	return NULL;
}

// What the manifest is to say.
struct redacted_item {
	struct str reason, what;
};
struct redacted {
	struct str why; // it failed; empty
	struct str host, kernel;
	struct redacted_item *items;
	size_t nitems;
	struct manifest_replaced *counts;
	size_t ncounts;
};
static const struct wire_field item_fields[] = {
	WIRE_TEXT(struct redacted_item, reason),
	WIRE_TEXT(struct redacted_item, what),
};
static const struct wire_kind item_kind = WIRE_KIND('i', struct redacted_item, item_fields);
static const struct wire_field count_fields[] = {
	WIRE_Z(struct manifest_replaced, kind),
	WIRE_NUMBER(struct manifest_replaced, names, UINT64_MAX),
	WIRE_NUMBER(struct manifest_replaced, places, UINT64_MAX),
};
static const struct wire_kind count_kind = WIRE_KIND('c', struct manifest_replaced, count_fields);
static const struct wire_field redacted_fields[] = {
	WIRE_TEXT(struct redacted, why),
	WIRE_TEXT(struct redacted, host),
	WIRE_TEXT(struct redacted, kernel),
	WIRE_LIST(struct redacted, items, nitems, &item_kind, ITEMS_MOST),
	WIRE_LIST(struct redacted, counts, ncounts, &count_kind, REDACT_KINDS),
};
static const struct wire_kind redacted_kind = WIRE_KIND('r', struct redacted, redacted_fields);

/** What the manifest says has gone through the same terms as the evidence, so that both have the same counters. */
static struct str redact_one(struct redaction *r, struct arena *a, struct str text, enum allow_form form)
{
	_cleanup_text_ struct text to = { 0 };
	redaction_replace_text(r, text, form, 0, &to);
	return arena_str(a, text_str(&to));
}

/** Counts and texts go back to the capture as one answer; the files themselves get their names there. */
static void redact_in_child(const void *asked, struct arena *a, void *answer)
{
	struct redact_files r = *(const struct redact_files *)asked;
	struct redacted *said = answer;
	const struct manifest *m = r.capture->manifest;
	struct str host = m->host, first = str_split(&host, '.');
	struct allowed allowed;
	prctl(PR_SET_NAME, "unhang-redact");
	cleanup_close(&(int){ r.capture->lock });
	const char *why = open_for_redaction(&r);
	allow_begin(&allowed, r.capture->options->know, &r.redaction.redactor);
	r.redaction.redactor.words = &allowed;
	r.redaction.allowed = r.capture->options->known_only ? &allowed : NULL;
	redact_add(&r.redaction.redactor, REDACT_HOST, m->host);
	redact_add(&r.redaction.redactor, REDACT_HOST, first);
	for (enum redact_pass pass = REDACT_FIND; !why && pass <= REDACT_REPLACE; pass++)
		why = each_file(&r, pass);
	said->why = str_z(why);
	if (why)
		return;
	said->host = redact_one(&r.redaction, a, m->host, ALLOW_WORDS);
	said->kernel = redact_one(&r.redaction, a, m->kernel, ALLOW_VALUES);
	said->nitems = m->items.len;
	said->items = arena_alloc(a, m->items.len * sizeof(*said->items) + 1);
	for (size_t i = 0; i < m->items.len; i++) { // unhang's own words
		said->items[i].reason = redact_one(&r.redaction, a, m->items.data[i].reason, ALLOW_ALL);
		said->items[i].what = redact_one(&r.redaction, a, m->items.data[i].what, ALLOW_ALL);
	}
	said->ncounts = REDACT_KINDS;
	said->counts = arena_alloc(a, sizeof(r.redaction.redactor.counts));
	memcpy(said->counts, r.redaction.redactor.counts, sizeof(r.redaction.redactor.counts));
}

// --- the parent ---

/** Puts what is redacted in the place of what was saved, or drops it. */
static struct uh_error *name_redacted(const struct taking *c, const struct redact_files *r, struct uh_error *err)
{
	char name[264];
	for (size_t i = 0; i < r->names.list.len; i++) {
		if (!err && !item_name(c, r->names.list.data[i].p))
			err = uh_error_os(errno, "%s", r->names.list.data[i].p);
		if (err && snprintf(name, sizeof(name), "%s.new", r->names.list.data[i].p) < (int)sizeof(name))
			unlinkat(c->dir, name, 0);
	}
	return err;
}

struct uh_error *redact_partial(struct taking *c, int64_t until)
{
	_cleanup_(redact_files_free) struct redact_files r = { .capture = c };
	struct manifest *m = c->manifest;
	if (!partial_items(c->dir, &r.arena, &r.names))
		return uh_error_os(errno, "what was saved could not be redacted");
	size_t n = 0;
	for (size_t i = 0; i < r.names.list.len; i++) // the manifest is written anew
		if (!str_is(r.names.list.data[i], BUNDLE_MANIFEST))
			r.names.list.data[n++] = r.names.list.data[i];
	r.names.list.len = n;
	struct redacted said;
	const struct child_task task = { CHILD_REDACT, redact_in_child, &redacted_kind, until ? until : now_ms() + REDACT_MS,
					 ANSWER_MOST };
	const enum child_end end = child_call(&task, &r, c->arena, &said);
	struct uh_error *err = NULL;
	if (end == CHILD_REFUSED)
		err = uh_error_os(errno, "nobody could redact what was saved");
	else if (said.why.n)
		err = uh_error_new("what was saved could not be redacted: " STR_FMT, STR_ARG(said.why));
	else if (end != CHILD_GOOD || said.nitems != m->items.len || said.ncounts != REDACT_KINDS)
		err = uh_error_new("what was saved could not be redacted%s", end == CHILD_LATE ? " in time" : "");
	err = name_redacted(c, &r, err);
	if (err)
		return err;
	m->host = said.host;
	m->kernel = said.kernel;
	for (size_t i = 0; i < m->items.len; i++) {
		m->items.data[i].reason = said.items[i].reason;
		m->items.data[i].what = said.items[i].what;
	}
	m->redacted = true;
	m->replaced = said.counts;
	m->nreplaced = REDACT_KINDS;
	return NULL;
}

// What the files of a bundle hold, and how each is redacted.
#include "capture/redact/evidence.h"

#include <stdlib.h>

#include "source/tape/bundle.h"
#include "source/tape/format.h"

// --- what an answer is ---

enum answer_form { FORM_TEXT, FORM_COMMAND, FORM_BYTES };

/** Memory and registers are bytes whose places matter; so is code. */
static enum answer_form form_of(int kind, struct str path)
{
	static const char *const bytes[] = { "/proc/*/mem", "/sys/kernel/debug/dri/*", "/dev/dri/*", "*/config", "code *",
					     "name *" };
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		if (str_glob(str_z(bytes[i]), path) && (kind != PROBE_FILE || i == 0))
			return FORM_BYTES;
	bool command = str_ends(path, S("/cmdline")) || str_ends(path, S("/environ")) || str_is(path, "environment");
	return command                                                                             ? FORM_COMMAND :
	       kind == PROBE_FILE || kind == PROBE_LIST || kind == PROBE_LINK || kind == TAPE_SAID ? FORM_TEXT :
												     FORM_BYTES;
}

// --- finding ---

/** Texts in the middle of bytes: from eight letters on. */
static void find_in_bytes(struct redactor *r, struct str bytes)
{
	enum { LEAST = 8 };
	for (size_t i = 0, n; i < bytes.n; i += n + 1) {
		for (n = 0; i + n < bytes.n && bytes.p[i + n] >= ' ' && bytes.p[i + n] < 127;)
			n++;
		if (n >= LEAST)
			redact_find(r, (struct str){ bytes.p + i, n }, false);
	}
}

/** With spaces in place of the NULs: what an option of one letter means depends on the program. */
static void find_in_line(struct redactor *r, struct str data)
{
	struct text line = { 0 };
	text_add(&line, data);
	for (size_t i = 0; i < line.n; i++)
		line.p[i] = line.p[i] ? line.p[i] : ' ';
	redact_find(r, text_str(&line), true);
	text_free(&line);
}

/** Arguments and variables end with a NUL. An option may have its value behind it. */
static void find_in_command(struct redaction *r, struct str data)
{
	struct str all = data, before = { 0 };
	while (all.n) {
		struct str one = str_split(&all, 0), value = one, name = str_split(&value, '=');
		if (name.n < one.n)
			redact_value(&r->redactor, name, value);
		else if (before.n && before.p[0] == '-')
			redact_value(&r->redactor, before, one);
		before = one;
		redact_find(&r->redactor, one, true);
	}
	find_in_line(&r->redactor, data);
}

enum { FIRST_USER = 1000, NOBODY = 65534 };

/** The number of a group; -1: there is none. */
static int64_t group_of(struct str groups, struct str name)
{
	while (groups.n) {
		struct str line = str_split(&groups, '\n');
		int64_t id;
		if (!str_eq(str_split(&line, ':'), name))
			continue;
		str_split(&line, ':');
		return str_number(str_split(&line, ':'), &id) ? id : -1;
	}
	return -1;
}

static bool is_system(int64_t group) { return group >= 0 && (group < FIRST_USER || group >= NOBODY); }

/** `render:x:105:alice,bob`: members that are no part of the system, and groups of one user. */
static void find_in_groups(struct redaction *r, struct str text)
{
	struct str rest = text;
	while (rest.n) {
		struct str line = str_split(&rest, '\n'), group = str_split(&line, ':');
		if (group.n && !is_system(group_of(text, group)))
			redact_add(&r->redactor, REDACT_USER, group);
		str_split(&line, ':');
		str_split(&line, ':');
		while (line.n) {
			struct str member = str_split(&line, ',');
			if (!is_system(group_of(text, member)))
				redact_add(&r->redactor, REDACT_USER, member);
		}
	}
}

/** Files that hold a serial number and nothing else. */
static bool is_serial(struct str path)
{
	static const char *const files[] = { "*/serial_number", "*/unique_id", "/sys/class/dmi/*serial", "/sys/class/dmi/*_asset_tag",
					     "/sys/class/dmi/*uuid", "/sys/block/*/serial", "/sys/block/*/wwid" };
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (str_glob(str_z(files[i]), path))
			return true;
	return false;
}

static void find_in_answer(struct redaction *r, const struct tape_probe *p, struct str path)
{
	enum answer_form form = form_of(p->key.p[0], path);
	if (is_serial(path))
		redact_add(&r->redactor, REDACT_SERIAL, str_trim(p->data));
	if (str_is(path, "user"))
		redact_add(&r->redactor, REDACT_USER, p->data);
	if (str_is(path, "/etc/group"))
		find_in_groups(r, p->data);
	if (form == FORM_COMMAND)
		find_in_command(r, p->data);
	else if (form == FORM_TEXT)
		redact_find(&r->redactor, p->data, false);
	else
		find_in_bytes(&r->redactor, p->data);
}

/** A track being read: its paths by number. */
struct redact_track {
	struct str left;
	VEC(struct str) paths;
};

static struct str path_of(const struct redact_track *t, const struct tape_probe *p)
{
	return p->path < t->paths.len ? t->paths.data[p->path] : (struct str){ 0 };
}

static void find_in_track(struct redaction *r, struct str bytes)
{
	struct redact_track t = { .left = str_from(bytes, sizeof(TAPE_HEAD) - 1) };
	enum tape_type type;
	struct str record;
	struct tape_probe p;
	while (tape_take_record(&t.left, &type, &record)) {
		if (type == TAPE_PATH) {
			vec_push(&t.paths, record);
			redact_find(&r->redactor, record, false);
		} else if (type == TAPE_PROBE && tape_take_probe(record, &p)) {
			find_in_answer(r, &p, path_of(&t, &p));
		} else if (type == TAPE_LINE) {
			redact_find(&r->redactor, record, false);
		}
	}
	vec_free(&t.paths);
}

/** Whether a line that knowledge recognises is the same to it without the names. */
static bool is_same(struct redaction *r, const struct know *k, struct str line)
{
	struct match before, after;
	struct text now = { 0 };
	if (!know_match(k, line, &before))
		return true;
	redact_text(&r->redactor, line, false, &now);
	const bool same = know_match(k, text_str(&now), &after) && match_signature(&after) == match_signature(&before);
	text_free(&now);
	return same;
}

static bool hold_in_track(struct redaction *r, const struct know *k, struct str bytes)
{
	struct str left = str_from(bytes, sizeof(TAPE_HEAD) - 1), record;
	enum tape_type type;
	bool any = false;
	while (tape_take_record(&left, &type, &record)) {
		struct tape_cursor c = { record };
		tape_take_bytes(&c, 16);
		tape_take_text(&c);
		if (type == TAPE_LINE && !is_same(r, k, c.left))
			any |= redact_hold(&r->redactor, c.left);
	}
	return any;
}

static bool is_track(const struct redact_file *f)
{
	return str_starts(f->name, S(BUNDLE_TRACKS)) && str_starts((struct str){ f->bytes, f->n }, S(TAPE_HEAD));
}

void redaction_find(struct redaction *r, const struct redact_file *f)
{
	struct str bytes = { f->bytes, f->n };
	bool command = str_starts(f->name, S(BUNDLE_TOOLS)) || str_is(f->name, "processes.txt");
	if (is_track(f))
		find_in_track(r, bytes);
	else
		redact_find(&r->redactor, bytes, command);
}

bool redaction_hold(struct redaction *r, const struct know *k, const struct redact_file *f)
{
	struct manifest_replaced counts[REDACT_KINDS];
	memcpy(counts, r->redactor.counts, sizeof(counts));
	const bool any = is_track(f) && hold_in_track(r, k, (struct str){ f->bytes, f->n });
	memcpy(r->redactor.counts, counts, sizeof(counts)); // nothing was replaced yet
	return any;
}

// --- replacing ---

void redaction_replace_text(struct redaction *r, struct str text, enum allow_form form, char end, struct text *to)
{
	struct text found = { 0 };
	redact_text(&r->redactor, text, false, r->allowed ? &found : to);
	if (r->allowed)
		allow_text(r->allowed, form, text_str(&found), end, to);
	text_free(&found);
}

/** What the kernel alone writes: the names of its files, and numbers in them. Programs' names stand in what drivers tell for debugging. */
static bool is_kernels(struct str path)
{
	static const char *const of_kernel[] = { "/sys/class/net/*", "/sys/block/*", "/sys/class/dmi/*", "/sys/fs/*" };
	for (size_t i = 0; i < sizeof(of_kernel) / sizeof(of_kernel[0]); i++)
		if (str_glob(str_z(of_kernel[i]), path))
			return false;
	return str_starts(path, S("/sys/"));
}

static void replace_bytes(struct redaction *r, struct str bytes, struct text *to)
{
	struct text found = { 0 };
	redact_text(&r->redactor, bytes, true, r->allowed ? &found : to);
	if (r->allowed)
		allow_bytes(r->allowed, text_str(&found), to);
	text_free(&found);
}

/** A path is also the key of what memory names: as long as it was. */
static void replace_path(struct redaction *r, struct str path, struct text *to)
{
	struct text found = { 0 };
	if (is_kernels(path) || str_starts(path, S("/proc/")))
		redact_kernel_text(&r->redactor, path, true, r->allowed ? &found : to);
	else
		redact_text(&r->redactor, path, true, r->allowed ? &found : to);
	if (r->allowed && str_starts(path, S("/")))
		allow_path(r->allowed, text_str(&found), to);
	else if (r->allowed)
		allow_bytes(r->allowed, text_str(&found), to);
	text_free(&found);
}

static void replace_probe(struct redaction *r, struct str record, const struct tape_probe *p, struct str path, struct text *to)
{
	size_t start = tape_open_record(to, TAPE_PROBE), head = (size_t)(p->data.p - record.p);
	const int kind = p->key.p[0];
	text_add(to, str_cut(record, head));
	if (form_of(kind, path) == FORM_BYTES)
		replace_bytes(r, p->data, to);
	else if (is_kernels(path) && !str_starts(path, S("/sys/kernel/debug/")))
		redact_kernel_text(&r->redactor, p->data, false, to);
	else
		redaction_replace_text(r, p->data, allow_form_of(path, kind == PROBE_LIST || kind == PROBE_LINK), 0, to);
	tape_close_record(to, start);
}

static void replace_record(struct redaction *r, enum tape_type type, struct str record, struct text *to)
{
	size_t start = tape_open_record(to, type);
	if (type == TAPE_PATH) {
		replace_path(r, record, to);
	} else if (type == TAPE_LINE) {
		struct tape_cursor c = { record };
		tape_take_bytes(&c, 16);
		tape_take_text(&c);
		text_add(to, str_cut(record, record.n - c.left.n));
		redaction_replace_text(r, c.left, ALLOW_LOG, 0, to);
	} else {
		text_add(to, record);
	}
	tape_close_record(to, start);
}

static void replace_track(struct redaction *r, struct str bytes, struct text *to)
{
	struct redact_track t = { .left = str_from(bytes, sizeof(TAPE_HEAD) - 1) };
	enum tape_type type;
	struct str record;
	struct tape_probe p;
	text_add(to, S(TAPE_HEAD));
	for (size_t at = bytes.n - t.left.n; tape_take_record(&t.left, &type, &record); at = bytes.n - t.left.n) {
		struct tape_last last;
		if (type == TAPE_PATH)
			vec_push(&t.paths, record);
		if (type == TAPE_PROBE && tape_take_probe(record, &p))
			replace_probe(r, record, &p, path_of(&t, &p), to);
		else if (type == TAPE_END && tape_take_last(record, str_cut(bytes, at), &last)) // what was whole stays so
			tape_put_last(to, &(struct tape_last){ last.id, tape_sum(0, text_str(to)) });
		else
			replace_record(r, type, record, to);
	}
	vec_free(&t.paths);
}

void redaction_replace(struct redaction *r, const struct redact_file *f, struct text *to)
{
	struct str bytes = { f->bytes, f->n };
	if (is_track(f)) {
		replace_track(r, bytes, to);
	} else if (memchr(f->bytes, 0, f->n)) { // what has NULs is no text
		if (r->allowed)
			allow_recording(r->allowed, f->bytes, f->n);
		replace_bytes(r, bytes, to);
		redact_seal_recording(f->bytes, to->p, f->n);
	} else {
		redaction_replace_text(r, bytes, allow_form_of_member(f->name), '\n', to);
	}
}

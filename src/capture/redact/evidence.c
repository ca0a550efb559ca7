// What the files of a bundle hold, and how each is redacted: answers of the machine by the path that was asked for, lines of logs, recordings,
// texts, and bytes whose places matter.
#include "capture/redact/evidence.h"

#include "base/cleanup.h"
#include "recorder/format.h"
#include "source/tape/bundle.h"
#include "source/tape/format.h"

// --- what an answer is ---

enum answer_form { FORM_TEXT, FORM_COMMAND, FORM_BYTES };

/** Memory and registers are bytes whose places matter; so is code. */
static enum answer_form answer_form_of(int kind, struct str path)
{
	static const char memory[] = "/proc/*/mem",
			  bytes[] = "/proc/*/mem|/sys/kernel/debug/dri/*|/dev/dri/*|*/config|code *|name *";
	if (str_among(path, STR_MATCHES, kind == PROBE_FILE ? memory : bytes).n)
		return FORM_BYTES;
	if (str_among(path, STR_MATCHES, "*/cmdline|*/environ|environment").n)
		return FORM_COMMAND;
	return kind == PROBE_FILE || kind == PROBE_LIST || kind == PROBE_LINK || kind == TAPE_SAID ? FORM_TEXT : FORM_BYTES;
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

/** Arguments and variables end with a NUL. An option may have its value behind it. What an option of one letter means depends on the program,
 * so all of it is searched once more as a line, with spaces in place of the NULs. */
static void find_in_command(struct redactor *r, struct str data)
{
	struct str all = data, before = { 0 };
	_cleanup_text_ struct text line = { 0 };
	while (all.n) {
		struct str one = str_split(&all, 0), value = one, name = str_split(&value, '=');
		if (name.n < one.n)
			redact_value(r, name, value);
		else if (before.n && before.p[0] == '-')
			redact_value(r, before, one);
		before = one;
		redact_find(r, one, true);
	}
	text_add(&line, data);
	for (size_t i = 0; i < line.n; i++)
		line.p[i] = line.p[i] ? line.p[i] : ' ';
	redact_find(r, text_str(&line), true);
}

/** Whether a group is the system's, by its number in @groups. */
static bool is_system_group(struct str groups, struct str name)
{
	enum { FIRST_USER = 1000, NOBODY = 65534 };
	while (groups.n) {
		struct str line = str_split(&groups, '\n');
		int64_t id;
		if (!str_eq(str_split(&line, ':'), name))
			continue;
		str_split(&line, ':');
		return str_number(str_split(&line, ':'), &id) && id >= 0 && (id < FIRST_USER || id >= NOBODY);
	}
	return false;
}

/** `render:x:105:alice,bob`: members that are no part of the system, and groups of one user. */
static void find_in_groups(struct redactor *r, struct str text)
{
	struct str rest = text;
	while (rest.n) {
		struct str line = str_split(&rest, '\n'), group = str_split(&line, ':');
		if (group.n && !is_system_group(text, group))
			redact_add(r, REDACT_USER, group);
		str_split(&line, ':');
		str_split(&line, ':');
		while (line.n) {
			struct str member = str_split(&line, ',');
			if (!is_system_group(text, member))
				redact_add(r, REDACT_USER, member);
		}
	}
}

/** What an answer is follows from the path that was asked for; its bytes are a stranger's, and decide nothing. */
static void find_in_answer(struct redactor *r, const struct tape_probe *p, struct str path)
{
	// They hold a serial number and nothing else.
	static const char serials[] =
		"*/serial_number|*/unique_id|/sys/class/dmi/*serial|/sys/class/dmi/*_asset_tag|/sys/class/dmi/*uuid|"
		"/sys/block/*/serial|/sys/block/*/wwid";
	const enum answer_form form = answer_form_of(p->key.p[0], path);
	if (str_among(path, STR_MATCHES, serials).n)
		redact_add(r, REDACT_SERIAL, str_trim(p->data));
	if (str_is(path, "user"))
		redact_add(r, REDACT_USER, p->data);
	if (str_is(path, "/etc/group"))
		find_in_groups(r, p->data);
	if (form == FORM_COMMAND)
		find_in_command(r, p->data);
	else if (form == FORM_TEXT)
		redact_find(r, p->data, false);
	else
		find_in_bytes(r, p->data);
}

/** The paths of a track, which its answers name by number. */
typedef VEC(struct str) track_paths;

static struct str answer_path(const track_paths *paths, const struct tape_probe *p)
{
	return p->path < paths->len ? paths->data[p->path] : (struct str){ 0 };
}

/** The paths of a track are searched too: they have names of users and of containers in them. */
static void find_in_track(struct redactor *r, struct str bytes)
{
	struct str left = str_from(bytes, sizeof(TAPE_HEAD) - 1), record;
	_cleanup_vec_ track_paths paths = { 0 };
	enum tape_type type;
	struct tape_probe p;
	while (tape_take_record(&left, &type, &record)) {
		if (type == TAPE_PATH)
			vec_push(&paths, record);
		if (type == TAPE_PATH || type == TAPE_LINE)
			redact_find(r, record, false);
		else if (type == TAPE_PROBE && tape_take_probe(record, &p))
			find_in_answer(r, &p, answer_path(&paths, &p));
	}
}

/** The text of a line in a track, behind its times and its name. */
static struct str line_of(struct str record)
{
	struct tape_cursor c = { record };
	tape_take_bytes(&c, 16);
	tape_take_text(&c);
	return c.left;
}

/** Whether a line that knowledge recognises is the same to it without the names. */
static bool stays_same(struct redaction *r, const struct know *k, struct str line)
{
	struct match before, after;
	_cleanup_text_ struct text now = { 0 };
	if (!know_match(k, line, &before))
		return true;
	redact_text(&r->redactor, line, false, &now);
	return know_match(k, text_str(&now), &after) && match_signature(&after) == match_signature(&before);
}

/** Somebody may call his program `timeout`, or his machine `ring`. If that went everywhere, the driver's messages would be gone with it. */
static bool hold_in_track(struct redaction *r, const struct know *k, struct str bytes)
{
	struct str left = str_from(bytes, sizeof(TAPE_HEAD) - 1), record;
	enum tape_type type;
	bool any = false;
	while (tape_take_record(&left, &type, &record)) {
		const struct str line = type == TAPE_LINE ? line_of(record) : (struct str){ 0 };
		if (line.n && !stays_same(r, k, line))
			any |= redact_hold(&r->redactor, line);
	}
	return any;
}

/** By what it begins with, not only by its name: a capture may have been killed before the head was written. */
static bool is_track(const struct redact_file *f)
{
	return str_starts(f->name, S(BUNDLE_TRACKS)) && str_starts((struct str){ f->bytes, f->n }, S(TAPE_HEAD));
}

void redaction_find(struct redaction *r, const struct redact_file *f)
{
	struct str bytes = { f->bytes, f->n };
	bool command = str_starts(f->name, S(BUNDLE_TOOLS)) || str_is(f->name, "processes.txt");
	if (is_track(f))
		find_in_track(&r->redactor, bytes);
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
	_cleanup_text_ struct text found = { 0 };
	redact_text(&r->redactor, text, false, r->allowed ? &found : to);
	if (r->allowed)
		allow_text(r->allowed, form, text_str(&found), end, to);
}

/** What the kernel alone writes: the names of its files, and numbers in them. Programs' names stand in what drivers tell for debugging. */
static bool is_kernels(struct str path)
{
	return str_starts(path, S("/sys/")) &&
	       !str_among(path, STR_BEGINS, "/sys/class/net/|/sys/block/|/sys/class/dmi/|/sys/fs/").n;
}

/** As many bytes as before: what stands behind them has its place, and offsets lead to it. */
static void replace_bytes(struct redaction *r, struct str bytes, struct text *to)
{
	_cleanup_text_ struct text found = { 0 };
	redact_text(&r->redactor, bytes, true, r->allowed ? &found : to);
	if (r->allowed)
		allow_bytes(r->allowed, text_str(&found), to);
}

/** A path is also the key of what memory names: as long as it was. */
static void replace_path(struct redaction *r, struct str path, struct text *to)
{
	_cleanup_text_ struct text found = { 0 };
	if (is_kernels(path) || str_starts(path, S("/proc/")))
		redact_kernel_text(&r->redactor, path, true, r->allowed ? &found : to);
	else
		redact_text(&r->redactor, path, true, r->allowed ? &found : to);
	if (r->allowed && str_starts(path, S("/")))
		allow_path(r->allowed, text_str(&found), to);
	else if (r->allowed)
		allow_bytes(r->allowed, text_str(&found), to);
}

/** The kernel's own files have names of hardware and numbers; only numbers of devices go from them. */
static void replace_answer(struct redaction *r, const struct tape_probe *p, struct str path, struct text *to)
{
	const int kind = p->key.p[0];
	if (answer_form_of(kind, path) == FORM_BYTES)
		replace_bytes(r, p->data, to);
	else if (is_kernels(path) && !str_starts(path, S("/sys/kernel/debug/")))
		redact_kernel_text(&r->redactor, p->data, false, to);
	else
		redaction_replace_text(r, p->data, allow_form_of(path, kind == PROBE_LIST || kind == PROBE_LINK), 0, to);
}

/** Record by record. The sum at the end is made anew, if the old one was right: what was torn stays known as torn. */
static void replace_track(struct redaction *r, struct str bytes, struct text *to)
{
	struct str left = str_from(bytes, sizeof(TAPE_HEAD) - 1), record;
	_cleanup_vec_ track_paths paths = { 0 };
	enum tape_type type;
	text_add(to, S(TAPE_HEAD));
	for (size_t at = bytes.n - left.n; tape_take_record(&left, &type, &record); at = bytes.n - left.n) {
		struct tape_last last;
		struct tape_probe p;
		if (type == TAPE_END && tape_take_last(record, str_cut(bytes, at), &last)) { // what was whole stays so
			tape_put_last(to, &(struct tape_last){ last.id, tape_sum(0, text_str(to)) });
			continue;
		}
		const size_t start = tape_open_record(to, type);
		if (type == TAPE_PATH) {
			vec_push(&paths, record);
			replace_path(r, record, to);
		} else if (type == TAPE_LINE) {
			const struct str line = line_of(record);
			text_add(to, str_cut(record, record.n - line.n));
			redaction_replace_text(r, line, ALLOW_LOG, 0, to);
		} else if (type == TAPE_PROBE && tape_take_probe(record, &p)) {
			text_add(to, str_cut(record, (size_t)(p.data.p - record.p)));
			replace_answer(r, &p, answer_path(&paths, &p), to);
		} else {
			text_add(to, record);
		}
		tape_close_record(to, start);
	}
}

// --- recordings ---

static bool has_recording_magic(const char *bytes, size_t n)
{
	return n >= RECORDING_EXTENTS_AT + RECORDING_EXTENTS * sizeof(struct rec_extent) &&
	       !memcmp(bytes, RECORDING_MAGIC, sizeof(RECORDING_MAGIC) - 1);
}

/** A program's name stays if it is known (python3); else it is a person's work. */
static void allow_name(const struct allowed *a, char *name, size_t room)
{
	if (!allow_known(a, (struct str){ name, strnlen(name, room) }))
		memset(name, 0, room);
}

/** The extent at @index; false: it is not within the file, or of another kind. */
static bool extent_at(const char *bytes, size_t n, size_t index, enum extent_kind kind, struct rec_extent *ret)
{
	memcpy(ret, bytes + RECORDING_EXTENTS_AT + index * sizeof(*ret), sizeof(*ret));
	return ret->kind == kind && ret->offset <= n && ret->size <= n - ret->offset && ret->head <= ret->size;
}

/** A program's first thread has the program's name. */
static void allow_threads(const struct allowed *a, char *bytes, size_t n)
{
	struct rec_extent e;
	for (size_t i = 0; i < RECORDING_EXTENTS; i++) {
		if (!extent_at(bytes, n, i, EXTENT_THREADS, &e) || e.stride < sizeof(struct rec_thread))
			continue;
		for (uint64_t at = e.head; e.size - at >= sizeof(struct rec_thread); at += e.stride) {
			allow_name(a, bytes + e.offset + at + offsetof(struct rec_thread, name),
				   sizeof(((struct rec_thread *)0)->name));
			if (e.stride > e.size - at)
				break;
		}
	}
}

void allow_recording(struct allowed *a, char *bytes, size_t n)
{
	struct rec_header h;
	if (!has_recording_magic(bytes, n))
		return;
	memcpy(&h, bytes, sizeof(h));
	memset(h.host, 0, sizeof(h.host));
	memset(h.command, 0, sizeof(h.command));
	memset(h.note, 0, sizeof(h.note));
	memset(h.dumps, 0, sizeof(h.dumps));
	memset(h.core, 0, sizeof(h.core));
	allow_name(a, h.program, sizeof(h.program));
	memcpy(bytes, &h, sizeof(h));
	allow_threads(a, bytes, n);
}

/** The entries of one log. What was torn before is not made whole: a reader ends there as before. */
static void seal_log(const char *before, char *bytes, uint64_t used)
{
	for (uint64_t at = 0; used - at >= sizeof(struct rec_entry);) {
		struct rec_entry e;
		memcpy(&e, before + at, sizeof(e));
		if (e.size < sizeof(e) || e.size % 8 || e.size > used - at)
			return;
		_cleanup_free_ uint64_t *words = mem_alloc(e.size);
		memcpy(words, before + at, e.size);
		const bool whole = rec_check(words, e.size / 8, at) == e.check;
		memcpy(words, bytes + at, e.size);
		e.check = rec_check(words, e.size / 8, at);
		if (!whole)
			return;
		memcpy(bytes + at + offsetof(struct rec_entry, check), &e.check, sizeof(e.check));
		at += e.size;
	}
}

void redact_seal_recording(const char *before, char *bytes, size_t n)
{
	struct rec_extent e;
	uint64_t used;
	if (!has_recording_magic(before, n))
		return;
	for (size_t i = 0; i < RECORDING_EXTENTS; i++) {
		if (!extent_at(before, n, i, EXTENT_LOG, &e) || e.size < sizeof(struct rec_log) || e.head < sizeof(used))
			continue;
		memcpy(&used, before + e.offset, sizeof(used));
		const uint64_t room = e.size - e.head, from = e.offset + e.head;
		seal_log(before + from, bytes + from, used < room ? used : room);
	}
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

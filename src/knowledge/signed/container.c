// Knowledge files in one signed file, and the one that is installed. It comes from a stranger until its signature was checked: each length
// is held against what is left before anything is taken.
#include "knowledge/signed/container.h"

#include <errno.h>
#include <stdio.h>
#include <zlib.h>

#include "base/base64.h"
#include "base/door/door.h"
#include "base/print.h"
#include "knowledge/know.h"

#define MAGIC "unhang-knowledge "
enum { NAME_MOST = 100, NOTE_MOST = 500, DATE_LETTERS = 10 };

struct container_reader {
	const char *path;
	struct str all, rest;
	struct uh_error *err; // the first one; then nothing more is read
};

static void container_refuse(struct container_reader *r, const char *what)
{
	if (!r->err)
		r->err = uh_error_new("%s: not a whole knowledge file: %s (at byte %zu)", r->path, what, r->all.n - r->rest.n);
}

/** What stands behind "@key " in the next line, which must be there. */
static struct str container_line(struct container_reader *r, const char *key)
{
	const char *end = r->rest.n ? memchr(r->rest.p, '\n', r->rest.n) : NULL;
	struct str line = { r->rest.p, end ? (size_t)(end - r->rest.p) : 0 };
	size_t n = strlen(key);
	char what[64];
	if (r->err)
		return S("");
	if (!end || line.n < n + 2 || memcmp(line.p, key, n) || line.p[n] != ' ') {
		snprintf(what, sizeof(what), "a line '%s' is missing", key);
		container_refuse(r, what);
		return S("");
	}
	r->rest = str_from(r->rest, line.n + 1);
	return str_from(line, n + 1);
}

/** A whole number as it is written: no sign, no zeros before it. */
static uint64_t container_number(struct container_reader *r, struct str s)
{
	uint64_t v = 0;
	bool good = s.n && s.n <= 18 && (s.p[0] != '0' || s.n == 1);
	for (size_t i = 0; i < s.n && good; i++) {
		good = char_digit(s.p[i]);
		v = v * 10 + (uint64_t)(s.p[i] - '0');
	}
	if (!good)
		container_refuse(r, "a number is expected");
	return good ? v : 0;
}

static bool good_date(struct str s)
{
	static const char form[] = "dddd-dd-dd";
	for (size_t i = 0; i < s.n && i < DATE_LETTERS; i++)
		if (form[i] == 'd' ? !char_digit(s.p[i]) : s.p[i] != form[i])
			return false;
	return s.n == DATE_LETTERS;
}

static bool good_note(struct str s) { return s.n <= NOTE_MOST && print_plain(s) == s.n && s.n == str_trim(s).n; }

/** Also the name of a file, should somebody unpack it. */
static bool good_name(struct str s)
{
	if (!str_ends(s, S(".know")) || s.n > NAME_MOST || !char_word(s.p[0]))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!char_word(s.p[i]) && s.p[i] != '-' && s.p[i] != '.')
			return false;
	return true;
}

const struct container_file *container_find(const struct container *c, struct str name)
{
	for (size_t i = 0; i < c->nfiles; i++)
		if (str_eq(c->files[i].name, name))
			return &c->files[i];
	return NULL;
}

/** `file NAME LENGTH`, then LENGTH bytes. The length says where they end, so nothing in them can be mistaken for another key. */
static void container_take_file(struct container_reader *r, struct container *c)
{
	struct str line = container_line(r, "file"), name = str_split(&line, ' ');
	uint64_t n = r->err ? 0 : container_number(r, line);
	if (!r->err && !good_name(name))
		container_refuse(r, "a file's name is not of letters, digits, '-', '_', '.', with '.know' at its end");
	else if (!r->err && container_find(c, name))
		container_refuse(r, "two files of one name");
	else if (!r->err && n > r->rest.n)
		container_refuse(r, "a file is longer than what is left");
	else if (!r->err && n && r->rest.p[n - 1] != '\n')
		container_refuse(r, "a file whose last line does not end");
	if (r->err)
		return;
	c->files[c->nfiles++] = (struct container_file){ name, str_cut(r->rest, (size_t)n) };
	r->rest = str_from(r->rest, (size_t)n);
}

static void read_head(struct container_reader *r, struct container *c)
{
	uint64_t schema = container_number(r, container_line(r, "unhang-knowledge"));
	if (!r->err && schema != CONTAINER_SCHEMA)
		r->err = uh_error_new("%s: schema %llu: this unhang reads %d%s", r->path, (unsigned long long)schema,
				      CONTAINER_SCHEMA, schema > CONTAINER_SCHEMA ? "; update unhang" : "");
	c->version = container_number(r, container_line(r, "version"));
	c->made = container_line(r, "made");
	if (!r->err && !good_date(c->made))
		container_refuse(r, "'made' is a date, YYYY-MM-DD");
	uint64_t blocks = container_number(r, container_line(r, "blocks"));
	if (!r->err && (blocks > CONTAINER_BLOCKS || !blocks))
		r->err = uh_error_new("%s: it has blocks of schema %llu: this unhang knows those up to %d; update unhang",
				      r->path, (unsigned long long)blocks, CONTAINER_BLOCKS);
	if (str_starts(r->rest, S("note ")))
		c->note = container_line(r, "note");
	if (!r->err && !good_note(c->note))
		container_refuse(r, "a note is one line of at most 500 characters of ASCII");
	struct str key = container_line(r, "key");
	if (!r->err && !base64_read(key, c->key, KEY_BYTES))
		container_refuse(r, "'key' is not a key");
}

static void read_end(struct container_reader *r, struct container *c)
{
	char sum[16];
	snprintf(sum, sizeof(sum), "%08lx", crc32_z(0, (const uint8_t *)r->all.p, r->all.n - r->rest.n));
	struct str found = container_line(r, "crc32");
	if (!r->err && !str_is(found, sum))
		r->err = uh_error_new("%s: damaged: its bytes do not add up to its checksum", r->path);
	c->signed_bytes = str_cut(r->all, r->all.n - r->rest.n);
	struct str signature = container_line(r, "signature");
	if (!r->err && !base64_read(signature, c->signature, SIGNATURE_BYTES))
		container_refuse(r, "'signature' is not a signature");
	if (!r->err && r->rest.n)
		container_refuse(r, "something follows its last line");
}

bool container_is(struct str bytes) { return str_starts(bytes, S(MAGIC)); }

struct uh_error *container_read(struct arena *a, const char *path, struct str bytes, struct container *ret)
{
	struct container_reader r = { .path = path, .all = bytes, .rest = bytes };
	*ret = (struct container){ .path = path, .note = S("") };
	if (!container_is(bytes))
		return uh_error_new("%s: not a signed knowledge file; unhang knowledge export makes one", path);
	if (bytes.n > CONTAINER_MOST)
		return uh_error_new("%s: larger than %d MB", path, CONTAINER_MOST >> 20);
	read_head(&r, ret);
	uint64_t files = container_number(&r, container_line(&r, "files"));
	if (!r.err && files > CONTAINER_FILES)
		container_refuse(&r, "too many files");
	if (!r.err)
		ret->files = arena_alloc(a, (size_t)(files ? files : 1) * sizeof(ret->files[0]));
	for (uint64_t i = 0; i < files && !r.err; i++)
		container_take_file(&r, ret);
	if (!r.err)
		read_end(&r, ret);
	return r.err;
}

static struct uh_error *write_files(const struct container *c, struct text *to)
{
	if (c->nfiles > CONTAINER_FILES)
		return uh_error_new("more than %d files", CONTAINER_FILES);
	text_printf(to, "files %zu\n", c->nfiles);
	for (size_t i = 0; i < c->nfiles; i++) {
		const struct container_file *f = &c->files[i];
		bool open_end = f->text.n && f->text.p[f->text.n - 1] != '\n';
		if (!good_name(f->name))
			return uh_error_new(
				STR_FMT ": the name of a knowledge file is of letters, digits, '-', '_' and '.', with '.know' "
					"at its end",
				STR_ARG(f->name));
		if (container_find(c, f->name) != f)
			return uh_error_new(STR_FMT ": two files of one name", STR_ARG(f->name));
		text_printf(to, "file " STR_FMT " %zu\n", STR_ARG(f->name), f->text.n + open_end);
		text_add(to, f->text);
		text_add(to, open_end ? S("\n") : S(""));
	}
	return to->n > CONTAINER_MOST ? uh_error_new("more than %d MB of knowledge", CONTAINER_MOST >> 20) : NULL;
}

struct uh_error *container_write(const struct container *c, struct text *to)
{
	if (!good_note(c->note))
		return uh_error_new("a note is one line of at most 500 characters of ASCII, without space around it");
	text_printf(to, MAGIC "%d\nversion %llu\nmade " STR_FMT "\nblocks %d\n", CONTAINER_SCHEMA,
		    (unsigned long long)c->version, STR_ARG(c->made), CONTAINER_BLOCKS);
	if (c->note.n)
		text_printf(to, "note " STR_FMT "\n", STR_ARG(c->note));
	text_add(to, S("key "));
	base64_write(to, c->key, KEY_BYTES);
	text_add(to, S("\n"));
	struct uh_error *err = write_files(c, to);
	if (!err)
		text_printf(to, "crc32 %08lx\n", crc32_z(0, (const uint8_t *)to->p, to->n));
	return err;
}

void container_finish(struct text *to, const uint8_t signature[static SIGNATURE_BYTES])
{
	text_add(to, S("signature "));
	base64_write(to, signature, SIGNATURE_BYTES);
	text_add(to, S("\n"));
}

// --- what is installed ---

struct uh_error *update_installed(struct arena *a, const char *root, struct container *ret, bool *ret_there)
{
	struct str bytes;
	struct uh_error *err = believed_read(root, UPDATE_PATH, CONTAINER_MOST, a, &bytes);
	if (!err)
		err = container_read(a, UPDATE_PATH, bytes, ret);
	*ret_there = !err;
	if (err && (err->errnum == ENOENT || err->errnum == ENOTDIR)) {
		uh_error_free(err);
		return NULL;
	}
	return err;
}

struct uh_error *update_verify(struct arena *a, const char *root, const struct container *c, struct str *ret_key_file)
{
	bool good;
	struct uh_error *err = key_trusted(a, root, c->key, ret_key_file);
	if (!err)
		err = sign_check(c->key, c->signed_bytes, c->signature, &good);
	if (!err && !good)
		err = uh_error_new("the signature is wrong: the file was damaged or changed after it was signed");
	return err;
}

void know_each_text(struct arena *a, const struct container *update, know_text_fn *fn, void *ctx)
{
	for (const struct know_file *f = know_embedded; f->name; f++) {
		const struct container_file *instead = update ? container_find(update, str_z(f->name)) : NULL;
		if (instead)
			fn(ctx, arena_printf(a, "%s:%s", update->path, f->name).p, instead->text, false);
		else
			fn(ctx, f->name, (struct str){ f->begin, (size_t)(f->end - f->begin) }, false);
	}
	for (size_t i = 0; update && i < update->nfiles; i++) {
		const struct container_file *one = &update->files[i];
		const struct know_file *f = know_embedded;
		while (f->name && !str_is(one->name, f->name))
			f++;
		if (!f->name)
			fn(ctx, arena_printf(a, "%s:" STR_FMT, update->path, STR_ARG(one->name)).p, one->text, true);
	}
}

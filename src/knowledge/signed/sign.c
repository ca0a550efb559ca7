// Keys as files, of which only those are believed that nobody but root could have written.
#include "knowledge/signed/sign.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/base64.h"
#include "base/door/door.h"

struct uh_error *sign_new_key(uint8_t ret[static KEY_BYTES])
{
	if (getrandom(ret, KEY_BYTES, 0) != KEY_BYTES)
		return uh_error_os(errno, "no random numbers for a key");
	return NULL;
}

// --- keys as files ---

enum { FILE_MOST = 64 << 10, KEYS_MOST = 1000, DER_FRONT_MOST = 16 };

/** What stands around the 32 bytes of a key: RFC 8410. */
struct key_form {
	const char *name;
	uint8_t front[DER_FRONT_MOST];
	size_t n;
};
static const struct key_form secret_form = {
	"PRIVATE KEY", { 0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20 }, 16
};
static const struct key_form public_form = { "PUBLIC KEY",
					     { 0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00 },
					     12 };

static void write_form(struct text *to, const struct key_form *f, const uint8_t key[static KEY_BYTES])
{
	uint8_t der[DER_FRONT_MOST + KEY_BYTES];
	memcpy(der, f->front, f->n);
	memcpy(der + f->n, key, KEY_BYTES);
	text_printf(to, "-----BEGIN %s-----\n", f->name);
	base64_write(to, der, f->n + KEY_BYTES);
	text_printf(to, "\n-----END %s-----\n", f->name);
}

static bool read_form(struct str pem, const struct key_form *f, uint8_t ret[static KEY_BYTES])
{
	char begin[40], end[40];
	uint8_t der[DER_FRONT_MOST + KEY_BYTES];
	snprintf(begin, sizeof(begin), "-----BEGIN %s-----", f->name);
	snprintf(end, sizeof(end), "-----END %s-----", f->name);
	pem = str_trim(pem);
	struct str first = str_split(&pem, '\n'), middle = str_split(&pem, '\n');
	if (!str_is(str_trim(first), begin) || !str_is(str_trim(pem), end) ||
	    !base64_read(str_trim(middle), der, f->n + KEY_BYTES) || memcmp(der, f->front, f->n))
		return false;
	memcpy(ret, der + f->n, KEY_BYTES);
	return true;
}

void key_write_secret(struct text *to, const uint8_t key[static KEY_BYTES]) { write_form(to, &secret_form, key); }
void key_write_public(struct text *to, const uint8_t key[static KEY_BYTES]) { write_form(to, &public_form, key); }
bool key_read_secret(struct str pem, uint8_t ret[static KEY_BYTES]) { return read_form(pem, &secret_form, ret); }
bool key_read_public(struct str pem, uint8_t ret[static KEY_BYTES]) { return read_form(pem, &public_form, ret); }

struct key_search {
	const uint8_t *key;
	unsigned keys;         // that are believed
	struct text complaint; // about the first file that is not
};

/** Whether this file has the key, and is believed. */
static bool search_file(struct key_search *s, const char *root, const char *path)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct str pem;
	uint8_t key[KEY_BYTES];
	_cleanup_error_ struct uh_error *err = believed_read(root, path, FILE_MOST, &room, &pem), *none = NULL;
	const bool refused = err && !err->errnum;
	if (refused) // its key is looked at only for what is said
		none = root_read(root, path, FILE_MOST, &room, &pem, NULL);
	const bool is_key = (!err || refused) && !none && key_read_public(pem, key);
	const bool found = is_key && !memcmp(key, s->key, KEY_BYTES);
	if (!err && !is_key)
		err = uh_error_new("%s: not used: it is no Ed25519 public key", path);
	// If a file with this very key is not believed, that is the better complaint than what is wrong with others.
	if (err && (found || !s->complaint.n)) {
		text_clear(&s->complaint);
		text_printf(&s->complaint, "%s", err->message);
	}
	s->keys += !err;
	return found && !err;
}

static bool search_directory(struct key_search *s, struct arena *a, const char *root, struct str *ret_file)
{
	struct door_names names;
	_cleanup_error_ struct uh_error *err =
		door_names(&(struct named){ .path = KEYS_DIRECTORY, .root = root }, true, a, &names);
	bool found = false;
	size_t seen = 0;
	if (err && err->errnum == ETIMEDOUT)
		text_printf(&s->complaint, "%s", err->message);
	for (size_t i = 0; i < names.n && !found && seen < KEYS_MOST; i++) {
		if (!str_ends(str_z(names.list[i]), S(".pub")))
			continue;
		struct str path = arena_printf(a, KEYS_DIRECTORY "/%s", names.list[i]);
		seen++;
		found = search_file(s, root, path.p);
		if (found)
			*ret_file = path;
	}
	return found;
}

struct uh_error *key_trusted(struct arena *a, const char *root, const uint8_t key[static KEY_BYTES], struct str *ret_file)
{
	struct key_search s = { .key = key };
	_cleanup_text_ struct text name = { 0 };
	struct uh_error *err = NULL;
	if (!search_directory(&s, a, root, ret_file)) {
		base64_write(&name, key, KEY_BYTES);
		err = uh_error_new("not signed by a trusted key: its key " STR_FMT " is not among the %u of %s" KEYS_DIRECTORY
				   "/*.pub%s" STR_FMT,
				   STR_ARG(text_str(&name)), s.keys, root ? root : "", s.complaint.n ? "; " : "",
				   STR_ARG(text_str(&s.complaint)));
	}
	text_free(&s.complaint);
	return err;
}

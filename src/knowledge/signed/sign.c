// Ed25519: signatures by OpenSSL's libcrypto, which is loaded only when one is made or checked, so that unhang runs where it is missing;
// and keys as files, of which only those are believed that nobody but root could have written.
#include "knowledge/signed/sign.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/base64.h"
#include "base/door/door.h"
#include "base/door/library.h"

// clang-format off
#define CRYPTO_CALLS(call) \
	call(OPENSSL_init_crypto) call(EVP_PKEY_new_raw_private_key) call(EVP_PKEY_new_raw_public_key) \
	call(EVP_PKEY_get_raw_public_key) call(EVP_PKEY_free) call(EVP_MD_CTX_new) call(EVP_MD_CTX_free) \
	call(EVP_DigestSignInit) call(EVP_DigestSign) call(EVP_DigestVerifyInit) call(EVP_DigestVerify)
// clang-format on

struct crypto {
	LIBRARY_API(CRYPTO_CALLS)
};

/** The library stays loaded until the program ends: it does not like to be unloaded. */
static struct uh_error *crypto_load(struct crypto *c)
{
	c->library = NULL;
	const char *lacks = LIBRARY_LOAD(c, CRYPTO_CALLS, "libcrypto.so.3", "libcrypto.so.1.1");
	if (!c->library)
		return uh_error_new("signatures: OpenSSL's libcrypto (package libssl3) is not on this machine");
	if (lacks)
		return uh_error_new("signatures: libcrypto lacks %s", lacks);
	// What a user's OPENSSL_CONF names would be loaded into a process of root.
	c->OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	return NULL;
}

static struct uh_error *crypto_failed(const char *what)
{
	return uh_error_new("signatures: libcrypto cannot %s with Ed25519", what);
}

struct uh_error *sign_new_key(uint8_t ret[static KEY_BYTES])
{
	if (getrandom(ret, KEY_BYTES, 0) != KEY_BYTES)
		return uh_error_os(errno, "no random numbers for a key");
	return NULL;
}

struct uh_error *sign_public_of(const uint8_t secret[static KEY_BYTES], uint8_t ret[static KEY_BYTES])
{
	struct crypto c;
	struct uh_error *err = crypto_load(&c);
	if (err)
		return err;
	EVP_PKEY *key = c.EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret, KEY_BYTES);
	size_t n = KEY_BYTES;
	bool good = key && c.EVP_PKEY_get_raw_public_key(key, ret, &n) == 1 && n == KEY_BYTES;
	c.EVP_PKEY_free(key);
	return good ? NULL : crypto_failed("make a key");
}

struct uh_error *sign_bytes(const uint8_t secret[static KEY_BYTES], struct str bytes, uint8_t ret[static SIGNATURE_BYTES])
{
	struct crypto c;
	struct uh_error *err = crypto_load(&c);
	if (err)
		return err;
	EVP_PKEY *key = c.EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret, KEY_BYTES);
	EVP_MD_CTX *context = c.EVP_MD_CTX_new();
	size_t n = SIGNATURE_BYTES;
	bool good = key && context && c.EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
		    c.EVP_DigestSign(context, ret, &n, (const uint8_t *)bytes.p, bytes.n) == 1 && n == SIGNATURE_BYTES;
	c.EVP_MD_CTX_free(context);
	c.EVP_PKEY_free(key);
	return good ? NULL : crypto_failed("sign");
}

struct uh_error *sign_check(const uint8_t public[static KEY_BYTES], struct str bytes,
			    const uint8_t signature[static SIGNATURE_BYTES], bool *ret_good)
{
	struct crypto c;
	struct uh_error *err = crypto_load(&c);
	*ret_good = false;
	if (err)
		return err;
	EVP_PKEY *key = c.EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public, KEY_BYTES);
	EVP_MD_CTX *context = c.EVP_MD_CTX_new();
	bool ready = key && context && c.EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1;
	*ret_good = ready && c.EVP_DigestVerify(context, signature, SIGNATURE_BYTES, (const uint8_t *)bytes.p, bytes.n) == 1;
	c.EVP_MD_CTX_free(context);
	c.EVP_PKEY_free(key);
	return ready ? NULL : crypto_failed("check a signature");
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

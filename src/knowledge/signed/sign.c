#include "knowledge/signed/sign.h"

#include <dlfcn.h>
#include <errno.h>
#include <openssl/evp.h>
#include <sys/random.h>

struct crypto {
	void *library;
	typeof(OPENSSL_init_crypto) *init;
	typeof(EVP_PKEY_new_raw_private_key) *new_private;
	typeof(EVP_PKEY_new_raw_public_key) *new_public;
	typeof(EVP_PKEY_get_raw_public_key) *get_public;
	typeof(EVP_PKEY_free) *free_key;
	typeof(EVP_MD_CTX_new) *new_context;
	typeof(EVP_MD_CTX_free) *free_context;
	typeof(EVP_DigestSignInit) *sign_init;
	typeof(EVP_DigestSign) *sign;
	typeof(EVP_DigestVerifyInit) *verify_init;
	typeof(EVP_DigestVerify) *verify;
};

/** The library stays loaded until the program ends: it does not like to be unloaded. */
static struct uh_error *crypto_load(struct crypto *c)
{
	*c = (struct crypto){ .library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL) };
	if (!c->library)
		c->library = dlopen("libcrypto.so.1.1", RTLD_NOW | RTLD_LOCAL);
	if (!c->library)
		return uh_error_new("signatures: OpenSSL's libcrypto (package libssl3) is not on this machine");
	const struct {
		const char *name;
		void *at;
	} symbols[] = {
		{ "OPENSSL_init_crypto", &c->init },
		{ "EVP_PKEY_new_raw_private_key", &c->new_private },
		{ "EVP_PKEY_new_raw_public_key", &c->new_public },
		{ "EVP_PKEY_get_raw_public_key", &c->get_public },
		{ "EVP_PKEY_free", &c->free_key },
		{ "EVP_MD_CTX_new", &c->new_context },
		{ "EVP_MD_CTX_free", &c->free_context },
		{ "EVP_DigestSignInit", &c->sign_init },
		{ "EVP_DigestSign", &c->sign },
		{ "EVP_DigestVerifyInit", &c->verify_init },
		{ "EVP_DigestVerify", &c->verify },
	};
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(c->library, symbols[i].name);
		if (!symbol)
			return uh_error_new("signatures: libcrypto lacks %s", symbols[i].name);
		memcpy(symbols[i].at, &symbol, sizeof(symbol));
	}
	// What a user's OPENSSL_CONF names would be loaded into a process of root.
	c->init(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	return NULL;
}

static struct uh_error *failed(const char *what) { return uh_error_new("signatures: libcrypto cannot %s with Ed25519", what); }

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
	EVP_PKEY *key = c.new_private(EVP_PKEY_ED25519, NULL, secret, KEY_BYTES);
	size_t n = KEY_BYTES;
	bool good = key && c.get_public(key, ret, &n) == 1 && n == KEY_BYTES;
	c.free_key(key);
	return good ? NULL : failed("make a key");
}

struct uh_error *sign_bytes(const uint8_t secret[static KEY_BYTES], struct str bytes, uint8_t ret[static SIGNATURE_BYTES])
{
	struct crypto c;
	struct uh_error *err = crypto_load(&c);
	if (err)
		return err;
	EVP_PKEY *key = c.new_private(EVP_PKEY_ED25519, NULL, secret, KEY_BYTES);
	EVP_MD_CTX *context = c.new_context();
	size_t n = SIGNATURE_BYTES;
	bool good = key && context && c.sign_init(context, NULL, NULL, NULL, key) == 1 &&
		    c.sign(context, ret, &n, (const uint8_t *)bytes.p, bytes.n) == 1 && n == SIGNATURE_BYTES;
	c.free_context(context);
	c.free_key(key);
	return good ? NULL : failed("sign");
}

struct uh_error *sign_check(const uint8_t public[static KEY_BYTES], struct str bytes,
			    const uint8_t signature[static SIGNATURE_BYTES], bool *ret_good)
{
	struct crypto c;
	struct uh_error *err = crypto_load(&c);
	*ret_good = false;
	if (err)
		return err;
	EVP_PKEY *key = c.new_public(EVP_PKEY_ED25519, NULL, public, KEY_BYTES);
	EVP_MD_CTX *context = c.new_context();
	bool ready = key && context && c.verify_init(context, NULL, NULL, NULL, key) == 1;
	*ret_good = ready && c.verify(context, signature, SIGNATURE_BYTES, (const uint8_t *)bytes.p, bytes.n) == 1;
	c.free_context(context);
	c.free_key(key);
	return ready ? NULL : failed("check a signature");
}

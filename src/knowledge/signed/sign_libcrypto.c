// Ed25519 by OpenSSL's libcrypto, which is loaded only when a signature is made or checked, so that unhang runs where it is missing.
#include <openssl/evp.h>

#include "base/door/library.h"
#include "knowledge/signed/sign.h"

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

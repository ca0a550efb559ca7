// Fuzzes keys as files, and what is signed with them: a key that is read is written in one way, and what it signs is believed, with a
// byte changed it is not.
#include <stdlib.h>

#include "knowledge/signed/sign.h"
#include "memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pair(const uint8_t secret[static KEY_BYTES], struct str bytes)
{
	uint8_t public[KEY_BYTES], signature[SIGNATURE_BYTES];
	bool good = false, still_good = true;
	keep_library("libcrypto.so.3");
	struct uh_error *err = sign_public_of(secret, public);
	err = err ? err : sign_bytes(secret, bytes, signature);
	err = err ? err : sign_check(public, bytes, signature, &good);
	signature[bytes.n % SIGNATURE_BYTES] ^= 1;
	err = err ? err : sign_check(public, bytes, signature, &still_good);
	if (err || !good || still_good)
		abort();
}

static void check_text(bool (*read)(struct str pem, uint8_t *ret), void (*write)(struct text *to, const uint8_t *key),
		       struct str pem, const uint8_t key[static KEY_BYTES])
{
	struct text text = { 0 };
	uint8_t again[KEY_BYTES];
	write(&text, key);
	if (!read(text_str(&text), again) || memcmp(key, again, KEY_BYTES) || str_trim(pem).n < str_trim(text_str(&text)).n)
		abort();
	text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t key[KEY_BYTES];
	struct str pem = { (const char *)data, size };
	if (key_read_public(pem, key))
		check_text(key_read_public, key_write_public, pem, key);
	if (key_read_secret(pem, key)) {
		check_text(key_read_secret, key_write_secret, pem, key);
		check_pair(key, pem);
	}
	return 0;
}

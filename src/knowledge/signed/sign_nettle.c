// Ed25519 by nettle, which libarchive needs anyway, in the static file: libcrypto would bring a loader and a resolver of names.
#include <nettle/eddsa.h>

#include "knowledge/signed/sign.h"

struct uh_error *sign_public_of(const uint8_t secret[static KEY_BYTES], uint8_t ret[static KEY_BYTES])
{
	ed25519_sha512_public_key(ret, secret);
	return NULL;
}

struct uh_error *sign_bytes(const uint8_t secret[static KEY_BYTES], struct str bytes, uint8_t ret[static SIGNATURE_BYTES])
{
	uint8_t public[KEY_BYTES];
	ed25519_sha512_public_key(public, secret);
	ed25519_sha512_sign(public, secret, bytes.n, (const uint8_t *)bytes.p, ret);
	return NULL;
}

struct uh_error *sign_check(const uint8_t public[static KEY_BYTES], struct str bytes,
			    const uint8_t signature[static SIGNATURE_BYTES], bool *ret_good)
{
	*ret_good = ed25519_sha512_verify(public, bytes.n, (const uint8_t *)bytes.p, signature) == 1;
	return NULL;
}

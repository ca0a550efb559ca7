// Ed25519 signatures, and keys as files: PEM, as OpenSSL writes them.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

enum { KEY_BYTES = 32, SIGNATURE_BYTES = 64 };

/** A new secret key. */
struct uh_error *sign_new_key(uint8_t ret[static KEY_BYTES]);
struct uh_error *sign_public_of(const uint8_t secret[static KEY_BYTES], uint8_t ret[static KEY_BYTES]);
struct uh_error *sign_bytes(const uint8_t secret[static KEY_BYTES], struct str bytes, uint8_t ret[static SIGNATURE_BYTES]);
/** *ret_good: whether the signature is right. An error: that could not be found out. */
struct uh_error *sign_check(const uint8_t public[static KEY_BYTES], struct str bytes,
			    const uint8_t signature[static SIGNATURE_BYTES], bool *ret_good);

#define KEYS_DIRECTORY "/etc/unhang/keys.d"

void key_write_secret(struct text *to, const uint8_t key[static KEY_BYTES]);
void key_write_public(struct text *to, const uint8_t key[static KEY_BYTES]);
/** false: @pem is not exactly one such key. */
bool key_read_secret(struct str pem, uint8_t ret[static KEY_BYTES]);
bool key_read_public(struct str pem, uint8_t ret[static KEY_BYTES]);

/** The file of KEYS_DIRECTORY with this key. An error: no file that is believed (base/door/trust.h) has it. @root as for root_open(). */
struct uh_error *key_trusted(struct arena *a, const char *root, const uint8_t key[static KEY_BYTES], struct str *ret_file);

// Ed25519 signatures. The library behind them is loaded when one is made or checked.
#pragma once

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

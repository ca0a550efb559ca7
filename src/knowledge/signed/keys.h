// Keys as files: PEM, as OpenSSL writes them.
#pragma once

#include "base/arena.h"
#include "knowledge/signed/sign.h"

#define KEYS_DIRECTORY "/etc/unhang/keys.d"

void key_write_secret(struct text *to, const uint8_t key[static KEY_BYTES]);
void key_write_public(struct text *to, const uint8_t key[static KEY_BYTES]);
/** false: @pem is not exactly one such key. */
bool key_read_secret(struct str pem, uint8_t ret[static KEY_BYTES]);
bool key_read_public(struct str pem, uint8_t ret[static KEY_BYTES]);

/** The file of KEYS_DIRECTORY with this key. An error: no file that is believed (base/door/trust.h) has it. @root as for root_open(). */
struct uh_error *key_trusted(struct arena *a, const char *root, const uint8_t key[static KEY_BYTES], struct str *ret_file);

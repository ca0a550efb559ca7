// Base64: bytes as letters.
#pragma once

#include "base/arena.h"

void base64_write(struct text *to, const uint8_t *bytes, size_t n);
/** Reads exactly @n bytes. false unless @s is what base64_write() makes of them. */
bool base64_read(struct str s, uint8_t *ret, size_t n);

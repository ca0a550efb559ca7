// Of jansson, for WebAssembly: what its configure would find.
#pragma once

#define HAVE_ENDIAN_H 1
#define HAVE_LOCALE_H 1
#define HAVE_STDINT_H 1
#define HAVE_STRTOLL 1
#define HAVE_SYS_TYPES_H 1
#define INITIAL_HASHTABLE_ORDER 3

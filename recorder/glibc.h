// Before all of the recorder's files (meson.build): what is built here with any glibc runs with 2.28 and later, which every distribution with a
// ROCm has, and which wheels (manylinux_2_28) and packages for several distributions ask for. glibc 2.34 gave the functions of libdl and
// libpthread a newer version each; the old one is the same function. tests/wheel.py tells which symbol is newer than that.
#pragma once

#include <features.h>

// 2.38 has others of strtoul() and sscanf(), for C23's binary numbers. Its headers ask the first, newer ones the second.
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0

#if defined(__GLIBC__) && defined(__x86_64__)
#define GLIBC_OLD(function, since) __asm__(".symver " #function "," #function "@GLIBC_" since);
#elif defined(__GLIBC__) && defined(__aarch64__)
#define GLIBC_OLD(function, since) __asm__(".symver " #function "," #function "@GLIBC_2.17"); // the first there
#else
#define GLIBC_OLD(function, since)
#endif

GLIBC_OLD(dladdr, "2.2.5")
GLIBC_OLD(dlclose, "2.2.5")
GLIBC_OLD(dlopen, "2.2.5")
#ifndef GLIBC_OWN_DLSYM // of a library that has one itself
GLIBC_OLD(dlsym, "2.2.5")
#endif
GLIBC_OLD(dlvsym, "2.2.5")
GLIBC_OLD(pthread_attr_setstacksize, "2.2.5")
GLIBC_OLD(pthread_create, "2.2.5")
GLIBC_OLD(pthread_detach, "2.2.5")
GLIBC_OLD(pthread_join, "2.2.5")
GLIBC_OLD(pthread_key_create, "2.2.5")
GLIBC_OLD(pthread_mutex_timedlock, "2.2.5")
GLIBC_OLD(pthread_mutex_trylock, "2.2.5")
GLIBC_OLD(pthread_once, "2.2.5")
GLIBC_OLD(pthread_rwlock_timedrdlock, "2.2.5")
GLIBC_OLD(pthread_rwlock_timedwrlock, "2.2.5")
GLIBC_OLD(pthread_rwlock_unlock, "2.2.5")
GLIBC_OLD(pthread_setname_np, "2.12")
GLIBC_OLD(pthread_setspecific, "2.2.5")
GLIBC_OLD(pthread_sigmask, "2.2.5")
GLIBC_OLD(pthread_timedjoin_np, "2.3.3")

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static struct uh_error *error_make(int errnum, const char *format, va_list ap)
{
	va_list again;
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, format, again);
	va_end(again);

	const char *why = errnum ? strerror(errnum) : "";
	size_t size = (size_t)n + (errnum ? 2 + strlen(why) : 0) + 1;
	struct uh_error *err = mem_alloc(sizeof(*err) + size);
	err->errnum = errnum;
	vsnprintf(err->message, size, format, ap);
	if (errnum)
		snprintf(err->message + n, size - (size_t)n, ": %s", why);
	return err;
}

struct uh_error *uh_error_new(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	struct uh_error *err = error_make(0, format, ap);
	va_end(ap);
	return err;
}

struct uh_error *uh_error_os(int errnum, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	struct uh_error *err = error_make(errnum, format, ap);
	va_end(ap);
	return err;
}

const char *uh_error_message(const struct uh_error *err) { return err->message; }
void uh_error_free(struct uh_error *err) { free(err); }

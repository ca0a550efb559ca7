// Errors carry what failed, where, and errno. NULL is success. Whoever gets an error frees it or hands it on.
#pragma once

struct uh_error {
	int errnum;     // 0 where no system call failed
	char message[]; // one line, without a newline
};

struct uh_error *uh_error_new(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** As uh_error_new(), with ": " and the text of errnum appended. */
struct uh_error *uh_error_os(int errnum, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *uh_error_message(const struct uh_error *err);
void uh_error_free(struct uh_error *err);

static inline void cleanup_error(struct uh_error **err)
{
	uh_error_free(*err);
	*err = (void *)0;
}
#define _cleanup_error_ __attribute__((cleanup(cleanup_error)))

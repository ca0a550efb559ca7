// What an answer means.
#include <errno.h>

#include "source/probe.h"

bool probe_unread(const struct probe *p)
{
	static const int passing[] = { EIO,     ELOOP,  EISDIR, EAGAIN,    EINTR,  ENOMEM,
				       ENOBUFS, EMFILE, ENFILE, ETIMEDOUT, ESTALE, EBUSY };
	if (p->end != PROBE_FAILED)
		return p->end == PROBE_STUCK || p->end == PROBE_NOT_MADE;
	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
		if (p->error == passing[i])
			return true;
	return false;
}

struct str probe_text(const struct probe *p)
{
	struct str text = { p->data, p->end == PROBE_GOOD ? p->n : 0 };
	if (text.n && text.p[text.n - 1] == '\n')
		text.n--;
	return text;
}

// The supervisor's side of a hold.
#include "evidence/recording/hold.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "evidence/recording/head.h"

static bool word_write(int fd, size_t at, uint32_t value)
{
	return pwrite(fd, &value, sizeof(value), (off_t)at) == (ssize_t)sizeof(value);
}

bool hold_announce(int fd, uint32_t supervisor)
{
	struct stat st;
	struct rec_header h;
	errno = 0;
	return !fstat(fd, &st) && S_ISREG(st.st_mode) && recording_head(fd, &h) &&
	       word_write(fd, offsetof(struct rec_header, supervisor), supervisor);
}

static uint32_t left_ms(uint64_t until)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	const uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	const uint64_t left = until > now ? (until - now) / 1000000 : 0;
	return left > UINT32_MAX ? UINT32_MAX : (uint32_t)left;
}

bool hold_look(int fd, struct held *ret)
{
	struct rec_header h;
	if (!recording_head(fd, &h))
		return false;
	*ret = (struct held){ .state = h.hold <= REC_HOLD_UNANSWERED ? (enum rec_hold)h.hold : REC_HOLD_NONE,
			      .number = h.holds,
			      .answered = h.answered,
			      .supervisor = h.supervisor,
			      .pid = h.pid,
			      .began = h.start.boot_ns,
			      .why = h.hold_why < CALLS ? (enum rec_call)h.hold_why : CALL_NONE,
			      .left_ms = left_ms(h.hold_until) };
	if (ret->state >= REC_HOLD_HELD && memchr(h.core, 0, sizeof(h.core)))
		memcpy(ret->core, h.core, sizeof(ret->core));
	return true;
}

bool hold_asks(const struct held *h)
{
	return h->state >= REC_HOLD_ASKED && h->state <= REC_HOLD_HELD && h->answered != h->number;
}

bool hold_answer(int fd, const struct held *h) { return word_write(fd, offsetof(struct rec_header, answered), h->number); }

bool hold_release(int fd, const struct held *h) { return word_write(fd, offsetof(struct rec_header, released), h->number); }

#include "watch/answer.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/lower.h"
#include "evidence/recording/hold.h"
#include "evidence/recording/places.h"
#include "source/privileged/wire.h"

static const char *const words[] = { [WORD_ANNOUNCE] = "announce", [WORD_ANSWER] = "answer", [WORD_RELEASE] = "release" };

void hold_task_text(const struct hold_task *t, struct text *to)
{
	text_printf(to, "%s %u " STR_FMT, words[t->word], t->number, STR_ARG(t->path));
}

bool hold_task_parse(struct str text, struct hold_task *ret)
{
	int64_t number;
	struct str word = str_split(&text, ' '), count = str_split(&text, ' ');
	*ret = (struct hold_task){ .word = HOLD_WORDS, .path = text };
	for (int i = 0; i < HOLD_WORDS; i++)
		if (str_is(word, words[i]))
			ret->word = (enum hold_word)i;
	if (ret->word == HOLD_WORDS || !str_number(count, &number) || number < 0 || number > UINT32_MAX)
		return false;
	ret->number = (uint32_t)number;
	return privileged_may_open(text, PRIVILEGED_RECORDING);
}

/** Opens it as its owner. It must lie in a directory of its own user, under one name: a link to the file of another is none of theirs. */
static int open_as_owner(struct str path)
{
	char directory[NAME_MAX + 1], name[NAME_MAX + 1];
	struct stat above, file;
	struct str rest = path, first = str_split(&rest, '/');
	if (first.n > NAME_MAX || rest.n > NAME_MAX)
		return -1;
	str_copy(directory, sizeof(directory), first);
	str_copy(name, sizeof(name), rest);
	_cleanup_close_ int top = open(RECORDINGS_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int dir = top < 0 ? -1 : openat(top, directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &above) || fstatat(dir, name, &file, AT_SYMLINK_NOFOLLOW) || above.st_uid != file.st_uid ||
	    !S_ISREG(file.st_mode) || file.st_nlink != 1 || !lower_to_owner(file.st_uid, file.st_gid))
		return -1;
	return openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/** Where somebody else looks after the process already, that stays so. */
static bool write_word(int fd, const struct hold_task *t)
{
	struct held h;
	if (!hold_look(fd, &h))
		return false;
	if (t->word == WORD_ANNOUNCE)
		return !h.supervisor && hold_announce(fd, REC_SUPERVISOR_WATCH);
	if (h.supervisor != REC_SUPERVISOR_WATCH || h.number != t->number)
		return false;
	return t->word == WORD_ANSWER ? hold_asks(&h) && hold_answer(fd, &h) : hold_release(fd, &h);
}

static void answer_work(int out, const void *ctx)
{
	const struct hold_task *t = ctx;
	prctl(PR_SET_NAME, "unhang-answer");
	child_keep_only(out);
	door_leave();
	_cleanup_close_ int fd = open_as_owner(t->path);
	if (fd >= 0)
		write_word(fd, t);
}

bool answer_begin(const struct hold_task *t, struct child *ret) { return child_start(CHILD_WATCH_ANSWER, answer_work, t, ret); }

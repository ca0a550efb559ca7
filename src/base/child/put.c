#include "base/child/put.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/child.h"
#include "base/door/door.h"
#include "base/save.h"

struct put_asked {
	put_fn *work;
	const void *ctx;
};

struct put_answer {
	bool failed;
	int errnum;
	struct str message;
};
static const struct wire_field put_fields[] = {
	WIRE_BOOL(struct put_answer, failed),
	WIRE_NUMBER(struct put_answer, errnum, INT32_MAX),
	WIRE_TEXT(struct put_answer, message),
};
static const struct wire_kind put_kind = WIRE_KIND('P', struct put_answer, put_fields);

static void put_do(const void *ctx, struct arena *a, void *ret)
{
	const struct put_asked *asked = ctx;
	struct put_answer *answer = ret;
	child_quiet();
	door_here();
	_cleanup_error_ struct uh_error *err = asked->work(asked->ctx);
	if (err)
		*answer = (struct put_answer){ true, err->errnum, arena_str(a, str_z(uh_error_message(err))) };
}

struct uh_error *put_within(const char *path, int64_t deadline, put_fn *work, const void *ctx)
{
	enum { PATIENCES = 3, BUSY_MS = 10000 };
	_cleanup_arena_ struct arena a = { 0 };
	const struct put_asked asked = { work, ctx };
	const int64_t began = now_ms(), until = deadline ? deadline : began + PATIENCES * door_patience_ms();
	const struct child_task task = {
		.name = CHILD_PUT, .work = put_do, .kind = &put_kind, .deadline = until, .busy_ms = BUSY_MS
	};
	struct put_answer answer;
	const enum child_end end = child_call(&task, &asked, &a, &answer);
	if (end == CHILD_LATE)
		return door_no_answer(path, (int)(now_ms() - began));
	if (end == CHILD_REFUSED)
		return uh_error_os(errno, "%s", path);
	if (end != CHILD_GOOD)
		return uh_error_new("%s: the process that wrote it was killed", path);
	if (!answer.failed)
		return NULL;
	struct uh_error *err = uh_error_new(STR_FMT, STR_ARG(answer.message));
	err->errnum = answer.errnum;
	return err;
}

struct put_bytes {
	const char *path;
	struct str bytes;
	mode_t mode;
	enum put_how how;
};

static struct uh_error *put_save(const void *ctx)
{
	const struct put_bytes *p = ctx;
	struct uh_error *err = p->how == PUT_OVER ? NULL : save_check(AT_FDCWD, p->path);
	if (err)
		return err;
	return p->how == PUT_SAFE ? save_file(AT_FDCWD, p->path, p->bytes, p->mode) :
				    save_soon(AT_FDCWD, p->path, p->bytes, p->mode);
}

struct uh_error *put_file(const char *path, struct str bytes, mode_t mode, enum put_how how, int64_t deadline)
{
	const struct put_bytes p = { path, bytes, mode, how };
	return put_within(path, deadline, put_save, &p);
}

/** A look at a name may be answered from what is remembered; the room of its file system is asked for. */
static struct uh_error *put_look(const void *ctx)
{
	_cleanup_arena_ struct arena a = { 0 };
	const char *path = ctx, *slash = strrchr(path, '/');
	const char *above = !slash ? "." : arena_z(&a, (struct str){ path, (size_t)(slash - path) + 1 });
	struct stat st;
	struct statvfs room;
	if (stat(path, &st))
		(void)!stat(above, &st);
	if (statvfs(path, &room))
		(void)!statvfs(above, &room);
	return NULL;
}

struct uh_error *put_answers(const char *path) { return put_within(path, now_ms() + door_patience_ms(), put_look, path); }

// One answer of a child, as a struct (base/child.h).
#include <errno.h>
#include <unistd.h>

#include "base/child.h"

struct child_asked {
	const struct child_task *task;
	const void *asked;
};

static void call_answer(int fd, const void *ctx)
{
	const struct child_asked *c = ctx;
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text message = { 0 };
	void *told = arena_alloc(&a, c->task->kind->size);
	c->task->work(c->asked, &a, told);
	wire_put(&message, c->task->kind, told);
	for (struct str left = text_str(&message); left.n;) {
		const ssize_t n = write(fd, left.p, left.n);
		if (n < 0 && errno != EINTR)
			return;
		left = str_from(left, n > 0 ? (size_t)n : 0);
	}
}

enum child_end child_call(const struct child_task *t, const void *asked, struct arena *a, void *ret)
{
	const struct child_asked c = { t, asked };
	_cleanup_text_ struct text message = { 0 };
	enum child_end end = child_collect(t, call_answer, &c, &message);
	if (end == CHILD_GOOD && !wire_take(text_str(&message), t->kind, a, ret))
		end = CHILD_CRASHED;
	if (end != CHILD_GOOD)
		memset(ret, 0, t->kind->size);
	return end;
}

// The helper: a child that reads evidence, knowledge and files for the supervisor, which meanwhile goes on to forward signals.
#include "job/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { ANSWER_MOST = 1 << 20, KILL_MS = 500 };

struct helper_task {
	const struct job_hands *hands;
	enum helper_kind kind;
	const void *about;
};

static void helper_work(int fd, const void *ctx)
{
	const struct helper_task *t = ctx;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_CHILD_SUBREAPER, 1); // what it leaves behind is not the job's
	setsid();                         // what the terminal sends is for the job; and by their session its children are known
	child_keep_only(fd);
	FILE *to = fdopen(fd, "w");
	if (!to)
		return;
	switch (t->kind) {
	case HELPER_LOOK:
		t->hands->look(t->hands->ctx, t->about, to);
		break;
	case HELPER_STUDY:
		t->hands->study(t->hands->ctx, t->about, to);
		break;
	case HELPER_DECIDE:
		t->hands->decide(t->hands->ctx, t->about, to);
		break;
	case HELPER_PROFILE:
		t->hands->profile(t->hands->ctx, t->about, to);
		break;
	case HELPER_FINISH:
		t->hands->finish(t->hands->ctx, t->about, to);
		break;
	case HELPER_NONE:
		break;
	}
	fclose(to);
}

bool helper_begin(struct helper *h, const struct job_hands *hands, enum helper_kind kind, const void *about,
		  int64_t milliseconds)
{
	const struct helper_task task = { hands, kind, about };
	helper_end(h);
	text_clear(&h->answer);
	h->gone = false;
	h->deadline = now_ms() + milliseconds;
	if (!child_start(CHILD_RUN_HELPER, helper_work, &task, &h->child))
		return false;
	fcntl(h->child.fd, F_SETFD, FD_CLOEXEC);
	fcntl(h->child.fd, F_SETFL, O_NONBLOCK);
	h->kind = kind;
	h->sessions[h->nsessions++ % HELPERS_KEPT] = h->child.pid;
	return true;
}

bool helper_go_on(struct helper *h, int64_t now)
{
	char room[4096];
	ssize_t n;
	if (h->kind == HELPER_NONE)
		return true;
	while ((n = read(h->child.fd, room, sizeof(room))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0 && h->answer.n + (size_t)n <= ANSWER_MOST)
			text_add(&h->answer, (struct str){ room, (size_t)n });
	if (n < 0 && now < h->deadline)
		return false;
	helper_end(h);
	return true;
}

void helper_end(struct helper *h)
{
	if (h->kind == HELPER_NONE)
		return;
	cleanup_close(&h->child.fd);
	if (!h->gone) {
		kill(-h->child.pid, SIGKILL); // it is the leader of its group
		child_kill(&h->child, KILL_MS);
	}
	h->child.pid = 0;
	h->kind = HELPER_NONE;
}

// What is known of a run before its job starts: its name, its command, where it runs.
#include <fcntl.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/command.h"
#include "job/parts.h"

int64_t run_now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct str read_line(struct arena *a, const char *path)
{
	char room[128];
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, room, sizeof(room));
	return n > 0 ? arena_str(a, str_trim((struct str){ room, (size_t)n })) : (struct str){ 0 };
}

static struct str command_text(struct arena *a, char *const *command)
{
	struct text t = { 0 };
	for (size_t i = 0; command[i]; i++) {
		if (i)
			text_add(&t, S(" "));
		shell_quote(&t, str_z(command[i]));
	}
	struct str kept = arena_str(a, text_str(&t));
	text_free(&t);
	return kept;
}

/** A job that is started again by its scheduler or its launcher goes on with its tries; so its name is the job's. */
static struct str run_name(struct arena *a, const struct run_told *r)
{
	char stamp[32] = "";
	const time_t now = (time_t)(r->began / 1000);
	struct tm tm;
	if (r->family.n && r->rank >= 0)
		return arena_printf(a, STR_FMT "-" STR_FMT "-rank%lld", STR_ARG(r->launcher), STR_ARG(r->family),
				    (long long)r->rank);
	if (r->family.n)
		return arena_printf(a, STR_FMT "-" STR_FMT, STR_ARG(r->launcher), STR_ARG(r->family));
	if (gmtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	return arena_printf(a, "%s-%lld", stamp, (long long)r->pid);
}

void run_describe(struct supervisor *s)
{
	struct utsname host = { 0 };
	struct run_told *r = s->run;
	uname(&host);
	*r = (struct run_told){ .host = arena_str(s->arena, str_z(host.nodename)),
				.boot_id = read_line(s->arena, "/proc/sys/kernel/random/boot_id"),
				.command = command_text(s->arena, s->options->command),
				.began = run_now_ms(),
				.pid = getpid(),
				.status = -1,
				.recorder = str_z(s->options->recorder ? s->options->recorder : "") };
	ranks_read(r, s->arena);
	r->id = run_name(s->arena, r);
}

// Processes that outlived a run that was killed. Only their environment says whose they were: their parents are gone.
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "job/parts.h"

enum { SURVIVORS_MS = 3000, SAID_MOST = 8, ANSWER_MOST = 64 << 10, ENVIRON_ROOM = 128 << 10 };

/** A process of another user does not show its environment, and root need not believe one. */
static bool is_own(int proc, const char *process)
{
	struct stat st;
	return isdigit((unsigned char)process[0]) && !fstatat(proc, process, &st, AT_SYMLINK_NOFOLLOW) &&
	       st.st_uid == geteuid();
}

static void list_survivors(int fd, const void *ctx)
{
	const char *run_id = ctx;
	struct arena a = { 0 };
	FILE *to = fdopen(fd, "w");
	DIR *d = to ? opendir("/proc") : NULL;
	char *room = mem_large(ENVIRON_ROOM);
	struct pid_list *one = arena_alloc(&a, sizeof(*one));
	int64_t pid;
	if (d)
		fputs("looked\n", to);
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		if (!is_own(dirfd(d), e->d_name) || !str_number(str_z(e->d_name), &pid) || pid == getpid() || pid == getppid())
			continue;
		if (!str_is(process_run(e->d_name, room, ENVIRON_ROOM), run_id))
			continue;
		one->n = 1;
		one->list[0] = pid;
		fprintf(to, STR_FMT "\n", STR_ARG(tree_say(&a, one)));
	}
	if (d)
		closedir(d);
	if (to)
		fclose(to);
	free(room);
	arena_free(&a);
}

struct str survivors_say(struct arena *a, const char *run_id)
{
	struct text answer = { 0 }, said = { 0 };
	// To read the environment of a process that hangs in the kernel may block.
	const bool good = child_run(list_survivors, run_id, SURVIVORS_MS, ANSWER_MOST, &answer);
	struct str rest = text_str(&answer), none = S("None of its processes was found any more.");
	const bool looked = str_is(str_split(&rest, '\n'), "looked") && good;
	size_t n = 0;
	for (; rest.n; n++) {
		struct str line = str_split(&rest, '\n');
		if (n < SAID_MOST)
			text_printf(&said, "%s" STR_FMT, n ? ", " : "", STR_ARG(line));
	}
	if (n > SAID_MOST)
		text_printf(&said, " and %zu more", n - SAID_MOST);
	struct str kept = said.n ? arena_printf(a, "Processes of it still run: " STR_FMT ".", STR_ARG(text_str(&said))) :
			  looked ? none :
				   S("It is not known whether processes of it are left.");
	text_free(&answer);
	text_free(&said);
	return kept;
}

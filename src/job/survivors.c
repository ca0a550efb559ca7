// Processes that outlived a run that was killed. Only their environment says whose they were: their parents are gone.
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "job/parts.h"

enum { SURVIVORS_MS = 3000, STRANGERS_MS = 300, SAID_MOST = 8, ANSWER_MOST = 64 << 10, ENVIRON_ROOM = 128 << 10 };

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
	struct str kept = said.n ? arena_printf(a, SURVIVORS STR_FMT ".", STR_ARG(text_str(&said))) :
			  looked ? none :
				   S("It is not known whether processes of it are left.");
	text_free(&answer);
	text_free(&said);
	return kept;
}

// --- processes of a run that lives ---

struct strangers_task {
	const struct pid_list *pids;
	const char *run_id;
};

static void list_strangers(int fd, const void *ctx)
{
	const struct strangers_task *t = ctx;
	struct arena a = { 0 };
	struct pid_list *found = arena_alloc(&a, sizeof(*found));
	char *room = mem_large(ENVIRON_ROOM), number[24];
	uid_t owner;
	found->n = 0;
	for (size_t i = 0; i < t->pids->n; i++) {
		snprintf(number, sizeof(number), "%lld", (long long)t->pids->list[i]);
		struct str text = process_file(t->pids->list[i], "cmdline", room, ENVIRON_ROOM);
		// One that has just ended has neither. Another user's cannot write where the recordings are.
		const bool others = process_owner(t->pids->list[i], &owner) && owner != geteuid();
		if (text.n && (others || !str_is(process_run(number, room, ENVIRON_ROOM), t->run_id)))
			found->list[found->n++] = t->pids->list[i];
	}
	struct str said = tree_say(&a, found);
	(void)!write(fd, said.p, said.n);
	free(room);
	arena_free(&a);
}

struct str strangers_say(struct arena *a, const struct pid_list *pids, const char *run_id)
{
	const struct strangers_task t = { pids, run_id };
	struct text answer = { 0 };
	child_run(list_strangers, &t, STRANGERS_MS, ANSWER_MOST, &answer);
	struct str kept = arena_str(a, text_str(&answer));
	text_free(&answer);
	return kept;
}

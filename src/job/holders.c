// Who holds memory of the GPUs, by KFD.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "job/decide.h"
#include "job/parts.h"

enum { FILE_ROOM = 64 << 10, HOLDERS_MS = 3000, HOLDERS_SAID = 8, ENVIRON_ROOM = 128 << 10 };

#define KFD_PROCESSES "/sys/class/kfd/kfd/proc"

struct holders_task {
	const struct pid_list *own;
	const char *run_id;
};

static uint64_t vram_of(const char *process)
{
	char path[512], room[64];
	uint64_t sum = 0;
	int64_t n;
	snprintf(path, sizeof(path), KFD_PROCESSES "/%s", process);
	DIR *d = opendir(path);
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		if (strncmp(e->d_name, "vram_", 5))
			continue;
		snprintf(path, sizeof(path), KFD_PROCESSES "/%.32s/%.64s", process, e->d_name);
		if (str_number(str_trim(small_file(path, room, sizeof(room))), &n) && n > 0)
			sum += (uint64_t)n;
	}
	if (d)
		closedir(d);
	return sum;
}

struct str process_run(const char *process, char *room, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%.20s/environ", process);
	struct str text = small_file(path, room, size), run;
	return environ_value(text, S("UNHANG_RUN="), &run) ? run : (struct str){ 0 };
}

static void say_holder(FILE *to, const char *process, const struct holders_task *t)
{
	char path[64], name[64], *room = mem_large(ENVIRON_ROOM);
	struct arena a = { 0 };
	const int64_t bytes = (int64_t)vram_of(process);
	struct str size = job_size_say(&a, bytes);
	if (!process_numbers_shared()) {
		fprintf(to, "process %.20s of the host (" STR_FMT ")\n", process, STR_ARG(size));
	} else {
		snprintf(path, sizeof(path), "/proc/%.20s/comm", process);
		struct str run = process_run(process, room, ENVIRON_ROOM),
			   comm = str_trim(small_file(path, name, sizeof(name)));
		if (bytes || !str_is(comm, "unhang-kfd")) { // which only listens to KFD
			fprintf(to, STR_FMT " (%.20s) " STR_FMT, STR_ARG(comm.n ? comm : S("process")), process, STR_ARG(size));
			if (run.n && !str_is(run, t->run_id))
				fprintf(to, ", left by the run " STR_FMT, STR_ARG(str_cut(run, 64)));
			fputc('\n', to);
		}
	}
	free(room);
	arena_free(&a);
}

static void list_holders(int fd, const void *ctx)
{
	const struct holders_task *t = ctx;
	const bool same = process_numbers_shared();
	FILE *to = fdopen(fd, "w");
	DIR *d = to ? opendir(KFD_PROCESSES) : NULL;
	int64_t pid;
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		bool own = false;
		if (!str_number(str_z(e->d_name), &pid))
			continue;
		for (size_t i = 0; same && i < t->own->n && !own; i++)
			own = t->own->list[i] == pid;
		if (own)
			fputs("own\n", to);
		else
			say_holder(to, e->d_name, t);
	}
	if (d)
		closedir(d);
	if (to)
		fclose(to);
}

struct str holders_say(struct arena *a, const struct pid_list *own, const char *run_id, bool *ret_ours)
{
	const struct holders_task t = { own, run_id };
	struct text answer = { 0 }, said = { 0 };
	*ret_ours = false;
	if (access(KFD_PROCESSES, F_OK) || !child_run(list_holders, &t, HOLDERS_MS, FILE_ROOM, &answer))
		return (struct str){ 0 };
	struct str rest = text_str(&answer);
	for (size_t n = 0; rest.n;) {
		struct str line = str_split(&rest, '\n');
		if (str_is(line, "own"))
			*ret_ours = true;
		else if (n++ < HOLDERS_SAID)
			text_printf(&said, "%s" STR_FMT, n > 1 ? "; " : "", STR_ARG(line));
	}
	struct str kept = arena_str(a, text_str(&said));
	text_free(&answer);
	text_free(&said);
	return kept;
}

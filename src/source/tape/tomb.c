#include "source/tape/tomb.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/save.h"
#include "source/probe_stuck.h"
#include "source/process.h"

#define DEBUGFS "/sys/kernel/debug/dri/"
#define RENDER "/dev/dri/renderD"
enum { NOTE_MOST = 1024, KEY_MOST = TOMB_KEY_MOST, FIRST_RENDER = 128 };

bool tomb_panics(void)
{
	char room[16];
	const char *allowed = getenv(TOMB_MAY_BLOCK);
	return !(allowed && !strcmp(allowed, "1")) &&
	       str_is(str_trim(small_file("/proc/sys/kernel/hung_task_panic", room, sizeof(room))), "1");
}

/** Files whose handlers only print what the driver has in memory. */
static bool harmless(struct str name)
{
	static const char *const names[] = { "amdgpu_gca_config", "amdgpu_firmware_info", "amdgpu_gfxoff" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (str_is(name, names[i]))
			return true;
	return false;
}

enum tomb_way tomb_way(struct str path)
{
	if (str_starts(path, S(RENDER)))
		return TOMB_RENDER;
	if (str_starts(path, S("/sys/kernel/debug/kfd/")))
		return TOMB_DEEP;
	if (!str_starts(path, S(DEBUGFS)))
		return TOMB_NONE;
	struct str name = str_from(path, sizeof(DEBUGFS) - 1);
	str_split(&name, '/');
	return !name.n || str_is(name, "name") ? TOMB_NAME : harmless(name) ? TOMB_TEXT : TOMB_DEEP;
}

/** The word about GFXOFF is in memory, but who reads it wakes the device up. */
bool tomb_may_block(struct str path)
{
	enum tomb_way way = tomb_way(path);
	return way > TOMB_TEXT || (way == TOMB_TEXT && str_ends(path, S("/amdgpu_gfxoff")));
}

// --- which GPU ---

/** The PCI address that a node of a GPU leads to: .../0000:03:00.0/drm/card0. */
static bool pci_of_node(const char *node, char ret[static KEY_MOST])
{
	char path[96], target[512];
	snprintf(path, sizeof(path), "/sys/class/drm/%.32s", node);
	ssize_t n = readlink(path, target, sizeof(target));
	struct str link = { target, n > 0 ? (size_t)n : 0 };
	ptrdiff_t at = str_find(link, S("/drm/"));
	struct str pci = at < 0 ? (struct str){ 0 } : str_base(str_cut(link, (size_t)at));
	str_copy(ret, KEY_MOST, pci);
	return pci.n && pci.p[0] != '.';
}

/** What all files of a GPU share: its PCI address; else the directory, or the file. */
static void gpu_of(struct str path, char ret[static KEY_MOST])
{
	char node[40];
	int64_t minor;
	struct str rest = path;
	if (str_starts(path, S(RENDER))) {
		str_copy(node, sizeof(node), str_from(path, sizeof("/dev/dri/") - 1));
	} else if (str_starts(path, S(DEBUGFS))) {
		rest = str_from(path, sizeof(DEBUGFS) - 1);
		rest = str_split(&rest, '/');
		if (!str_number(rest, &minor)) { // newer kernels name it by its address
			str_copy(ret, KEY_MOST, rest);
			return;
		}
		snprintf(node, sizeof(node), minor < FIRST_RENDER ? "card%lld" : "renderD%lld", (long long)minor);
	} else {
		str_copy(ret, KEY_MOST, S("kfd"));
		return;
	}
	if (!pci_of_node(node, ret))
		str_copy(ret, KEY_MOST, str_z(node));
}

void tomb_key(struct str path, char ret[static KEY_MOST])
{
	static const char *const ends[] = {
		[TOMB_NONE] = "", [TOMB_NAME] = "-name", [TOMB_TEXT] = "-text", [TOMB_DEEP] = "", [TOMB_RENDER] = "-render"
	};
	char gpu[KEY_MOST];
	gpu_of(path, gpu);
	snprintf(ret, KEY_MOST, "%.50s%s", gpu, ends[tomb_way(path)]);
}

// --- the notes ---

/** A child of another container has a number that means nothing here. */
static uint64_t here(void)
{
	struct stat st;
	return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

/** When a process began, in ticks; 0: there is none. */
static uint64_t began(int pid, char *ret_state)
{
	char room[1024];
	struct process_stat p;
	if (!process_stat_parse(process_file(pid, "stat", room, sizeof(room)), &p))
		return 0;
	*ret_state = p.state;
	return p.began;
}

bool tomb_of_note(struct str note, struct tomb *ret, char *ret_state)
{
	int64_t pid, since, space;
	if (!str_number(str_word(&note), &pid) || !str_number(str_word(&note), &since) ||
	    !str_number(str_word(&note), &space) || pid <= 0 || pid > INT32_MAX || (uint64_t)space != here())
		return false;
	ret->pid = (int)pid;
	str_copy(ret->path, sizeof(ret->path), str_trim(note));
	*ret_state = '?';
	if (began((int)pid, ret_state) != (uint64_t)since)
		*ret_state = 0;
	return true;
}

bool tomb_note(int pid, struct str path, struct text *ret)
{
	char state = '?';
	uint64_t since = began(pid, &state);
	text_printf(ret, "%d %llu %llu " STR_FMT "\n", pid, (unsigned long long)since, (unsigned long long)here(),
		    STR_ARG(str_cut(path, 500)));
	return since;
}

/** The child that waits for a file of these. A note about one that has gone is removed. */
static bool noted(const char *key, struct tomb *ret)
{
	char file[sizeof(TOMB_DIRECTORY) + KEY_MOST], room[NOTE_MOST], state;
	struct stat st;
	snprintf(file, sizeof(file), TOMB_DIRECTORY "/%s", key);
	if (strchr(key, '/') || stat(TOMB_DIRECTORY, &st) || st.st_uid != 0 || st.st_mode & 022)
		return false;
	if (!tomb_of_note(small_file(file, room, sizeof(room)), ret, &state))
		return false;
	if (state != 'D')
		unlink(file);
	return state == 'D';
}

/** The child because of which @path is not asked. Where a text does not answer, what lies behind it will not. */
static bool tomb_of(struct str path, struct tomb *ret)
{
	char key[KEY_MOST], text[KEY_MOST];
	if (!tomb_way(path))
		return false;
	tomb_key(path, key);
	snprintf(text, sizeof(text), "%.50s-text", key);
	return noted(key, ret) || (tomb_way(path) == TOMB_DEEP && noted(text, ret));
}

void tomb_bury(int pid, struct str path)
{
	char key[KEY_MOST], file[sizeof(TOMB_DIRECTORY) + KEY_MOST];
	struct text note = { 0 };
	tomb_key(path, key);
	if (tomb_note(pid, path, &note) && geteuid() == 0 && tomb_way(path) && !strchr(key, '/')) {
		mkdir("/run/unhang", 0755);
		mkdir(TOMB_DIRECTORY, 0755);
		snprintf(file, sizeof(file), TOMB_DIRECTORY "/%s", key);
		uh_error_free(save_file(AT_FDCWD, file, text_str(&note), 0644)); // without it the next look waits once more
	}
	text_free(&note);
}

void tomb_mark(struct arena *a, struct probe_batch *b)
{
	bool panics = !b->root && tomb_panics(), any = false;
	(void)a;
	for (size_t i = 0; i < b->n && !b->root; i++) {
		struct probe *p = &b->probes[i];
		struct tomb t;
		const struct str path = str_z(p->path);
		if (i && p->path == p[-1].path)
			p->buried = p[-1].buried;
		else
			p->buried = (panics && tomb_may_block(path)) || tomb_of(path, &t);
		p->buried |= any && !b->goes_on;
		any |= p->buried;
	}
}

void tomb_tell(struct arena *a, struct probe_batch *b)
{
	bool told = false;
	for (size_t i = 0; i < b->n; i++) {
		struct probe *p = &b->probes[i];
		struct tomb t;
		if (!p->buried)
			continue;
		p->buried = false;
		bool stuck = told || tomb_of(str_z(p->path), &t);
		p->end = !stuck ? PROBE_FAILED : told && !b->goes_on ? PROBE_NOT_MADE : PROBE_STUCK;
		p->error = stuck ? 0 : ECANCELED; // it was not asked, since the kernel would panic
		if (stuck && !told)
			probe_where_stuck(a, t.pid, p->path, &b->stuck);
		told |= stuck;
	}
}

#include "base/door/caller.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"

enum { ROOT = 0 };

static bool read_id(const char *name, unsigned *ret)
{
	const char *said = secure_getenv(name);
	int64_t id;
	if (!said || !str_number(str_z(said), &id) || id < 0 || id >= UINT32_MAX)
		return false;
	*ret = (unsigned)id;
	return true;
}

/** A user's line of /etc/passwd: by @name, or where that is NULL by @uid. The file is read as it is: name services may need a network
 * that is gone. */
static bool find_user(const char *name, uid_t uid, struct passwd *ret, char *room, size_t size)
{
	FILE *list = fopen("/etc/passwd", "re");
	struct passwd *found = NULL;
	while (list && !fgetpwent_r(list, ret, room, size, &found))
		if (name ? !strcmp(found->pw_name, name) : found->pw_uid == uid)
			break;
		else
			found = NULL;
	if (list)
		fclose(list);
	return found;
}

uid_t caller_uid(void)
{
	unsigned uid;
	char room[4096];
	struct passwd user;
	const char *name = secure_getenv("DOAS_USER");
	if (geteuid() != ROOT)
		return geteuid();
	if (read_id("SUDO_UID", &uid) || read_id("PKEXEC_UID", &uid))
		return uid;
	return name && find_user(name, 0, &user, room, sizeof(room)) ? user.pw_uid : getuid();
}

static bool caller_is_member(const struct group *g, const char *name)
{
	for (char **member = g->gr_mem; *member; member++)
		if (!strcmp(*member, name))
			return true;
	return false;
}

/** The groups of a user besides the first. One that no file names has none. */
static size_t find_groups(const char *name, gid_t ret[static CALLER_GROUPS])
{
	enum { LINE = 1 << 14 };
	_cleanup_free_ char *room = mem_large(LINE);
	FILE *list = fopen("/etc/group", "re");
	struct group group, *found;
	size_t n = 0;
	while (list && n < CALLER_GROUPS && !fgetgrent_r(list, &group, room, LINE, &found))
		if (caller_is_member(found, name))
			ret[n++] = found->gr_gid;
	if (list)
		fclose(list);
	return n;
}

/** Of this thread alone: the C library would change those of all threads. */
static bool set_groups(size_t n, const gid_t *groups) { return !syscall(SYS_setgroups, n, groups); }

bool caller_begin(struct caller *ret_before)
{
	const uid_t uid = caller_uid();
	gid_t groups[CALLER_GROUPS];
	char room[4096];
	struct passwd user;
	unsigned gid;
	*ret_before = (struct caller){ 0 };
	if (uid == geteuid())
		return true;
	bool known = find_user(NULL, uid, &user, room, sizeof(room));
	if (known)
		gid = user.pw_gid;
	else if (!read_id("SUDO_GID", &gid))
		return false;
	ret_before->ngroups = getgroups(CALLER_GROUPS, ret_before->groups);
	if (ret_before->ngroups < 0 || !set_groups(known ? find_groups(user.pw_name, groups) : 0, groups))
		return false;
	ret_before->changed = true;
	setfsgid(gid);
	setfsuid(uid); // with root's number go root's rights to all files
	return (uid_t)setfsuid((uid_t)-1) == uid && (gid_t)setfsgid((gid_t)-1) == gid;
}

void caller_end(const struct caller *before)
{
	if (!before->changed)
		return;
	setfsuid(geteuid());
	setfsgid(getegid());
	set_groups((size_t)before->ngroups, before->groups);
}

void caller_clean_environment(void)
{
	// sudo lets none of these through unless it was told to.
	static const char *const names[] = {
		"OPENSSL_CONF",          "OPENSSL_MODULES",         "OPENSSL_ENGINES",   "DEBUGINFOD_URLS",
		"DEBUGINFOD_CACHE_PATH", "HSA_TOOLS_LIB",           "ROCP_TOOL_LIB",     "ROCP_TOOL_LIBRARIES",
		"AMD_COMGR_CACHE_DIR",   "AMD_COMGR_REDIRECT_LOGS", "LLVM_PROFILE_FILE",
	};
	if (geteuid() == ROOT && caller_uid() != ROOT)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			unsetenv(names[i]);
}

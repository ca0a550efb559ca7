#include "base/door/caller.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/door/account.h"
#include "base/str.h"

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

uid_t caller_uid(void)
{
	unsigned uid;
	char room[ACCOUNT_LINE];
	struct passwd user;
	const char *name = secure_getenv("DOAS_USER");
	if (geteuid() != ROOT)
		return geteuid();
	if (read_id("SUDO_UID", &uid) || read_id("PKEXEC_UID", &uid))
		return uid;
	return name && account_find(name, 0, &user, room) ? user.pw_uid : getuid();
}

/** Of this thread alone: the C library would change those of all threads. */
static bool set_groups(size_t n, const gid_t *groups) { return !syscall(SYS_setgroups, n, groups); }

bool caller_begin(struct caller *ret_before)
{
	const uid_t uid = caller_uid();
	gid_t groups[ACCOUNT_GROUPS];
	char room[ACCOUNT_LINE];
	struct passwd user;
	unsigned gid;
	*ret_before = (struct caller){ 0 };
	if (uid == geteuid())
		return true;
	bool known = account_find(NULL, uid, &user, room);
	if (known)
		gid = user.pw_gid;
	else if (!read_id("SUDO_GID", &gid))
		return false;
	ret_before->ngroups = getgroups(ACCOUNT_GROUPS, ret_before->groups);
	if (ret_before->ngroups < 0 || !set_groups(known ? account_groups(user.pw_name, groups) : 0, groups))
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
		"AMD_COMGR_CACHE_DIR",   "AMD_COMGR_REDIRECT_LOGS", "LLVM_PROFILE_FILE", "GCONV_PATH",
		"LOCPATH",
	};
	const char *zone = getenv("TZ");
	// A file that anybody names is opened by a child, and a clock may not wait for a pipe.
	if (zone && strchr(zone, '/') && (zone[0] == '/' || zone[0] == ':'))
		unsetenv("TZ");
	if (geteuid() == ROOT && caller_uid() != ROOT)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			unsetenv(names[i]);
}

#include "base/door/account.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"

enum { GROUP_LINE = 1 << 14 };

bool account_find(const char *name, uid_t uid, struct passwd *ret, char room[static ACCOUNT_LINE])
{
	FILE *list = fopen("/etc/passwd", "re");
	struct passwd *found = NULL;
	while (list && !fgetpwent_r(list, ret, room, ACCOUNT_LINE, &found))
		if (name ? !strcmp(found->pw_name, name) : found->pw_uid == uid)
			break;
		else
			found = NULL;
	if (list)
		fclose(list);
	return found;
}

static bool is_named(const struct group *g, const char *name) { return !strcmp(g->gr_name, name); }

static bool has_member(const struct group *g, const char *name)
{
	for (char **member = g->gr_mem; *member; member++)
		if (!strcmp(*member, name))
			return true;
	return false;
}

static size_t find_groups(bool (*wanted)(const struct group *, const char *), const char *name, size_t most, gid_t *ret)
{
	_cleanup_free_ char *room = mem_large(GROUP_LINE);
	FILE *list = fopen("/etc/group", "re");
	struct group group, *found;
	size_t n = 0;
	while (list && n < most && !fgetgrent_r(list, &group, room, GROUP_LINE, &found))
		if (wanted(found, name))
			ret[n++] = found->gr_gid;
	if (list)
		fclose(list);
	return n;
}

bool account_group(const char *name, gid_t *ret) { return find_groups(is_named, name, 1, ret); }

size_t account_groups(const char *name, gid_t ret[static ACCOUNT_GROUPS])
{
	return find_groups(has_member, name, ACCOUNT_GROUPS, ret);
}

// The user who called. With sudo, pkexec and doas that is not the user that unhang runs as.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/door/account.h"

/** The user who called sudo, pkexec or doas, if unhang runs as root and they say who it was; else the user that unhang runs as. */
uid_t caller_uid(void);

/** What a thread had before caller_begin(). */
struct caller {
	bool changed;
	int ngroups;
	gid_t groups[ACCOUNT_GROUPS];
};

/** Until caller_end(), this thread opens files with the rights of the user who called and no others. If that is the user that unhang
 * runs as, nothing changes. false: those rights cannot be had. */
bool caller_begin(struct caller *ret_before);
void caller_end(const struct caller *before);

/** Where root works for somebody else: removes variables from the environment that make libraries load code or write files. */
void caller_clean_environment(void);

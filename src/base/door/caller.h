// The user who called: behind sudo, pkexec and doas another one than the user that unhang runs as.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/** The user behind sudo, pkexec or doas, where unhang runs as root and they say who it is; else the user that it runs as. */
uid_t caller_uid(void);

enum { CALLER_GROUPS = 256 };

/** What a thread had before caller_begin(). */
struct caller {
	bool changed;
	int ngroups;
	gid_t groups[CALLER_GROUPS];
};

/** From here on this thread opens files with the rights of the user who called, and no others, until caller_end(). Where nobody else
 * called, nothing changes. false: his rights cannot be had. */
bool caller_begin(struct caller *ret_before);
void caller_end(const struct caller *before);

/** Takes variables out of the environment that make libraries load further code or write files, where root works for somebody else. */
void caller_clean_environment(void);

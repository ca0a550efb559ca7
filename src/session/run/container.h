// The state of a container that the job's command started.
#pragma once

#include "base/arena.h"

/** The name of the container of `docker run` or `podman run`, by --name or by what --cidfile names; empty: it has none, or the command is
 * another. The file is the user's: for a child. */
struct str container_named(char *const *command, struct arena *a);
/** Saves in @path what `inspect` says of it. false: nothing. */
bool container_save(char *const *command, const char *path);

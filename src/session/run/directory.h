// The directory of a run, or of one of its tries, as evidence.
#pragma once

#include "base/arena.h"

struct uh_session;
/** Adds the newest try of a run, or the one whose directory it is. false: it is the directory of neither. */
bool session_add_run(struct uh_session *s, const char *path);
/** Adds what lies in the directory of a try, or of its recordings: GPU cores, what the debug agent and the job wrote. */
void try_add_files(struct uh_session *s, const char *directory, struct arena *a);

// The mount namespace of the emulated machine, and what runs in it.
#pragma once

#include "emulator/server.h"

/** Goes on in a child that sees no processes but its own and their children's, while this process only waits for it. Where that cannot be
 * had, it goes on as it is. */
void namespace_alone(void);
/** As root of a user namespace that has only its user in it, with a mount namespace. */
bool namespace_as_user(void);
/** Goes into a mount namespace of its own, mounts FUSE's root over /sys for the time being and returns its descriptor. Mounts of the
 * real machine that the emulated one needs are kept aside. Nothing outside of this process sees any of it. */
struct kept;
struct uh_error *namespace_enter(struct kept **ret_kept, int *ret_fuse);
/** Puts everything in its place, in a child, while the server answers. */
struct uh_error *namespace_furnish(const struct server *s, struct kept *k);
void kept_free(struct kept *k);

/** What the server, the emulated processes and the command share. */
struct shared {
	double begin;   // of time; 0: not yet
	bool furnished; // the namespace is complete
	size_t ready;   // processes whose memory is filled and whose files are open
	int command;    // its number
	int status;     // of the command when it has ended, as waitpid() tells it
	bool ended;
	bool failed; // of one of them it could not be done
	char why[256];
};

/** Starts the scenario's processes. @arguments is the room of this program's own arguments, where theirs show their name. */
struct uh_error *processes_start(struct server *s, struct shared *shared, struct str arguments);
void processes_end(struct server *s);
/** Waits until they are as the scenario says. */
struct uh_error *processes_wait(const struct server *s, struct shared *shared);

/** Runs the command while the server answers; the exit status of this program. */
struct uh_error *run_command(struct server *s, char **command, struct str arguments, int *ret_status);

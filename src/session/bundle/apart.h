// A child that takes a bundle apart: it has the bundle and a pipe open, and no rights.
#pragma once

struct uh_machine;
struct uh_session;

/** In the child: closes all but the two, and reads the knowledge, while it still may. */
struct uh_session *apart_begin(int out, int bundle);
/** Puts the rights down, and then opens the bundle. The child ends where either cannot be. */
struct uh_machine *apart_open(int bundle, const char *name);

// The parts of `unhang knowledge` that deal with signed knowledge; argv[0] is the verb.
#pragma once

#include <stdbool.h>

struct container;
struct uh_error;

int knowledge_update(int argc, char **argv);
int knowledge_export(int argc, char **argv);
int knowledge_key(int argc, char **argv);
int knowledge_version(int argc, char **argv);
/** Which knowledge is in use, and where it is from. @root as for root_open(). */
void knowledge_versions(const char *root, bool json);
/** NULL where each block loads with what is built in; else the first problem. */
struct uh_error *knowledge_blocks_right(const struct container *c);

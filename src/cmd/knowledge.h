// The parts of `unhang knowledge` that deal with signed knowledge; argv[0] is the verb.
#pragma once

int knowledge_update(int argc, char **argv);
int knowledge_export(int argc, char **argv);
int knowledge_key(int argc, char **argv);
int knowledge_version(int argc, char **argv);

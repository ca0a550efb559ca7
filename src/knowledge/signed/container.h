// Knowledge files in one signed file: docs/KNOWLEDGE_UPDATES.md has the format.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "knowledge/signed/sign.h"

enum {
	CONTAINER_SCHEMA = 1, // of the file
	CONTAINER_BLOCKS = 1, // of the knowledge in it: grows when a kind of block or a key is added
	CONTAINER_MOST = 32 << 20,
	CONTAINER_FILES = 256,
};

struct container_file {
	struct str name, text;
};

struct container {
	const char *path; // where it was read, for people
	uint64_t version;
	struct str made, note; // note: may be empty
	uint8_t key[KEY_BYTES];
	uint8_t signature[SIGNATURE_BYTES];
	struct str signed_bytes; // all but the last line
	struct container_file *files;
	size_t nfiles;
};

/** Whether @bytes claim to be one. */
bool container_is(struct str bytes);
/** Reads it. The signature is not checked here. Texts are views of @bytes, the rest lies in @a; @path must live as long. */
struct uh_error *container_read(struct arena *a, const char *path, struct str bytes, struct container *ret);
/** The file that is called so, or NULL. */
const struct container_file *container_find(const struct container *c, struct str name);

/** Writes what has to be signed; container_finish() adds the signature. An error: a part of it is malformed. */
struct uh_error *container_write(const struct container *c, struct text *to);
void container_finish(struct text *to, const uint8_t signature[static SIGNATURE_BYTES]);

// --- the one that is installed on a machine ---
#define UPDATE_DIRECTORY "/var/lib/unhang/knowledge"
#define UPDATE_NAME "update.know"
#define UPDATE_PATH UPDATE_DIRECTORY "/" UPDATE_NAME

/** The update that is installed; *ret_there is false if there is none. Its signature was checked when it was installed, and is not
 * checked at each start. A damaged file, or one that others than root could have written, is an error. @root as for root_open(). */
struct uh_error *update_installed(struct arena *a, const char *root, struct container *ret, bool *ret_there);
/** NULL: a key that is trusted below @root has signed all of @c, and *ret_key_file is the key's file. */
struct uh_error *update_verify(struct arena *a, const char *root, const struct container *c, struct str *ret_key_file);

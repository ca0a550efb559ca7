// The machine that a look is about (machine.h).
#include "session/machine.h"

#include <stdlib.h>
#include <string.h>

/** Every member below answers/ is a track. The manifest has the id of the capture, and so has each of its tracks; one that was cut has none. */
struct uh_machine *machine_new(struct bundle *b, const char *path)
{
	struct uh_machine *m = mem_alloc(sizeof(*m));
	const struct bundle_member *manifest = bundle_member(b, S(BUNDLE_MANIFEST));
	*m = (struct uh_machine){ .tape = tape_new(), .bundle = b, .path = strdup(path) };
	for (size_t i = 0; i < b->members.len; i++) {
		const struct bundle_member *one = &b->members.data[i];
		const struct str bytes = { one->bytes, one->n }, id = tape_id(bytes);
		const bool of_this = !id.n || (manifest && str_find((struct str){ manifest->bytes, manifest->n }, id) >= 0);
		if (str_starts(one->name, S(BUNDLE_TRACKS)) && of_this)
			tape_add(m->tape, str_from(one->name, sizeof(BUNDLE_TRACKS) - 1), bytes);
	}
	return m;
}

struct uh_error *uh_machine_open(const char *path, struct uh_machine **ret)
{
	struct bundle *b;
	struct uh_error *err = bundle_open(&(struct named){ .path = path }, path, &b);
	*ret = err || !b ? NULL : machine_new(b, path);
	return err;
}

struct uh_error *machine_of_bundle(int fd, const char *name, struct uh_machine **ret)
{
	struct bundle *b;
	struct uh_error *err = bundle_read(fd, name, &b);
	*ret = err || !b ? NULL : machine_new(b, name);
	return err;
}

void uh_machine_free(struct uh_machine *m)
{
	if (!m)
		return;
	tape_free(m->tape);
	bundle_free(m->bundle);
	free(m->path);
	free(m);
}

struct tape *machine_tape(struct uh_machine *m, const char *track)
{
	if (!m)
		return NULL;
	tape_begin(m->tape, track);
	return m->tape;
}

bool machine_whole(const struct uh_machine *m, const char *track)
{
	return !m || !tape_plays(m->tape) || tape_whole(m->tape, str_z(track));
}

void machine_find(struct uh_machine *m, const struct know *k, const char *track, struct found_devices *ret)
{
	*ret = (struct found_devices){ .tape = machine_tape(m, track), .borrowed = m && m->devices };
	if (ret->borrowed)
		ret->devices = *m->devices;
	else
		devices_find_at(k, (struct machine_at){ .tape = ret->tape }, &ret->devices);
}

void found_devices_free(struct found_devices *f)
{
	if (!f->borrowed)
		devices_free(&f->devices);
}

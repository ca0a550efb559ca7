#include "session/machine.h"

#include <stdlib.h>
#include <string.h>

/** The manifest has the id of the capture, and so has each of its tracks; one that was cut has none. */
static bool is_of_this(const struct bundle *b, struct str track)
{
	const struct bundle_member *manifest = bundle_member(b, S(BUNDLE_MANIFEST));
	const struct str id = tape_id(track);
	return !id.n || (manifest && str_find((struct str){ manifest->bytes, manifest->n }, id) >= 0);
}

/** Every member below answers/ is a track. */
static void add_tracks(struct uh_machine *m)
{
	for (size_t i = 0; i < m->bundle->members.len; i++) {
		const struct bundle_member *one = &m->bundle->members.data[i];
		const struct str bytes = { one->bytes, one->n };
		if (str_starts(one->name, S(BUNDLE_TRACKS)) && is_of_this(m->bundle, bytes))
			tape_add(m->tape, str_from(one->name, sizeof(BUNDLE_TRACKS) - 1), bytes);
	}
}

struct uh_machine *machine_new(struct bundle *b, const char *path)
{
	struct uh_machine *m = mem_alloc(sizeof(*m));
	*m = (struct uh_machine){ .tape = tape_new(), .bundle = b, .path = strdup(path) };
	add_tracks(m);
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

struct uh_error *machine_resolve(const struct uh_look_options *o, struct machine_options *ret)
{
	struct uh_error *err = NULL;
	*ret = (struct machine_options){ .options = *o };
	size_t n = 0;
	for (size_t i = 0; i < o->ntargets && !err && n < sizeof(ret->targets) / sizeof(ret->targets[0]); i++) {
		struct uh_machine *m = NULL;
		if (!o->machine && !ret->opened)
			err = uh_machine_open(o->targets[i], &m);
		if (m)
			ret->opened = m;
		else
			ret->targets[n++] = o->targets[i];
	}
	if (!ret->opened)
		return err;
	ret->options.machine = ret->opened;
	ret->options.targets = ret->targets;
	ret->options.ntargets = n;
	return err;
}

void machine_options_free(struct machine_options *o) { uh_machine_free(o->opened); }

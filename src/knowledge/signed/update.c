#include "knowledge/signed/update.h"

#include <errno.h>

#include "base/door/door.h"
#include "knowledge/signed/keys.h"
#include "knowledge/know.h"

struct uh_error *update_installed(struct arena *a, const char *root, struct container *ret, bool *ret_there)
{
	struct str bytes;
	struct uh_error *err = believed_read(root, UPDATE_PATH, CONTAINER_MOST, a, &bytes);
	if (!err)
		err = container_read(a, UPDATE_PATH, bytes, ret);
	*ret_there = !err;
	if (err && (err->errnum == ENOENT || err->errnum == ENOTDIR)) {
		uh_error_free(err);
		return NULL;
	}
	return err;
}

struct uh_error *update_verify(struct arena *a, const char *root, const struct container *c, struct str *ret_key_file)
{
	bool good;
	struct uh_error *err = key_trusted(a, root, c->key, ret_key_file);
	if (!err)
		err = sign_check(c->key, c->signed_bytes, c->signature, &good);
	if (!err && !good)
		err = uh_error_new("the signature is wrong: the file was damaged or changed after it was signed");
	return err;
}

void know_each_text(struct arena *a, const struct container *update, know_text_fn *fn, void *ctx)
{
	for (const struct know_file *f = know_embedded; f->name; f++) {
		const struct container_file *instead = update ? container_find(update, str_z(f->name)) : NULL;
		if (instead)
			fn(ctx, arena_printf(a, "%s:%s", update->path, f->name).p, instead->text, false);
		else
			fn(ctx, f->name, (struct str){ f->begin, (size_t)(f->end - f->begin) }, false);
	}
	for (size_t i = 0; update && i < update->nfiles; i++) {
		const struct container_file *one = &update->files[i];
		const struct know_file *f = know_embedded;
		while (f->name && !str_is(one->name, f->name))
			f++;
		if (!f->name)
			fn(ctx, arena_printf(a, "%s:" STR_FMT, update->path, STR_ARG(one->name)).p, one->text, true);
	}
}

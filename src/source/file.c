#include "source/file.h"

struct uh_error *file_open_named(const struct named *n, const char *name, struct file *ret)
{
	struct door_file *door;
	struct uh_error *err = door_open(n, &door);
	if (err)
		return err;
	const struct opened *o = door_what(door);
	if (o->acting)
		err = uh_error_new("%s: files of %s are not read, because reading some of them acts on the GPU", name,
				   o->acting);
	else if (!S_ISREG(o->st.st_mode))
		err = uh_error_new("%s: not a file", name);
	if (err)
		door_close(door);
	else
		*ret = (struct file){ .name = str_z(name), .door = door, .size = (uint64_t)o->st.st_size };
	return err;
}

struct uh_error *file_open(const char *path, struct file *ret)
{
	return file_open_named(&(struct named){ .path = path }, path, ret);
}

bool file_answers(const char *path)
{
	struct opened what;
	struct uh_error *err = door_look(&(struct named){ .path = path }, &what);
	door_forget(err);
	return !err && S_ISREG(what.st.st_mode);
}

void file_close(struct file *f)
{
	door_close(f->door);
	*f = (struct file){ 0 };
}

struct file file_memory(struct str name, struct str bytes)
{
	return (struct file){ .name = name, .data = (const uint8_t *)bytes.p, .size = bytes.n };
}

bool file_read(const struct file *f, uint64_t offset, void *to, size_t size)
{
	if (offset > f->size || size > f->size - offset)
		return false;
	if (!f->door) {
		if (size && f->data)
			memcpy(to, f->data + offset, size);
		return !size || f->data;
	}
	struct uh_error *err = NULL;
	ssize_t n = door_read(f->door, offset, to, size, &err);
	door_forget(err);
	return n >= 0 && (size_t)n == size; // less: it was truncated since
}

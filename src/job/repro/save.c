// The files of the program. What a stranger named is in none of their names.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/save.h"
#include "job/repro/make.h"

enum { PIECE_BYTES = 1 << 20 };

static struct uh_error *save_text(int dir, const char *name, void (*write)(const struct repro_plan *p, FILE *out),
				  const struct repro_plan *p)
{
	_cleanup_free_ char *bytes = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&bytes, &n);
	if (!out)
		return uh_error_os(errno, "%s", name);
	write(p, out);
	fclose(out);
	return save_soon(dir, name, (struct str){ bytes, n }, 0600);
}

static void write_makefile(const struct repro_plan *p, FILE *out)
{
	(void)p;
	repro_write_makefile(out);
}

static struct uh_error *save_contents(const struct repro_write *w, uint64_t bytes, int dir)
{
	char name[64];
	struct stat st;
	snprintf(name, sizeof(name), "data-%u.bin", w->file);
	if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && (uint64_t)st.st_size == bytes)
		return NULL; // it was saved before the last run
	unlinkat(dir, name, 0);
	_cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return uh_error_os(errno, "%s", name);
	_cleanup_free_ char *piece = mem_large(PIECE_BYTES);
	for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
		const size_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
		if (!w->read(w, at, piece, n))
			return uh_error_new("%s: the bytes of buffer %u could not be read", name, w->buffer);
		if (!write_all(fd, (struct str){ piece, n }))
			return uh_error_os(errno, "%s", name);
	}
	return NULL;
}

/** Bytes that nothing reads any more do not stay: they are the job's. */
static struct uh_error *save_all_contents(const struct repro_plan *p, int dir)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct repro_walk w = repro_walk_begin(p, &a);
	bool *kept = arena_alloc(&a, p->writes.len + 1);
	struct uh_error *err = NULL;
	struct repro_step s;
	while (!err && repro_walk_next(p, &w, &s)) {
		const struct repro_write *x = s.act == REPRO_WRITE ? &p->writes.data[s.index] : NULL;
		if (!x || x->fill != REPRO_SAVED || x->dropped)
			continue;
		const uint64_t room = p->buffers.data[x->buffer].bytes;
		const uint64_t left = x->offset < room ? room - x->offset : 0;
		kept[s.index] = true;
		err = save_contents(x, x->bytes < left ? x->bytes : left, dir);
	}
	for (size_t i = 0; i < p->writes.len; i++) {
		char name[64];
		snprintf(name, sizeof(name), "data-%u.bin", p->writes.data[i].file);
		if (p->writes.data[i].fill == REPRO_SAVED && !kept[i])
			unlinkat(dir, name, 0);
	}
	return err;
}

struct uh_error *repro_save(const struct repro_plan *p, int dir)
{
	struct uh_error *err = save_all_contents(p, dir);
	for (size_t i = 0; !err && i < p->objects.len; i++) {
		char name[64];
		snprintf(name, sizeof(name), "code-%zu.co", i);
		if (repro_object_used(p, i))
			err = save_soon(dir, name, p->objects.data[i].bytes, 0600);
		else
			unlinkat(dir, name, 0);
	}
	err = err ? err : save_text(dir, REPRO_PROGRAM, repro_write_program, p);
	err = err ? err : save_text(dir, "Makefile", write_makefile, p);
	err = err ? err : save_text(dir, "README.md", repro_write_readme, p);
	return err ? err : save_text(dir, "repro.json", repro_write_answer, p);
}

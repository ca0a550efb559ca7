// Of the static file: what libraries name and unhang never calls. Were it not here, the linker would bring in all that stands behind it.
#include <archive.h>
#include <dlfcn.h>
#include <stddef.h>
#include <sys/types.h>

/** libarchive's list of formats to write has it, with libxml2 and the tables of ICU behind it. */
int archive_write_set_format_xar(struct archive *a)
{
	archive_set_error(a, -1, "xar is not written");
	return ARCHIVE_FATAL;
}

// Conversions of character sets that the C library would load. It has those between UTF-8 and ASCII itself, which libarchive asks for.

struct __gconv_loaded_object;
struct __gconv_loaded_object *__gconv_find_shlib(const char *name);
void __gconv_release_shlib(struct __gconv_loaded_object *object);

struct __gconv_loaded_object *__gconv_find_shlib(const char *name)
{
	(void)name;
	return NULL;
}

void __gconv_release_shlib(struct __gconv_loaded_object *object) { (void)object; }

// SQLite could load extensions, which unhang never asks for.

void *dlopen(const char *file, int flags)
{
	(void)file, (void)flags;
	return NULL;
}

void *dlsym(void *library, const char *name)
{
	(void)library, (void)name;
	return NULL;
}

int dlclose(void *library)
{
	(void)library;
	return 0;
}

char *dlerror(void) { return NULL; }

// glob() looks users up for a ~, which unhang never asks it to. The C library would load a module for that.

struct passwd;
int __getpwnam_r(const char *name, struct passwd *p, char *room, size_t size, struct passwd **ret);
int __getpwuid_r(uid_t uid, struct passwd *p, char *room, size_t size, struct passwd **ret);

int __getpwnam_r(const char *name, struct passwd *p, char *room, size_t size, struct passwd **ret)
{
	(void)name, (void)p, (void)room, (void)size;
	*ret = NULL;
	return 0;
}

int __getpwuid_r(uid_t uid, struct passwd *p, char *room, size_t size, struct passwd **ret)
{
	(void)uid, (void)p, (void)room, (void)size;
	*ret = NULL;
	return 0;
}

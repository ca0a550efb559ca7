// The built-in knowledge as load.c makes it of the files, but made when unhang was built: three thousand templates need not be parsed at
// each start. tools/make_image.c makes it, and its --check holds it against what load.c makes.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct know;

/** What pointers of the image point to. */
enum image_base { IMAGE_ITSELF, IMAGE_TEXTS, IMAGE_KINDS, IMAGE_BASES };
enum { IMAGE_BASE_SHIFT = 60 };

struct know_image {
	const char *bytes;        // of the memory that it was; of a pointer the image_base and the offset from there
	const uint64_t *pointers; // a bit for each of its words of eight bytes: whether it is one
	size_t size;              // of the memory, a multiple of 512; 0: there is no image
	size_t know;              // where in it the struct know is
};
extern const struct know_image know_image;

/** Where each image_base is in this process, but for the image itself. */
void image_bases(uintptr_t ret[IMAGE_BASES]);
/** Knowledge for know_free(); NULL: there is no image, or no memory for it. */
struct know *image_load(void);
void image_free(struct know *k);

// The image is copied rather than used where it lies: most of it is pointers, which have to be made right first.
#include "knowledge/image.h"

#include <sys/mman.h>

#include "knowledge/kinds/kinds.h"

enum { HUGE = 2 << 20 };

void image_bases(uintptr_t ret[IMAGE_BASES])
{
	ret[IMAGE_TEXTS] = (uintptr_t)know_embedded[0].name; // names and texts of all files lie behind one another
	ret[IMAGE_KINDS] = (uintptr_t)know_kinds;
}

/** For the image at a multiple of HUGE. */
static size_t image_room(void) { return ((know_image.size + HUGE - 1) & -(size_t)HUGE) + HUGE; }

struct know *image_load(void)
{
	const struct know_image *image = &know_image;
	uintptr_t bases[IMAGE_BASES];
	if (!image->size)
		return NULL;
	// Two large pages instead of some nine hundred small ones, each of which would cost a page fault. Not malloc(), which may write to them before.
	char *room = mmap(NULL, image_room(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	char *bytes = room + (-(uintptr_t)room & (HUGE - 1));
	uintptr_t *words = (uintptr_t *)bytes;
	madvise(bytes, image_room() - HUGE, MADV_HUGEPAGE);
	memcpy(bytes, image->bytes, image->size);
	image_bases(bases);
	bases[IMAGE_ITSELF] = (uintptr_t)bytes;
	for (size_t i = 0; i < image->size / 512; i++, words += 64)
		for (uint64_t left = image->pointers[i]; left; left &= left - 1) {
			uintptr_t *p = &words[__builtin_ctzll(left)];
			*p = bases[*p >> IMAGE_BASE_SHIFT] + (*p & ((1ull << IMAGE_BASE_SHIFT) - 1));
		}
	struct know *k = (struct know *)(bytes + image->know);
	k->image = room;
	return k;
}

void image_free(struct know *k) { munmap(k->image, image_room()); }

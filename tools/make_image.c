// Makes the image of the built-in knowledge: make-image OUTPUT.bin OUTPUT.c, or --check to compare the image that this program was linked with.
//
// The knowledge is loaded twice by load.c, with all its memory taken from one room, then from another. A word that differs between the
// two by as much as the rooms do is a pointer into the room; one that is in both the same and points into the embedded files or the
// table of kinds is a pointer there. Any other pointer would mean nothing in another process: then there is no image, which a test
// notices here.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "knowledge/image.h"
#include "knowledge/kinds/kinds.h"

enum { ROOM = 64 << 20, ALIGN = 16 };

static char *room;
static size_t room_used;

// The linker puts these in place of the C library's and of a sanitiser's (--wrap). Each piece begins with its size; those that are given back
// are looked through first.
struct room_piece {
	size_t size;
	struct room_piece *next;
	char bytes[];
};
static struct room_piece *given_back;

static void *room_take(size_t size)
{
	size = (size + 15) & ~(size_t)15;
	for (struct room_piece **p = &given_back; *p; p = &(*p)->next)
		if ((*p)->size >= size && (*p)->size <= 2 * size) {
			struct room_piece *found = *p;
			*p = found->next;
			found->next = NULL;
			return found->bytes;
		}
	struct room_piece *new = (struct room_piece *)(room + room_used);
	room_used += sizeof(*new) + size;
	if (room_used > ROOM)
		abort();
	new->size = size;
	return new->bytes;
}

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

void *__wrap_malloc(size_t size) { return room_take(size); }

void *__wrap_calloc(size_t n, size_t size) { return memset(room_take(n * size), 0, n * size); }

void __wrap_free(void *p)
{
	struct room_piece *old = p ? (struct room_piece *)p - 1 : NULL;
	if (!old || (char *)p < room || (char *)p >= room + room_used)
		return;
	memset(old->bytes, 0, old->size);
	old->next = given_back;
	given_back = old;
}

void *__wrap_realloc(void *p, size_t size)
{
	size_t had = p ? ((struct room_piece *)p - 1)->size : 0;
	if (size <= had)
		return p;
	void *grown = malloc(size);
	if (had)
		memcpy(grown, p, had);
	free(p);
	return grown;
}

/** A mistake in the built-in knowledge ends the build: a program with it would only leave the block out, and say so to nobody. */
static void told(void *ctx, const char *file, unsigned line, const char *message)
{
	(void)ctx;
	dprintf(2, "knowledge/%s:%u: %s\n", file, line, message);
	_exit(1);
}

struct made {
	char *bytes;
	size_t size, know;
	uint64_t *pointers;
};

static void room_enter(void)
{
	room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		abort();
	room_used = 0;
	given_back = NULL;
}

static struct made room_load(void)
{
	room_enter();
	struct know *k = know_load_update(NULL, &(struct know_problems){ .report = told });
	k->arena = (struct arena){ 0 };
	return (struct made){ .bytes = room, .size = (room_used + 511) & ~(size_t)511, .know = (size_t)((char *)k - room) };
}

/** Where pointers may point to in @m. */
struct range {
	uintptr_t begin, size;
};

static void ranges_find(const struct made *m, struct range ret[IMAGE_BASES])
{
	uintptr_t bases[IMAGE_BASES];
	const struct know_file *last = know_embedded;
	const struct know_kind *kind = know_kinds;
	while (last[1].name)
		last++;
	while (kind->name)
		kind++;
	image_bases(bases);
	ret[IMAGE_ITSELF] = (struct range){ (uintptr_t)m->bytes, m->size };
	ret[IMAGE_TEXTS] = (struct range){ bases[IMAGE_TEXTS], (uintptr_t)last->end + 1 - bases[IMAGE_TEXTS] };
	ret[IMAGE_KINDS] = (struct range){ bases[IMAGE_KINDS], (uintptr_t)kind - bases[IMAGE_KINDS] };
}

/** Makes an offset of word @i of @m where it is a pointer. @other is the same word of the other room, which is @moved behind this one.
 * false: it points to nothing that another process has. */
static bool word_turn(const struct made *m, const struct range ranges[IMAGE_BASES], size_t i, uintptr_t other, uintptr_t moved)
{
	extern const char __executable_start[], end[];
	uintptr_t *word = (uintptr_t *)m->bytes + i;
	for (uintptr_t base = 0; base < IMAGE_BASES; base++) {
		const uintptr_t at = *word - ranges[base].begin;
		if (at >= ranges[base].size || other - *word != (base == IMAGE_ITSELF ? moved : 0))
			continue;
		*word = base << IMAGE_BASE_SHIFT | at;
		m->pointers[i / 64] |= 1ull << i % 64;
		return true;
	}
	return *word == other && (*word < (uintptr_t)__executable_start || *word >= (uintptr_t)end);
}

static bool write_out(const struct made *m, const char *bytes, const char *source)
{
	FILE *out = fopen(bytes, "w");
	bool ok = out && fwrite(m->pointers, m->size / 64, 1, out) && fwrite(m->bytes, m->size, 1, out) && !fclose(out);
	if (!ok || !(out = fopen(source, "w")))
		return false;
	fprintf(out,
		"// Made by tools/make_image.c.\n#include \"knowledge/image.h\"\n\n__asm__(\".section .rodata\\n.balign 4096\\n"
		"know_image_bytes:\\n.incbin \\\"%s\\\"\\n.previous\\n\");\nextern const char know_image_bytes[];\n"
		"const struct know_image know_image = { know_image_bytes + %zu, (const void *)know_image_bytes, %zu, %zu };\n",
		bytes, m->size / 64, m->size, m->know);
	return !fclose(out);
}

/** An image that says that there is none: what this compiler makes cannot be understood, and unhang parses the knowledge at each start. */
static int give_up(int argc, char **argv, const char *why)
{
	fprintf(stderr, "make-image: %s; unhang will start more slowly\n", why);
	FILE *bytes = argc == 3 ? fopen(argv[1], "w") : NULL, *source = argc == 3 ? fopen(argv[2], "w") : NULL;
	if (!bytes || !source)
		return 1;
	fprintf(source, "#include \"knowledge/image.h\"\n\nconst struct know_image know_image;\n");
	return fclose(bytes) || fclose(source);
}

int main(int argc, char **argv)
{
	struct made a = room_load(), b = room_load();
	struct range ranges[IMAGE_BASES];
	room_enter();
	a.pointers = calloc(1, a.size / 64);
	ranges_find(&a, ranges);
	if (a.size != b.size || a.know != b.know)
		return give_up(argc, argv, "the same files took another room");
	for (size_t i = 0; i < a.size / 8; i++)
		if (!word_turn(&a, ranges, i, ((const uintptr_t *)b.bytes)[i], (uintptr_t)b.bytes - (uintptr_t)a.bytes))
			return give_up(argc, argv, "a pointer leads out of what is embedded");
	if (argc == 2 && !strcmp(argv[1], "--check")) {
		bool same = know_image.size == a.size && know_image.know == a.know &&
			    !memcmp(know_image.bytes, a.bytes, a.size) && !memcmp(know_image.pointers, a.pointers, a.size / 64);
		return printf("1..1\n%sok 1 - the image is what the files say\n", same ? "" : "not "), !same;
	}
	return argc == 3 && write_out(&a, argv[1], argv[2]) ? 0 : 1;
}

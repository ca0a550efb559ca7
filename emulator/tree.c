// The nodes of the emulated tree, and the directories that every machine has.
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "emulator/server.h"

double server_time(const struct server *s)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	double begin = *(const volatile double *)s->begin;
	return begin > 0 ? (double)now.tv_sec + (double)now.tv_nsec / 1e9 - begin : 0;
}

static struct node *node_new(struct server *s, struct node *parent, struct str name, mode_t mode)
{
	struct node *n = mem_alloc(sizeof(*n));
	n->name = arena_z(&s->arena, name);
	n->mode = mode;
	n->parent = parent;
	vec_push(&s->nodes, n);
	n->number = s->nodes.len;
	if (parent) {
		n->seat = parent->seat;
		n->debugfs = parent->debugfs;
		vec_push(&parent->children, n);
	}
	return n;
}

struct node *tree_find(const struct node *directory, struct str name)
{
	for (size_t i = 0; i < directory->children.len; i++)
		if (str_is(name, directory->children.data[i]->name))
			return directory->children.data[i];
	return NULL;
}

void tree_remove(struct node *directory, struct str name)
{
	for (size_t i = 0; i < directory->children.len; i++)
		if (str_is(name, directory->children.data[i]->name)) {
			memmove(directory->children.data + i, directory->children.data + i + 1,
				(--directory->children.len - i) * sizeof(directory->children.data[0]));
			return;
		}
}

/** The directory that the last part of @path is in, made where it is missing. */
static struct node *make_way(struct server *s, struct node *parent, struct str *path)
{
	for (;;) {
		struct str rest = *path, part = str_split(&rest, '/');
		if (part.n == path->n || !S_ISDIR(parent->mode))
			return parent;
		if (part.n) {
			struct node *next = tree_find(parent, part);
			parent = next ? next : node_new(s, parent, part, S_IFDIR | 0755);
		}
		*path = rest;
	}
}

struct node *tree_directory(struct server *s, struct node *parent, const char *path, mode_t mode)
{
	struct str rest = str_z(path);
	parent = make_way(s, parent, &rest);
	struct node *n = tree_find(parent, rest);
	if (!n)
		n = node_new(s, parent, rest, S_IFDIR | mode);
	return n;
}

/** What a scenario writes out takes the place of what is there. */
static struct node *leaf(struct server *s, struct node *parent, const char *path, mode_t mode)
{
	struct str rest = str_z(path);
	struct node *directory = make_way(s, parent, &rest);
	struct node *n = tree_find(directory, rest);
	if (!n || S_ISDIR(n->mode))
		n = node_new(s, directory, rest, mode);
	n->mode = mode;
	return n;
}

struct node *tree_file(struct server *s, struct node *parent, const char *path, mode_t mode, const struct kind *kind)
{
	struct node *n = leaf(s, parent, path, S_IFREG | mode);
	n->kind = kind;
	return n;
}

struct node *tree_named(struct server *s, struct node *parent, const char *path, mode_t mode, const struct kind *kind)
{
	struct node *n = tree_file(s, parent, path, mode, kind);
	n->path = arena_str(&s->arena, str_z(path));
	return n;
}

static int fill_fixed(struct server *s, const struct node *n, struct text *ret)
{
	(void)s;
	text_add(ret, n->text);
	return 0;
}

struct node *tree_text(struct server *s, struct node *parent, const char *path, struct str text)
{
	static const struct kind fixed = { .fill = fill_fixed };
	struct node *n = tree_file(s, parent, path, 0444, &fixed);
	n->text = arena_str(&s->arena, text);
	return n;
}

void tree_link(struct server *s, struct node *parent, const char *path, const char *target)
{
	struct node *n = leaf(s, parent, path, S_IFLNK | 0777);
	n->link = arena_z(&s->arena, str_z(target));
}

void tree_path(const struct node *n, struct text *ret)
{
	if (!n->parent)
		return;
	tree_path(n->parent, ret);
	text_printf(ret, "/%s", n->name);
}

void tree_build(struct server *s)
{
	struct node *root = node_new(s, NULL, S("/"), S_IFDIR | 0755);
	struct node *sys = tree_directory(s, root, "sys", 0755);
	build_sysfs(s, sys);
	for (size_t i = 0; i < s->nseats; i++) {
		seat_prepare(s, &s->seats[i]);
		build_gpu_sysfs(s, sys, &s->seats[i]);
	}
	build_kfd(s, sys);
	if (!emu_no_debugfs(s->machine))
		build_debugfs(s, tree_directory(s, sys, "kernel/debug", 0700));
	build_nodes(s, tree_directory(s, root, "dev", 0755));
	build_clients(s, tree_directory(s, root, "proc", 0555));
}

void tree_free(struct server *s)
{
	for (size_t i = 0; i < s->nodes.len; i++) {
		vec_free(&s->nodes.data[i]->children);
		free(s->nodes.data[i]);
	}
	vec_free(&s->nodes);
	for (size_t i = 0; i < s->nseats; i++)
		vec_free(&s->seats[i].allowed);
	arena_free(&s->arena);
}

// Fuzzes the readers of src/host and those of gpu/ that find devices. The input is a machine as tests/machine_tree.py writes it down; each
// file that a reader asks for is answered from it, in memory of exactly its size, and no child is started. A head `=== PATH !` answers
// that the child is stuck there, `=== PATH ?` that it may not be read.
//
// A look asks for some three hundred files, some of them once for each GPU: that is why there are few of them in a second.
#include <errno.h>
#include <stdio.h>

#include "feed.h"
#include "host/host.h"
#include "childless.h"
#include "know.h"
#include "source/probe_find.h"

enum { NODES = 1024, SLOTS = 1 << 12, PATH_ROOM = 512, HOPS = 8, PAGE = 4096 };

struct node {
	struct str path, text;
	struct str target; // of a link
	enum probe_end end;
};

static struct {
	struct node nodes[NODES];
	size_t n, links[NODES], nlinks;
	uint16_t first[SLOTS]; // index + 1 of a node by its path
	VEC(char *) answers;
} tree;

void __wrap_probe_run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count);
void __wrap_probe_run(struct arena *a, struct probe *probes, size_t n, int milliseconds, struct probe_stuck *ret_stuck,
		      struct probe_count *count);
static uint16_t *slot_of(struct str path)
{
	uint32_t hash = 2166136261;
	for (size_t i = 0; i < path.n; i++)
		hash = (hash ^ (unsigned char)path.p[i]) * 16777619;
	uint32_t slot = hash % SLOTS;
	while (tree.first[slot] && !str_eq(tree.nodes[tree.first[slot] - 1].path, path))
		slot = (slot + 1) % SLOTS;
	return &tree.first[slot];
}

static void tree_read(struct str text)
{
	tree.n = tree.nlinks = 0;
	memset(tree.first, 0, sizeof(tree.first));
	while (text.n && tree.n < NODES) {
		struct str head = str_split(&text, '\n'), path;
		if (!str_behind(head, S("=== "), &path))
			continue;
		struct node *node = &tree.nodes[tree.n];
		*node = (struct node){ .path = str_split(&path, ' '), .end = PROBE_GOOD };
		str_behind(path, S("->"), &node->target);
		node->end = str_is(path, "!") ? PROBE_STUCK : str_is(path, "?") ? PROBE_FAILED : PROBE_GOOD;
		ptrdiff_t next = str_starts(text, S("=== ")) ? 0 : str_find(text, S("\n=== ")) + 1;
		node->text = str_cut(text, next || str_starts(text, S("=== ")) ? (size_t)next : text.n);
		text = str_from(text, node->text.n);
		if (node->target.n)
			tree.links[tree.nlinks++] = tree.n;
		*slot_of(node->path) = (uint16_t)++tree.n;
	}
}

/** @path with what `.` and `..` in it say done. */
static struct str plain(struct str path, char room[static PATH_ROOM])
{
	size_t n = 0;
	while (path.n) {
		struct str part = str_split(&path, '/');
		if (str_is(part, "..")) {
			while (n && room[--n] != '/')
				;
		} else if (part.n && !str_is(part, ".") && n + 1 + part.n < PATH_ROOM) {
			room[n++] = '/';
			memcpy(room + n, part.p, part.n);
			n += part.n;
		}
	}
	return (struct str){ room, n };
}

/** The link that is a part of @path, or with @last all of it. */
static const struct node *link_in(struct str path, bool last)
{
	for (size_t i = 0; i < tree.nlinks; i++) {
		const struct node *node = &tree.nodes[tree.links[i]];
		size_t n = node->path.n;
		if ((path.n == n ? last : path.n > n && path.p[n] == '/') && str_starts(path, node->path))
			return node;
	}
	return NULL;
}

static struct str follow(struct str path, bool last, char room[static PATH_ROOM])
{
	char whole[2 * PATH_ROOM];
	path = plain(path, room);
	const struct node *link;
	for (int hops = 0; hops < HOPS && (link = link_in(path, last)); hops++) {
		struct str base = str_base(link->path), above = str_cut(link->path, link->path.n - base.n);
		if (str_starts(link->target, S("/")))
			above = S("");
		int n = snprintf(whole, sizeof(whole), STR_FMT STR_FMT STR_FMT, STR_ARG(above), STR_ARG(link->target),
				 STR_ARG(str_from(path, link->path.n)));
		path = plain((struct str){ whole, (size_t)n < sizeof(whole) ? (size_t)n : sizeof(whole) - 1 }, room);
	}
	return path;
}

/** The names in a directory; what is below one of them stands together, as it does in a tree that was walked. */
static bool list(struct str path, struct text *out)
{
	struct str last = { 0 };
	for (size_t i = 0; i < tree.n; i++) {
		struct str below = tree.nodes[i].path;
		if (below.n <= path.n || below.p[path.n] != '/' || !str_starts(below, path))
			continue;
		below = str_from(below, path.n + 1);
		struct str name = str_split(&below, '/');
		if (str_eq(name, last))
			continue;
		text_add(out, name);
		text_add(out, S("\n"));
		last = name;
	}
	return out->n;
}

static void give(struct probe *p, struct str bytes)
{
	size_t most = p->size ? p->size : PAGE;
	bytes = p->from_end && bytes.n > most ? str_from(bytes, bytes.n - most) : str_cut(bytes, most);
	char *copy = malloc(bytes.n + !bytes.n);
	if (bytes.n)
		memcpy(copy, bytes.p, bytes.n);
	vec_push(&tree.answers, copy);
	p->data = copy;
	p->n = bytes.n;
	p->end = PROBE_GOOD;
}

static void give_node(struct probe *p, const struct node *node)
{
	ptrdiff_t at;
	p->end = node->end;
	p->error = EACCES;
	if (node->end != PROBE_GOOD)
		return;
	if (p->kind == PROBE_FILE)
		give(p, node->text);
	else if (p->kind == PROBE_READ)
		give(p, str_from(node->text, p->offset < node->text.n ? (size_t)p->offset : node->text.n));
	else if (p->kind == PROBE_FIND && (at = str_find(node->text, p->find)) >= 0)
		give(p, str_from(node->text, (size_t)at));
	else if (p->kind == PROBE_SECTION && section_find(node->text, p->find).p)
		give(p, section_find(node->text, p->find));
	else
		p->end = PROBE_FAILED;
}

static void answer(struct probe *p)
{
	char room[PATH_ROOM];
	struct str path = follow(str_z(p->path), p->kind != PROBE_LINK, room);
	struct text names = { 0 };
	p->end = PROBE_FAILED;
	p->error = ENOENT;
	if (p->kind == PROBE_LIST) {
		if (list(path, &names))
			give(p, text_str(&names));
		text_free(&names);
		return;
	}
	size_t found = *slot_of(path);
	const struct node *node = found ? &tree.nodes[found - 1] : NULL;
	if (node && p->kind == PROBE_LINK && node->target.n)
		give(p, node->target);
	else if (node)
		give_node(p, node);
}

void __wrap_probe_run_all(struct arena *a, struct probe_batch *batches, size_t n, int milliseconds, struct probe_count *count)
{
	(void)a;
	(void)milliseconds;
	for (size_t b = 0; b < n; b++)
		for (size_t i = 0; i < batches[b].n; i++) {
			struct probe *p = &batches[b].probes[i];
			count->operations++;
			answer(p);
			if (p->unless.n && p->n >= p->unless_at &&
			    str_starts(str_from((struct str){ p->data, p->n }, p->unless_at), p->unless))
				i += p->skips;
		}
}

void __wrap_probe_run(struct arena *a, struct probe *probes, size_t n, int milliseconds, struct probe_stuck *ret_stuck,
		      struct probe_count *count)
{
	struct probe_batch batch = { .probes = probes, .n = n };
	__wrap_probe_run_all(a, &batch, 1, milliseconds, count);
	if (ret_stuck)
		*ret_stuck = (struct probe_stuck){ 0 };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct host h;
	tree_read((struct str){ (const char *)data, size });
	host_look(know, (struct machine_at){ .root = "/nowhere" }, &h);
	for (size_t i = 0; i < h.items.len; i++)
		for (size_t f = 0; f < h.items.data[i]->facts.len; f++) {
			const struct host_fact *fact = h.items.data[i]->facts.data[f];
			if (!fact->name.n || !fact->value.n || !feed_readable(fact->name) || !feed_readable(fact->value) ||
			    !feed_readable(fact->where))
				abort();
		}
	host_free(&h);
	for (size_t i = 0; i < tree.answers.len; i++)
		free(tree.answers.data[i]);
	vec_free(&tree.answers);
	return 0;
}

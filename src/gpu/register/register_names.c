// What a user who types the name of a register may mean: of which block, of which part, or which name near it.
#include "gpu/register/register_names.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"

enum { NEAR_SHOWN = 6, NAME_MOST = 64 };

struct str register_unread(const struct reg *r)
{
	return r->acts ? S("reading it acts on the GPU") :
	       r->may_be_off ?
			 S("its block may be without power while the GPU is awake, and an access could stop the machine") :
			 (struct str){ 0 };
}

// --- parts ---

/** A table by its name, or the relative of one that there is not: mmhub_3_0_4. */
static const struct register_table *table_named(struct str name)
{
	for (size_t i = 0; i < register_tables(); i++)
		if (str_like(register_table_name(register_table_at(i)), name))
			return register_table_at(i);
	struct str ip = str_split(&name, '_');
	int64_t version[3] = { 0 };
	for (int i = 0; i < 3 && (name.n || !i); i++) {
		struct str part = str_split(&name, '_');
		if (!str_number(part, &version[i]) || version[i] < 0 || version[i] > UINT8_MAX)
			return NULL;
	}
	return name.n ? NULL : register_table_for(ip, (unsigned)version[0], (unsigned)version[1], (unsigned)version[2], NULL);
}

struct uh_error *part_tables_of(const struct know *k, struct str part, struct part_tables *ret)
{
	unsigned gc[3];
	const struct register_table *t = table_named(part);
	if (!t && part.n && gc_of_gfx(k, part, gc))
		t = register_table_for(S("gc"), gc[0], gc[1], gc[2], NULL);
	if (!t)
		return uh_error_new("there are no registers of '" STR_FMT "'; it is a GPU such as gfx1100, or a table such as "
				    "mmhub_3_0_0",
				    STR_ARG(part));
	vec_push(ret, ((struct part_table){ { register_table_ip(t), register_table_ip(t), 0 }, t }));
	return NULL;
}

/** Its name says which of several it is: mmhub1. */
static struct named_block register_names_block_of(struct arena *a, const struct device *d, const struct ip *ip)
{
	size_t same = 0;
	for (size_t i = 0; i < d->nips; i++)
		same += str_eq(d->ips[i].name, ip->name);
	struct str name = same > 1 ? arena_printf(a, STR_FMT "%u", STR_ARG(ip->name), ip->instance) : ip->name;
	return (struct named_block){ name, ip->name, ip->instance };
}

void part_tables_of_device(struct arena *a, const struct device *d, struct part_tables *ret)
{
	for (size_t i = 0; i < d->nips; i++) {
		const struct ip *ip = &d->ips[i];
		const struct register_table *t =
			register_table_for(ip->name, ip->version[0], ip->version[1], ip->version[2], NULL);
		// Copy engines whose registers stand in the table of another block are found there.
		if (t && (!register_table_from(t).n || str_eq(register_table_from(t), ip->name)))
			vec_push(ret, ((struct part_table){ register_names_block_of(a, d, ip), t }));
	}
}

// --- by name ---

/** Takes `gc.` off a name; else the block is any. */
static struct str split_block(struct str *name)
{
	return name->n && memchr(name->p, '.', name->n) ? str_split(name, '.') : S("*");
}

/** The name without what the driver's headers put before it: regGRBM_STATUS, ixDIDT_SQ_CTRL0. */
static struct str register_plain(struct str name)
{
	static const char *const prefixes[] = { "reg", "mm", "ix", "smn" };
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		const struct str p = str_z(prefixes[i]);
		if (str_starts(name, p) && name.n > p.n && name.p[p.n] >= 'A' && name.p[p.n] <= 'Z')
			return str_from(name, p.n);
	}
	return name;
}

/** Adds those of a table that are like @name, and whose names are like @own. */
static void add_like(struct named_block block, const struct register_table *t, struct str name, struct str own,
		     struct named_registers *to)
{
	struct reg r;
	bool pattern = str_is_pattern(name);
	for (size_t i = 0; i < (pattern ? registers_count(t) : 1); i++) {
		if (pattern)
			r = register_at(t, i);
		else if (!register_find(t, name, &r))
			return;
		if (str_like(own, r.name) && (!pattern || str_like(name, r.name)))
			vec_push(to, ((struct named_register){ .block = block, .reg = r }));
	}
}

size_t part_registers(const struct part_tables *p, struct str name, struct named_registers *to)
{
	const size_t before = to->len;
	const struct str block = split_block(&name);
	name = register_plain(name);
	char own[NAME_MOST];
	// The registers of all copy engines may stand in one table, that of GC or of the first engine.
	snprintf(own, sizeof(own), STR_FMT "_*", STR_ARG(block));
	const bool engine = str_starts(block, S("sdma"));
	for (size_t i = 0; i < p->len; i++)
		if (str_like(block, p->data[i].block.name) || str_like(block, p->data[i].block.ip))
			add_like(p->data[i].block, p->data[i].table, name, S("*"), to);
		else if (engine && register_table_from(p->data[i].table).n)
			add_like(p->data[i].block, p->data[i].table, name, str_z(own), to);
	return to->len - before;
}

size_t named_device_registers(struct arena *a, const struct device *d, struct str name, struct named_registers *to)
{
	name = register_plain(name);
	size_t n = device_registers(d, name, NULL, 0);
	_cleanup_free_ struct device_register *found = mem_alloc(n * sizeof(*found) + 1);
	n = device_registers(d, name, found, n);
	for (size_t i = 0; i < n; i++) {
		const struct named_block block = register_names_block_of(a, d, found[i].ip);
		vec_push(to, ((struct named_register){ block, found[i].reg, true, found[i].address }));
	}
	return n;
}

// --- near names ---

struct near {
	size_t distance; // letters that differ; 1 where one name has the other in it
	struct str name;
};

static int by_distance(const void *a, const void *b)
{
	const struct near *x = a, *y = b;
	return x->distance != y->distance ? x->distance < y->distance ? -1 : 1 : str_cmp(x->name, y->name);
}

/** The tables of a block that @all has nothing of, because the version of a part's is not known. */
static struct str tables_of(struct arena *a, const struct named_registers *all, struct str block)
{
	_cleanup_text_ struct text out = { 0 };
	if (list_find(all->data, all->len, it, str_like(block, it->block.name) || str_like(block, it->block.ip)))
		return (struct str){ 0 };
	for (size_t i = 0; i < register_tables(); i++) {
		const struct register_table *t = register_table_at(i);
		if (str_like(block, register_table_ip(t)))
			text_printf(&out, "%s" STR_FMT, out.n ? ", " : "; its version is not known here: name one of ",
				    STR_ARG(register_table_name(t)));
	}
	return arena_str(a, text_str(&out));
}

struct str near_names(struct arena *a, const struct named_registers *all, struct str name)
{
	char upper[NAME_MOST + 1];
	struct str tables = tables_of(a, all, split_block(&name));
	if (tables.n)
		return tables;
	str_copy(upper, sizeof(upper), name);
	for (char *c = upper; *c; c++)
		*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
	struct str asked = str_z(upper);
	_cleanup_vec_ VEC(struct near) found = { 0 };
	const size_t most = 2 + asked.n / 5;
	for (size_t i = 0; i < all->len; i++) {
		struct str known = all->data[i].reg.name;
		struct near n = { asked.n > 2 && str_find(known, asked) >= 0 ? 1 : str_typos(asked, known, most), known };
		if (n.distance <= most)
			vec_push(&found, n);
	}
	if (found.len)
		qsort(found.data, found.len, sizeof(*found.data), by_distance);
	_cleanup_text_ struct text out = { 0 };
	size_t shown = 0;
	for (size_t i = 0; i < found.len && shown < NEAR_SHOWN; i++)
		if (!i || !str_eq(found.data[i].name, found.data[i - 1].name))
			text_printf(&out, "%s" STR_FMT, shown++ ? ", " : "; near it: ", STR_ARG(found.data[i].name));
	return arena_str(a, text_str(&out));
}

#include "host/host.h"

#include <errno.h>
#include <stdlib.h>

enum { ASK_MS = 700 };

struct host_item *host_add(struct host *h, const char *kind, struct host_item *of)
{
	struct host_item *i = arena_alloc(&h->arena, sizeof(*i));
	i->kind = str_z(kind);
	i->of = of;
	i->gpu = of ? of->gpu : NULL;
	vec_push(&h->items, i);
	return i;
}

static void note(struct host *h, struct host_item *i, const char *name, struct host_fact fact)
{
	if (!fact.value.n)
		return;
	struct host_fact *f = arena_alloc(&h->arena, sizeof(*f));
	*f = (struct host_fact){ arena_str(&h->arena, str_z(name)), arena_str(&h->arena, fact.value),
				 arena_str(&h->arena, fact.where), fact.command };
	vec_push(&i->facts, f);
}

void host_note(struct host *h, struct host_item *i, const char *name, struct str value, struct str where)
{
	note(h, i, name, (struct host_fact){ .value = value, .where = where });
}

void host_note_command(struct host *h, struct host_item *i, const char *name, const struct command *c, struct str where)
{
	note(h, i, name, (struct host_fact){ .value = command_str(c), .where = where, .command = c });
}

void host_note_number(struct host *h, struct host_item *i, const char *name, int64_t value, struct str where)
{
	host_note(h, i, name, arena_printf(&h->arena, "%lld", (long long)value), where);
}

struct host_item *host_machine(const struct host *h) { return h->items.data[0]; }

struct host_item *host_gpu(const struct host *h, const struct device *d)
{
	for (size_t n = 0; n < h->items.len; n++)
		if (str_is(h->items.data[n]->kind, "gpu") && h->items.data[n]->gpu == d)
			return h->items.data[n];
	return NULL;
}

static const struct host_fact *own(const struct host_item *i, struct str name, size_t index)
{
	for (size_t n = 0; i && n < i->facts.len; n++)
		if (str_eq(i->facts.data[n]->name, name) && index-- == 0)
			return i->facts.data[n];
	return NULL;
}

const struct host_fact *host_fact(const struct host *h, const struct host_item *i, struct str name, size_t index)
{
	for (; i; i = i->of)
		if (own(i, name, 0))
			return own(i, name, index);
	return own(host_machine(h), name, index);
}

struct str host_value(const struct host *h, const struct host_item *i, const char *name)
{
	const struct host_fact *f = host_fact(h, i, str_z(name), 0);
	return f ? f->value : (struct str){ 0 };
}

bool host_says(const struct host_item *i, const char *name, struct str value)
{
	for (size_t n = 0; n < i->facts.len; n++)
		if (str_is(i->facts.data[n]->name, name) && (!value.n || str_eq(i->facts.data[n]->value, value)))
			return true;
	return false;
}

bool host_get(const void *scope, struct str name, size_t index, struct str *ret)
{
	const struct host_scope *s = scope;
	bool place = str_ends(name, S("@"));
	const struct host_fact *f = host_fact(s->host, s->item, place ? str_cut(name, name.n - 1) : name, index);
	if (!f)
		return false;
	*ret = place ? f->where : f->value;
	return ret->n;
}

const struct command *host_get_command(const void *scope, struct str name)
{
	const struct host_scope *s = scope;
	const struct host_fact *f = host_fact(s->host, s->item, name, 0);
	return f ? f->command : NULL;
}

void host_note_unread(struct host *h, const char *what, struct str where)
{
	if (!host_says(host_machine(h), "unread", str_z(what)))
		host_note(h, host_machine(h), "unread", str_z(what), where);
}

/** What is missed where such a path may not be read. Logs are not here: one is enough, and there are several. */
static const struct {
	const char *pattern, *what;
} important[] = {
	{ "/sys/kernel/debug*", "debugfs (firmware versions)" }, { "/sys/module/amdgpu/parameters/*", "parameters of amdgpu" },
	{ "/proc/cmdline", "the kernel's command line" },        { "*/modprobe.d*", "modprobe.d (parameters)" },
	{ "/etc/default/grub*", "the boot loader's settings" },  { "/boot*", "the boot loader's settings" },
};

static void note_refused(struct host *h, struct str path)
{
	for (size_t i = 0; i < sizeof(important) / sizeof(important[0]); i++)
		if (str_glob(str_z(important[i].pattern), path))
			host_note_unread(h, important[i].what, path);
}

void host_probe(struct host *h, struct probe *probes, size_t n)
{
	struct probe_batch batch = { .probes = probes, .n = n, .root = h->root };
	probe_run_all(&h->arena, &batch, 1, ASK_MS, &h->count);
	for (size_t i = 0; i < n; i++)
		if (probes[i].end == PROBE_FAILED && (probes[i].error == EACCES || probes[i].error == EPERM))
			note_refused(h, str_z(probes[i].path));
}

static void note_devices_refused(struct host *h)
{
	for (size_t d = 0; d < h->devices.n; d++) {
		struct str refused = h->devices.list[d].refused;
		while (refused.n)
			note_refused(h, str_split(&refused, '\n'));
	}
}

struct str host_text(struct host *h, const char *path, size_t most)
{
	struct probe p = { .path = path, .size = most };
	host_probe(h, &p, 1);
	return probe_text(&p);
}

void host_look(const struct know *k, const char *root, struct host *ret)
{
	*ret = (struct host){ .know = k, .root = root };
	host_add(ret, "machine", NULL);
	devices_find_at(k, root, &ret->devices);
	for (size_t n = 0; n < ret->devices.n; n++)
		host_add(ret, "gpu", NULL)->gpu = &ret->devices.list[n];
	note_devices_refused(ret);
	host_read_kernel(ret);
	host_read_boot(ret);
	host_read_settings(ret);
	host_read_gpus(ret);
	host_read_platform(ret);
	host_read_software(ret);
	host_read_environment(ret);
	host_read_processes(ret);
}

void host_look_beside(const struct know *k, struct host *ret)
{
	enum { NAME_MOST = 256 };
	struct probe probes[] = {
		{ .path = "/proc/sys/kernel/osrelease", .size = NAME_MOST },
		{ .path = "/sys/module/amdgpu/version", .size = NAME_MOST },
	};
	*ret = (struct host){ .know = k };
	host_add(ret, "machine", NULL);
	host_probe(ret, probes, sizeof(probes) / sizeof(probes[0]));
	ret->devices.kernel = str_trim(probe_text(&probes[0]));
	ret->devices.driver_version = str_trim(probe_text(&probes[1]));
	host_read_kernel(ret);
	host_read_settings(ret);
	host_read_software(ret);
}

void host_free(struct host *h)
{
	for (size_t n = 0; n < h->items.len; n++)
		vec_free(&h->items.data[n]->facts);
	vec_free(&h->items);
	devices_free(&h->devices);
	arena_free(&h->arena);
}

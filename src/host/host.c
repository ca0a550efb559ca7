// The machine as facts: who looks in which order, and what a fact is. A reader that could not read something puts all that it derives
// from then on in doubt, and a doubtful fact never makes a finding: that is why readers note facts only through the functions here.
#include "host/host.h"

#include <errno.h>
#include <stdlib.h>

#include "base/child.h"
#include "base/door/door.h"
#include "source/tape/tape.h"

bool word_next(struct str *rest, struct str *ret)
{
	*rest = str_trim(*rest);
	size_t n = 0;
	for (bool quoted = false; n < rest->n && (quoted || !char_space(rest->p[n])); n++)
		quoted ^= rest->p[n] == '"';
	*ret = str_cut(*rest, n);
	*rest = str_from(*rest, n);
	return ret->n;
}

static struct str without_end_quote(struct str s) { return str_ends(s, S("\"")) ? str_cut(s, s.n - 1) : s; }

bool word_split(struct str word, struct str *ret_name, struct str *ret_value)
{
	if (str_starts(word, S("\"")))
		word = without_end_quote(str_from(word, 1));
	struct str value = word;
	*ret_name = str_split(&value, '=');
	bool has = ret_name->n < word.n;
	if (str_starts(value, S("\"")))
		value = without_end_quote(str_from(value, 1));
	*ret_value = has ? value : S("");
	return has;
}

struct str word_plain(struct arena *a, struct str name)
{
	char *plain = arena_z(a, name);
	for (size_t i = 0; i < name.n; i++)
		plain[i] = plain[i] == '-' ? '_' : plain[i];
	return (struct str){ plain, name.n };
}

// --- facts and items ---

enum { ASK_MS = 700, LATE_NAMED = 64, BESIDE_MS = 10000 };

struct host_item *host_add(struct host *h, const char *kind, struct host_item *of)
{
	struct host_item *i = arena_alloc(&h->arena, sizeof(*i));
	i->kind = str_z(kind);
	i->of = of;
	i->gpu = of ? of->gpu : NULL;
	i->doubt = h->doubt;
	vec_push(&h->items, i);
	return i;
}

static void host_add_fact(struct host *h, struct host_item *i, struct host_fact fact)
{
	struct host_fact *f = arena_alloc(&h->arena, sizeof(*f));
	*f = (struct host_fact){ arena_str(&h->arena, fact.name), arena_str(&h->arena, fact.value),
				 arena_str(&h->arena, fact.where), fact.command, fact.doubt };
	vec_push(&i->facts, f);
}

void host_note(struct host *h, struct host_item *i, const char *name, struct str value, struct str where)
{
	if (value.n)
		host_add_fact(h, i, (struct host_fact){ str_z(name), value, where, NULL, h->doubt });
}

void host_note_command(struct host *h, struct host_item *i, const char *name, const struct command *c, struct str where)
{
	if (c)
		host_add_fact(h, i, (struct host_fact){ str_z(name), command_str(c), where, c, h->doubt });
}

void host_note_said(struct host *h, struct host_item *i, const char *name, struct str value, struct str where)
{
	if (value.n)
		host_add_fact(h, i, (struct host_fact){ str_z(name), value, where, NULL, false });
}

void host_note_doubt(struct host *h, struct host_item *i, const char *name)
{
	if (h->doubt && !host_says(i, name, (struct str){ 0 }))
		host_add_fact(h, i, (struct host_fact){ .name = str_z(name), .doubt = true });
}

void host_note_number(struct host *h, struct host_item *i, const char *name, int64_t value, struct str where)
{
	host_note(h, i, name, arena_printf(&h->arena, "%lld", (long long)value), where);
}

struct host_item *host_machine(const struct host *h) { return h->items.data[0]; }

struct host_item *host_gpu(const struct host *h, const struct device *d)
{
	return list_find_of(h->items.data, h->items.len, it, str_is(it->kind, "gpu") && it->gpu == d);
}

static const struct host_fact *own(const struct host_item *i, struct str name, size_t index)
{
	return i ? list_find_of(i->facts.data, i->facts.len, f, f->value.n && str_eq(f->name, name) && index-- == 0) : NULL;
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
	return list_find_of(i->facts.data, i->facts.len, f,
			    f->value.n && str_is(f->name, name) && (!value.n || str_eq(f->value, value)));
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

/** As fact_view.command(). */
static const struct command *host_get_command(const void *scope, struct str name)
{
	const struct host_scope *s = scope;
	const struct host_fact *f = host_fact(s->host, s->item, name, 0);
	return f ? f->command : NULL;
}

/** Whether the item has it; then whether one of its values is in doubt. */
static bool has(const struct host_item *i, struct str name, bool *ret_doubt)
{
	bool there = false;
	for (size_t n = 0; n < i->facts.len; n++)
		if (str_eq(i->facts.data[n]->name, name)) {
			there = true;
			*ret_doubt |= i->facts.data[n]->doubt;
		}
	return there;
}

/** Whether what host_get() says about it may be wrong. */
static bool host_unread(const void *scope, struct str name)
{
	const struct host_scope *s = scope;
	const struct host_item *m = host_machine(s->host);
	bool lacks = false, doubt = false;
	name = str_ends(name, S("@")) ? str_cut(name, name.n - 1) : name;
	for (const struct host_item *i = s->item; i; i = i->of) {
		if (has(i, name, &doubt))
			return doubt;
		lacks |= i->doubt;
	}
	return has(m, name, &doubt) ? doubt : lacks || m->doubt;
}

struct fact_view host_view(const struct host_scope *scope)
{
	return (struct fact_view){ .get = host_get, .ctx = scope, .command = host_get_command, .unread = host_unread };
}

void host_note_unread(struct host *h, const char *what, struct str where)
{
	if (!host_says(host_machine(h), "unread", str_z(what)))
		host_note_said(h, host_machine(h), "unread", str_z(what), where);
}

/** What is missing if such a path may not be read. Logs are not listed: there are several, and one is enough. */
static const struct {
	const char *pattern, *what;
} important[] = {
	{ "/sys/kernel/debug*", "debugfs (firmware versions)" }, { "/sys/module/amdgpu/parameters/*", "parameters of amdgpu" },
	{ "/proc/cmdline", "the kernel command line" },          { "*/modprobe.d*", "modprobe.d (parameters)" },
	{ "/etc/default/grub*", "the boot loader's settings" },  { "/boot*", "the boot loader's settings" },
};

static void note_refused(struct host *h, struct str path)
{
	for (size_t i = 0; i < ARRAY_SIZE(important); i++)
		if (str_glob(str_z(important[i].pattern), path))
			host_note_unread(h, important[i].what, path);
}

/** Thousands may be unread where a file system does not answer: the first are named. */
static void note_late(struct host *h, struct str path)
{
	struct host_item *m = host_machine(h);
	if (!host_fact(h, m, S("unread"), LATE_NAMED))
		host_note_unread(h, arena_z(&h->arena, path), path);
}

bool host_note_ends(struct host *h, const struct probe *probes, size_t n)
{
	bool late = false;
	for (size_t i = 0; i < n; i++) {
		if (probe_unread(&probes[i]))
			note_late(h, str_z(probes[i].path));
		else if (probes[i].end == PROBE_FAILED && (probes[i].error == EACCES || probes[i].error == EPERM))
			note_refused(h, str_z(probes[i].path));
		late |= probe_unread(&probes[i]);
	}
	return late;
}

void host_probe(struct host *h, struct probe *probes, size_t n)
{
	struct probe_batch batch = { .probes = probes, .n = n, .root = h->root, .goes_on = true };
	probe_run_all(&h->arena, &batch, 1, ASK_MS, &h->count);
	h->doubt |= host_note_ends(h, probes, n);
}

bool host_answers(struct host *h, const char *path)
{
	struct probe_patience *patience = h->count.patience;
	int64_t began = now_ms();
	if (tape_plays(h->tape)) // what a tape has answered
		return true;
	struct opened what;
	_cleanup_error_ struct uh_error *err =
		patience->left > 0 ? door_look(&(struct named){ .path = path, .root = h->root }, &what) : NULL;
	if (patience->left > 0 && !(err && err->errnum == ETIMEDOUT))
		return true;
	int64_t took = now_ms() - began;
	patience->left -= took < patience->left ? took : patience->left;
	note_late(h, str_z(path));
	h->doubt = true;
	return false;
}

static void note_paths(struct host *h, struct str paths, void (*note)(struct host *h, struct str path))
{
	str_each (path, paths, '\n')
		note(h, path);
}

struct str host_text(struct host *h, const char *path, size_t most)
{
	struct probe p = { .path = path, .size = most };
	host_probe(h, &p, 1);
	return probe_text(&p);
}

void host_look(const struct know *k, struct machine_at at, struct host *ret) { host_look_with(k, at, NULL, ret); }

void host_look_with(const struct know *k, struct machine_at at, const struct devices *found, struct host *ret)
{
	// What matters most comes first: what is in doubt once stays so for those behind it.
	static void (*const readers[])(struct host *) = {
		host_read_kernel,   host_read_gpus,     host_read_boot,        host_read_settings,
		host_read_platform, host_read_software, host_read_environment, host_read_processes,
	};
	*ret = (struct host){ .know = k, .root = at.root, .tape = at.tape };
	host_add(ret, "machine", NULL);
	ret->devices_borrowed = found;
	if (found)
		ret->devices = *found;
	else
		devices_find_at(k, at, &ret->devices);
	ret->count.patience = ret->devices.count.patience;
	ret->doubt = ret->devices.unread.n;
	for (size_t n = 0; n < ret->devices.n; n++)
		host_add(ret, "gpu", NULL)->gpu = &ret->devices.list[n];
	const struct devices *d = &ret->devices;
	note_paths(ret, d->unread.paths, note_late);
	for (size_t n = 0; n < d->n; n++) {
		note_paths(ret, d->list[n].refused, note_refused);
		note_paths(ret, d->list[n].unread.paths, note_late);
	}
	note_paths(ret, d->processes_unread.paths, note_late);
	for (size_t n = 0; n < ARRAY_SIZE(readers); n++) {
		readers[n](ret);
		host_machine(ret)->doubt |= ret->doubt;
	}
}

void host_look_beside(const struct know *k, struct tape *tape, struct host *ret)
{
	enum { NAME_MOST = 256 };
	struct probe probes[] = {
		{ .path = "/proc/sys/kernel/osrelease", .size = NAME_MOST },
		{ .path = "/sys/module/amdgpu/version", .size = NAME_MOST },
	};
	*ret = (struct host){ .know = k, .tape = tape };
	host_add(ret, "machine", NULL);
	ret->count.patience = arena_alloc(&ret->arena, sizeof(*ret->count.patience));
	*ret->count.patience = (struct probe_patience){ BESIDE_MS, tape };
	host_probe(ret, probes, ARRAY_SIZE(probes));
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
	if (!h->devices_borrowed)
		devices_free(&h->devices);
	arena_free(&h->arena);
}

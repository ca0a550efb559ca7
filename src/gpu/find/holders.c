// Who has a GPU open, and how: KFD's processes and clients of the nodes.
#include <stdlib.h>
#include <unistd.h>

#include "gpu/find/found.h"
#include "source/process.h"
#include "source/tape/tape.h"

enum {
	NODES_MOST = 1024,
	PROCESSES_MOST = 4096,
	QUEUES_MOST = 4096,
	FILES_MOST = 65536,
	HOLDERS_MOST = 256, // of a GPU
	LINK_SIZE = 64,
	FILES_SIZE = 1 << 16,
};

/** Sums of such numbers do not overflow. */
#define COUNT_MOST ((int64_t)1 << 46)

#define KFD "/sys/class/kfd/kfd"

int64_t kfd_property(struct str text, const char *name)
{
	int64_t number;
	while (text.n) {
		struct str line = str_split(&text, '\n');
		if (str_is(str_word(&line), name))
			return str_number(str_trim(line), &number) ? number : -1;
	}
	return -1;
}

/** The device at a location. The nodes of a partitioned GPU have their number in the place of the function; newer kernels have it in the
 * uppermost bits. */
static struct found *at_location(struct search *s, int64_t domain, int64_t location)
{
	struct found *near = NULL;
	location = location < 0 ? location : location & 0xfffffff;
	for (size_t i = 0; i < s->n; i++) {
		struct found *f = &s->found[i];
		if ((int64_t)f->domain != (domain < 0 ? 0 : domain))
			continue;
		if ((int64_t)f->location == location)
			return f;
		if ((f->location & 7) == 0 && (int64_t)f->location == (location & ~7ll))
			near = f;
	}
	return near;
}

static void add_node(struct search *s, struct str name, const struct probe *id, const struct probe *properties)
{
	struct str text = probe_text(properties);
	struct kfd_node k = { .arrays = kfd_property(text, "array_count"),
			      .arrays_per_engine = kfd_property(text, "simd_arrays_per_engine"),
			      .cus_per_array = kfd_property(text, "cu_per_simd_array"),
			      .xccs = kfd_property(text, "num_xcc") };
	k.xccs = k.xccs < 0 ? 1 : k.xccs;
	k.of = at_location(s, kfd_property(text, "domain"), kfd_property(text, "location_id"));
	if (!str_number(name, &k.node) || !str_number(probe_text(id), &k.gpu_id) || !k.gpu_id || !k.of ||
	    kfd_property(text, "vendor_id") != (int64_t)k.of->d.vendor)
		return;
	if (k.of->d.kfd_node < 0 || k.node < k.of->d.kfd_node) {
		k.of->d.kfd_node = k.node;
		k.of->d.gpu_id = k.gpu_id;
		k.of->gfx_version = kfd_property(text, "gfx_target_version");
	}
	const int64_t simds = kfd_property(text, "simd_count"), each = kfd_property(text, "simd_per_cu");
	if (simds > 0 && each > 0)
		k.of->d.active_cus += simds / each;
	s->kfd[s->nkfd++] = k;
}

void find_kfd(struct search *s)
{
	struct arena *a = &s->to->arena;
	struct str *names;
	size_t n = lines_of(a, s->nodes, NODES_MOST, &names);
	struct probe *probes = arena_alloc(a, 2 * n * sizeof(*probes) + 1);
	for (size_t i = 0; i < n; i++) {
		struct str node = arena_printf(a, KFD "/topology/nodes/" STR_FMT, STR_ARG(names[i]));
		probes[2 * i].path = arena_printf(a, STR_FMT "/gpu_id", STR_ARG(node)).p;
		probes[2 * i + 1].path = arena_printf(a, STR_FMT "/properties", STR_ARG(node)).p;
	}
	look_once(s, probes, 2 * n, LOOK_MS);
	s->kfd = arena_alloc(a, n * sizeof(*s->kfd) + 1);
	for (size_t i = 0; i < n; i++)
		add_node(s, names[i], &probes[2 * i], &probes[2 * i + 1]);
}

static struct holder *holder_of(struct search *s, struct found *f, int64_t pid)
{
	struct device *d = &f->d;
	for (size_t i = 0; i < d->nholders; i++)
		if (d->holders[i].pid == pid)
			return &d->holders[i];
	if (!d->holders)
		d->holders = arena_alloc(&s->to->arena, HOLDERS_MOST * sizeof(*d->holders));
	if (d->nholders == HOLDERS_MOST)
		return NULL;
	d->holders[d->nholders] = (struct holder){ .pid = pid, .vram = -1 };
	return &d->holders[d->nholders++];
}

static struct found *with_gpu_id(const struct search *s, int64_t gpu_id)
{
	for (size_t i = 0; i < s->nkfd; i++)
		if (s->kfd[i].gpu_id == gpu_id)
			return s->kfd[i].of;
	return NULL;
}

/** Paths of what is in the directories that were listed, as operations of their own. */
struct paths {
	VEC(struct probe) probes;
	VEC(int64_t) pids;
};

static void add_path(struct paths *p, struct probe probe, int64_t pid)
{
	vec_push(&p->probes, probe);
	vec_push(&p->pids, pid);
}

static void free_paths(struct paths *p)
{
	vec_free(&p->probes);
	vec_free(&p->pids);
}

/** Memory that a process has on a GPU, and its queues there. A file for each GPU is there also where it uses none of it. */
static void hold_kfd(struct search *s, const struct paths *p)
{
	for (size_t i = 0; i < p->probes.len; i++) {
		struct str path = str_z(p->probes.data[i].path), id = { 0 };
		int64_t number, gpu_id;
		if (!str_number(probe_text(&p->probes.data[i]), &number))
			continue;
		ptrdiff_t at = str_find(path, S("/vram_"));
		id = at < 0 ? id : str_from(path, (size_t)at + 6);
		if (at >= 0 && (!str_number(id, &gpu_id) || number <= 0 || number > COUNT_MOST))
			continue;
		struct found *f = with_gpu_id(s, at < 0 ? number : gpu_id);
		struct holder *h = f ? holder_of(s, f, p->pids.data[i]) : NULL;
		if (!h)
			continue;
		h->compute = true;
		if (at >= 0)
			h->vram = (h->vram < 0 ? 0 : h->vram) + number;
	}
}

static void list_kfd(struct search *s, struct str *names, size_t n, struct paths *ret)
{
	struct arena *a = &s->to->arena;
	struct probe *probes = arena_alloc(a, 2 * n * sizeof(*probes) + 1);
	for (size_t i = 0; i < n; i++) {
		const char *path = arena_printf(a, KFD "/proc/" STR_FMT, STR_ARG(names[i])).p;
		probes[2 * i] = (struct probe){ .kind = PROBE_LIST, .path = path };
		probes[2 * i + 1] =
			(struct probe){ .kind = PROBE_LIST, .path = arena_printf(a, "%s/queues", path).p, .size = FILES_SIZE };
	}
	look_processes(s, probes, 2 * n, LOOK_MS);
	for (size_t i = 0; i < 2 * n; i++) {
		struct str text = probe_text(&probes[i]);
		int64_t pid;
		while (text.n && ret->probes.len < QUEUES_MOST) {
			struct str name = str_split(&text, '\n');
			bool queue = i % 2;
			if (!str_number(names[i / 2], &pid) || (!queue && !str_starts(name, S("vram_"))))
				continue;
			add_path(ret,
				 (struct probe){ .path = arena_printf(a, "%s/" STR_FMT "%s", probes[i].path, STR_ARG(name),
								      queue ? "/gpuid" : "")
								 .p,
						 .size = 64 },
				 pid);
		}
	}
}

static void find_compute(struct search *s)
{
	struct paths files = { 0 };
	struct str *names;
	size_t n = lines_of(&s->to->arena, s->processes, PROCESSES_MOST, &names);
	list_kfd(s, names, n, &files);
	look_processes(s, files.probes.data, files.probes.len, LOOK_MS);
	hold_kfd(s, &files);
	free_paths(&files);
}

// --- clients of the nodes ---

/** Descriptors of all processes that are readable, as links. */
static void list_files(struct search *s, struct paths *ret)
{
	struct arena *a = &s->to->arena;
	struct paths tables = { 0 };
	struct str names = s->all_processes;
	const int64_t self = tape_number(probe_tape(&s->to->count), "pid", getpid());
	while (names.n && tables.probes.len < PROCESSES_MOST) {
		int64_t pid;
		struct str name = str_split(&names, '\n');
		if (!char_digit(name.n ? name.p[0] : 0) || !str_number(name, &pid) || pid == self)
			continue;
		add_path(&tables,
			 (struct probe){ .kind = PROBE_LIST,
					 .path = arena_printf(a, "/proc/" STR_FMT "/fd", STR_ARG(name)).p,
					 .size = FILES_SIZE },
			 pid);
	}
	look_processes(s, tables.probes.data, tables.probes.len, LOOK_MS);
	for (size_t i = 0; i < tables.probes.len; i++) {
		struct str files = probe_text(&tables.probes.data[i]);
		while (files.n && ret->probes.len < FILES_MOST) {
			struct str file = str_split(&files, '\n');
			add_path(ret,
				 (struct probe){
					 .kind = PROBE_LINK,
					 .path = arena_printf(a, "%s/" STR_FMT, tables.probes.data[i].path, STR_ARG(file)).p,
					 .size = LINK_SIZE },
				 tables.pids.data[i]);
		}
	}
	free_paths(&tables);
}

/** `drm-pdev:\t0000:03:00.0`. */
static struct str fdinfo_value(struct str text, struct str key)
{
	while (text.n) {
		struct str rest, line = str_split(&text, '\n');
		if (str_behind(line, key, &rest))
			return rest;
	}
	return (struct str){ 0 };
}

/** The GPU of a client, which the kernel names since 5.14. (The node's name would be that of the other process's /dev.) */
static struct found *of_client(struct search *s, struct str pci)
{
	for (size_t i = 0; i < s->n && pci.n; i++)
		if (str_eq(s->found[i].d.pci, pci))
			return &s->found[i];
	return NULL;
}

static int64_t memory_of(struct str text)
{
	struct str value = fdinfo_value(text, S("drm-memory-vram:"));
	int64_t number;
	if (!value.n || !str_number(str_word(&value), &number) || number < 0 || number > COUNT_MOST >> 20)
		return -1;
	struct str unit = str_trim(value);
	return str_is(unit, "KiB") ? number << 10 : str_is(unit, "MiB") ? number << 20 : number;
}

/** Descriptors that were passed on are one client: the memory of a client counts once for a process. */
static bool seen_client(const struct paths *p, size_t index, struct str client, struct str pci)
{
	for (size_t i = index; i-- > 0 && p->pids.data[i] == p->pids.data[index];) {
		struct str text = probe_text(&p->probes.data[i]);
		if (client.n && str_eq(fdinfo_value(text, S("drm-client-id:")), client) &&
		    str_eq(fdinfo_value(text, S("drm-pdev:")), pci))
			return true;
	}
	return false;
}

/** A process that computes has a node open too, and its buffers are counted in both places. */
static void hold_client(struct search *s, const struct paths *p, size_t index, int64_t *drawn)
{
	struct str text = probe_text(&p->probes.data[index]), pci = fdinfo_value(text, S("drm-pdev:"));
	struct found *f = of_client(s, pci);
	struct holder *h = f ? holder_of(s, f, p->pids.data[index]) : NULL;
	int64_t memory = memory_of(text);
	if (!h || seen_client(p, index, fdinfo_value(text, S("drm-client-id:")), pci) || memory < 0)
		return;
	int64_t *sum = &drawn[(size_t)(f - s->found) * HOLDERS_MOST + (size_t)(h - f->d.holders)];
	*sum += memory;
	h->vram = *sum > h->vram ? *sum : h->vram;
}

static bool computes(const struct search *s, int64_t pid)
{
	for (size_t f = 0; f < s->n; f++)
		for (size_t h = 0; h < s->found[f].d.nholders; h++)
			if (s->found[f].d.holders[h].pid == pid && s->found[f].d.holders[h].compute)
				return true;
	return false;
}

/** A process that has /dev/kfd open computes. If KFD's own list does not say on which GPUs: on those whose nodes it has open, or on the
 * only one. */
static void mark_compute(struct search *s, const struct paths *files)
{
	for (size_t i = 0; i < files->probes.len; i++) {
		int64_t pid = files->pids.data[i];
		if (!str_is(probe_text(&files->probes.data[i]), "/dev/kfd") || computes(s, pid))
			continue;
		if (s->n == 1)
			holder_of(s, &s->found[0], pid);
		for (size_t f = 0; f < s->n; f++)
			for (size_t h = 0; h < s->found[f].d.nholders; h++)
				s->found[f].d.holders[h].compute |= s->found[f].d.holders[h].pid == pid;
	}
}

static void find_clients(struct search *s)
{
	struct arena *a = &s->to->arena;
	struct paths files = { 0 }, infos = { 0 };
	list_files(s, &files);
	look_processes(s, files.probes.data, files.probes.len, LOOK_MS);
	for (size_t i = 0; i < files.probes.len; i++) {
		struct str link = probe_text(&files.probes.data[i]), number = str_base(str_z(files.probes.data[i].path));
		if (!str_starts(link, S("/dev/dri/")))
			continue;
		add_path(&infos,
			 (struct probe){ .path = arena_printf(a, "/proc/%lld/fdinfo/" STR_FMT, (long long)files.pids.data[i],
							      STR_ARG(number))
							 .p },
			 files.pids.data[i]);
	}
	look_processes(s, infos.probes.data, infos.probes.len, LOOK_ASK_MS); // it waits for the client's page table
	int64_t *drawn = mem_alloc(s->n * HOLDERS_MOST * sizeof(*drawn) + 1);
	for (size_t i = 0; i < infos.probes.len; i++)
		hold_client(s, &infos, i, drawn);
	free(drawn);
	mark_compute(s, &files);
	free_paths(&infos);
	free_paths(&files);
}

/** Their names, and whether they are stopped. */
static void name_holders(struct search *s)
{
	struct arena *a = &s->to->arena;
	struct paths names = { 0 };
	for (size_t i = 0; i < s->n; i++)
		for (size_t j = 0; j < s->found[i].d.nholders; j++) {
			int64_t pid = s->found[i].d.holders[j].pid;
			add_path(&names,
				 (struct probe){ .path = arena_printf(a, "/proc/%lld/comm", (long long)pid).p, .size = 64 },
				 pid);
			add_path(&names,
				 (struct probe){ .path = arena_printf(a, "/proc/%lld/stat", (long long)pid).p, .size = 1024 },
				 pid);
		}
	look_processes(s, names.probes.data, names.probes.len, LOOK_MS);
	for (size_t i = 0, at = 0; i < s->n; i++)
		for (size_t j = 0; j < s->found[i].d.nholders; j++) {
			struct process_stat stat;
			s->found[i].d.holders[j].name = probe_text(&names.probes.data[at++]);
			s->found[i].d.holders[j].stopped = process_stat_parse(probe_text(&names.probes.data[at++]), &stat) &&
							   (stat.state == 'T' || stat.state == 't');
		}
	free_paths(&names);
}

void find_holders(struct search *s)
{
	if (!s->n)
		return;
	find_compute(s);
	find_clients(s);
	name_holders(s);
}

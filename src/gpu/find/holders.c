// Who has a GPU open, and how: KFD's processes and clients of the nodes. KFD's list is exact but only there for compute; descriptors of
// other processes can be read by root alone, and their fdinfo says how much memory each client has. A process may be in both, so that its
// buffers are counted once.
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
	str_each (line, text, '\n')
		if (str_is(str_word(&line), name))
			return str_number(str_trim(line), &number) ? number : -1;
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
	const int64_t debugging = kfd_property(text, "debug_prop");
	k.of->d.debug_properties = debugging > 0 ? (uint32_t)debugging : 0;
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

static struct holder *holders_holder_of(struct search *s, struct found *f, int64_t pid)
{
	struct device *d = &f->d;
	struct holder *known = list_find(d->holders, d->nholders, it, it->pid == pid);
	if (known || d->nholders == HOLDERS_MOST)
		return known;
	if (!d->holders)
		d->holders = arena_alloc(&s->to->arena, HOLDERS_MOST * sizeof(*d->holders));
	d->holders[d->nholders] = (struct holder){ .pid = pid, .vram = -1 };
	return &d->holders[d->nholders++];
}

/** Paths of what is in the directories that were listed, as operations of their own. */
struct paths {
	VEC(struct probe) probes;
	VEC(int64_t) pids;
};

static void paths_add(struct paths *p, int64_t pid, enum probe_kind kind, struct str path, size_t size)
{
	vec_push(&p->probes, ((struct probe){ .kind = kind, .path = path.p, .size = size }));
	vec_push(&p->pids, pid);
}

static void paths_free(struct paths *p)
{
	vec_free(&p->probes);
	vec_free(&p->pids);
}
#define _cleanup_paths_ _cleanup_(paths_free)

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
		struct holder *h = NULL;
		for (size_t j = 0; j < s->nkfd && !h; j++)
			if (s->kfd[j].gpu_id == (at < 0 ? number : gpu_id))
				h = holders_holder_of(s, s->kfd[j].of, p->pids.data[i]);
		if (!h)
			continue;
		h->compute = true;
		if (at >= 0)
			h->vram = (h->vram < 0 ? 0 : h->vram) + number;
	}
}

static void find_compute(struct search *s)
{
	struct arena *a = &s->to->arena;
	_cleanup_paths_ struct paths files = { 0 };
	struct str *names;
	size_t n = lines_of(a, s->processes, PROCESSES_MOST, &names);
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
		while (text.n && files.probes.len < QUEUES_MOST) {
			struct str name = str_split(&text, '\n');
			bool queue = i % 2;
			if (!str_number(names[i / 2], &pid) || (!queue && !str_starts(name, S("vram_"))))
				continue;
			struct str path =
				arena_printf(a, "%s/" STR_FMT "%s", probes[i].path, STR_ARG(name), queue ? "/gpuid" : "");
			paths_add(&files, pid, PROBE_FILE, path, 64);
		}
	}
	look_processes(s, files.probes.data, files.probes.len, LOOK_MS);
	hold_kfd(s, &files);
}

// --- clients of the nodes ---

/** Descriptors of all processes that are readable, as links. */
static void list_files(struct search *s, struct paths *ret)
{
	struct arena *a = &s->to->arena;
	_cleanup_paths_ struct paths tables = { 0 };
	struct str names = s->all_processes;
	const int64_t self = tape_number(probe_tape(&s->to->count), "pid", getpid());
	while (names.n && tables.probes.len < PROCESSES_MOST) {
		int64_t pid;
		struct str name = str_split(&names, '\n');
		if (!char_digit(name.n ? name.p[0] : 0) || !str_number(name, &pid) || pid == self)
			continue;
		paths_add(&tables, pid, PROBE_LIST, arena_printf(a, "/proc/" STR_FMT "/fd", STR_ARG(name)), FILES_SIZE);
	}
	look_processes(s, tables.probes.data, tables.probes.len, LOOK_MS);
	for (size_t i = 0; i < tables.probes.len; i++) {
		struct str files = probe_text(&tables.probes.data[i]);
		while (files.n && ret->probes.len < FILES_MOST) {
			struct str file = str_split(&files, '\n');
			struct str path = arena_printf(a, "%s/" STR_FMT, tables.probes.data[i].path, STR_ARG(file));
			paths_add(ret, tables.pids.data[i], PROBE_LINK, path, LINK_SIZE);
		}
	}
}

/** Descriptors that were passed on are one client: the memory of a client counts once for a process. */
static bool seen_client(const struct paths *p, size_t index, struct str client, struct str pci)
{
	for (size_t i = index; i-- > 0 && p->pids.data[i] == p->pids.data[index];) {
		struct str text = probe_text(&p->probes.data[i]);
		if (client.n && str_eq(line_behind(text, S("drm-client-id:")), client) &&
		    str_eq(line_behind(text, S("drm-pdev:")), pci))
			return true;
	}
	return false;
}

/** A process that computes has a node open too, and its buffers are counted in both places. The kernel names the GPU of a client since
 * 5.14. (The node's name would be that of the other process's /dev.) */
static void hold_client(struct search *s, const struct paths *p, size_t index, int64_t *drawn)
{
	struct str text = probe_text(&p->probes.data[index]), pci = line_behind(text, S("drm-pdev:"));
	struct str value = line_behind(text, S("drm-memory-vram:"));
	size_t gpu = 0;
	while (gpu < s->n && !(pci.n && str_eq(s->found[gpu].d.pci, pci)))
		gpu++;
	struct holder *h = gpu < s->n ? holders_holder_of(s, &s->found[gpu], p->pids.data[index]) : NULL;
	int64_t memory, pasid;
	if (h && str_number(line_behind(text, S("pasid:")), &pasid) && pasid > 0 && pasid <= UINT32_MAX &&
	    h->npasids < HOLDER_PASIDS && !list_find(h->pasids, h->npasids, it, *it == pasid))
		h->pasids[h->npasids++] = (uint32_t)pasid;
	if (!h || seen_client(p, index, line_behind(text, S("drm-client-id:")), pci) ||
	    !str_number(str_word(&value), &memory) || memory < 0 || memory > COUNT_MOST >> 20)
		return;
	struct str unit = str_trim(value);
	int64_t *sum = &drawn[gpu * HOLDERS_MOST + (size_t)(h - s->found[gpu].d.holders)];
	*sum += str_is(unit, "KiB") ? memory << 10 : str_is(unit, "MiB") ? memory << 20 : memory;
	h->vram = *sum > h->vram ? *sum : h->vram;
}

/** A process that has /dev/kfd open computes. If KFD's own list does not say on which GPUs: on those whose nodes it has open, or on the
 * only one. */
static void mark_compute(struct search *s, const struct paths *files)
{
	for (size_t i = 0; i < files->probes.len; i++) {
		int64_t pid = files->pids.data[i];
		bool known = false;
		for (size_t f = 0; f < s->n; f++)
			known |= list_find(s->found[f].d.holders, s->found[f].d.nholders, it, it->pid == pid && it->compute) !=
				 NULL;
		if (known || !str_is(probe_text(&files->probes.data[i]), "/dev/kfd"))
			continue;
		if (s->n == 1)
			holders_holder_of(s, &s->found[0], pid);
		for (size_t f = 0; f < s->n; f++)
			for (size_t h = 0; h < s->found[f].d.nholders; h++)
				s->found[f].d.holders[h].compute |= s->found[f].d.holders[h].pid == pid;
	}
}

static void find_clients(struct search *s)
{
	struct arena *a = &s->to->arena;
	_cleanup_paths_ struct paths files = { 0 }, infos = { 0 };
	list_files(s, &files);
	look_processes(s, files.probes.data, files.probes.len, LOOK_MS);
	for (size_t i = 0; i < files.probes.len; i++) {
		struct str link = probe_text(&files.probes.data[i]), number = str_base(str_z(files.probes.data[i].path));
		long long pid = files.pids.data[i];
		if (str_starts(link, S("/dev/dri/")))
			paths_add(&infos, pid, PROBE_FILE, arena_printf(a, "/proc/%lld/fdinfo/" STR_FMT, pid, STR_ARG(number)),
				  0);
	}
	look_processes(s, infos.probes.data, infos.probes.len, LOOK_ASK_MS); // it waits for the client's page table
	_cleanup_free_ int64_t *drawn = mem_alloc(s->n * HOLDERS_MOST * sizeof(*drawn) + 1);
	for (size_t i = 0; i < infos.probes.len; i++)
		hold_client(s, &infos, i, drawn);
	mark_compute(s, &files);
}

/** Their names, and whether they are stopped. */
static void name_holders(struct search *s)
{
	struct arena *a = &s->to->arena;
	_cleanup_paths_ struct paths names = { 0 };
	for (size_t i = 0; i < s->n; i++)
		for (size_t j = 0; j < s->found[i].d.nholders; j++) {
			long long pid = s->found[i].d.holders[j].pid;
			paths_add(&names, pid, PROBE_FILE, arena_printf(a, "/proc/%lld/comm", pid), 64);
			paths_add(&names, pid, PROBE_FILE, arena_printf(a, "/proc/%lld/stat", pid), 1024);
		}
	look_processes(s, names.probes.data, names.probes.len, LOOK_MS);
	for (size_t i = 0, at = 0; i < s->n; i++)
		for (size_t j = 0; j < s->found[i].d.nholders; j++) {
			struct process_stat stat = { 0 };
			struct holder *h = &s->found[i].d.holders[j];
			h->name = probe_text(&names.probes.data[at++]);
			process_stat_parse(probe_text(&names.probes.data[at++]), &stat);
			h->stopped = stat.state == 'T' || stat.state == 't';
			h->began = stat.began;
		}
}

void find_holders(struct search *s)
{
	if (!s->n)
		return;
	find_compute(s);
	find_clients(s);
	name_holders(s);
}

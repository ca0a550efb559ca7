// The driver's other files in debugfs: rings, memory, fences, texts.
#include <errno.h>
#include <stdlib.h>

#include "emulator/server.h"

static void put(struct text *ret, uint32_t word)
{
	memcpy(text_room(ret, sizeof(word)), &word, sizeof(word));
	ret->n += sizeof(word);
}

static bool crooked(uint64_t at, size_t size) { return at & 3 || size & 3; }

// --- rings ---

enum { RING_HEAD = 12 };

static int ring_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	if (crooked(at, size))
		return EINVAL;
	double t = server_time(s);
	const struct emu_gpu *g = f->node->seat->gpu;
	struct emu_ring r = emu_ring(g, f->node->index, t);
	uint32_t mask = r.words ? r.words - 1 : 0;
	const uint32_t head[] = { r.rptr & mask, r.wptr & mask, r.driver & mask };
	for (; size && at < RING_HEAD + (uint64_t)r.words * 4; at += 4, size -= 4)
		put(ret, at < RING_HEAD ? head[at / 4] : emu_ring_word(g, f->node->index, (uint32_t)(at - RING_HEAD) / 4, t));
	return 0;
}

static uint64_t ring_size(struct server *s, const struct node *n)
{
	return emu_ring(n->seat->gpu, n->index, server_time(s)).words * UINT64_C(4) + RING_HEAD;
}

/** Of a kernel's ring: the model has only its positions, so the rest of its descriptor is empty. */
static int mqd_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	enum { MQD_BYTES = 2048 };
	(void)s, (void)f;
	if (crooked(at, size))
		return EINVAL;
	for (; size && at < MQD_BYTES; at += 4, size -= 4)
		put(ret, 0);
	return 0;
}

static const struct kind ring_kind = { .read = ring_read, .size = ring_size };
static const struct kind mqd_kind = { .read = mqd_read };
static const struct kind write_only_kind = { 0 };

static void build_rings(struct server *s, struct node *directory)
{
	static const struct {
		const char *prefix;
		mode_t mode;
		const struct kind *kind;
	} files[] = { { "ring", 0444, &ring_kind }, { "mqd", 0444, &mqd_kind }, { "error", 0200, &write_only_kind } };
	const struct emu_gpu *g = directory->seat->gpu;
	for (size_t i = 0; i < emu_rings(g); i++) {
		struct emu_ring r = emu_ring(g, i, 0);
		bool mapped = str_starts(r.name, S("gfx")) || str_starts(r.name, S("comp")) || str_starts(r.name, S("kiq")) ||
			      str_starts(r.name, S("mes"));
		for (size_t k = 0; k < ARRAY_SIZE(files); k++) {
			if (files[k].kind == &mqd_kind && !mapped)
				continue;
			struct str name = arena_printf(&s->arena, "amdgpu_%s_" STR_FMT, files[k].prefix, STR_ARG(r.name));
			struct node *n = tree_file(s, directory, name.p, files[k].mode, files[k].kind);
			n->path = name;
			n->index = i;
		}
	}
}

// --- memory ---

static int vram_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	uint64_t total = f->node->seat->facts->vram_total;
	if (crooked(at, size))
		return EINVAL;
	if (at >= total)
		return ENXIO;
	enum emu_state state = seat_state(s, f->node->seat);
	bool dark = state == EMU_RESET || state == EMU_OFF_BUS;
	for (double t = server_time(s); size && at < total; at += 4, size -= 4)
		put(ret, dark ? UINT32_MAX : emu_vram(f->node->seat->gpu, at, t));
	return 0;
}

static uint64_t vram_size(struct server *s, const struct node *n)
{
	(void)s;
	return n->seat->facts->vram_total;
}

static int iomem_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	for (double t = server_time(s); size;) {
		uint32_t word;
		if (!emu_iomem(f->node->seat->gpu, at & ~UINT64_C(3), t, &word))
			return EPERM;
		size_t skip = at & 3, n = 4 - skip < size ? 4 - skip : size;
		text_add(ret, (struct str){ (char *)&word + skip, n });
		at += n, size -= n;
	}
	return 0;
}

static int memory_write(struct server *s, struct open_file *f, uint64_t at, const char *data, size_t size)
{
	(void)s, (void)f, (void)data;
	return crooked(at, size) ? EINVAL : 0;
}

// --- texts ---

/** Reading it completes what the hardware has finished. */
static int fill_fences(struct server *s, const struct node *n, struct text *ret)
{
	struct seat *seat = n->seat;
	double t = server_time(s);
	for (size_t i = 0; i < emu_fences(seat->gpu); i++) {
		struct emu_fence e = emu_fence(seat->gpu, i, t);
		if ((int32_t)(e.done - e.signaled) > 0 && e.done != seat->completed[i]) {
			seat->completed[i] = e.done;
			record_event(s, n, "complete", 0);
		}
		uint32_t signaled = (int32_t)(seat->completed[i] - e.signaled) > 0 ? seat->completed[i] : e.signaled;
		bool gfx = str_starts(e.ring, S("gfx"));
		text_printf(ret, "--- ring %zu (" STR_FMT ") ---\n", i, STR_ARG(e.ring));
		text_printf(ret, "Last signaled fence          0x%08x\n", signaled);
		text_printf(ret, "Last emitted                 0x%08x\n", e.emitted);
		if (gfx || str_starts(e.ring, S("sdma"))) {
			text_printf(ret, "Last signaled trailing fence 0x%08x\n", 0);
			text_printf(ret, "Last emitted                 0x%08x\n", 0);
		}
		if (gfx)
			text_printf(ret,
				    "Last preempted               0x%08x\nLast reset                   0x%08x\n"
				    "Last both                    0x%08x\n",
				    0, 0, 0);
	}
	return 0;
}

static int fill_firmware(struct server *s, const struct node *n, struct text *ret)
{
	(void)s;
	for (size_t i = 0; i < emu_firmwares(n->seat->gpu); i++) {
		struct emu_firmware f = emu_firmware(n->seat->gpu, i);
		if (str_is(f.name, "SMC"))
			text_printf(ret, "SMC feature version: %u, program: %u, firmware version: 0x%08x (%u.%u.%u)\n",
				    f.feature, f.version >> 24, f.version, f.version >> 16 & 0xff, f.version >> 8 & 0xff,
				    f.version & 0xff);
		else
			text_printf(ret, STR_FMT " feature version: %u, firmware version: 0x%08x\n", STR_ARG(f.name), f.feature,
				    f.version);
	}
	text_printf(ret, "VBIOS version: 113-EMULATED-%04X\n", n->seat->facts->device);
	return 0;
}

static int fill_name(struct server *s, const struct node *n, struct text *ret)
{
	(void)s;
	struct str pci = n->seat->facts->pci;
	text_printf(ret, "amdgpu dev=" STR_FMT " unique=" STR_FMT "\n", STR_ARG(pci), STR_ARG(pci));
	return 0;
}

/** Of each process that holds the GPU as a graphics client: the head of its paragraph. */
static int fill_clients(struct server *s, const struct node *n, struct text *ret)
{
	for (size_t i = 0; i < emu_processes(s->machine); i++) {
		const struct emu_process *p = emu_process(s->machine, i);
		if (!emu_process_opens(p, n->seat->gpu))
			continue;
		struct str name = emu_process_name(p);
		if (n->index)
			text_printf(ret, "pid:%d\tProcess:" STR_FMT " ----------\n", emu_process_pid(p), STR_ARG(name));
		else
			text_printf(ret, "pid %8d command " STR_FMT ":\n", emu_process_pid(p), STR_ARG(name));
	}
	return 0;
}

static int fill_zero(struct server *s, const struct node *n, struct text *ret)
{
	(void)s, (void)n;
	text_add(ret, S("0\n"));
	return 0;
}

static int fill_written(struct server *s, const struct node *n, struct text *ret)
{
	emu_file_text(n->seat->gpu, EMU_DEBUGFS, n->index, server_time(s), ret);
	return 0;
}

static const struct kind fence_kind = { .fill = fill_fences };
static const struct kind firmware_kind = { .fill = fill_firmware };
static const struct kind name_kind = { .fill = fill_name };
static const struct kind clients_kind = { .fill = fill_clients };
static const struct kind act_kind = { .fill = fill_zero, .acts = true, .wakes = true };
static const struct kind vram_kind = { .read = vram_read, .write = memory_write, .size = vram_size };
static const struct kind iomem_kind = { .read = iomem_read, .write = memory_write };
static const struct kind written_kind = { .fill = fill_written };

static const struct {
	const char *name;
	mode_t mode;
	const struct kind *kind;
	size_t index;
	bool not_guest;
} files[] = {
	{ "name", 0444, &name_kind, 0, false },
	{ "amdgpu_fence_info", 0444, &fence_kind, 0, false },
	{ "amdgpu_firmware_info", 0444, &firmware_kind, 0, false },
	{ "amdgpu_gem_info", 0444, &clients_kind, 0, false },
	{ "amdgpu_vm_info", 0444, &clients_kind, 1, false },
	{ "amdgpu_vram", 0444, &vram_kind, 0, false },
	{ "amdgpu_iomem", 0444, &iomem_kind, 0, false },
	{ "amdgpu_gpu_recover", 0444, &act_kind, 0, true },
	{ "amdgpu_test_ib", 0400, &act_kind, 0, false },
	{ "amdgpu_evict_vram", 0400, &act_kind, 0, false },
	{ "amdgpu_evict_gtt", 0400, &act_kind, 0, false },
	{ "amdgpu_preempt_ib", 0600, &write_only_kind, 0, false },
	{ "amdgpu_force_sclk", 0200, &write_only_kind, 0, false },
	{ "amdgpu_benchmark", 0200, &write_only_kind, 0, false },
};

void build_debugfs_texts(struct server *s, struct node *directory)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (files[i].not_guest && directory->seat->facts->guest)
			continue;
		struct node *n = tree_file(s, directory, files[i].name, files[i].mode, files[i].kind);
		n->path = str_z(n->name);
		n->index = files[i].index;
	}
	build_rings(s, directory);
	for (size_t i = 0; i < emu_files(directory->seat->gpu, EMU_DEBUGFS); i++) {
		struct str path = emu_file_path(directory->seat->gpu, EMU_DEBUGFS, i);
		struct node *n = tree_file(s, directory, arena_z(&s->arena, path), 0444, &written_kind);
		n->path = path;
		n->index = i;
	}
}

// --- clients of the driver, one directory for each file that is open ---

static int fill_process(struct server *s, const struct node *n, struct text *ret)
{
	const struct emu_process *p = emu_process(s->machine, n->index);
	text_printf(ret, "pid: %d\ncomm: " STR_FMT "\n", emu_process_pid(p), STR_ARG(emu_process_name(p)));
	return 0;
}

static int fill_page_tables(struct server *s, const struct node *n, struct text *ret)
{
	(void)s;
	emu_page_tables(n->seat->gpu, (unsigned)n->index, ret);
	return 0;
}

static void build_client_queues(struct server *s, struct node *dri, size_t process)
{
	static const struct kind process_kind = { .fill = fill_process };
	static const struct kind tables_kind = { .fill = fill_page_tables };
	const struct emu_process *p = emu_process(s->machine, process);
	for (size_t i = 0; i < emu_user_queues(p); i++) {
		const struct emu_user_queue q = emu_user_queue(p, i);
		struct seat *seat = s->seats;
		while (seat->gpu != q.gpu)
			seat++;
		const char *client = arena_printf(&s->arena, "client-%zu", process + 10).p; // as fdinfo numbers it
		struct node *n = tree_named(s, dri, arena_printf(&s->arena, "%s/proc_info", client).p, 0444, &process_kind);
		n->index = process;
		n->seat = seat;
		n = tree_named(s, dri, arena_printf(&s->arena, "%s/vm_pagetable_info", client).p, 0444, &tables_kind);
		n->index = q.vmid;
		n->seat = seat;
		tree_link(s, dri, arena_printf(&s->arena, "%s/device", client).p,
			  arena_printf(&s->arena, "../" STR_FMT, STR_ARG(seat->facts->pci)).p);
		const char *path = arena_printf(&s->arena, "%s/queue%c%u/mqd_info", client, q.underscore ? '_' : '-', q.id).p;
		n = tree_text(s, dri, path,
			      arena_printf(&s->arena, "queue_type: %u\nmqd_gpu_address: 0x%llx\n", q.type,
					   (unsigned long long)q.mqd));
		n->path = str_z(path);
		n->seat = seat;
	}
}

static int trace_write(struct server *s, struct open_file *f, uint64_t at, const char *data, size_t size)
{
	(void)s, (void)f, (void)at, (void)data, (void)size;
	return 0;
}

static int fill_trace(struct server *s, const struct node *n, struct text *ret)
{
	(void)s, (void)n;
	text_add(ret, S("# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:1\n"));
	return 0;
}

/** The kernel's tracer, which can be told to note the driver's accesses to registers; here there never are any. */
static void build_tracing(struct server *s, struct node *tracing)
{
	static const struct kind enable_kind = { .fill = fill_zero, .write = trace_write };
	static const struct kind trace_kind = { .fill = fill_trace, .write = trace_write };
	static const char *const events[] = { "amdgpu_device_rreg", "amdgpu_device_wreg" };
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		tree_file(s, tracing, arena_printf(&s->arena, "events/amdgpu/%s/enable", events[i]).p, 0644, &enable_kind);
	tree_file(s, tracing, "trace", 0644, &trace_kind);
}

void build_debugfs(struct server *s, struct node *debug)
{
	debug->debugfs = true;
	struct node *dri = tree_directory(s, debug, "dri", 0755);
	for (size_t i = 0; i < s->nseats; i++) {
		struct seat *seat = &s->seats[i];
		const char *pci = arena_z(&s->arena, seat->facts->pci);
		struct node *n = tree_directory(s, dri, pci, 0755);
		n->seat = seat;
		build_register_files(s, n);
		build_debugfs_texts(s, n);
		tree_link(s, dri, arena_printf(&s->arena, "%d", seat->facts->card).p, pci);
		tree_link(s, dri, arena_printf(&s->arena, "%d", seat->facts->render).p, pci);
	}
	for (size_t i = 0; i < emu_processes(s->machine); i++)
		build_client_queues(s, dri, i);
	build_kfd_debugfs(s, tree_directory(s, debug, "kfd", 0755));
	build_tracing(s, tree_directory(s, debug, "tracing", 0755));
}

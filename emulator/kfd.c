// KFD: its processes in sysfs, its queues in debugfs.
#include "emulator/server.h"

// --- sysfs ---

void build_kfd_queue(struct server *s, struct node *queues, const struct emu_queue *q)
{
	struct node *queue = tree_directory(s, queues, arena_printf(&s->arena, "%u", q->id).p, 0755);
	tree_text(s, queue, "gpuid", arena_printf(&s->arena, "%u", emu_facts(q->gpu)->gpu_id));
	tree_text(s, queue, "size", arena_printf(&s->arena, "%u", q->size));
	tree_text(s, queue, "type", arena_printf(&s->arena, "%u", q->sdma));
}

static void build_process(struct server *s, struct node *proc, const struct emu_process *p)
{
	bool computes = false;
	for (size_t i = 0; i < emu_queues(s->machine); i++)
		computes |= emu_queue(s->machine, i).process == p;
	for (size_t i = 0; i < s->nseats; i++)
		computes |= emu_process_vram(p, s->seats[i].gpu) && !emu_process_opens(p, s->seats[i].gpu);
	if (!computes)
		return;
	struct node *d = tree_directory(s, proc, arena_printf(&s->arena, "%d", emu_process_pid(p)).p, 0755);
	tree_text(s, d, "pasid", arena_printf(&s->arena, "%u\n", emu_process_pasid(p)));
	struct node *queues = tree_directory(s, d, "queues", 0755);
	for (size_t i = 0; i < s->nseats; i++) {
		uint32_t id = s->seats[i].facts->gpu_id;
		tree_text(s, d, arena_printf(&s->arena, "vram_%u", id).p,
			  arena_printf(&s->arena, "%llu\n", (unsigned long long)emu_process_vram(p, s->seats[i].gpu)));
		tree_text(s, d, arena_printf(&s->arena, "sdma_%u", id).p, S("0\n"));
	}
	for (size_t i = 0; i < emu_queues(s->machine); i++) {
		struct emu_queue q = emu_queue(s->machine, i);
		if (q.process == p)
			build_kfd_queue(s, queues, &q);
	}
}

void build_kfd(struct server *s, struct node *sys)
{
	if (!s->nseats)
		return;
	struct node *kfd = tree_directory(s, sys, "devices/virtual/kfd/kfd", 0755);
	tree_link(s, sys, "class/kfd/kfd", "../../devices/virtual/kfd/kfd");
	tree_text(s, kfd, "dev", S("236:0\n"));
	build_topology(s, kfd);
	struct node *proc = s->kfd_processes = tree_directory(s, kfd, "proc", 0755);
	for (size_t i = 0; i < emu_processes(s->machine); i++)
		build_process(s, proc, emu_process(s->machine, i));
}

// --- debugfs ---

/** As the kernel's seq_hex_dump() with rows of 32 bytes. */
static void hex_dump(struct text *ret, const char *indent, const uint32_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i % 8 == 0)
			text_printf(ret, "%s%s%08zx:", i ? "\n" : "", indent, i * 4);
		text_printf(ret, " %08x", words[i]);
	}
	text_add(ret, S("\n"));
}

static int fill_mqds(struct server *s, const struct node *n, struct text *ret)
{
	(void)n;
	double t = server_time(s);
	for (size_t p = 0; p < emu_processes(s->machine); p++) {
		const struct emu_process *process = emu_process(s->machine, p);
		bool said = false;
		// The newest first: the kernel adds each at the head of its list.
		for (size_t i = emu_queues(s->machine); i--;) {
			struct emu_queue q = emu_queue(s->machine, i);
			uint32_t words[512];
			if (q.process != process)
				continue;
			if (!said)
				text_printf(ret, "Process %d PASID 0x%x:\n", emu_process_pid(process),
					    emu_process_pasid(process));
			said = true;
			text_printf(ret, "  %s queue on device %x\n", q.sdma ? "SDMA" : "Compute", emu_facts(q.gpu)->gpu_id);
			// Of a compute queue there is one for each XCC.
			unsigned xccs = q.sdma ? 0 : emu_facts(q.gpu)->shaders.xccs, xcc = 0;
			do
				hex_dump(ret, "    ", words, emu_queue_mqd(s->machine, i, t, words));
			while (++xcc < xccs);
		}
	}
	return 0;
}

/** As the driver's seq_reg_dump(): a new row where an offset does not follow the one before, or after eight. */
static void register_dump(struct text *ret, uint32_t pairs[][2], size_t n)
{
	unsigned left = 0;
	for (size_t i = 0; i < n; i++) {
		if (!left || pairs[i - 1][0] + 4 != pairs[i][0]) {
			text_printf(ret, "%s    %08x: %08x", i ? "\n" : "", pairs[i][0], pairs[i][1]);
			left = 7;
		} else {
			text_printf(ret, " %08x", pairs[i][1]);
			left--;
		}
	}
	text_add(ret, S("\n"));
}

static int fill_hqds(struct server *s, const struct node *n, struct text *ret)
{
	(void)n;
	for (size_t g = 0; g < s->nseats; g++) {
		const struct seat *seat = &s->seats[g];
		text_printf(ret, "Node %u, gpu_id %x:\n", seat->facts->node, seat->facts->gpu_id);
		enum emu_state state = seat_state(s, seat);
		if (state == EMU_RESET || state == EMU_SUSPENDED) {
			text_add(ret, S(" Device is stopped\n"));
			continue;
		}
		for (int sdma = 0; sdma < 2; sdma++)
			for (size_t i = 0; i < emu_queues(s->machine); i++) {
				struct emu_queue q = emu_queue(s->machine, i);
				uint32_t pairs[256][2];
				if (q.gpu != seat->gpu || q.sdma != sdma)
					continue;
				if (sdma)
					text_printf(ret, "  SDMA Engine %u, RLC %u\n", q.pipe, q.queue);
				else
					text_printf(ret, " Inst %u,  CP Pipe %u, Queue %u\n", q.xcc, q.pipe, q.queue);
				register_dump(ret, pairs, emu_queue_hqd(s->machine, i, server_time(s), pairs));
			}
	}
	return 0;
}

static uint32_t packet_head(unsigned opcode, unsigned words) { return 3u << 30 | (words - 2) << 16 | opcode << 8; }

/** The list that the driver gives the command processor: a process, its queues, the next. */
static size_t run_list(struct server *s, const struct emu_gpu *g, uint32_t *words, size_t most)
{
	enum { MAP_PROCESS = 0xa1, PROCESS_WORDS = 16, MAP_QUEUES = 0xa2, QUEUE_WORDS = 7, ENGINE_SDMA0 = 2 };
	size_t n = 0;
	for (size_t p = 0; p < emu_processes(s->machine) && most - n >= PROCESS_WORDS; p++) {
		const struct emu_process *process = emu_process(s->machine, p);
		uint32_t *head = words + n, queues = 0;
		for (size_t i = 0; i < emu_queues(s->machine) && most - n >= PROCESS_WORDS + QUEUE_WORDS; i++) {
			struct emu_queue q = emu_queue(s->machine, i);
			if (q.process != process || q.gpu != g)
				continue;
			uint32_t *w = head + PROCESS_WORDS + queues++ * QUEUE_WORDS;
			w[0] = packet_head(MAP_QUEUES, QUEUE_WORDS);
			w[1] = 1u << 4 | (q.sdma ? ENGINE_SDMA0 + q.pipe : 0) << 26 | 1u << 29;
			w[2] = q.id << 3;
			n += QUEUE_WORDS;
		}
		if (!queues)
			continue;
		head[0] = packet_head(MAP_PROCESS, PROCESS_WORDS);
		head[1] = emu_process_pasid(process) | 10u << 25;
		head[13] = 1u << 7 | queues << 22;
		n += PROCESS_WORDS;
	}
	return n;
}

/** Of a GPU whose queues MES schedules, from gfx11 on, there is no list. */
static int fill_rls(struct server *s, const struct node *n, struct text *ret)
{
	(void)n;
	for (size_t g = 0; g < s->nseats; g++) {
		const struct seat *seat = &s->seats[g];
		uint32_t words[1024] = { 0 };
		size_t count = seat->gc_major < 11 ? run_list(s, seat->gpu, words, ARRAY_SIZE(words)) : 0;
		text_printf(ret, "Node %u, gpu_id %x:\n", seat->facts->node, seat->facts->gpu_id);
		if (count)
			hex_dump(ret, "  ", words, count);
		else
			text_add(ret, S("  No active runlist\n"));
	}
	return 0;
}

static const struct kind mqds_kind = { .fill = fill_mqds };
static const struct kind hqds_kind = { .fill = fill_hqds };
static const struct kind rls_kind = { .fill = fill_rls };
static const struct kind hang_kind = { 0 };

void build_kfd_debugfs(struct server *s, struct node *directory)
{
	static const struct {
		const char *name, *path;
		mode_t mode;
		const struct kind *kind;
	} list[] = {
		{ "mqds", "kfd/mqds", 0444, &mqds_kind },
		{ "hqds", "kfd/hqds", 0444, &hqds_kind },
		{ "rls", "kfd/rls", 0444, &rls_kind },
		{ "hang_hws", "kfd/hang_hws", 0200, &hang_kind },
	};
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		tree_file(s, directory, list[i].name, list[i].mode, list[i].kind)->path = str_z(list[i].path);
}

// What guests do to the machine: their queues, the GPU that they keep busy, what the driver says of them.
#include "emulator/guest/guest.h"

#include <stdlib.h>

#include "emulator/machine.h"
#include "emulator/preload/plan.h"

enum { PASID_FIRST = 0x8001, VMID_FIRST = 8, VMIDS = 8, AMD_QUEUE_READ = 0x80, KERN_ERROR = 3, BUSY_WAVES_MOST = 64 };

// --- the block ---

bool emu_kfd_read(struct emu_reader *r, const struct emu_block *b)
{
	struct kfd_plan plan = { 0 };
	r->m->kfd = true;
	for (size_t i = 0; i < b->nlines; i++) {
		struct cursor c = { r, b->lines[i].text, b->lines[i].number };
		char why[PLAN_WHY];
		if (str_is(cursor_peek(&c), "gpu"))
			return emu_wrong(&c, "GPUs have blocks of their own");
		if (!plan_statement(&plan, b->lines[i].text, why))
			return emu_wrong(&c, "%s", why);
		text_printf(&r->m->plan, STR_FMT "\n", STR_ARG(b->lines[i].text));
	}
	return true;
}

bool emu_kfd(const struct emu_machine *m) { return m->kfd; }

void emu_kfd_text(const struct emu_machine *m, struct text *ret)
{
	for (size_t i = 0; i < m->gpus.len; i++) {
		const struct emu_facts *f = &m->gpus.data[i]->facts;
		const struct shader_array *x = &f->shaders;
		unsigned engines = (x->xccs ? x->xccs : 1) * x->ses;
		text_printf(ret,
			    "gpu " STR_FMT " node %u id %u pci " STR_FMT
			    " device 0x%x revision %u render %d vram %llu engines %u "
			    "arrays %u cus %u simds %u waves %u name " STR_FMT "\n",
			    STR_ARG(f->gfx), f->node, f->gpu_id, STR_ARG(f->pci), f->device, f->revision & 15, f->render,
			    (unsigned long long)f->vram_total, engines, x->shs_per_se, x->cus_per_sh, f->simds_per_cu,
			    f->slots_per_simd, STR_ARG(f->name));
	}
	text_add(ret, text_str(&m->plan));
}

// --- coming and going ---

struct emu_process *emu_guest_join(struct emu_machine *m, struct str name, int pid)
{
	struct emu_process *p = mem_alloc(sizeof(*p));
	p->machine = m;
	p->name = arena_str(&m->arena, name);
	p->guest = true;
	unsigned before = m->guests++; // a number is not given to another guest when its own has left
	for (size_t i = 0; i < m->processes.len; i++)
		before += !m->processes.data[i]->guest;
	emu_process_runs(p, pid, PASID_FIRST + before);
	vec_push(&m->processes, p);
	return p;
}

static struct emu_gpu *gpu_of(const struct emu_machine *m, const struct emu_process_queue *q)
{
	return emu_gpu_named(m, q->facts.gpu->facts.pci);
}

/** What is busy while a kernel runs and does not end. */
static void set_busy(struct emu_gpu *g)
{
	static const char *const fields[][2] = {
		{ "GRBM_STATUS", "SPI_BUSY" },   { "GRBM_STATUS", "ANY_ACTIVE" },          { "GRBM_STATUS", "GUI_ACTIVE" },
		{ "GRBM_STATUS2", "CPC_BUSY" },  { "GRBM_STATUS2", "CPF_BUSY" },           { "GRBM_STATUS_SE0", "SPI_BUSY" },
		{ "CP_CPC_STATUS", "CPC_BUSY" }, { "CP_CPC_STATUS", "MEC1_BUSY" },         { "CP_CPF_STATUS", "CPC_CPF_BUSY" },
		{ "CP_CPF_STATUS", "CPF_BUSY" }, { "CP_CPC_BUSY_STAT", "MEC1_PIPE0_BUSY" }
	};
	struct bank all = BANK_NONE;
	if (g->load)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (emu_register_set(g, &all, fields[i][0], fields[i][1], value_constant(&g->machine->arena, 1)))
			g->settings.data[g->settings.len - 1].passing = true;
	emu_settings_sort(g);
	g->load = g->numbers[EMU_BUSY] ? g->numbers[EMU_BUSY] : value_constant(&g->machine->arena, 0);
	g->numbers[EMU_BUSY] = value_constant(&g->machine->arena, 100);
}

/** As the scenario says it again. */
static void set_free(struct emu_gpu *g)
{
	size_t n = 0;
	for (size_t i = 0; i < g->settings.len; i++)
		if (!g->settings.data[i].passing)
			g->settings.data[n++] = g->settings.data[i];
	g->settings.len = n;
	g->numbers[EMU_BUSY] = g->load;
	g->load = NULL;
}

/** The waves of a queue end; the GPU is busy as long as another queue has some. */
static void end_waves(struct emu_machine *m, struct emu_process_queue *q, double t)
{
	struct emu_gpu *g = gpu_of(m, q);
	bool others = false;
	if (!q->waves)
		return;
	g->waves.data[q->waves - 1].until = t;
	q->waves = 0;
	for (size_t i = 0; i < m->queues.len; i++)
		others |= m->queues.data[i].waves && m->queues.data[i].facts.gpu == g;
	if (!others)
		set_free(g);
}

static struct emu_process_queue *queue_of(const struct emu_process *p, unsigned id)
{
	for (size_t i = 0; i < p->machine->queues.len; i++)
		if (p->machine->queues.data[i].facts.process == p && p->machine->queues.data[i].facts.id == id)
			return &p->machine->queues.data[i];
	return NULL;
}

static void end_queue(struct emu_machine *m, struct emu_process_queue *q, double t)
{
	end_waves(m, q, t);
	emu_queue_vacate(m, q);
	vec_free(&q->mqd);
	size_t at = (size_t)(q - m->queues.data);
	memmove(q, q + 1, (--m->queues.len - at) * sizeof(*q));
}

void emu_guest_leave(struct emu_machine *m, struct emu_process *p, double t)
{
	for (size_t i = m->queues.len; i--;)
		if (m->queues.data[i].facts.process == p)
			end_queue(m, &m->queues.data[i], t);
	size_t at = 0;
	while (at < m->processes.len && m->processes.data[at] != p)
		at++;
	if (at < m->processes.len)
		memmove(m->processes.data + at, m->processes.data + at + 1, (--m->processes.len - at) * sizeof(p));
	vec_free(&p->shares);
	free(p);
}

// --- what is told ---

/** A line that is being read: `WORD NUMBER`, again and again. */
static bool number_of(struct str line, const char *word, uint64_t *ret)
{
	while (line.n) {
		struct str key = str_word(&line), value = str_word(&line);
		if (str_is(key, word))
			return emu_number_of(value, ret);
	}
	return false;
}

static struct emu_gpu *gpu_with_id(const struct emu_machine *m, uint64_t id)
{
	for (size_t i = 0; i < m->gpus.len; i++)
		if (m->gpus.data[i]->facts.gpu_id == id)
			return m->gpus.data[i];
	return NULL;
}

static bool tells_queue(struct emu_process *p, struct str line, double t)
{
	struct emu_machine *m = p->machine;
	uint64_t id, gpu, ring, size, read, write;
	(void)t;
	if (!number_of(line, "queue", &id) || !number_of(line, "gpu", &gpu) || !number_of(line, "ring", &ring) ||
	    !number_of(line, "size", &size) || !number_of(line, "read", &read) || !number_of(line, "write", &write))
		return false;
	const struct emu_gpu *g = gpu_with_id(m, gpu);
	if (!g || id > UINT32_MAX || queue_of(p, (unsigned)id) || size < EMU_PAGE || size > 64 << 20 || size & (size - 1) ||
	    m->queues.len == EMU_QUEUES_MOST)
		return false;
	struct emu_process_queue q = { .facts = { .process = p,
						  .gpu = g,
						  .id = (unsigned)id,
						  .ring = ring,
						  .size = (uint32_t)size,
						  .vmid = VMID_FIRST + (p->pasid - PASID_FIRST) % VMIDS },
				       .rptr = value_memory(&m->arena, p->pid, read),
				       .wptr = value_memory(&m->arena, p->pid, write),
				       .record = read - AMD_QUEUE_READ };
	vec_push(&m->queues, q);
	emu_queue_place(m, m->queues.len - 1);
	return true;
}

static bool tells_end(struct emu_process *p, struct str line, double t)
{
	uint64_t id;
	struct emu_process_queue *q = number_of(line, "end", &id) ? queue_of(p, (unsigned)id) : NULL;
	if (q)
		end_queue(p->machine, q, t);
	return q;
}

static bool tells_vram(struct emu_process *p, struct str line, double t)
{
	uint64_t id, bytes;
	(void)t;
	str_word(&line);
	if (!emu_number_of(str_word(&line), &id) || !emu_number_of(str_word(&line), &bytes))
		return false;
	const struct emu_gpu *g = gpu_with_id(p->machine, id);
	for (size_t i = 0; i < p->shares.len; i++)
		if (p->shares.data[i].gpu == g) {
			p->shares.data[i].vram = bytes;
			return true;
		}
	if (g)
		vec_push(&p->shares, ((struct emu_share){ .gpu = g, .vram = bytes }));
	return g;
}

/** The waves of a kernel that does not end go round in its first instructions. */
static bool tells_hang(struct emu_process *p, struct str line, double t)
{
	struct emu_machine *m = p->machine;
	uint64_t id, pc, waves, packet, each;
	if (!number_of(line, "hang", &id) || !number_of(line, "pc", &pc) || !number_of(line, "waves", &waves) || pc >> 48 ||
	    !number_of(line, "packet", &packet) || !number_of(line, "group-waves", &each))
		return false;
	struct emu_process_queue *q = queue_of(p, (unsigned)id);
	if (!q || q->waves)
		return false;
	struct emu_gpu *g = gpu_of(m, q);
	struct emu_reader reader = { .k = m->k, .m = m, .file = "kfd" };
	waves = waves < 1 ? 1 : waves > BUSY_WAVES_MOST ? BUSY_WAVES_MOST : waves;
	struct str text = arena_printf(
		&m->arena, "%llu pc cycle 0.003 0x%llx 0x%llx 0x%llx 0x%llx vmid %u me %u pipe %u queue %u packet %u group-waves %u from %.6f",
		(unsigned long long)waves, (unsigned long long)pc, (unsigned long long)pc + 8, (unsigned long long)pc + 16,
		(unsigned long long)pc + 4, q->facts.vmid, q->facts.me, q->facts.pipe, q->facts.queue, (unsigned)packet, (unsigned)each, t);
	struct cursor c = { &reader, text, 0 };
	size_t before = g->waves.len;
	bool good = emu_waves_read(&c, g) && emu_waves_place(&reader, g);
	if (good)
		q->waves = g->waves.len;
	else if (g->waves.len > before)
		g->waves.data[before].until = 0;
	uh_error_free(reader.error);
	if (good)
		set_busy(g);
	return good;
}

/** A kernel that did not end has ended. */
static bool tells_goes(struct emu_process *p, struct str line, double t)
{
	uint64_t id;
	struct emu_process_queue *q = number_of(line, "goes", &id) ? queue_of(p, (unsigned)id) : NULL;
	if (q)
		end_waves(p->machine, q, t);
	return q;
}

/** A line of the kernel's log, now. */
static void say(struct emu_machine *m, double t, struct str text)
{
	struct emu_message said = { .time = EMU_UPTIME + t, .level = KERN_ERROR, .text = text };
	size_t at = m->messages.len;
	vec_push(&m->messages, said);
	for (; at && m->messages.data[at - 1].time > said.time; at--)
		m->messages.data[at] = m->messages.data[at - 1];
	m->messages.data[at] = said;
}

/** What the driver says of a page fault, by the generation of the GPU: the first lines, then those that take the status apart. */
struct fault_text {
	unsigned gc_least;
	const char *hub, *kind, *client, *status;
	bool process_apart; // it has a line of its own
};

static const struct fault_text fault_texts[] = {
	{ 11, "gfxhub", "page fault", "client 10", "GCVM_L2_PROTECTION_FAULT_STATUS", true },
	{ 10, "gfxhub", "page fault", "client 0x1b (UTCL2)", "GCVM_L2_PROTECTION_FAULT_STATUS", false },
	{ 0, "gfxhub0", "no-retry page fault", "IH client 0x1b (UTCL2)", "VM_L2_PROTECTION_FAULT_STATUS", false },
};

static const struct fault_text *fault_text_of(const struct emu_gpu *g)
{
	unsigned major = 0;
	for (size_t i = 0; i < g->facts.nips; i++)
		if (str_is(g->facts.ips[i].name, "gc"))
			major = g->facts.ips[i].version[0];
	const struct fault_text *t = fault_texts;
	while (major < t->gc_least)
		t++;
	return t;
}

static void say_fault(struct emu_process *p, const struct emu_process_queue *q, uint64_t address, bool write, double t)
{
	enum { CLIENT_TCP = 8, PERMISSIONS = 3 };
	struct emu_machine *m = p->machine;
	struct emu_gpu *g = gpu_of(m, q);
	const struct fault_text *f = fault_text_of(g);
	struct str pci = g->facts.pci;
	unsigned status = 1u | PERMISSIONS << 4 | CLIENT_TCP << 9 | (unsigned)write << 18 | q->facts.vmid << 20;
	const struct {
		const char *name;
		unsigned value;
	} parts[] = { { "MORE_FAULTS", 1 },
		      { "WALKER_ERROR", 0 },
		      { "PERMISSION_FAULTS", PERMISSIONS },
		      { "MAPPING_ERROR", 0 },
		      { "RW", write } };
	struct str who = arena_printf(&m->arena, "process " STR_FMT " pid %d thread " STR_FMT " pid %d", STR_ARG(p->name),
				      p->pid, STR_ARG(p->name), p->pid);
	struct text line = { 0 };
	text_printf(&line, "amdgpu " STR_FMT ": amdgpu: [%s] %s (src_id:0 ring:%u vmid:%u pasid:%u", STR_ARG(pci), f->hub,
		    f->kind, f->process_apart ? 40 : 24, q->facts.vmid, p->pasid);
	if (!f->process_apart)
		text_printf(&line, ", for " STR_FMT, STR_ARG(who));
	text_add(&line, S(")"));
	say(m, t, arena_str(&m->arena, text_str(&line)));
	text_free(&line);
	if (f->process_apart)
		say(m, t, arena_printf(&m->arena, "amdgpu " STR_FMT ": amdgpu:  in " STR_FMT ")", STR_ARG(pci), STR_ARG(who)));
	say(m, t,
	    arena_printf(&m->arena, "amdgpu " STR_FMT ": amdgpu:   in page starting at address 0x%016llx from %s", STR_ARG(pci),
			 (unsigned long long)address, f->client));
	say(m, t, arena_printf(&m->arena, "amdgpu " STR_FMT ": amdgpu: %s:0x%08X", STR_ARG(pci), f->status, status));
	say(m, t,
	    arena_printf(&m->arena, "amdgpu " STR_FMT ": amdgpu: \t Faulty UTCL2 client ID: TCP (0x%x)", STR_ARG(pci),
			 CLIENT_TCP));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		say(m, t,
		    arena_printf(&m->arena, "amdgpu " STR_FMT ": amdgpu: \t %s: 0x%x", STR_ARG(pci), parts[i].name,
				 parts[i].value));
}

static bool tells_fault(struct emu_process *p, struct str line, double t)
{
	uint64_t id, address, write;
	if (!number_of(line, "fault", &id) || !number_of(line, "address", &address) || !number_of(line, "write", &write))
		return false;
	const struct emu_process_queue *q = queue_of(p, (unsigned)id);
	if (q)
		say_fault(p, q, address, write, t);
	return q;
}

bool emu_guest_tells(struct emu_machine *m, struct emu_process *p, struct str line, double t)
{
	static const struct {
		const char *word;
		bool (*tells)(struct emu_process *p, struct str line, double t);
	} tellings[] = { { "queue", tells_queue }, { "end", tells_end },   { "vram", tells_vram },
			 { "hang", tells_hang },   { "goes", tells_goes }, { "fault", tells_fault } };
	struct str rest = line, word = str_word(&rest);
	(void)m;
	for (size_t i = 0; i < ARRAY_SIZE(tellings); i++)
		if (str_is(word, tellings[i].word))
			return tellings[i].tells(p, line, t);
	return false;
}

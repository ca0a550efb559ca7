// The driver's files of registers and waves in debugfs.
#include <errno.h>
#include <unistd.h>

#include "base/bytes.h"
#include "emulator/server.h"

enum { PAGE = 4096 };
static const uint32_t all = UINT32_MAX;
static const uint32_t no_sq = 0xbebebeef; // no such shader sequencer

static uint32_t position(uint64_t at, unsigned high, unsigned low)
{
	return (uint32_t)(at >> low & ((UINT64_C(1) << (high - low + 1)) - 1));
}

static void put(struct text *ret, uint32_t word)
{
	memcpy(text_room(ret, sizeof(word)), &word, sizeof(word));
	ret->n += sizeof(word);
}

static bool crooked(uint64_t at, size_t size) { return at & 3 || size & 3; }

// --- where registers are ---

static const struct ip *find_ip(const struct seat *seat, struct str name)
{
	for (size_t i = 0; i < seat->facts->nips; i++) {
		const struct ip *ip = &seat->facts->ips[i];
		if (str_eq(ip->name, name) && !ip->harvested && ip->instance == 0)
			return ip;
	}
	return NULL;
}

static bool register_of(const struct ip *ip, const struct register_table *t, struct str name, struct reg *ret,
			uint32_t *ret_address)
{
	if (!ip || !t || !register_find(t, name, ret))
		return false;
	if (ret->kind == REGISTER_MMIO && ret->base >= ip->nbases)
		return false;
	*ret_address = ret->kind == REGISTER_MMIO ? 4 * (ip->bases[ret->base] + ret->offset) : ret->offset;
	return true;
}

bool seat_find_register(const struct seat *seat, struct str name_of_ip, struct str name, struct reg *ret, uint32_t *ret_address)
{
	const struct ip *ip = find_ip(seat, name_of_ip);
	bool exact;
	if (ip && register_of(ip, register_table_for(ip->name, ip->version[0], ip->version[1], ip->version[2], &exact), name,
			      ret, ret_address))
		return true;
	// From gfx10 on the copy engines' registers are among those of the graphics core.
	return register_of(seat->gc, seat->gc_registers, name, ret, ret_address);
}

/** What the render node's query may read: soc15.c, nv.c, soc21.c and soc24.c of the driver have the same list but for its end. */
static const struct {
	const char *ip, *name;
	unsigned last_gc; // the newest major version whose list has it
} query_list[] = {
	{ "gc", "GRBM_STATUS", UINT32_MAX },
	{ "gc", "GRBM_STATUS2", UINT32_MAX },
	{ "gc", "GRBM_STATUS_SE0", UINT32_MAX },
	{ "gc", "GRBM_STATUS_SE1", UINT32_MAX },
	{ "gc", "GRBM_STATUS_SE2", UINT32_MAX },
	{ "gc", "GRBM_STATUS_SE3", UINT32_MAX },
	{ "sdma0", "SDMA0_STATUS_REG", UINT32_MAX },
	{ "sdma1", "SDMA1_STATUS_REG", UINT32_MAX },
	{ "gc", "CP_STAT", UINT32_MAX },
	{ "gc", "CP_STALLED_STAT1", UINT32_MAX },
	{ "gc", "CP_STALLED_STAT2", UINT32_MAX },
	{ "gc", "CP_STALLED_STAT3", UINT32_MAX },
	{ "gc", "CP_CPF_BUSY_STAT", UINT32_MAX },
	{ "gc", "CP_CPF_STALLED_STAT1", UINT32_MAX },
	{ "gc", "CP_CPF_STATUS", UINT32_MAX },
	{ "gc", "CP_CPC_BUSY_STAT", UINT32_MAX },
	{ "gc", "CP_CPC_STALLED_STAT1", UINT32_MAX },
	{ "gc", "CP_CPC_STATUS", UINT32_MAX },
	{ "gc", "GB_ADDR_CONFIG", UINT32_MAX },
	{ "gc", "DB_DEBUG2", 9 },
};

void seat_prepare(struct server *s, struct seat *seat)
{
	struct reg r;
	uint32_t address;
	bool exact;
	seat->completed = arena_alloc(&s->arena, (emu_fences(seat->gpu) + 1) * sizeof(*seat->completed));
	seat->gc = find_ip(seat, S("gc"));
	if (!seat->gc)
		return;
	const unsigned *version = seat->gc->version;
	seat->gc_major = version[0];
	seat->gc_registers = register_table_for(S("gc"), version[0], version[1], version[2], &exact);
	for (size_t i = 0; i < ARRAY_SIZE(query_list); i++)
		if (seat->gc_major <= query_list[i].last_gc &&
		    seat_find_register(seat, str_z(query_list[i].ip), str_z(query_list[i].name), &r, &address))
			vec_push(&seat->allowed, address);
	seat_sq_prepare(s, seat);
}

/** Whether an address belongs to the graphics core: the nearest base below it is one of its. */
static bool of_gc(const struct seat *seat, uint32_t address)
{
	uint32_t nearest = 0;
	bool gc = false;
	for (size_t i = 0; i < seat->facts->nips; i++) {
		const struct ip *ip = &seat->facts->ips[i];
		for (size_t b = 0; b < ip->nbases; b++) {
			if (ip->bases[b] > address / 4 || ip->bases[b] < nearest)
				continue;
			gc = str_is(ip->name, "gc") || (gc && ip->bases[b] == nearest);
			nearest = ip->bases[b];
		}
	}
	return gc;
}

static bool dark(const struct server *s, const struct seat *seat, bool gc)
{
	enum emu_state state = seat_state(s, seat);
	return state == EMU_RESET || state == EMU_OFF_BUS || (gc && state == EMU_GFXOFF);
}

uint32_t seat_register(struct server *s, struct seat *seat, const struct bank *b, uint32_t address)
{
	if (dark(s, seat, of_gc(seat, address)))
		return all;
	uint32_t value;
	return seat_sq_read(s, seat, b, address, &value) ? value : emu_register(seat->gpu, b, address, server_time(s));
}

// --- amdgpu_regs ---

/** The bank that a position means; false: it is none. */
static bool bank_of_position(const struct seat *seat, uint64_t at, struct bank *ret)
{
	enum { GRBM = 62, SRBM = 61 };
	*ret = BANK_NONE;
	ret->xcc = 0;
	uint32_t a = position(at, 33, 24), b = position(at, 43, 34), c = position(at, 53, 44);
	bool grbm = at >> GRBM & 1, srbm = at >> SRBM & 1;
	if (grbm && srbm)
		return false;
	if (grbm) {
		const struct shader_array *x = &seat->facts->shaders;
		if ((a != DEBUGFS_BROADCAST && a >= x->ses) || (b != DEBUGFS_BROADCAST && b >= x->shs_per_se))
			return false;
		ret->se = a == DEBUGFS_BROADCAST ? -1 : (int)a;
		ret->sh = b == DEBUGFS_BROADCAST ? -1 : (int)b;
		ret->instance = c == DEBUGFS_BROADCAST ? -1 : (int)c;
	} else if (srbm) {
		ret->me = (int)a, ret->pipe = (int)b, ret->queue = (int)c;
		ret->vmid = (int)position(at, 58, 54);
	}
	return true;
}

static int regs_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	struct bank b;
	if (crooked(at, size) || size > PAGE || !bank_of_position(f->node->seat, at, &b))
		return EINVAL;
	for (uint32_t i = 0, address = position(at, 21, 0); i < size; i += 4)
		put(ret, seat_register(s, f->node->seat, &b, address + i));
	return 0;
}

static int regs_write(struct server *s, struct open_file *f, uint64_t at, const char *data, size_t size)
{
	struct bank b;
	if (crooked(at, size) || size > PAGE || !bank_of_position(f->node->seat, at, &b))
		return EINVAL;
	for (uint32_t i = 0, address = position(at, 21, 0); i < size; i += 4)
		seat_sq_write(s, f->node->seat, address + i, get_u32(data + i));
	return 0;
}

static uint64_t regs_size(struct server *s, const struct node *n)
{
	(void)s;
	return n->seat->facts->registers;
}

// --- amdgpu_regs2 ---

static bool bank_of_state(const struct seat *seat, const struct regs2_state *r, struct bank *ret)
{
	const struct shader_array *x = &seat->facts->shaders;
	*ret = BANK_NONE;
	ret->xcc = (int)r->xcc;
	if (r->use_grbm) {
		if ((r->sh != all && r->sh >= x->shs_per_se) || (r->se != all && r->se >= x->ses))
			return false;
		ret->se = (int)r->se, ret->sh = (int)r->sh, ret->instance = (int)r->instance;
	}
	if (r->use_srbm)
		ret->me = (int)r->me, ret->pipe = (int)r->pipe, ret->queue = (int)r->queue, ret->vmid = (int)r->vmid;
	return true;
}

static int regs2_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	struct bank b;
	if (crooked(at, size) || size > PAGE || !bank_of_state(f->node->seat, &f->regs2, &b))
		return EINVAL;
	for (uint32_t i = 0; i < size; i += 4)
		put(ret, seat_register(s, f->node->seat, &b, (uint32_t)at + i));
	return 0;
}

static int regs2_write(struct server *s, struct open_file *f, uint64_t at, const char *data, size_t size)
{
	struct bank b;
	if (crooked(at, size) || size > PAGE || !bank_of_state(f->node->seat, &f->regs2, &b))
		return EINVAL;
	for (uint32_t i = 0; i < size; i += 4)
		seat_sq_write(s, f->node->seat, (uint32_t)at + i, get_u32(data + i));
	return 0;
}

static int regs2_ioctl(struct server *s, struct open_file *f, unsigned request, char *data, size_t size, pid_t caller)
{
	(void)s, (void)caller;
	struct regs2_state *r = &f->regs2;
	if (request == REGS2_IOCTL_V2 && size >= sizeof(*r)) {
		memcpy(r, data, sizeof(*r));
		return 0;
	}
	if (request != REGS2_IOCTL_V1 || size < offsetof(struct regs2_state, xcc))
		return EINVAL;
	// The driver does not take the VMID over from the first form.
	memcpy(r, data, offsetof(struct regs2_state, vmid));
	r->xcc = 0;
	return 0;
}

// --- registers behind an index ---

static int indexed_read(struct server *s, struct open_file *f, uint64_t at, size_t size, uint32_t space, struct text *ret)
{
	const struct bank b = BANK_NONE;
	if (crooked(at, size))
		return EINVAL;
	for (size_t i = 0; i < size; i += 4)
		put(ret, seat_register(s, f->node->seat, &b, space + (uint32_t)(at + i)));
	return 0;
}

/** Parts from gfx12 on have no current limiter that the driver reaches. On those before them that lack the index register it writes to
 * another one: nobody may. */
static int didt_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	struct reg r;
	const struct seat *seat = f->node->seat;
	if (seat->gc_major >= 12)
		return EOPNOTSUPP;
	if (!seat->gc_registers || !register_find(seat->gc_registers, S("DIDT_IND_INDEX"), &r))
		record_event(s, f->node, "warning", 0);
	return indexed_read(s, f, at, size, EMU_DIDT, ret);
}

/** Above 4 GB the driver of most parts stops with BUG(). */
static int pcie_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	if (at >> 32)
		record_event(s, f->node, "warning", 0);
	return indexed_read(s, f, at, size, 0, ret);
}

static int any_write(struct server *s, struct open_file *f, uint64_t at, const char *data, size_t size)
{
	(void)s, (void)f, (void)data;
	return crooked(at, size) ? EINVAL : 0;
}

/** The driver has no such access for the parts from gfx9 on. */
static int absent_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	(void)s, (void)f, (void)at, (void)size, (void)ret;
	return EOPNOTSUPP;
}

// --- waves ---

/** From gfx10 on the driver takes (WGP << 2 | SIMD) as the instance. */
struct wave_slot seat_slot(const struct seat *seat, unsigned xcc, unsigned se, unsigned sh, unsigned cu, unsigned simd,
			   unsigned wave)
{
	bool wgp = seat->gc_major >= 10;
	return (struct wave_slot){ .known = true,
				   .xcc = xcc,
				   .se = se,
				   .sh = sh,
				   .slot = wave,
				   .cu = wgp ? cu >> 2 : cu,
				   .simd = wgp ? cu & 3 : simd };
}

/** The driver answers for places that do not exist too. */
static size_t wave_answer(struct server *s, struct seat *seat, const struct wave_slot *slot,
			  uint32_t words[static WAVE_WORDS_MOST])
{
	size_t n = seat_wave(s, seat, slot, words);
	uint32_t nothing = no_sq;
	if (n && !dark(s, seat, true))
		return n;
	if (n)
		nothing = all;
	else
		n = emu_wave(seat->gpu, &(struct wave_slot){ .known = true }, server_time(s), words);
	for (size_t i = 1; i < n; i++)
		words[i] = nothing;
	return n;
}

static void warn_of_simd(struct server *s, const struct node *n, unsigned simd)
{
	if (n->seat->gc_major >= 10 && simd)
		record_event(s, n, "warning", 0);
}

static int wave_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	uint32_t words[WAVE_WORDS_MOST];
	struct seat *seat = f->node->seat;
	if (crooked(at, size))
		return EINVAL;
	unsigned simd = position(at, 44, 37);
	warn_of_simd(s, f->node, simd);
	struct wave_slot slot =
		seat_slot(seat, 0, position(at, 14, 7), position(at, 22, 15), position(at, 30, 23), simd, position(at, 36, 31));
	size_t n = wave_answer(s, seat, &slot, words);
	if (!n)
		return EINVAL;
	for (size_t i = position(at, 6, 0) / 4; i < n && size; i++, size -= 4)
		put(ret, words[i]);
	return 0;
}

static uint32_t gpr(struct server *s, struct seat *seat, const struct wave_slot *slot, bool vector, unsigned lane,
		    unsigned number)
{
	return dark(s, seat, true) ? all : seat_gpr(s, seat, slot, vector, lane, number);
}

static int gpr_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	struct seat *seat = f->node->seat;
	if (crooked(at, size) || size > PAGE)
		return EINVAL;
	unsigned simd = position(at, 51, 44), thread = position(at, 59, 52), number = position(at, 11, 0) / 4;
	warn_of_simd(s, f->node, simd);
	struct wave_slot slot = seat_slot(seat, 0, position(at, 19, 12), position(at, 27, 20), position(at, 35, 28), simd,
					  position(at, 43, 36));
	bool vector = position(at, 61, 60) == 0;
	for (size_t i = 0; i < size / 4; i++)
		put(ret, gpr(s, seat, &slot, vector, thread, number + (unsigned)i));
	return 0;
}

/** The driver takes the byte position as the number of the first register, and then copies from that position of what it read. */
static int gprwave_gprs(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	const struct gprwave_state *g = &f->gprwave;
	struct seat *seat = f->node->seat;
	struct wave_slot slot = seat_slot(seat, g->xcc, g->se, g->sh, g->cu, g->simd, g->wave);
	for (uint64_t i = at; i < size; i += 4)
		put(ret, gpr(s, seat, &slot, g->vgpr_or_sgpr, g->thread, (unsigned)(at + i / 4)));
	return size ? 0 : EINVAL;
}

static int gprwave_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	const struct gprwave_state *g = &f->gprwave;
	if (crooked(at, size) || size > PAGE)
		return EINVAL;
	warn_of_simd(s, f->node, g->simd);
	if (g->gpr_or_wave)
		return gprwave_gprs(s, f, at, size, ret);
	uint32_t words[WAVE_WORDS_MOST];
	struct wave_slot slot = seat_slot(f->node->seat, g->xcc, g->se, g->sh, g->cu, g->simd, g->wave);
	size_t n = wave_answer(s, f->node->seat, &slot, words);
	if (!n)
		return EINVAL;
	for (; size && at < 4 * n; at += 4, size -= 4)
		put(ret, words[at / 4]);
	return 0;
}

static int gprwave_ioctl(struct server *s, struct open_file *f, unsigned request, char *data, size_t size, pid_t caller)
{
	(void)s, (void)caller;
	if (request != GPRWAVE_IOCTL || size < sizeof(f->gprwave))
		return EINVAL;
	memcpy(&f->gprwave, data, sizeof(f->gprwave));
	return 0;
}

// --- small ones ---

static int gca_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	enum { ADDRESSES = 22 }; // GB_ADDR_CONFIG, as the driver read it when it started
	struct seat *seat = f->node->seat;
	const uint32_t *words = seat->facts->gca;
	struct reg r;
	const struct bank none = BANK_NONE;
	uint32_t address = 0, config = 0;
	if (crooked(at, size))
		return EINVAL;
	if (seat_find_register(seat, S("gc"), S("GB_ADDR_CONFIG"), &r, &address))
		config = emu_register(seat->gpu, &none, address, 0);
	for (; size && at < sizeof(seat->facts->gca); at += 4, size -= 4)
		put(ret, at / 4 == ADDRESSES ? config : words[at / 4]);
	(void)s;
	return 0;
}

/** Numbers as enum amd_pp_sensors has them. */
static const struct {
	unsigned number;
	enum emu_number which;
	unsigned times;
} sensors[] = {
	{ 0, EMU_CLOCK, 100 }, // 10 kHz
	{ 7, EMU_BUSY, 1 },
	{ 8, EMU_MEMORY_BUSY, 1 },
	{ 10, EMU_TEMPERATURE, 1000 }, // millidegrees
	{ 11, EMU_TEMPERATURE, 1000 },
	{ 15, EMU_POWER, 256 }, // 8 bits of fraction
};

static int sensors_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	if (crooked(at, size))
		return EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(sensors); i++) {
		if (sensors[i].number != at / 4)
			continue;
		if (size > 4)
			return EINVAL;
		if (size)
			put(ret, (uint32_t)emu_number(f->node->seat->gpu, sensors[i].which, server_time(s)) * sensors[i].times);
		return 0;
	}
	return EOPNOTSUPP;
}

static int gfxoff_read(struct server *s, struct open_file *f, uint64_t at, size_t size, struct text *ret)
{
	if (crooked(at, size))
		return EINVAL;
	// The status tells 0 for a core that is off, 2 for one that is on.
	bool off = seat_state(s, f->node->seat) == EMU_GFXOFF, status = f->node->index;
	for (; size; size -= 4)
		put(ret, status ? (off ? 0 : 2) : off);
	return 0;
}

static const struct kind regs_kind = { .read = regs_read, .write = regs_write, .size = regs_size, .wakes = true };
static const struct kind regs2_kind = {
	.read = regs2_read, .write = regs2_write, .ioctl = regs2_ioctl, .wakes = true, .locked = true
};
static const struct kind gprwave_kind = { .read = gprwave_read, .ioctl = gprwave_ioctl, .wakes = true, .locked = true };
static const struct kind didt_kind = { .read = didt_read, .write = any_write, .wakes = true };
static const struct kind pcie_kind = { .read = pcie_read, .write = any_write, .wakes = true };
static const struct kind smc_kind = { .read = absent_read };
static const struct kind gca_kind = { .read = gca_read };
static const struct kind sensors_kind = { .read = sensors_read, .wakes = true, .smu = true };
static const struct kind wave_kind = { .read = wave_read, .wakes = true };
static const struct kind gpr_kind = { .read = gpr_read, .wakes = true };
static const struct kind gfxoff_kind = { .read = gfxoff_read, .write = any_write, .wakes = true };
static const struct kind gfxoff_status_kind = { .read = gfxoff_read, .wakes = true, .smu = true };

static const struct {
	const char *name;
	const struct kind *kind;
	size_t index;
} register_files[] = {
	{ "amdgpu_regs", &regs_kind, 0 },       { "amdgpu_regs2", &regs2_kind, 0 },
	{ "amdgpu_gprwave", &gprwave_kind, 0 }, { "amdgpu_regs_didt", &didt_kind, 0 },
	{ "amdgpu_regs_pcie", &pcie_kind, 0 },  { "amdgpu_regs_smc", &smc_kind, 0 },
	{ "amdgpu_gca_config", &gca_kind, 0 },  { "amdgpu_sensors", &sensors_kind, 0 },
	{ "amdgpu_wave", &wave_kind, 0 },       { "amdgpu_gpr", &gpr_kind, 0 },
	{ "amdgpu_gfxoff", &gfxoff_kind, 0 },   { "amdgpu_gfxoff_status", &gfxoff_status_kind, 1 },
};

void build_register_files(struct server *s, struct node *directory)
{
	for (size_t i = 0; i < ARRAY_SIZE(register_files); i++) {
		struct node *n = tree_file(s, directory, register_files[i].name, 0400, register_files[i].kind);
		n->path = str_z(n->name);
		n->index = register_files[i].index;
	}
}

// The emulated machine: what a scenario says it is, asked for at a time. Times are seconds since the command was started.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "gpu/register/registers.h"
#include "gpu/silicon/silicon.h"
#include "knowledge/know.h"

struct emu_machine;
struct emu_gpu;
struct emu_process;

/** Reads a scenario; the error names its line. @name is told in it and in what is said later. */
struct uh_error *emu_read(const struct know *k, const char *name, struct str text, struct emu_machine **ret);
void emu_free(struct emu_machine *m);

struct str emu_name(const struct emu_machine *m);
struct str emu_title(const struct emu_machine *m);
bool emu_lockdown(const struct emu_machine *m);
/** The kernel's release. */
struct str emu_kernel(const struct emu_machine *m);
bool emu_user(const struct emu_machine *m); // debugfs may not be entered
bool emu_no_debugfs(const struct emu_machine *m);

size_t emu_gpus(const struct emu_machine *m);
const struct emu_gpu *emu_gpu(const struct emu_machine *m, size_t index);

/** What does not change. */
/** Of a PCIe link: tenths of GT/s, and lanes. */
struct emu_link {
	unsigned speed, width, port_speed, port_width; // as it is; what the bridge above can do
};

struct emu_facts {
	struct str pci, part, gfx, name, chip; // chip: as the driver calls it
	int card, render;
	unsigned vendor, device, revision, subsystem_vendor, subsystem_device, class; // class: 0x030000, 0x038000
	bool apu, guest;
	const struct ip *ips;
	size_t nips;
	struct shader_array shaders;
	unsigned simds_per_cu, slots_per_simd; // as the driver addresses waves (a WGP has four from gfx10 on)
	uint64_t vram_total, gtt_total;
	struct {
		unsigned clock, memory_clock, memory_bus, power; // MHz, MHz, bits, W
	} limits;
	uint64_t registers; // bytes of the register space
	uint32_t gca[36];   // amdgpu_gca_config
	struct str compute_partition, memory_partition;
	uint32_t gpu_id; // KFD's
	unsigned node;
	struct emu_link link;
};
const struct emu_facts *emu_facts(const struct emu_gpu *g);

enum emu_state { EMU_AWAKE, EMU_SUSPENDED, EMU_GFXOFF, EMU_RESET, EMU_OFF_BUS };
enum emu_state emu_state(const struct emu_gpu *g, double t);

/** Where the registers behind the current limiter's index are, in bytes: a place of the register space that has no others. */
#define EMU_DIDT 0xe0000000u
/** A word of the register space as the hardware has it; what the state makes of it is the driver's side. */
uint32_t emu_register(const struct emu_gpu *g, const struct bank *b, uint32_t address, double t);
/** How many of its CUs are there. */
unsigned emu_active_cus(const struct emu_gpu *g);
/** Which units of an array (CUs, or WGPs) are not, a bit each. */
uint32_t emu_units_off(const struct emu_gpu *g, unsigned xcc, unsigned se, unsigned sh);
/** The driver's answer for a wave slot: how many words, the first of them the type; 0: the slot does not exist. A slot without a wave
 * answers with status 0. */
size_t emu_wave(const struct emu_gpu *g, const struct wave_slot *s, double t, uint32_t words[static WAVE_WORDS_MOST]);
/** A wave's SGPR or a lane's VGPR. */
uint32_t emu_gpr(const struct emu_gpu *g, const struct wave_slot *s, bool vector, unsigned lane, unsigned number, double t);

struct emu_ring {
	struct str name; // gfx_0.0.0
	uint32_t words;  // of the ring; a power of two
	uint32_t rptr, wptr, driver;
};
size_t emu_rings(const struct emu_gpu *g);
struct emu_ring emu_ring(const struct emu_gpu *g, size_t index, double t);
uint32_t emu_ring_word(const struct emu_gpu *g, size_t index, uint32_t word, double t);

struct emu_fence {
	struct str ring;
	uint32_t signaled, emitted, done;
};
size_t emu_fences(const struct emu_gpu *g);
struct emu_fence emu_fence(const struct emu_gpu *g, size_t index, double t);

/** Words of memory; 0 where nothing is said. */
uint32_t emu_vram(const struct emu_gpu *g, uint64_t address, double t);
bool emu_iomem(const struct emu_gpu *g, uint64_t address, double t, uint32_t *ret); // false: no page of the driver's

enum emu_number {
	EMU_BUSY, // per cent
	EMU_MEMORY_BUSY,
	EMU_POWER,       // W
	EMU_TEMPERATURE, // degrees
	EMU_CLOCK,       // MHz
	EMU_VRAM_USED,   // bytes
	EMU_INTERRUPTS,
};
uint64_t emu_number(const struct emu_gpu *g, enum emu_number n, double t);

/** The table gpu_metrics; nothing: it has none. */
void emu_metrics(const struct emu_gpu *g, double t, struct text *ret);

struct emu_firmware {
	struct str name;
	uint32_t version, feature;
};
size_t emu_firmwares(const struct emu_gpu *g);
struct emu_firmware emu_firmware(const struct emu_gpu *g, size_t index);

/** Files that a scenario writes out: of sysfs (under the PCI device) or of debugfs (under the GPU's directory). */
enum emu_tree { EMU_SYSFS, EMU_DEBUGFS };
size_t emu_files(const struct emu_gpu *g, enum emu_tree tree);
struct str emu_file_path(const struct emu_gpu *g, enum emu_tree tree, size_t index);
void emu_file_text(const struct emu_gpu *g, enum emu_tree tree, size_t index, double t, struct text *ret);

enum emu_does { EMU_ANSWERS, EMU_FAILS, EMU_BLOCKS, EMU_ONES, EMU_ABSENT, EMU_WAKES };
struct emu_behaviour {
	enum emu_does does;
	int error;
	double seconds; // that it blocks; 0: for ever
};
/** @path: relative to the GPU's directories; `render`; `kmsg` with @g NULL. */
struct emu_behaviour emu_behaviour(const struct emu_machine *m, const struct emu_gpu *g, struct str path, double t);

/** The devcoredump; empty: there is none. */
struct str emu_devcoredump(const struct emu_gpu *g);

struct emu_message {
	double time; // the kernel's
	unsigned level;
	unsigned facility; // who wrote it: 0 is the kernel
	struct str text;   // with $pid(NAME) in it
};
enum { EMU_UPTIME = 1000 };
size_t emu_messages(const struct emu_machine *m);
/** How many the kernel wrote before the first of them, and has no more. */
size_t emu_overwritten(const struct emu_machine *m);
struct emu_message emu_message(const struct emu_machine *m, size_t index);

/** A process; who runs it tells its number. */
size_t emu_processes(const struct emu_machine *m);
struct emu_process *emu_process(const struct emu_machine *m, size_t index);
struct str emu_process_name(const struct emu_process *p);
void emu_process_runs(struct emu_process *p, int pid, unsigned pasid);
int emu_process_pid(const struct emu_process *p);
/** NAME=VALUE, each with its NUL. */
struct str emu_process_environment(const struct emu_process *p);
/** How much of a core it uses, per cent. */
unsigned emu_process_computes(const struct emu_process *p);
bool emu_process_stopped(const struct emu_process *p);
unsigned emu_process_pasid(const struct emu_process *p);
/** Fills its memory at the time it is started, in the process itself: maps what the scenario says at its addresses. */
struct uh_error *emu_process_fill(const struct emu_process *p);
/** Goes on filling in what changes with time, in the process itself. */
void emu_process_tick(const struct emu_process *p, double t);
/** GPU that it has open as a graphics client. */
bool emu_process_opens(const struct emu_process *p, const struct emu_gpu *g);
uint64_t emu_process_vram(const struct emu_process *p, const struct emu_gpu *g);

/** A queue that a client of the driver fills itself. Its descriptor is in memory, where the scenario puts it. */
struct emu_user_queue {
	unsigned id, type, vmid; // type: as in the driver's interface; vmid: whose page tables it has
	const struct emu_gpu *gpu;
	uint64_t mqd;
	bool underscore; // newer kernels: queue_1
};
size_t emu_user_queues(const struct emu_process *p);
struct emu_user_queue emu_user_queue(const struct emu_process *p, size_t index);
/** What vm_pagetable_info says of the tables of a VMID. */
void emu_page_tables(const struct emu_gpu *g, unsigned vmid, struct text *ret);

struct emu_queue {
	unsigned id;
	const struct emu_gpu *gpu;
	const struct emu_process *process;
	bool sdma;
	uint64_t ring;
	uint32_t size; // bytes
	unsigned xcc, me, pipe, queue, vmid;
};
size_t emu_queues(const struct emu_machine *m);
struct emu_queue emu_queue(const struct emu_machine *m, size_t index);
/** Its MQD as the generation's structure has it, its HQD as pairs of register offset and value: the driver's debugfs prints these. */
size_t emu_queue_mqd(const struct emu_machine *m, size_t index, double t, uint32_t words[static 512]);
size_t emu_queue_hqd(const struct emu_machine *m, size_t index, double t, uint32_t pairs[static 256][2]);

/** Texts with $pid(NAME) replaced. */
void emu_expand(const struct emu_machine *m, struct str text, struct text *ret);

/** The scenarios that are built in. */
struct emu_builtin {
	const char *name; // compute-stall
	const char *begin, *end;
};
extern const struct emu_builtin emu_builtins[];

// The AMD GPUs of this machine, from what sysfs, procfs and the render nodes say: none of it touches a register. What is not known is
// empty, or -1.
#pragma once

#include "base/arena.h"
#include "knowledge/know.h"
#include "source/probe.h"

/** An IP block, as the driver discovered it. */
struct ip {
	struct str name;        // as the register tables call it: gc, sdma0, mmhub
	unsigned die, instance; // instance: among those that are there
	unsigned version[3];
	bool harvested;
	size_t nbases;
	const uint32_t *bases; // in words of 32 bits
};

struct firmware {
	struct str name; // MES, SMC, SDMA0
	uint32_t version;
};

enum { HOLDER_PASIDS = 8 };

/** A process that has the GPU open. */
struct holder {
	int64_t pid;
	struct str name;
	uint64_t began; // ticks since the boot; 0: not known
	bool compute;   // through KFD
	bool stopped;   // by a signal or a debugger
	int64_t vram;   // bytes
	size_t npasids; // numbers of its address spaces on this GPU
	uint32_t pasids[HOLDER_PASIDS];
};

/** Errors of the PCIe link that the kernel counted. */
struct link {
	struct str speed, max_speed; // 16.0 GT/s PCIe
	int64_t width, max_width;
	int64_t correctable, nonfatal, fatal;
};

/** Hardware errors that the driver has counted since it was loaded; -1: not known. */
struct ras_events {
	int64_t fatal;
	int64_t poison_created, poison_consumed; // broken data that memory marked, and that somebody used
	size_t gpus;                             // that are counted together: all of an XGMI hive
	bool first;                              // it is the first of these
	bool odd;                                // a count is no number that can be
};

/** What the driver says of the shader array. 0: not known. */
struct shader_array {
	unsigned xccs; // that exist
	unsigned ses, shs_per_se, cus_per_sh;
	unsigned family;
};

/** Files that did not answer in time, or whose turn never came. */
struct unread {
	size_t n;
	struct str paths; // of the first ones, one per line
};

struct device {
	struct str pci; // 0000:03:00.0
	unsigned vendor, device, revision, subsystem_vendor, subsystem_device;
	struct str name, gfx;
	struct str driver;  // amdgpu; empty: none drives it, where driver_known
	bool driver_known;  // false: it was found in a tree that does not tell
	bool apu, guest;    // guest: a virtual function that a host lent
	bool gfxoff_masked; // the driver's mask of features forbids GFXOFF
	bool off_bus;       // its configuration space reads all ones: nothing of it is touched again
	bool config_known;
	int card, render;          // minor numbers of the nodes
	struct str sysfs;          // directory of the PCI device
	struct str path;           // what that link leads to: it names the bridges above the device; empty: not known
	struct str debugfs;        // directory; empty where it may not be read or is not there
	struct str runtime_status; // active, suspended
	struct str power_state;    // D0, D3cold
	struct link link;
	struct str serial, unique_id, slot, product, hive, compute_partition, memory_partition, vbios;
	struct ras_events ras;
	struct str metrics; // its table gpu_metrics, for metrics_of(); empty
	int64_t oam;        // the module's position, as XGMI numbers it; -1: not known
	unsigned sensors, sensors_silent; // that the power controller (SMU) serves, and how many of them it did not answer
	int64_t busy, memory_busy;        // per cent
	int64_t power_mw, temperature;    // temperature: millidegrees
	int64_t power_cap_mw;             // what it may draw
	int64_t vram_total, vram_used, gtt_total, gtt_used;
	int64_t clock;      // MHz of the shaders
	int64_t interrupts; // that the kernel counted
	struct str irqs;    // numbers of its interrupts, one per line
	struct ip *ips;
	size_t nips;
	struct shader_array shaders;
	struct firmware *firmware;
	size_t nfirmware;
	struct holder *holders;
	size_t nholders;
	int64_t kfd_node, gpu_id;        // in KFD's topology
	int64_t active_cus;              // of all its nodes there; 0: not known
	uint32_t debug_properties;       // what KFD says there for debuggers; 0: nothing, or not known
	struct str devcoredump;          // path of its data, where there is one
	struct probe_stuck stuck;        // reading its files did not return
	struct str refused;              // files that it had no permission to read, one path per line
	struct unread unread;            // its files that were not read
	bool identity_unread;            // files that say which part it is were not read, so that may be wrong
	struct probe_patience *patience; // shared by all devices
};

/** A node of KFD's topology: a GPU, or a partition of one. */
struct kfd_place {
	int64_t node, gpu_id;
	size_t device;      // in the list
	unsigned partition; // which of that GPU's it is: they divide its XCCs in their order
};

struct devices {
	struct arena arena;
	const char *tree; // they were found in a tree that stands for another machine; NULL: here
	struct device *list;
	size_t n;
	struct kfd_place *kfd;
	size_t nkfd;
	bool kfd_known; // KFD's topology could be listed
	bool pci_known; // the PCI devices could be listed
	bool root;
	bool debugfs;          // it is mounted and may be listed
	bool lockdown;         // the kernel is locked down: files with ioctls are refused
	struct str kernel;     // release
	const char *kernel_at; // the file that says it
	struct str driver_version;
	struct unread unread;           // files of no device: there may be more devices than these
	struct unread processes_unread; // there may be more holders than were found
	struct probe_count count;
};

/** Finds the GPUs. It always returns, even if the driver hangs. Free with devices_free(). */
void devices_find(const struct know *k, struct devices *ret);
/** The same for another machine: one whose files lie in a tree, or that is on a tape. */
void devices_find_at(const struct know *k, struct machine_at at, struct devices *ret);
/** A line of amdgpu_firmware_info. false: it names no firmware, or one that is not loaded. */
bool firmware_info_line(struct str line, struct firmware *ret);
/** What follows @key in the first line that begins with it; empty: there is none. */
struct str line_behind(struct str text, struct str key);
/** The value of a line `NAME VALUE` of KFD's properties; -1: there is none. */
int64_t kfd_property(struct str text, const char *name);
void devices_free(struct devices *d);
#define _cleanup_devices_ _cleanup_(devices_free)
/** Whether identity_unread is set for one of them. */
bool devices_unsure(const struct devices *d);
/** How many interrupts of each device the kernel has counted by now; -1: not known. */
void devices_interrupts(const struct devices *d, int64_t *ret);
/** Whether the driver may be asked: it is bound, and the device is on the bus, awake, and was not stuck. */
bool device_awake(const struct device *d);
/** `0000:03:00.0`: domain, and bus, device and function as KFD numbers them. false: it is no such address, and nothing is set. */
bool pci_numbers(struct str pci, unsigned *ret_domain, unsigned *ret_location);
/** What ras/event_state says. */
struct ras_events ras_events_parse(struct str text);
/** `16.0 GT/s PCIe` is 160; -1: it is no speed. */
int64_t link_speed(struct str text);
/** `16.0 GT/s x16`; empty: not known, as for a card that is off the bus. */
struct str link_text(const struct device *d, struct arena *a);
/** The device that a user means: a PCI address with or without its domain, card1, renderD128, or a place in the list. NULL: none. */
/** Why there may be GPUs that are not in the list, as a sentence; empty: there are none. */
struct str devices_unlisted(const struct devices *d, struct arena *a);
const struct device *devices_named(const struct devices *d, struct str name);
/** The IP block with this name. @instance counts those that exist. NULL: none. */
const struct ip *device_ip(const struct device *d, struct str name, unsigned instance);
/** gfx1100 of GC 11.0.0; empty where knowledge has no such version. */
struct str gfx_of_gc(const struct know *k, const unsigned version[3]);
/** The other way round. */
bool gc_of_gfx(const struct know *k, struct str gfx, unsigned ret[3]);
/** gfx942 for 90402: KFD and cores number parts by major, minor and stepping; in the name the last two are hexadecimal digits. Empty: it
 * is no such number. */
struct str gfx_of_target(struct arena *a, uint32_t version);

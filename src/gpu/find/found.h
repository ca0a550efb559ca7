// Inside the search for devices: what was found so far, and how files become facts. Nothing here touches a register.
#pragma once

#include "gpu/find/device.h"

/** LOOK_MS: what one operation may take. PATIENCE_MS: what a search may lose to files that do not answer, on a machine with one GPU;
 * more for each further GPU, and for a tree. */
enum {
	LOOK_MS = 1000,
	LOOK_ASK_MS = 700,
	PATIENCE_MS = 10000,
	PATIENCE_GPU_MS = 1000,
	PATIENCE_PROCESSES_MS = 3000,
	PATIENCE_TREE_MS = 30000
};
/** The most names in a directory, and the greatest number of a node. */
enum { PCI_MOST = 4096, CARDS_MOST = 1 << 20 };

/** A device, with what only the search needs. */
struct found {
	struct device d;
	struct str config;
	struct str nodes, monitors, firmware, dies, dump; // names in directories, one per line
	struct str driver_link, physical;
	int card, render; // the numbers in drm's class; -1: none
	struct str uevent, override;
	struct str monitor; // the directory in hwmon/
	struct str correctable, nonfatal, fatal, ras_events;
	int64_t power_input, junction; // MI300 has neither the average power nor the edge's temperature
	unsigned domain, location;     // bus, device and function as KFD numbers them
	int64_t gfx_version;           // of KFD: 110000
};

/** A GPU, or a partition of one, in KFD's topology. */
struct kfd_node {
	int64_t node, gpu_id;
	struct found *of;
	int64_t xccs, arrays, arrays_per_engine, cus_per_array;
};

struct search {
	const struct know *k;
	struct devices *to;
	struct found *found;
	size_t n;
	struct str nodes, processes; // of KFD
	struct str all_processes;    // names in /proc
	struct str debugfs;
	struct str modules, bound; // names in /sys/module, and of what amdgpu drives
	struct str cards;          // names in drm's class
	bool drivers_recorded;     // a PCI device has a link to its driver
	struct kfd_node *kfd;
	size_t nkfd;
	int64_t for_processes; // milliseconds of the patience that processes which do not answer may use up
};

enum device_as { DEVICE_TEXT, DEVICE_RAW, DEVICE_UNSIGNED, DEVICE_NUMBER, DEVICE_SENSOR };
struct device_fact {
	const char *file; // in the directory of the PCI device; $ is the directory of its sensors
	enum device_as as;
	size_t at; // in struct found
	enum probe_kind kind;
	int64_t divide;
};

/** Reads these facts for each device for which @of is true, all devices at the same time. A device that was stuck is left alone. */
void facts_read(struct search *s, const struct device_fact *facts, size_t n, bool (*of)(const struct found *),
		int milliseconds);
/** Runs one batch for each device of s->found. Notes where one was stuck, what was refused and what was not read. */
void look_run(struct search *s, struct probe_batch *batches, int milliseconds);
/** Runs a batch of files that belong to no device. */
void look_once(struct search *s, struct probe *probes, size_t n, int milliseconds);
/** Runs a batch of files of processes. Some of them may not answer. */
void look_processes(struct search *s, struct probe *probes, size_t n, int milliseconds);
/** As facts_read() wants it: device_awake(). */
bool look_awake(const struct found *f);

/** The lines of @text, sorted; at most @most. */
size_t lines_of(struct arena *a, struct str text, size_t most, struct str **ret);

/** Finds AMD's display and compute devices, with or without a driver. @names: of all PCI devices. */
void find_pci(struct search *s, struct str names);
/** In a tree: finds the nodes of the devices; if there is no list of PCI devices, the cards. @names: in drm's class. */
void find_cards(struct search *s, struct str names);
void find_slots(struct search *s, struct str names);
/** The number behind @prefix: 1 for `card1` and `card`. -1: none. */
int node_number(struct str name, struct str prefix);
bool has_line(struct str text, struct str line);
void find_debugfs(struct search *s);
void find_ips(struct search *s);
void find_shaders(struct search *s);
void find_kfd(struct search *s);
void find_holders(struct search *s);

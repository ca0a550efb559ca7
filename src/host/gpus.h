// Inside the look at GPUs: each file of this part says what it wants to read, all of that is read at once, then each notes its facts.
#pragma once

#include "host/host.h"

/** The files of one GPU. A child of its own reads them, so that a GPU that hangs does not affect the others. */
struct asks {
	VEC(struct probe) probes;
};

enum { WAY_MOST = 16, DISPLAYS_MOST = 32 };

/** A device on the way from the root complex to the GPU; the GPU itself is the last. Its files begin at @ask. */
struct way_stop {
	struct str pci;
	size_t ask;
};

struct gpu_look {
	struct host_item *item;
	const struct device *d;
	struct probe_stuck stuck; // where a look at it hung, in this part or before
	bool doubt;               // not all of its files were read, in this part or before
	struct asks asks;
	// of the first round
	bool grouped;          // it has an IOMMU group
	struct str connectors; // names in the directory of its card
	struct str ras;        // names of files with counts
	struct str links;      // names of KFD's links from its first node
	// of the second: where files of a part begin, and how many there are
	struct way_stop way[WAY_MOST];
	size_t nway, displays, ndisplays, ras_ask, nras, xgmi_ask, nxgmi, metrics_ask;
	// facts that others need
	int64_t connected; // displays; -1: not known
	struct str iommu, iommu_place;
	bool *peers; // for each GPU of the list: whether there is an XGMI link to it
	size_t npeers;
	bool links_known;
};

struct gpu_looks {
	struct host *h;
	struct gpu_look *list;
	size_t n;
	struct asks machine;
	bool doubt;            // not all files of the machine (those of no GPU) were read
	struct str connectors; // names in /sys/class/drm
	struct str iommus;     // names in /sys/class/iommu
	bool iommus_known;
};

size_t ask(struct asks *to, enum probe_kind kind, struct str path, size_t size);
/** The same for a file in the directory of the GPU. */
size_t ask_gpu(struct gpu_looks *l, struct gpu_look *g, enum probe_kind kind, const char *file, size_t size);
struct str answer_text(const struct asks *a, size_t index);
/** The number that a file says; -1: none. */
int64_t answer_number(const struct asks *a, size_t index);
/** The path of file @index; empty if it was not asked for, as for a GPU that is stuck. */
struct str answer_place(const struct asks *a, size_t index);

void links_ask(struct gpu_looks *l, struct gpu_look *g);
void links_note(struct gpu_looks *l, struct gpu_look *g);

void displays_ask(struct gpu_looks *l, struct gpu_look *g);
void displays_note(struct gpu_looks *l, struct gpu_look *g);
void displays_note_machine(struct gpu_looks *l);

void xgmi_ask(struct gpu_looks *l, struct gpu_look *g);
void xgmi_note(struct gpu_looks *l);

void errors_ask(struct gpu_looks *l, struct gpu_look *g);
void errors_note(struct gpu_looks *l, struct gpu_look *g);

void metrics_ask(struct gpu_looks *l, struct gpu_look *g);
void metrics_note(struct gpu_looks *l, struct gpu_look *g);

void iommu_note(struct gpu_looks *l, struct gpu_look *g, struct str type, struct str where);
void iommu_note_machine(struct gpu_looks *l);
void aspm_note(struct gpu_looks *l, struct str policy, struct str where);

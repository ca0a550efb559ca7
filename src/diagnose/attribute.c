// Which GPU of which machine an incident is about. That is known only when it closes: a log may name the GPU last.
#include "diagnose/incident.h"

#include <stdio.h>
#include <stdlib.h>

#include "diagnose/machine.h"

/** Whether programs name another GPU than the one of @node. */
static bool means_other_node(const struct incident *i, int64_t node)
{
	int64_t named;
	for (size_t n = 0; n < i->events.len && node; n++) {
		const struct fact *f = diag_fact(i->events.data[n], "gpu_node");
		if (f && str_number(f->value, &named) && named != node)
			return true;
	}
	return false;
}

/** Whether the evidence tells the GPU by the number that AMD's tools give it, or by its serial number. A log with one address may be of another
 * machine, or of the only one of eight GPUs that the driver spoke of: who has an address by his number got it from machine_index(). */
static bool means_other_index(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++)
		if (diag_fact(i->events.data[n], "gpu_index") || diag_fact(i->events.data[n], "bank_serial"))
			return true;
	return false;
}

/** What the user says, or else the one part that the text around the log names, where the log itself does not tell. */
static void take_spoken(struct incident *i, const struct machine *m)
{
	const struct know_part *part = m->said ? m->said : m->several || m->ngpus > 1 ? NULL : m->spoken;
	if (!part || i->gpu.name.n || (i->gpu.gfx.n && !str_eq(i->gpu.gfx, part->gfx)))
		return;
	i->gpu.name = part->name;
	i->gpu.gfx = part->gfx;
	i->gpu.apu = part->apu;
}

/** A record of a hardware error names the device, and not where it is. */
static void take_recorded(struct incident *i, const struct know *k)
{
	for (size_t n = 0; n < i->events.len && !i->gpu.name.n && !i->gpu.device.n; n++) {
		const struct diag_event *e = i->events.data[n];
		uint64_t id;
		const struct know_part *part = diag_fact(e, "cper_id") && str_hex(diag_value(e, "device_id"), &id) ?
						       know_part(k, (unsigned)id, -1) :
						       NULL;
		if (!part)
			continue;
		i->gpu.name = part->name;
		i->gpu.gfx = part->gfx;
	}
}

/** The kernel's record of a PCIe device names it in lines of their own. */
static void take_bus_device(struct incident *i, const struct know *k)
{
	for (size_t n = 0; n < i->events.len && !i->gpu.device.n; n++) {
		const struct diag_event *e = i->events.data[n];
		const struct str pci = diag_value(e, "pci"), vendor = diag_value(e, "apei_vendor"), id = diag_value(e, "apei_device");
		char both[16];
		snprintf(both, sizeof(both), "1002:%.*s", id.n > 2 && id.n < 8 ? (int)id.n - 2 : 0, id.n > 2 ? id.p + 2 : "");
		if (e->kind->bus == BUS_PCIE && !e->unrelated && pci_length(pci) && str_is(vendor, "0x1002") && !know_is_bridge(k, str_z(both)))
			i->gpu.device = pci;
	}
}

/** Tools print with an error which module it is of. */
static void take_printed_module(struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++) {
		const struct str serial = diag_value(i->events.data[n], "bank_serial"), uuid = diag_value(i->events.data[n], "bank_uuid");
		i->gpu.serial = i->gpu.serial.n ? i->gpu.serial : serial;
		i->gpu.unique_id = i->gpu.unique_id.n ? i->gpu.unique_id : uuid;
	}
}

/** What programs say that they run on, where neither the log nor the text around it names the part. */
static void take_told(struct incident *i, const struct machine *m)
{
	if (i->gpu.gfx.n || !m->told_gfx.n || m->told_others || m->several || m->ngpus > 1)
		return;
	i->gpu.gfx = arena_str(&i->arena, m->told_gfx);
	i->gpu.apu = m->told_apu;
}

/** The part that the machine has at an address. */
static void attribute_name_part(struct incident *i, struct diag_gpu *named, const struct machine *m)
{
	for (size_t n = 0; n < m->ngpus; n++) {
		const struct machine_gpu *gpu = &m->gpus[n];
		if (!str_eq(gpu->device, named->device))
			continue;
		if (gpu->part) {
			named->name = gpu->part->name;
			named->gfx = gpu->part->gfx;
			named->apu = gpu->part->apu;
		} else if (!named->gfx.n) {
			named->name = arena_str(&i->arena, gpu->name);
			named->gfx = arena_str(&i->arena, gpu->gfx);
		}
	}
}

static void attribute_name_gpu(struct incident *i, const struct machine *m)
{
	// A log that names one GPU only can mean no other.
	if (!i->gpu.device.n && !i->other_gpus.len && m->ngpus == 1 && !means_other_node(i, m->gpus[0].node) && !means_other_index(i)) {
		i->gpu.device = arena_str(&i->arena, m->gpus[0].device);
		struct fact pci = { S("pci"), i->gpu.device, FACT_TEXT, m->gpus[0].at };
		if (pci_length(i->gpu.device))
			vec_push(&i->machine, pci);
	}
	if (!m->ngpus && m->unnamed && !i->gpu.name.n) { // a device core names the part, not the address
		i->gpu.name = m->unnamed->name;
		i->gpu.gfx = m->unnamed->gfx;
		i->gpu.apu = m->unnamed->apu;
	}
	attribute_name_part(i, &i->gpu, m);
	for (size_t n = 0; n < i->other_gpus.len; n++)
		attribute_name_part(i, &i->other_gpus.data[n], m);
	take_spoken(i, m);
	take_told(i, m);
}

static bool machine_says(const struct machine *m, const char *name)
{
	for (size_t n = 0; n < m->facts.len; n++)
		if (str_is(m->facts.data[n].fact.name, name))
			return true;
	return false;
}

/** Whether the driver itself reports something in the incident; what any device or program has does not count. */
static bool driver_reports(const struct incident *i)
{
	for (size_t n = 0; n < i->events.len; n++) {
		const struct diag_event *e = i->events.data[n];
		if (e->kind->opens == OPENS_YES && !e->kind->bus && !e->kind->any_vendor && !e->kind->needs_frame &&
		    !e->unrelated)
			return true;
	}
	return false;
}

/** Whether an event of the bus or the IOMMU is about a GPU. */
static bool concerns_gpu(const struct incident *i, const struct diag_event *e, const struct know *k, const struct machine *m)
{
	const struct fact *bus = diag_fact(e, "pci_id"), *device = diag_fact(e, "iommu_device");
	const struct fact *vendor = diag_fact(e, "apei_vendor");
	if (machine_is_gpu(m, e->device) || (device && machine_is_gpu(m, device->value)))
		return true;
	if (bus && (know_is_bridge(k, bus->value) || str_starts(bus->value, S("1002:"))))
		return true;
	if (vendor && str_is(vendor->value, "0x1002"))
		return true;
	// A slot does not say what is in it; a GPU that vanishes makes its driver complain.
	if (e->kind->bus == BUS_SLOT)
		return driver_reports(i);
	// Of a device that a guest has, no driver here says whose it is. Where amdgpu drives another GPU here, its name says nothing of this one.
	if (e->kind->bus == BUS_GUEST && !m->ngpus && machine_says(m, "vendor_amd"))
		return true;
	// An excerpt that names no GPU at all: who shows it to us believes that it is about one.
	return (e->kind->bus == BUS_GUEST || (e->kind->bus == BUS_IOMMU && !e->driver.n)) && !m->ngpus && !m->has_boot;
}

static void judge_event(struct incident *i, struct diag_event *e, const struct know *k, const struct machine *m)
{
	if (e->kind->needs_gpu && !m->ngpus && m->has_boot)
		e->unrelated = true;
	if (!e->kind->bus)
		return;
	if (concerns_gpu(i, e, k, m))
		diag_set_fact(i, e, (struct fact){ S("gpu_path"), S("yes"), FACT_TEXT, e->at });
	else
		e->unrelated = true;
}

/** Messages that NVIDIA's software prints too count unless NVIDIA's printed them here. */
static void judge_vendor(struct incident *i, const struct machine *m)
{
	i->vendor_known = machine_says(m, "vendor_amd") || m->ngpus;
	for (size_t n = 0; n < i->events.len; n++)
		i->vendor_known |= (!i->events.data[n]->kind->any_vendor && i->events.data[n]->kind->opens == OPENS_YES) ||
				   diag_fact(i->events.data[n], "vendor_amd");
	bool nvidia = machine_says(m, "vendor_nvidia");
	for (size_t n = 0; n < i->events.len; n++)
		nvidia |= diag_fact(i->events.data[n], "vendor_nvidia") ||
			  (diag_fact(i->events.data[n], "vendor_cuda") && !diag_fact(i->events.data[n], "vendor_either"));
	for (size_t n = 0; n < i->events.len; n++) {
		// Who shows what became of a container asks about it; the kernel's log has whatever happened.
		struct diag_event *e = i->events.data[n];
		e->unrelated |= !i->vendor_known && nvidia;
		e->only_seen |= !i->vendor_known && e->kind->any_machine && !e->program;
	}
}

/** The GPU of a rank, where RCCL has said so when it started. */
static struct str rank_pci(const struct machine *m, const struct diag_event *e)
{
	const struct fact *rank = diag_fact(e, "rank");
	for (size_t n = 0; n < m->facts.len && rank; n++) {
		struct str name = m->facts.data[n].fact.name;
		if (str_starts(name, S("rank.")) && str_eq(str_from(name, 5), rank->value))
			return m->facts.data[n].fact.value;
	}
	return (struct str){ 0 };
}

/** Which GPU a program means by node-4. */
static void name_nodes(struct incident *i, const struct machine *m)
{
	struct str only = { 0 };
	bool several = false;
	for (size_t n = 0; n < i->events.len; n++) {
		struct diag_event *e = i->events.data[n];
		const struct fact *node = diag_fact(e, "gpu_node"), *index = diag_fact(e, "gpu_index");
		int64_t number;
		struct str pci = node && str_number(node->value, &number) ? machine_node(m, number) : (struct str){ 0 };
		pci = pci.n || !index || !str_number(index->value, &number) ? pci : machine_index(m, number);
		pci = pci.n ? pci : rank_pci(m, e);
		if (!pci.n)
			continue;
		several |= only.n && !str_eq(only, pci);
		only = pci;
		if (!diag_fact(e, "node_pci"))
			diag_set_fact(i, e, (struct fact){ S("node_pci"), pci, FACT_TEXT, e->at });
	}
	if (only.n && !several && !i->gpu.device.n)
		i->gpu.device = arena_str(&i->arena, only);
}

void incident_complete(struct incident *i, const struct machine *m)
{
	name_nodes(i, m);
	attribute_name_gpu(i, m);
	for (size_t n = 0; n < m->facts.len; n++) {
		const struct machine_fact *f = &m->facts.data[n];
		bool known = !f->fact.value.n || str_starts(f->fact.name, S("vendor_"));
		for (size_t o = 0; o < i->machine.len && !known; o++)
			known = str_eq(i->machine.data[o].name, f->fact.name) &&
				(!f->many || str_eq(i->machine.data[o].value, f->fact.value));
		if (known || (f->device.n && i->gpu.device.n && !str_eq(f->device, i->gpu.device)))
			continue;
		incident_add_machine(i, f->fact);
	}
}

void incident_attribute(struct incident *i, const struct know *k, const struct machine *m)
{
	for (size_t n = 0; n < i->events.len; n++)
		judge_event(i, i->events.data[n], k, m);
	judge_vendor(i, m);
	i->log_has_boot = m->has_boot;
	name_nodes(i, m);
	attribute_name_gpu(i, m);
	take_bus_device(i, k);
	take_recorded(i, k);
	take_printed_module(i);
	for (size_t n = 0; n < m->facts.len; n++) {
		// The firmware of another GPU says nothing about this one.
		if (m->facts.data[n].device.n && i->gpu.device.n && !str_eq(m->facts.data[n].device, i->gpu.device))
			continue;
		incident_add_machine(i, m->facts.data[n].fact);
	}
}

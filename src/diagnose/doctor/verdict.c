#include "diagnose/doctor/verdict.h"

#include "base/error.h"

bool unread_is_late(const struct host_fact *unread) { return str_eq(unread->value, unread->where); }

bool firmware_known(const struct host_item *gpu)
{
	for (size_t n = 0; n < gpu->facts.len; n++)
		if (str_starts(gpu->facts.data[n]->name, S("fw_")))
			return true;
	return false;
}

bool finding_is_wrong(const struct finding *f) { return f->severity <= SEVERITY_WARNING; }

static bool all_firmware_known(const struct host *h)
{
	for (size_t n = 0; n < h->items.len; n++)
		if (str_is(h->items.data[n]->kind, "gpu") && h->items.data[n]->gpu->driver.n &&
		    !firmware_known(h->items.data[n]))
			return false;
	return true;
}

/** The first thing that was needed and not read; NULL. debugfs is needed for what sysfs does not say. */
static const struct host_fact *needed(const struct host *h)
{
	const struct host_fact *f;
	for (size_t n = 0; (f = host_fact(h, host_machine(h), S("unread"), n)); n++)
		if (unread_is_late(f) || !str_starts(f->value, S("debugfs")) || !all_firmware_known(h))
			return f;
	return NULL;
}

enum uh_verdict doctor_verdict_of_gpu(const struct findings *all, const struct host_item *gpu)
{
	for (size_t n = 0; n < all->list.len; n++) {
		const struct finding *f = all->list.data[n];
		for (size_t g = 0; g < f->gpus.len; g++)
			if (finding_is_wrong(f) && str_eq(f->gpus.data[g], gpu->gpu->pci))
				return UH_INCIDENT;
	}
	return gpu->doubt ? UH_UNKNOWN : UH_HEALTHY;
}

enum uh_verdict doctor_verdict(const struct host *h, const struct findings *f)
{
	for (size_t n = 0; n < f->list.len; n++)
		if (finding_is_wrong(f->list.data[n]))
			return UH_INCIDENT;
	return !h->devices.n || needed(h) ? UH_UNKNOWN : UH_HEALTHY;
}

struct uh_error *doctor_why_unknown(const struct host *h)
{
	const struct host_fact *f = needed(h);
	if (f && unread_is_late(f))
		return uh_error_new(STR_FMT " did not answer, so this is no all-clear", STR_ARG(f->value));
	if (h->devices.n)
		return uh_error_new(STR_FMT " could not be read, so this is no all-clear; as root: sudo unhang doctor",
				    STR_ARG(f->value));
	return uh_error_new("no AMD GPU found in %s/sys/bus/pci/devices%s", h->root ? h->root : "",
			    h->root ? " or sys/class/drm" : "");
}

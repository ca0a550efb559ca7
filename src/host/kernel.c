// Which kernel and which amdgpu run here.
#include "host/host.h"

enum { LINE_MOST = 1 << 16 };

void host_read_kernel(struct host *h)
{
	struct host_item *m = host_machine(h);
	struct probe probes[] = {
		{ .path = "/proc/cmdline", .size = LINE_MOST },
	};
	host_probe(h, probes, sizeof(probes) / sizeof(probes[0]));
	host_note(h, m, "kernel", h->devices.kernel, S("/proc/sys/kernel/osrelease"));
	host_note(h, m, "driver", h->devices.driver_version, S("/sys/module/amdgpu/version"));
	host_note(h, m, "cmdline", probe_text(&probes[0]), S("/proc/cmdline"));
}

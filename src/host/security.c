// What the kernel lets nobody do here, and what else of it counts for GPUs: Secure Boot, lockdown, user namespaces, WSL's device.
#include "host/host.h"

enum { NAMES_MOST = 1 << 16, VARIABLE = 8 };

enum asked { SECURE_BOOT, LOCKDOWN, UID_MAP, BALANCING, DEVICES, ASKED };

/** The variable is four bytes of attributes, then 1 or 0. */
static void note_secure_boot(struct host *h, const struct probe *p)
{
	if (p->end == PROBE_GOOD && p->n >= 5)
		host_note_said(h, host_machine(h), "secure_boot", p->data[4] ? S("on") : S("off"), str_z(p->path));
}

/** `none [integrity] confidentiality` */
static void note_lockdown(struct host *h, const struct probe *p)
{
	struct str text = probe_text(p);
	str_split(&text, '[');
	host_note_said(h, host_machine(h), "lockdown", str_split(&text, ']'), str_z(p->path));
}

/** `0 0 4294967295`: all users are those of the machine. */
static void note_namespace(struct host *h, const struct probe *p)
{
	struct str text = probe_text(p), inside = str_word(&text), outside = str_word(&text), n = str_word(&text);
	bool whole = str_is(inside, "0") && str_is(outside, "0") && str_is(n, "4294967295");
	if (n.n)
		host_note_said(h, host_machine(h), "user_namespace", whole ? S("no") : S("yes"), str_z(p->path));
}

static void note_dxg(struct host *h, const struct probe *p)
{
	struct str names = probe_text(p);
	while (names.n)
		if (str_is(str_split(&names, '\n'), "dxg"))
			host_note_said(h, host_machine(h), "dxg", S("yes"), S("/dev/dxg"));
}

void host_read_security(struct host *h)
{
	struct probe p[ASKED] = {
		[SECURE_BOOT] = { .path = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
				  .kind = PROBE_READ,
				  .size = VARIABLE },
		[LOCKDOWN] = { .path = "/sys/kernel/security/lockdown" },
		[UID_MAP] = { .path = "/proc/self/uid_map" },
		[BALANCING] = { .path = "/proc/sys/kernel/numa_balancing" },
		[DEVICES] = { .kind = PROBE_LIST, .path = "/dev", .size = NAMES_MOST },
	};
	host_probe(h, p, ASKED);
	note_secure_boot(h, &p[SECURE_BOOT]);
	note_lockdown(h, &p[LOCKDOWN]);
	note_namespace(h, &p[UID_MAP]);
	host_note_said(h, host_machine(h), "numa_balancing", str_trim(probe_text(&p[BALANCING])), str_z(p[BALANCING].path));
	note_dxg(h, &p[DEVICES]);
}

// Which kernel and which amdgpu run here, and which would be loaded.
#include <errno.h>

#include "host/host.h"

enum { LINE_MOST = 1 << 16, NAMES_MOST = 1 << 18 };

enum asked {
	CMDLINE,
	VERSION,
	RELEASE,
	RELEASE_USR,
	MODULES,
	TAINT,
	DEPENDENCIES,
	DEPENDENCIES_USR,
	BUILT_IN,
	BUILT_IN_USR,
	DKMS,
	ASKED,
};

static struct str where(const struct probe *p) { return str_z(p->path); }

// --- distribution ---

static struct str os_release(struct str text, struct str key)
{
	while (text.n) {
		struct str value = str_split(&text, '\n');
		if (!str_eq(str_split(&value, '='), key))
			continue;
		value = str_trim(value);
		if (value.n > 1 && (value.p[0] == '"' || value.p[0] == '\'') && value.p[value.n - 1] == value.p[0])
			value = str_cut(str_from(value, 1), value.n - 2);
		return value;
	}
	return (struct str){ 0 };
}

static void note_distribution(struct host *h, const struct probe *p)
{
	struct host_item *m = host_machine(h);
	const struct probe *release = p[RELEASE].end == PROBE_GOOD ? &p[RELEASE] : &p[RELEASE_USR];
	host_note(h, m, "distribution", os_release(probe_text(release), S("ID")), where(release));
	host_note(h, m, "distribution_version", os_release(probe_text(release), S("VERSION_ID")), where(release));
	struct str like = os_release(probe_text(release), S("ID_LIKE"));
	for (struct str one; (one = str_word(&like)).n;)
		host_note(h, m, "distribution_like", one, where(release));
}

// --- driver ---

/** The path of amdgpu's file: the first word of its line in modules.dep or modules.builtin. */
static struct str file_in(struct str text)
{
	struct str line = str_split(&text, '\n'), file = str_split(&line, ':');
	ptrdiff_t at = str_find(file, S("/amdgpu.ko"));
	return at >= 0 ? file : (struct str){ 0 };
}

static bool drives_one(const struct devices *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (str_is(d->list[i].driver, "amdgpu"))
			return true;
	return false;
}

/** What the devices tell about the driver is in doubt if not all of their files were read. */
static void note_loaded(struct host *h, const struct probe *p)
{
	struct host_item *m = host_machine(h);
	bool doubt = h->doubt;
	h->doubt |= devices_unsure(&h->devices);
	struct str modules = probe_text(&p[MODULES]);
	bool loaded = drives_one(&h->devices);
	while (modules.n)
		loaded |= str_is(str_split(&modules, '\n'), "amdgpu");
	if (loaded || p[MODULES].end == PROBE_GOOD)
		host_note(h, m, "driver_loaded", loaded ? S("yes") : S("no"), S("/sys/module/amdgpu"));
	if (h->devices.driver_version.n)
		host_note(h, m, "driver_running", S("dkms"), S("/sys/module/amdgpu/version"));
	else if (loaded && p[TAINT].end == PROBE_GOOD)
		host_note(h, m, "driver_running", str_find(probe_text(&p[TAINT]), S("O")) >= 0 ? S("dkms") : S("in-tree"),
			  where(&p[TAINT]));
	for (size_t i = 0; i < h->devices.n; i++)
		host_note(h, m, "gpu_gfx", h->devices.list[i].gfx.n ? h->devices.list[i].gfx : S("unknown"),
			  h->devices.list[i].sysfs);
	host_note_doubt(h, m, "gpu_gfx");
	for (size_t i = 0; i < h->devices.n; i++)
		host_note(h, m, "gpu_driver", h->devices.list[i].driver, h->devices.list[i].sysfs);
	h->doubt = doubt;
}

/** The kernels that DKMS built it for have directories beside `source` and `build`. */
static void note_dkms_kernels(struct host *h, struct str place)
{
	struct probe p = { .kind = PROBE_LIST, .path = arena_z(&h->arena, place), .size = NAMES_MOST };
	struct text kernels = { 0 };
	bool built = false;
	host_probe(h, &p, 1);
	for (struct str list = probe_text(&p); list.n;) {
		struct str name = str_split(&list, '\n');
		built |= str_eq(name, h->devices.kernel);
		if (name.n && char_digit(name.p[0]))
			text_printf(&kernels, "%s" STR_FMT, kernels.n ? ", " : "", STR_ARG(name));
	}
	if (p.end == PROBE_GOOD && h->devices.kernel.n)
		host_note(h, host_machine(h), "dkms_built", built ? S("yes") : S("no"), place);
	host_note(h, host_machine(h), "dkms_kernels", text_str(&kernels), place);
	text_free(&kernels);
}

static void note_dkms(struct host *h, const struct probe *p)
{
	struct str list = probe_text(p), newest = { 0 };
	while (list.n) {
		struct str name = str_split(&list, '\n');
		if (name.n && char_digit(name.p[0]) && (!newest.n || str_version_cmp(name, newest) > 0))
			newest = name;
	}
	if (!newest.n)
		return;
	struct str place = arena_printf(&h->arena, "%s/" STR_FMT, p->path, STR_ARG(newest));
	host_note(h, host_machine(h), "dkms_version", newest, place);
	note_dkms_kernels(h, place);
}

/** Which amdgpu modprobe would load for this kernel. */
static void note_driver(struct host *h, const struct probe *p)
{
	struct host_item *m = host_machine(h);
	const struct probe *listed = p[DEPENDENCIES_USR].end == PROBE_GOOD ? &p[DEPENDENCIES_USR] : &p[DEPENDENCIES];
	const struct probe *built = p[BUILT_IN_USR].end == PROBE_GOOD ? &p[BUILT_IN_USR] : &p[BUILT_IN];
	struct str file = file_in(probe_text(listed)), directory = where(listed);
	if (file_in(probe_text(built)).n) {
		host_note(h, m, "driver_kind", S("built-in"), where(built));
		return;
	}
	if (!file.n) {
		if (h->devices.driver_version.n)
			host_note(h, m, "driver_kind", S("dkms"), S("/sys/module/amdgpu/version"));
		else if (p[DEPENDENCIES].error == ENODATA || p[DEPENDENCIES_USR].error == ENODATA)
			host_note(h, m, "driver_kind", S("none"), where(listed));
		return;
	}
	host_note(h, m, "driver_kind", str_starts(file, S("kernel/")) ? S("in-tree") : S("dkms"), where(listed));
	directory = str_cut(directory, directory.n - (sizeof("modules.dep") - 1));
	if (file.p[0] == '/')
		directory = S("");
	host_note(h, m, "driver_file", arena_printf(&h->arena, STR_FMT STR_FMT, STR_ARG(directory), STR_ARG(file)),
		  where(listed));
}

static const char *of_kernel(struct host *h, const char *directory, const char *name)
{
	return arena_z(&h->arena, arena_printf(&h->arena, "%s/" STR_FMT "/%s", directory, STR_ARG(h->devices.kernel), name));
}

void host_read_kernel(struct host *h)
{
	struct host_item *m = host_machine(h);
	struct str driver = S("/amdgpu.ko");
	struct probe p[ASKED] = {
		[CMDLINE] = { .path = "/proc/cmdline", .size = LINE_MOST },
		[VERSION] = { .path = "/proc/version" },
		[RELEASE] = { .path = "/etc/os-release" },
		[RELEASE_USR] = { .path = "/usr/lib/os-release" },
		[MODULES] = { .kind = PROBE_LIST, .path = "/sys/module", .size = NAMES_MOST },
		[TAINT] = { .path = "/sys/module/amdgpu/taint" },
		[DEPENDENCIES] = { .kind = PROBE_FIND, .path = of_kernel(h, "/lib/modules", "modules.dep"), .find = driver },
		[DEPENDENCIES_USR] = { .kind = PROBE_FIND,
				       .path = of_kernel(h, "/usr/lib/modules", "modules.dep"),
				       .find = driver },
		[BUILT_IN] = { .kind = PROBE_FIND, .path = of_kernel(h, "/lib/modules", "modules.builtin"), .find = driver },
		[BUILT_IN_USR] = { .kind = PROBE_FIND,
				   .path = of_kernel(h, "/usr/lib/modules", "modules.builtin"),
				   .find = driver },
		[DKMS] = { .kind = PROBE_LIST, .path = "/var/lib/dkms/amdgpu" },
	};
	host_probe(h, p, ASKED);
	host_note(h, m, "kernel", h->devices.kernel, str_z(h->devices.kernel_at));
	host_note(h, m, "kernel_build", probe_text(&p[VERSION]), where(&p[VERSION]));
	host_note(h, m, "driver", h->devices.driver_version, S("/sys/module/amdgpu/version"));
	host_note(h, m, "cmdline", probe_text(&p[CMDLINE]), where(&p[CMDLINE]));
	note_distribution(h, p);
	note_loaded(h, p);
	note_driver(h, p);
	note_dkms(h, &p[DKMS]);
}

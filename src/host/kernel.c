// Which kernel and which amdgpu run here and which would be loaded; the distribution, how the machine is kept, and its packages of
// firmware and ROCm. No package manager is run: what they leave on the disk is read.
#include <errno.h>
#include <stdlib.h>

#include "host/host.h"
#include "knowledge/steps.h"

// How this machine is kept: its package manager, boot loader, initramfs and the way to its kernel's words. What tells them is in
// `sign` blocks of knowledge, tried in their order; the first of a fact counts. What no sign tells is as usual on the distribution.

enum { SIGN_TEXT_MOST = 1 << 18, SIGN_NAMES_MOST = 1 << 16 };

static struct probe kernel_probe_of(struct host *h, const struct know_sign *s, struct str path)
{
	bool directory = str_ends(path, S("/"));
	if (directory)
		return (struct probe){ .kind = PROBE_LIST,
				       .path = arena_z(&h->arena, str_cut(path, path.n - 1)),
				       .size = SIGN_NAMES_MOST };
	return (struct probe){ .kind = PROBE_READ, .path = arena_z(&h->arena, path), .size = s->text.n ? SIGN_TEXT_MOST : 1 };
}

/** The path of @s that shows it, of the probes that begin with its own; NULL: none does. */
static const struct probe *kernel_shown(const struct know_sign *s, const struct probe *p)
{
	for (const struct know_list *path = s->paths; path; path = path->next, p++)
		if (p->end == PROBE_GOOD && (!s->text.n || str_find(probe_text(p), s->text) >= 0))
			return p;
	return NULL;
}

static void note_sign(struct host *h, const struct know_sign *s, const struct probe *probes)
{
	struct host_item *m = host_machine(h);
	const struct host_scope scope = { h, m };
	const struct fact_view own = host_view(&scope);
	const struct usual_facts facts = { h->know, &own };
	const struct fact_view view = usual_view(&facts);
	const struct probe *place = kernel_shown(s, probes);
	if (host_fact(h, m, s->says->name, 0) || (s->paths && !place))
		return;
	if (condition_eval(s->when, &view) != TRUTH_YES || (s->unless && condition_eval(s->unless, &view) == TRUTH_YES))
		return;
	const struct host_fact *from = host_fact(h, m, S("distribution"), 0);
	struct str value = s->says->value;
	if (str_starts(value, S("$")))
		value = host_value(h, NULL, arena_z(&h->arena, str_from(value, 1)));
	host_note(h, m, arena_z(&h->arena, s->says->name), value,
		  place ? str_z(place->path) :
		  from  ? from->where :
			  S("/etc/os-release"));
}

void host_read_system(struct host *h)
{
	_cleanup_vec_ VEC(struct probe) probes = { 0 };
	size_t at = 0;
	for (size_t n = 0; n < h->know->signs.len; n++)
		for (const struct know_list *p = h->know->signs.data[n]->paths; p; p = p->next)
			vec_push(&probes, kernel_probe_of(h, h->know->signs.data[n], p->text));
	host_probe(h, probes.data, probes.len);
	for (size_t n = 0; n < h->know->signs.len; n++) {
		const struct know_sign *s = h->know->signs.data[n];
		note_sign(h, s, probes.data + at);
		for (const struct know_list *p = s->paths; p; p = p->next)
			at++;
	}
	// Facts that are as usual on this distribution, so that checks can ask for them.
	struct host_item *m = host_machine(h);
	const struct host_scope scope = { h, m };
	const struct fact_view own = host_view(&scope);
	const struct usual_facts facts = { h->know, &own };
	const struct fact_view view = usual_view(&facts);
	for (size_t n = 0; n < h->know->usuals.len; n++) {
		struct str rest = h->know->usuals.data[n]->value, name = str_word(&rest), value;
		const struct host_fact *from = host_fact(h, m, S("distribution"), 0);
		if (from && !host_fact(h, m, name, 0) && view.get(view.ctx, name, 0, &value))
			host_note(h, m, arena_z(&h->arena, name), value, from->where);
	}
}

// Which linux-firmware, which amdgpu-dkms and which ROCm of the distribution are installed, from what package managers leave: none of them is run.

enum { STANZA = 4 << 10, LIST_MOST = 1 << 18, DATE_DIGITS = 8, RELEASE_DIGITS = 8 };

/** RUNTIME: Debian's and Ubuntu's package of the HSA runtime, whose version is ROCm's; AMD's packages have other names. */
enum { LINUX_FIRMWARE, AMD_GRAPHICS, AMDGPU_DKMS, RUNTIME, PACMAN };
_Static_assert(PACMAN + 1 == HOST_PACKAGES, "each has its place");

/** A version of linux-firmware begins with a date: 20251125 of 20251125-1, or of 20240318.git3b128b60-0ubuntu2.10. */
static struct str date_of(struct str version)
{
	const size_t n = str_run(version, char_digit);
	return n == DATE_DIGITS && version.p[0] == '2' ? str_cut(version, n) : (struct str){ 0 };
}

/** The version in a paragraph of dpkg's list; empty where the package is not installed. */
static struct str in_paragraph(const struct probe *p)
{
	struct str version = { 0 };
	bool installed = false;
	str_each (line, probe_text(p), '\n') {
		struct str rest;
		if (!line.n)
			break;
		if (str_behind(line, S("Status:"), &rest))
			installed = str_ends(rest, S(" installed"));
		if (str_behind(line, S("Version:"), &rest))
			version = rest;
	}
	return installed ? version : (struct str){ 0 };
}

/** pacman's: a directory NAME-VERSION for each package. */
static struct str in_directories(const struct probe *p)
{
	static const char *const names[] = { "linux-firmware-amdgpu-", "linux-firmware-" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct str version;
		str_each (name, probe_text(p), '\n')
			if (str_behind(name, str_z(names[i]), &version) && date_of(version).n)
				return version;
	}
	return (struct str){ 0 };
}

void host_ask_packages(struct probe ret[static HOST_PACKAGES])
{
	static const char *const paragraphs[] = { [LINUX_FIRMWARE] = "Package: linux-firmware\n",
						  [AMD_GRAPHICS] = "Package: firmware-amd-graphics\n",
						  [AMDGPU_DKMS] = "Package: amdgpu-dkms\n",
						  [RUNTIME] = "Package: libhsa-runtime64-1\n" };
	for (size_t i = 0; i < PACMAN; i++)
		ret[i] = (struct probe){
			.kind = PROBE_FIND, .path = "/var/lib/dpkg/status", .find = str_z(paragraphs[i]), .size = STANZA
		};
	ret[PACMAN] = (struct probe){ .kind = PROBE_LIST, .path = "/var/lib/pacman/local", .size = LIST_MOST };
}

/** AMD's driver has a release that its own version does not tell: 30.30.1 of 1:6.16.13.30300100-2303411.22.04. */
static void note_driver_package(struct host *h, const struct probe *p)
{
	struct str version = in_paragraph(p), rest = version, last = { 0 };
	rest = str_split(&rest, '-');
	while (rest.n)
		last = str_split(&rest, '.');
	unsigned long long number = 0;
	for (size_t i = 0; i < last.n && last.n == RELEASE_DIGITS; i++) {
		if (!char_digit(last.p[i]))
			return;
		number = number * 10 + (unsigned)(last.p[i] - '0');
	}
	if (number)
		host_note(h, host_machine(h), "driver_package",
			  arena_printf(&h->arena, "%llu.%llu.%llu", number / 1000000, number / 10000 % 100, number / 100 % 100),
			  str_z(p->path));
}

void host_note_packages(struct host *h, const struct probe asked[static HOST_PACKAGES])
{
	const struct str found[] = { [LINUX_FIRMWARE] = in_paragraph(&asked[LINUX_FIRMWARE]),
				     [AMD_GRAPHICS] = in_paragraph(&asked[AMD_GRAPHICS]),
				     [PACMAN] = in_directories(&asked[PACMAN]) };
	note_driver_package(h, &asked[AMDGPU_DKMS]);
	for (size_t i = 0; i < HOST_PACKAGES; i++) {
		if (!date_of(found[i]).n)
			continue;
		host_note(h, host_machine(h), "linux_firmware", date_of(found[i]), str_z(asked[i].path));
		host_note(h, host_machine(h), "linux_firmware_package", found[i], str_z(asked[i].path));
		return;
	}
}

struct str host_rocm_package(const struct probe asked[static HOST_PACKAGES]) { return in_paragraph(&asked[RUNTIME]); }

// --- the kernel that runs ---

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
	str_each (value, text, '\n') {
		if (!str_eq(str_split(&value, '='), key))
			continue;
		value = str_trim(value);
		if (value.n > 1 && (value.p[0] == '"' || value.p[0] == '\'') && value.p[value.n - 1] == value.p[0])
			value = str_cut(str_from(value, 1), value.n - 2);
		return value;
	}
	return (struct str){ 0 };
}

// --- driver ---

/** The path of amdgpu's file: the first word of its line in modules.dep or modules.builtin. */
static struct str file_in(struct str text)
{
	struct str line = str_split(&text, '\n'), file = str_split(&line, ':');
	return str_find(file, S("/amdgpu.ko")) >= 0 ? file : (struct str){ 0 };
}

/** The kernels that DKMS built it for have directories beside `source` and `build`. */
static void note_dkms_kernels(struct host *h, struct str place)
{
	struct probe p = { .kind = PROBE_LIST, .path = arena_z(&h->arena, place), .size = NAMES_MOST };
	_cleanup_text_ struct text kernels = { 0 };
	bool built = false;
	host_probe(h, &p, 1);
	str_each (name, probe_text(&p), '\n') {
		built |= str_eq(name, h->devices.kernel);
		if (name.n && char_digit(name.p[0]))
			text_printf(&kernels, "%s" STR_FMT, kernels.n ? ", " : "", STR_ARG(name));
	}
	if (p.end == PROBE_GOOD && h->devices.kernel.n)
		host_note(h, host_machine(h), "dkms_built", built ? S("yes") : S("no"), place);
	host_note(h, host_machine(h), "dkms_kernels", text_str(&kernels), place);
}

static void note_dkms(struct host *h, const struct probe *p)
{
	struct str newest = { 0 };
	str_each (name, probe_text(p), '\n')
		if (name.n && char_digit(name.p[0]) && (!newest.n || str_version_cmp(name, newest) > 0))
			newest = name;
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
	return arena_printf(&h->arena, "%s/" STR_FMT "/%s", directory, STR_ARG(h->devices.kernel), name).p;
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
	const struct probe *release = p[RELEASE].end == PROBE_GOOD ? &p[RELEASE] : &p[RELEASE_USR];
	host_note(h, m, "distribution", os_release(probe_text(release), S("ID")), where(release));
	host_note(h, m, "distribution_version", os_release(probe_text(release), S("VERSION_ID")), where(release));
	struct str like = os_release(probe_text(release), S("ID_LIKE"));
	for (struct str one; (one = str_word(&like)).n;)
		host_note(h, m, "distribution_like", one, where(release));
	// What the devices tell about the driver is in doubt if not all of their files were read.
	bool doubt = h->doubt;
	h->doubt |= devices_unsure(&h->devices);
	bool loaded = list_find(h->devices.list, h->devices.n, it, str_is(it->driver, "amdgpu"));
	str_each (module, probe_text(&p[MODULES]), '\n')
		loaded |= str_is(module, "amdgpu");
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
	note_driver(h, p);
	note_dkms(h, &p[DKMS]);
}

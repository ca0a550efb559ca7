// Which linux-firmware, which amdgpu-dkms and which ROCm of the distribution are installed, from what package managers leave: none of them is run.
#include "host/software.h"

enum { STANZA = 4 << 10, LIST_MOST = 1 << 18, DATE_DIGITS = 8, RELEASE_DIGITS = 8 };

/** RUNTIME: Debian's and Ubuntu's package of the HSA runtime, whose version is ROCm's; AMD's packages have other names. */
enum { LINUX_FIRMWARE, AMD_GRAPHICS, AMDGPU_DKMS, RUNTIME, PACMAN };
_Static_assert(PACMAN + 1 == HOST_PACKAGES, "each has its place");

/** A version of linux-firmware begins with a date: 20251125 of 20251125-1, or of 20240318.git3b128b60-0ubuntu2.10. */
static struct str date_of(struct str version)
{
	size_t n = 0;
	while (n < version.n && char_digit(version.p[n]))
		n++;
	return n == DATE_DIGITS && version.p[0] == '2' ? str_cut(version, n) : (struct str){ 0 };
}

/** The version in a paragraph of dpkg's list; empty where the package is not installed. */
static struct str in_paragraph(const struct probe *p)
{
	struct str text = probe_text(p), version = { 0 };
	bool installed = false;
	while (text.n) {
		struct str line = str_split(&text, '\n'), rest;
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
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct str list = probe_text(p), version;
		while (list.n)
			if (str_behind(str_split(&list, '\n'), str_z(names[i]), &version) && date_of(version).n)
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
static void note_driver(struct host *h, const struct probe *p)
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
	note_driver(h, &asked[AMDGPU_DKMS]);
	for (size_t i = 0; i < HOST_PACKAGES; i++) {
		if (!date_of(found[i]).n)
			continue;
		host_note(h, host_machine(h), "linux_firmware", date_of(found[i]), str_z(asked[i].path));
		host_note(h, host_machine(h), "linux_firmware_package", found[i], str_z(asked[i].path));
		return;
	}
}

struct str host_rocm_package(const struct probe asked[static HOST_PACKAGES]) { return in_paragraph(&asked[RUNTIME]); }

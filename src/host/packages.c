// Which linux-firmware is installed, and which ROCm of the distribution, from what package managers leave: none of them is run.
#include <zlib.h>

#include "host/software.h"

/** Debian's and Ubuntu's package of the runtime, whose version is ROCm's; AMD's packages have other names. */
#define RUNTIME "libhsa-runtime64-1"

enum { STATUS_MOST = 1 << 20, LIST_MOST = 1 << 18, HEAD_MOST = 4096, DATE_DIGITS = 8 };

static const char *const names[] = { "linux-firmware", "firmware-amd-graphics", "amdgpu-firmware", "linux-firmware-amdgpu" };
enum { NAMES = sizeof(names) / sizeof(names[0]) };

/** A version of linux-firmware begins with a date: 20251125 of 20251125-1, or of 20240318.git3b128b60-0ubuntu2.10. */
static struct str date_of(struct str version)
{
	size_t n = 0;
	while (n < version.n && char_digit(version.p[n]))
		n++;
	return n == DATE_DIGITS && version.p[0] == '2' ? str_cut(version, n) : (struct str){ 0 };
}

static bool is_named(struct str name)
{
	for (size_t i = 0; i < NAMES; i++)
		if (str_is(name, names[i]))
			return true;
	return false;
}

/** dpkg's list: paragraphs with `Package:`, `Status:` and `Version:`. */
static struct str in_status(struct str text)
{
	bool ours = false;
	while (text.n) {
		struct str rest, line = str_split(&text, '\n');
		if (str_behind(line, S("Package:"), &rest))
			ours = is_named(rest);
		else if (ours && str_behind(line, S("Status:"), &rest))
			ours = str_ends(rest, S(" installed"));
		else if (ours && str_behind(line, S("Version:"), &rest) && date_of(rest).n)
			return rest;
	}
	return (struct str){ 0 };
}

/** pacman's: a directory NAME-VERSION for each package. */
static struct str in_directories(struct str list)
{
	while (list.n) {
		struct str name = str_split(&list, '\n');
		for (size_t i = 0; i < NAMES; i++) {
			size_t n = strlen(names[i]);
			struct str version = str_from(name, n + 1);
			if (str_starts(name, str_z(names[i])) && name.n > n && name.p[n] == '-' && date_of(version).n)
				return version;
		}
	}
	return (struct str){ 0 };
}

/** The newest entry of a compressed changelog: `linux-firmware (20240318.git3b128b60-0ubuntu2.10) noble; urgency=medium`. */
static struct str in_changelog(struct arena *a, struct str gz)
{
	char room[512];
	z_stream z = { .next_in = (Bytef *)(uintptr_t)gz.p,
		       .avail_in = (uInt)gz.n,
		       .next_out = (Bytef *)room,
		       .avail_out = sizeof(room) };
	if (!gz.n || inflateInit2(&z, MAX_WBITS + 16) != Z_OK)
		return (struct str){ 0 };
	inflate(&z, Z_SYNC_FLUSH);
	struct str text = { room, sizeof(room) - z.avail_out }, version = str_split(&text, ')');
	inflateEnd(&z);
	str_split(&version, '(');
	return date_of(version).n ? arena_str(a, version) : (struct str){ 0 };
}

void host_ask_packages(struct probe ret[static HOST_PACKAGES])
{
	ret[0] = (struct probe){ .path = "/usr/share/doc/linux-firmware/changelog.Debian.gz", .size = HEAD_MOST };
	ret[1] = (struct probe){ .path = "/usr/share/doc/firmware-amd-graphics/changelog.Debian.gz", .size = HEAD_MOST };
	ret[2] = (struct probe){ .kind = PROBE_LIST, .path = "/var/lib/pacman/local", .size = LIST_MOST };
	ret[3] = (struct probe){ .kind = PROBE_READ, .path = "/var/lib/dpkg/status", .size = STATUS_MOST };
	ret[4] = (struct probe){
		.kind = PROBE_FIND, .path = "/var/lib/dpkg/status", .size = HEAD_MOST, .find = S("Package: " RUNTIME "\n")
	};
}

void host_note_packages(struct host *h, const struct probe asked[static HOST_PACKAGES])
{
	const struct str found[] = { in_changelog(&h->arena, probe_text(&asked[0])),
				     in_changelog(&h->arena, probe_text(&asked[1])), in_directories(probe_text(&asked[2])),
				     in_status(probe_text(&asked[3])) };
	for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
		if (!found[i].n)
			continue;
		host_note(h, host_machine(h), "linux_firmware", date_of(found[i]), str_z(asked[i].path));
		host_note(h, host_machine(h), "linux_firmware_package", found[i], str_z(asked[i].path));
		return;
	}
}

struct str host_rocm_package(const struct probe asked[static HOST_PACKAGES])
{
	struct str text = probe_text(&asked[4]), rest, line = str_split(&text, '\n');
	bool installed = false;
	if (!str_is(line, "Package: " RUNTIME))
		return (struct str){ 0 };
	while (text.n && (line = str_split(&text, '\n')).n)
		if (str_behind(line, S("Status:"), &rest))
			installed = str_ends(rest, S(" installed"));
		else if (installed && str_behind(line, S("Version:"), &rest))
			return rest;
	return (struct str){ 0 };
}

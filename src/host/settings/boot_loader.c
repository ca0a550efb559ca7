// Which boot loader this is by its files, and where its entries are. Nothing is run. Knowledge has the last word (host/system.c).
#include "host/host.h"

#include <errno.h>

enum { TEXT_MOST = 1 << 18, NAMES_MOST = 1 << 16, LOADER_INFO = 512 };

// In the order in which they are read.
enum place {
	OSTREE_BOOTED,
	OSTREE_SYSROOT,
	OSTREE_DIRECTORY,
	RPM_OSTREE,
	GRUB_DEFAULT,
	GRUB_D,
	GRUB_CFG,
	GRUB2_CFG,
	GRUB_MKCONFIG,
	GRUB2_MKCONFIG,
	GRUBBY,
	GRUBBY_BIN,
	LOADER,
	LOADER_EFI,
	LOADER_BOOT_EFI,
	ENTRIES,
	ENTRIES_EFI,
	ENTRIES_BOOT_EFI,
	IMAGES,
	IMAGES_EFI,
	IMAGES_BOOT_EFI,
	LOADER_VARIABLE,
	KERNEL_CMDLINE,
	PLACES,
};

static const struct probe places[PLACES] = {
	[OSTREE_BOOTED] = { .path = "/run/ostree-booted", .kind = PROBE_READ, .size = 1 },
	[OSTREE_SYSROOT] = { .path = "/sysroot/ostree", .kind = PROBE_LIST },
	[OSTREE_DIRECTORY] = { .path = "/ostree", .kind = PROBE_LIST },
	[RPM_OSTREE] = { .path = "/usr/bin/rpm-ostree", .kind = PROBE_READ, .size = 1 },
	[GRUB_DEFAULT] = { .path = "/etc/default/grub", .size = TEXT_MOST },
	[GRUB_D] = { .path = "/etc/default/grub.d", .kind = PROBE_LIST },
	[GRUB_CFG] = { .path = "/boot/grub/grub.cfg", .kind = PROBE_READ, .size = 1 },
	[GRUB2_CFG] = { .path = "/boot/grub2/grub.cfg", .kind = PROBE_READ, .size = 1 },
	[GRUB_MKCONFIG] = { .path = "/usr/sbin/grub-mkconfig", .size = TEXT_MOST },
	[GRUB2_MKCONFIG] = { .path = "/usr/sbin/grub2-mkconfig", .size = TEXT_MOST },
	[GRUBBY] = { .path = "/usr/sbin/grubby", .kind = PROBE_READ, .size = 1 },
	[GRUBBY_BIN] = { .path = "/usr/bin/grubby", .kind = PROBE_READ, .size = 1 },
	[LOADER] = { .path = "/boot/loader/loader.conf", .kind = PROBE_READ, .size = 1 },
	[LOADER_EFI] = { .path = "/efi/loader/loader.conf", .kind = PROBE_READ, .size = 1 },
	[LOADER_BOOT_EFI] = { .path = "/boot/efi/loader/loader.conf", .kind = PROBE_READ, .size = 1 },
	[ENTRIES] = { .path = "/boot/loader/entries", .kind = PROBE_LIST, .size = NAMES_MOST },
	[ENTRIES_EFI] = { .path = "/efi/loader/entries", .kind = PROBE_LIST, .size = NAMES_MOST },
	[ENTRIES_BOOT_EFI] = { .path = "/boot/efi/loader/entries", .kind = PROBE_LIST, .size = NAMES_MOST },
	[IMAGES] = { .path = "/boot/EFI/Linux", .kind = PROBE_LIST, .size = NAMES_MOST },
	[IMAGES_EFI] = { .path = "/efi/EFI/Linux", .kind = PROBE_LIST, .size = NAMES_MOST },
	[IMAGES_BOOT_EFI] = { .path = "/boot/efi/EFI/Linux", .kind = PROBE_LIST, .size = NAMES_MOST },
	[LOADER_VARIABLE] = { .path = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
			      .kind = PROBE_READ,
			      .size = LOADER_INFO },
	[KERNEL_CMDLINE] = { .path = "/etc/kernel/cmdline", .kind = PROBE_READ, .size = 1 },
};

static bool there(const struct probe *p) { return p->end == PROBE_GOOD; }
static struct str at(const struct probe *p) { return str_z(p->path); }

/** The first of @n that is there, or NULL. */
static const struct probe *first(const struct probe *p, size_t n)
{
	for (; n; p++, n--)
		if (there(p))
			return p;
	return NULL;
}

/** What the loader that started this machine calls itself. The variable is four bytes and then UTF-16. */
static void note_starter(struct host *h, const struct probe *p)
{
	char text[LOADER_INFO / 2] = "";
	size_t n = 0;
	for (size_t i = 4; there(p) && i + 1 < p->n && n + 1 < sizeof(text) && p->data[i]; i += 2)
		text[n++] = p->data[i];
	host_note(h, host_machine(h), "started_by", (struct str){ text, n }, at(p));
}

static bool started_by(const struct host *h, const char *name)
{
	return str_starts(host_value(h, NULL, "started_by"), str_z(name));
}

/** The last assignment to a variable of /etc/default/grub; empty. */
static struct str assigned(const struct probe *p, struct str variable)
{
	struct str text = probe_text(p), value = { 0 };
	while (text.n) {
		struct str line = str_trim(str_split(&text, '\n'));
		if (str_starts(line, variable) && line.n > variable.n && line.p[variable.n] == '=')
			value = str_from(line, variable.n + 1);
	}
	return value.n > 2 && (value.p[0] == '"' || value.p[0] == '\'') ? str_cut(str_from(value, 1), value.n - 2) : value;
}

/** GRUB may read the entries of the Boot Loader Specification, as Fedora's does. */
static bool grub_reads_entries(const struct probe *p)
{
	struct str said = assigned(&p[GRUB_DEFAULT], S("GRUB_ENABLE_BLSCFG"));
	// Only root may list them on Fedora.
	if (!there(&p[ENTRIES]) && p[ENTRIES].error != EACCES)
		return false;
	return said.n ? str_is(said, "true") : first(&p[GRUBBY], 2) && there(&p[GRUB2_CFG]);
}

/** Not every grub-mkconfig reads the directory; where the script is there, and not only its name, it tells. */
static const struct probe *grub_directory(const struct probe *p)
{
	const struct probe *script = first(&p[GRUB_MKCONFIG], 2);
	if (script && str_find(probe_text(script), S("default/grub")) >= 0)
		return str_find(probe_text(script), S("default/grub.d")) >= 0 ? script : NULL;
	return there(&p[GRUB_D]) ? &p[GRUB_D] : NULL;
}

static void note_loader(struct host *h, const struct probe *p)
{
	struct host_item *m = host_machine(h);
	const struct probe *grub = first(&p[GRUB_DEFAULT], 4), *built = first(&p[GRUB_CFG], 2), *d = grub_directory(p);
	const struct probe *systemd = first(&p[LOADER], 3), *image = first(&p[IMAGES], 3);
	const struct probe *entries = first(&p[ENTRIES], 3), *ostree = first(&p[OSTREE_BOOTED], 3);
	const struct probe *variable = &p[LOADER_VARIABLE];
	bool by_systemd = started_by(h, "systemd-boot"), by_grub = started_by(h, "GRUB");
	systemd = systemd ? systemd : grub ? NULL : entries ? entries : image;
	if (ostree && there(&p[RPM_OSTREE]))
		host_note(h, m, "loader_files", S("rpm-ostree"), at(ostree));
	else if (ostree)
		host_note(h, m, "loader_files", S("unknown"), at(ostree));
	else if (by_systemd || (systemd && !built && !by_grub))
		host_note(h, m, "loader_files", S("systemd-boot"), at(by_systemd ? variable : systemd));
	else if (grub && grub_reads_entries(p))
		host_note(h, m, "loader_files", S("grubby"), at(&p[ENTRIES]));
	else if (grub && d)
		host_note(h, m, "loader_files", S("grub-d"), at(d));
	else if (grub)
		host_note(h, m, "loader_files", S("grub"), at(grub));
	else if (p[LOADER].error != EACCES && p[LOADER_EFI].error != EACCES && p[LOADER_BOOT_EFI].error != EACCES)
		host_note(h, m, "loader_files", S("unknown"), S("/boot"));
}

static void note_names(struct host *h, const char *fact, const struct probe *p, struct str end)
{
	struct str names = probe_text(p);
	while (names.n) {
		struct str name = str_split(&names, '\n');
		if (str_ends(name, end))
			host_note(h, host_machine(h), fact, arena_printf(&h->arena, "%s/" STR_FMT, p->path, STR_ARG(name)),
				  at(p));
	}
}

void host_read_boot(struct host *h)
{
	struct probe p[PLACES];
	memcpy(p, places, sizeof(places));
	host_probe(h, p, PLACES);
	note_starter(h, &p[LOADER_VARIABLE]);
	note_loader(h, p);
	for (size_t n = ENTRIES; n <= ENTRIES_BOOT_EFI; n++)
		note_names(h, "boot_entry", &p[n], S(".conf"));
	for (size_t n = IMAGES; n <= IMAGES_BOOT_EFI; n++)
		note_names(h, "boot_image", &p[n], S(".efi"));
	if (there(&p[KERNEL_CMDLINE]))
		host_note(h, host_machine(h), "boot_cmdline", S("yes"), at(&p[KERNEL_CMDLINE]));
	host_read_system(h);
}

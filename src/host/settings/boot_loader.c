// Which boot loader this is by its files, where its entries are, and which words they will put on the kernel's command line. Nothing is
// run: shell files are understood as far as they assign two variables. Knowledge has the layouts (`way`).
#include <errno.h>
#include <stdlib.h>

#include "host/host.h"
#include "host/settings/setting.h"

enum { WORDS_MOST = 4096 }; // `X="$X $X"` doubles with each line

static void boot_loader_add_word(struct placed_words *w, struct str text, struct str where)
{
	if (w->len < WORDS_MOST)
		vec_push(w, ((struct placed_word){ text, where }));
}

static void boot_loader_add_line(struct arena *a, struct placed_words *w, struct str line, const char *path, unsigned number)
{
	struct str word, where = arena_printf(a, "%s:%u", path, number);
	while (word_next(&line, &word))
		boot_loader_add_word(w, word, where);
}

// --- GRUB ---

/** What stands behind `=`, without its quotes, in which a line may go on; variables are left in it. */
static struct str take_value(struct arena *a, struct str *text, unsigned *line)
{
	_cleanup_text_ struct text value = { 0 };
	char quote = 0;
	size_t i = 0;
	for (; i < text->n; i++) {
		char c = text->p[i];
		if (!quote && char_space(c))
			break;
		*line += c == '\n';
		if (c == '\\' && quote != '\'' && i + 1 < text->n) {
			c = text->p[++i];
			*line += c == '\n';
			if (c != '\n')
				text_add(&value, (struct str){ &c, 1 });
		} else if (quote ? c == quote : c == '"' || c == '\'') {
			quote = quote ? 0 : c;
		} else {
			text_add(&value, (struct str){ &c, 1 });
		}
	}
	*text = str_from(*text, i);
	return arena_str(a, text_str(&value));
}

static struct placed_words *variable(struct grub *g, struct str name)
{
	if (str_is(name, "GRUB_CMDLINE_LINUX"))
		return &g->all;
	return str_is(name, "GRUB_CMDLINE_LINUX_DEFAULT") ? &g->normal : NULL;
}

/** `$NAME` or `${NAME}` of the two. */
static const struct placed_words *meant_by(struct grub *g, struct str word)
{
	if (!str_starts(word, S("$")))
		return NULL;
	word = str_from(word, 1);
	if (str_starts(word, S("{")) && str_ends(word, S("}")))
		word = str_cut(str_from(word, 1), word.n - 2);
	return variable(g, word);
}

/** Takes `export NAME=` or `NAME+=` of one of the two off a line. */
static struct placed_words *take_assignment(struct grub *g, struct str *text, bool *ret_more)
{
	struct str head = *text;
	while (head.n && (head.p[0] == ' ' || head.p[0] == '\t'))
		head = str_from(head, 1);
	if (str_starts(head, S("export ")))
		head = str_from(head, 7);
	size_t n = 0;
	while (n < head.n && char_word(head.p[n]))
		n++;
	struct placed_words *to = variable(g, str_cut(head, n));
	head = str_from(head, n);
	*ret_more = str_starts(head, S("+="));
	if (!to || (!*ret_more && !str_starts(head, S("="))))
		return NULL;
	*text = str_from(head, 1 + *ret_more);
	return to;
}

void grub_read(struct arena *a, struct str text, const char *path, struct grub *g)
{
	for (unsigned line = 1; text.n; line++) {
		bool more;
		struct str where = arena_printf(a, "%s:%u", path, line);
		struct placed_words *to = take_assignment(g, &text, &more);
		if (to) {
			struct str value = take_value(a, &text, &line);
			struct placed_words words = { 0 };
			struct str word;
			if (more) {
				words = *to;
				*to = (struct placed_words){ 0 };
			}
			while (word_next(&value, &word)) {
				const struct placed_words *others = meant_by(g, word);
				for (size_t i = 0; others && i < others->len; i++)
					boot_loader_add_word(&words, others->data[i].text, others->data[i].where);
				if (!others)
					boot_loader_add_word(&words, word, where);
			}
			vec_free(to);
			*to = words;
		}
		str_split(&text, '\n');
	}
}

void grub_free(struct grub *g)
{
	vec_free(&g->all);
	vec_free(&g->normal);
}

// --- others ---

void kernel_cmdline_read(struct arena *a, struct str text, const char *path, struct placed_words *ret)
{
	for (unsigned line = 1; text.n; line++) {
		struct str one = str_split(&text, '\n');
		if (!str_starts(str_trim(one), S("#")))
			boot_loader_add_line(a, ret, one, path, line);
	}
}

void loader_entry_read(struct arena *a, struct str text, const char *path, struct loader_entry *ret)
{
	for (unsigned line = 1; text.n; line++) {
		struct str rest = str_split(&text, '\n'), key = str_word(&rest);
		if (str_is(key, "options"))
			boot_loader_add_line(a, &ret->words, rest, path, line);
		else if (str_is(key, "version"))
			ret->version = str_trim(rest);
		else if (str_is(key, "title"))
			ret->title = str_trim(rest);
	}
}

// --- which boot loader it is ---

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

/** GRUB may read the entries of the Boot Loader Specification, as Fedora's does. */
static bool grub_reads_entries(const struct probe *p)
{
	// The last assignment to a variable of /etc/default/grub; empty.
	const struct str variable = S("GRUB_ENABLE_BLSCFG");
	struct str text = probe_text(&p[GRUB_DEFAULT]), value = { 0 };
	while (text.n) {
		struct str line = str_trim(str_split(&text, '\n'));
		if (str_starts(line, variable) && line.n > variable.n && line.p[variable.n] == '=')
			value = str_from(line, variable.n + 1);
	}
	struct str said =
		value.n > 2 && (value.p[0] == '"' || value.p[0] == '\'') ? str_cut(str_from(value, 1), value.n - 2) : value;
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

static void note_names(struct host *h, const char *fact, const struct probe *p, struct str end)
{
	str_each (name, probe_text(p), '\n')
		if (str_ends(name, end))
			host_note(h, host_machine(h), fact, arena_printf(&h->arena, "%s/" STR_FMT, p->path, STR_ARG(name)),
				  at(p));
}

void host_read_boot(struct host *h)
{
	struct probe p[PLACES];
	memcpy(p, places, sizeof(places));
	host_probe(h, p, PLACES);
	note_starter(h, &p[LOADER_VARIABLE]);
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
	for (size_t n = ENTRIES; n <= ENTRIES_BOOT_EFI; n++)
		note_names(h, "boot_entry", &p[n], S(".conf"));
	for (size_t n = IMAGES; n <= IMAGES_BOOT_EFI; n++)
		note_names(h, "boot_image", &p[n], S(".efi"));
	if (there(&p[KERNEL_CMDLINE]))
		host_note(h, host_machine(h), "boot_cmdline", S("yes"), at(&p[KERNEL_CMDLINE]));
	host_read_system(h);
}

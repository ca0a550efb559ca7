// The journal: what a boot ran, as its own lines say it (kernel, command line, BIOS, the GPU's VBIOS and firmware), and what the tools that
// log there changed.
#include <errno.h>

#include "host/host.h"
#include "host/changes/readers.h"
#include "knowledge/parameter.h"
#include "source/source.h"

enum { BOOTS_MOST = 512, FIRMWARE_MOST = 256, LINE_MOST = 512 };

const char *const boot_marks[] = {
	"Linux version ",        "Command line: ",    "DMI: ",    "ATOM BIOS: ",           "DMUB firmware via PSP: version=",
	"VCN firmware Version ", "smu fw version = ", "reboot: ", "systemd-shutdown[1]: ", NULL,
};

/** Of the words only those that are known parameters: others may name disks, hosts and users. */
static struct str known_words(struct arena *a, const struct know *k, struct str line)
{
	_cleanup_text_ struct text kept = { 0 };
	struct str word, name, value;
	while (word_next(&line, &word)) {
		word_split(word, &name, &value);
		if (know_parameter(k, word_plain(a, name)))
			text_printf(&kept, "%s" STR_FMT, kept.n ? " " : "", STR_ARG(str_cut(word, LINE_MOST)));
	}
	return arena_str(a, str_cut(text_str(&kept), LINE_MOST));
}

static void boot_add_firmware(struct arena *a, struct boot *b, const char *name, struct str version)
{
	const struct str one = arena_printf(a, "%s " STR_FMT, name, STR_ARG(str_trim(version)));
	if (str_find(b->firmware, one) >= 0 || b->firmware.n + one.n > FIRMWARE_MOST)
		return;
	b->firmware = arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(b->firmware), b->firmware.n ? ", " : "", STR_ARG(one));
}

void boot_take_line(struct arena *a, const struct know *k, struct boot *b, struct str line)
{
	struct str rest;
	line = str_cut(str_trim(line), 4 * LINE_MOST);
	if (str_behind(line, S("Linux version "), &rest) && !b->kernel.n)
		b->kernel = arena_str(a, str_word(&rest));
	else if (str_behind(line, S("Command line: "), &rest) && !b->command_line.n)
		b->command_line = known_words(a, k, rest);
	else if (str_starts(line, S("DMI: ")) && str_after(line, S(", BIOS "), &rest) && !b->bios.n)
		b->bios = arena_str(a, str_cut(rest, LINE_MOST));
	else if (str_after(line, S("ATOM BIOS: "), &rest) && !b->vbios.n)
		b->vbios = arena_str(a, str_word(&rest));
	else if (str_after(line, S("DMUB firmware via PSP: version="), &rest))
		boot_add_firmware(a, b, "DMUB", str_word(&rest));
	else if (str_after(line, S("VCN firmware Version "), &rest))
		boot_add_firmware(a, b, "VCN", str_cut(rest, LINE_MOST / 4));
	else if (str_after(line, S("smu fw version = "), &rest))
		boot_add_firmware(a, b, "SMU", str_cut(rest, LINE_MOST / 4));
	else if (str_among(line, STR_BEGINS, "reboot: Restarting system|reboot: Power down|reboot: machine restart").n ||
		 str_among(line, STR_BEGINS, "systemd-shutdown[1]: Powering off|systemd-shutdown[1]: Rebooting").n)
		b->clean = true;
}

void changes_take_line(struct changes *c, const struct know *k, struct str line, double when)
{
	if (str_starts(line, S("Linux version ")) && c->boots.len < BOOTS_MOST)
		vec_push(&c->boots, ((struct boot){ .begin = when, .end = when, .log = true }));
	if (!c->boots.len)
		return;
	struct boot *b = &c->boots.data[c->boots.len - 1];
	b->end = when > b->end ? when : b->end;
	boot_take_line(&c->arena, k, b, line);
}

// --- from the journal ---

struct told {
	struct changes *changes;
	const struct know *know;
};

static void on_boot(void *ctx, const struct source_boot *b)
{
	struct changes *c = ((struct told *)ctx)->changes;
	const struct boot boot = { .id = arena_str(&c->arena, b->id),
				   .begin = b->begin,
				   .end = b->end,
				   .log = b->log,
				   .clean = b->clean,
				   .runs = source_this_boot(b->id) };
	vec_push(&c->boots, boot);
}

static void on_line(void *ctx, struct str text)
{
	struct told *t = ctx;
	if (t->changes->boots.len)
		boot_take_line(&t->changes->arena, t->know, &t->changes->boots.data[t->changes->boots.len - 1], text);
}

/** Flatpak: `deploy update` of `runtime/org.freedesktop.Platform.GL.default/x86_64/24.08`, from one commit to another. */
static void on_flatpak(void *ctx, double when, const struct str values[static 4])
{
	enum { SHORT = 12 };
	struct told *t = ctx;
	struct str ref = values[1], kind = str_split(&ref, '/');
	if (!str_starts(values[0], S("deploy")) || !kind.n)
		return;
	struct transaction one = { when, when, .manager = S("flatpak"), .where = S("the journal") };
	transaction_add(t->changes, t->know, &one,
			(struct change){ str_split(&ref, '/'), str_cut(values[3], SHORT), str_cut(values[2], SHORT) });
	transaction_end(t->changes, &one);
}

/** A new image of the system. One that is still there has told of itself by its files. */
static void on_image(struct told *t, double when, struct str manager, struct str package, struct str version)
{
	enum { SLACK_S = 3600 };
	struct changes *c = t->changes;
	struct transaction one = { when, when, .manager = manager, .where = S("the journal") };
	if (!version.n || list_find(c->transactions.data, c->transactions.len, it,
				    str_eq(it->manager, manager) && str_eq(it->changes.data[0].to, version) &&
					    it->when > when - SLACK_S && it->when < when + SLACK_S))
		return;
	transaction_add(c, t->know, &one, (struct change){ package, .to = version });
	transaction_end(c, &one);
}

static void on_deployment(void *ctx, double when, const struct str values[static 4])
{
	on_image(ctx, when, S("rpm-ostree"), S("ostree/deployment"), values[0]);
}

static void on_bundle(void *ctx, double when, const struct str values[static 4])
{
	on_image(ctx, when, S("rauc"), S("rauc/image"), values[0]);
}

static const struct source_entries told_entries[] = {
	{ "MESSAGE_ID=c7b39b1e006b464599465e105b361485", { "OPERATION", "REF", "COMMIT", "OLD_COMMIT" }, on_flatpak },
	{ "MESSAGE_ID=9bddbda177cd44d891b1b561a8a0ce9e", { "DEPLOYMENT_VERSION" }, on_deployment },
	{ "MESSAGE_ID=0163db5468ac4237b090d28490c301ed", { "BUNDLE_VERSION" }, on_bundle },
	{ 0 },
};

/** What an image replaced is the one before it. */
static void chain_images(struct changes *c)
{
	struct str before[2] = { 0 };
	changes_order(c);
	for (size_t i = 0; i < c->transactions.len; i++) {
		struct transaction *t = &c->transactions.data[i];
		const bool rauc = str_is(t->manager, "rauc");
		if (!rauc && !str_is(t->manager, "rpm-ostree"))
			continue;
		t->changes.data[0].from = before[rauc];
		before[rauc] = t->changes.data[0].to;
	}
}

void changes_boots(struct changes *c, const struct know *k, const char *root)
{
	struct told told = { c, k };
	const double since = c->since;
	const struct source_boots wanted = { .marks = boot_marks,
					     .milliseconds = 3000,
					     .boot = on_boot,
					     .line = on_line,
					     .entries = told_entries,
					     .ctx = &told };
	_cleanup_error_ struct uh_error *err = source_journal_told(root, &wanted, &c->boots_cut);
	if (err && err->errnum != ENOENT) // then there is none
		vec_push(&c->unread, arena_str(&c->arena, str_z(err->message)));
	c->since = since; // the journal is no log of packages
	chain_images(c);
}

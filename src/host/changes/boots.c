// What a boot ran, as its own lines say it: kernel, command line, BIOS, the GPU's VBIOS and firmware.
#include "host/host.h"
#include "host/changes/readers.h"
#include "knowledge/parameter.h"

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

// What may stay of each kind of evidence. A table says by the path of an answer or the name of a member how it is written; each way of writing
// has a function, which keeps the frame (names that the kernel gives, numbers, marks) and puts the words between through allow.c.
#include "capture/redact/allow.h"
#include "knowledge/parameter.h"
#include "source/tape/bundle.h"

struct named_form {
	const char *path; // a pattern
	enum allow_form form;
};

/** The first pattern that fits; the last row has none, and is for all others. */
static enum allow_form form_in(const struct named_form *forms, struct str path)
{
	while (forms->path && !str_glob(str_z(forms->path), path))
		forms++;
	return forms->form;
}

enum allow_form allow_form_of(struct str path, bool list)
{
	static const struct named_form files[] = {
		{ "/proc/*/cmdline", ALLOW_COMMAND },
		{ "/proc/*/environ", ALLOW_VARIABLES },
		{ "environment", ALLOW_VARIABLES },
		{ "/proc/*/maps", ALLOW_MAPS },
		{ "/proc/*/comm", ALLOW_VALUES },
		{ "/proc/*/stat", ALLOW_VALUES },
		{ "/proc/*/status", ALLOW_FIELDS },
		{ "/proc/*/cgroup", ALLOW_WORDS },
		{ "/proc/*mount*", ALLOW_VALUES },
		{ "/proc/cmdline", ALLOW_BOOT },
		{ "/proc/version", ALLOW_VALUES },
		{ "/proc/interrupts", ALLOW_VALUES },
		{ "/proc/sys/*", ALLOW_VALUES },
		{ "/proc/*", ALLOW_ALL },
		{ "/sys/class/dmi/*", ALLOW_WORDS },
		{ "/sys/class/net/*", ALLOW_WORDS },
		{ "/sys/block/*", ALLOW_WORDS },
		{ "/sys/*", ALLOW_ALL },
		{ "/etc/default/*", ALLOW_BOOT },
		{ "/etc/kernel*", ALLOW_BOOT },
		{ "/boot/*", ALLOW_BOOT },
		{ "/efi/*", ALLOW_BOOT },
		{ "*/modprobe.d/*", ALLOW_MODULES },
		{ "/*", ALLOW_WORDS },
		{ BUNDLE_CHANGES, ALLOW_CHANGES },
		{ NULL, ALLOW_VALUES }, // what the machine says without a file
	};
	static const struct named_form lists[] = {
		{ "/proc", ALLOW_ALL },     { "/proc/*/fd", ALLOW_ALL },        { "/proc/*/task", ALLOW_ALL },
		{ "/proc/*", ALLOW_PATHS }, { "/sys/class/net*", ALLOW_PATHS }, { "/sys/block*", ALLOW_PATHS },
		{ "/sys/*", ALLOW_ALL },    { "/dev/dri*", ALLOW_ALL },         { NULL, ALLOW_PATHS },
	};
	return form_in(list ? lists : files, path);
}

enum allow_form allow_form_of_member(struct str name)
{
	static const struct named_form members[] = {
		{ "processes.txt", ALLOW_PROCESSES },
		{ BUNDLE_DUMPS "*", ALLOW_DUMP },
		{ NULL, ALLOW_LOG },
	};
	return form_in(members, name);
}

// --- logs ---

/** `[  12.3] text`, `<6>[  12.3] text`: how many bytes stand before the message. */
static size_t time_before(struct str line)
{
	size_t n = 0;
	if (line.n > 2 && line.p[0] == '<' && char_digit(line.p[1]))
		n = line.p[2] == '>' ? 3 : 0;
	if (n >= line.n || line.p[n] != '[')
		return n;
	size_t end = n + 1;
	while (end < line.n && (char_digit(line.p[end]) || char_among(line.p[end], " .")))
		end++;
	return end < line.n && line.p[end] == ']' ? end + 1 : n;
}

/** How messages begin that tell of the GPU, of what it hangs on, and of a kernel that failed. */
static bool begins_well(struct str text)
{
	static const char fronts[] =
		"amdgpu|[drm|drm|kfd|amdkfd|amd_iommu|AMD-Vi|iommu|pcieport|pci |pciehp|AER:|DPC:|mce:|[Hardware Error]|"
		"{1}[Hardware Error]|EDAC|BUG:|WARNING:|general protection|Oops|RIP:|RSP:|RAX:|Call "
		"Trace|<TASK>|</TASK>|Code:|CPU:|"
		"CPU |Hardware name:|Workqueue:|INFO: task|task:|watchdog:|rcu:|NMI|Linux version|DMI:|PM:|Kernel panic|---[|"
		"Modules linked in|snd_hda_intel|x86/|ACPI: "
		"\\_SB|thunderbolt|Memory:|ttm|[TTM|hrtimer:|clocksource:|Comm:|amd_atl|gpu";
	return str_among(text, STR_BEGINS, fronts).n;
}

/** What knowledge has a message for, and what the kernel writes around one: traces, registers, the machine's name. */
static bool log_line_matters(const struct allowed *a, struct str text)
{
	struct match m;
	ptrdiff_t at = str_find(str_cut(text, 128), S(" kernel: ")); // of a log that somebody else wrote
	text = str_trim(at < 0 ? text : str_from(text, (size_t)at + 9));
	return begins_well(text) || str_find(text, S("+0x")) >= 0 || know_match(a->know, text, &m);
}

/** Notes that a line was left out. */
static void drop_line(struct allowed *a, struct str line)
{
	struct manifest_replaced *count = &a->redactor->counts[REDACT_LINE];
	count->names += line.n > 0;
	count->places += line.n > 0;
}

/** A line about other things becomes empty, not absent: the numbers of the lines behind it are in the diagnosis. */
static void log_line(struct allowed *a, struct str line, struct text *to)
{
	static const char *const of_the_boot[] = { "Command line: ", "Kernel command line: " };
	const size_t before = time_before(line);
	struct str text = str_from(line, before);
	text_add(to, str_cut(line, before));
	for (size_t i = 0; i < ARRAY_SIZE(of_the_boot); i++) {
		ptrdiff_t at = str_find(str_cut(text, 32), str_z(of_the_boot[i]));
		if (at < 0)
			continue;
		const size_t end = (size_t)at + str_z(of_the_boot[i]).n;
		text_add(to, str_cut(text, end));
		allow_text(a, ALLOW_BOOT, str_from(text, end), '\n', to);
		return;
	}
	if (log_line_matters(a, text))
		allow_words(a, text, NUMBERS_LONG, to);
	else if (allow_tells(a, text))
		allow_words(a, text, NUMBERS_SHORT, to);
	else
		drop_line(a, str_trim(text));
}

/** `regGRBM_STATUS  0x0`: a register at the front, and the words behind it. */
static void put_dump_line(struct allowed *a, struct str line, struct text *to)
{
	size_t n = 0, capitals = 0;
	while (n < line.n && (char_word(line.p[n]) || char_space(line.p[n])))
		capitals += line.p[n] >= 'A' && line.p[n] <= 'Z', n++;
	const bool is_register = capitals > 2 && memchr(line.p, '_', n);
	text_add(to, str_cut(line, is_register ? n : 0));
	allow_words(a, str_from(line, is_register ? n : 0), NUMBERS_LONG, to);
}

/** `Seccomp:  0` */
static void field_line(struct allowed *a, struct str line, struct text *to)
{
	struct str value = line, name = str_split(&value, ':');
	if (allow_known(a, name) || name.n == line.n) { // Uid: what stands behind it is a person's
		allow_words(a, line, NUMBERS_LONG, to);
		return;
	}
	text_add(to, name);
	allow_words(a, str_from(line, name.n), NUMBERS_LONG, to);
}

// --- paths ---

static bool in_path(char c) { return char_word(c) || (c & 0x80) || char_among(c, "/.+-@~%"); }

/** A name, as long as it was; what it ends with tells what it is. */
static void put_component(struct allowed *a, struct str name, struct text *to)
{
	// The longer ending first where one ends with the other.
	static const char ends[] = ".conf|.sh|.service.d|.service|.so|.py|.cfg|.rules|.list|.d";
	while (name.n && name.p[0] == '.') {
		text_add(to, S("."));
		name = str_from(name, 1);
	}
	const struct str end = allow_known(a, name) ? (struct str){ 0 } : str_among(name, STR_ENDS, ends);
	allow_word(a, str_cut(name, name.n - end.n), NUMBERS_SHORT, true, to);
	text_add(to, end);
}

/** Component by component: a directory that everybody has stays, whoever has one below it. */
static void put_components(struct allowed *a, struct str path, struct text *to)
{
	while (path.n) {
		size_t n = 0;
		while (n < path.n && path.p[n] != '/')
			n++;
		if (n)
			put_component(a, str_cut(path, n), to);
		text_add(to, str_cut(str_from(path, n), 1));
		path = str_from(path, n + 1);
	}
}

void allow_path(struct allowed *a, struct str path, struct text *to)
{
	if (str_among(path, STR_BEGINS, "/proc/|/sys/|/dev/|../").n)
		text_add(to, path);
	else
		put_components(a, path, to);
}

/** The length of a path at the front of @s that is long enough to be one; 0: bytes may look like a short one. */
static size_t path_length(struct str s)
{
	enum { LEAST = 8 };
	size_t n = 0, parts = 0;
	while (n < s.n && in_path(s.p[n])) {
		parts += s.p[n] == '/' && n + 2 < s.n && char_word(s.p[n + 1]) && in_path(s.p[n + 2]);
		n++;
	}
	return n >= LEAST && parts > 1 ? n : 0;
}

void allow_bytes(struct allowed *a, struct str bytes, struct text *to)
{
	size_t from = 0, at = 0;
	while (at < bytes.n) {
		const char *slash = memchr(bytes.p + at, '/', bytes.n - at);
		if (!slash)
			break;
		at = (size_t)(slash - bytes.p);
		size_t n = path_length(str_from(bytes, at));
		if (!n) {
			while (at < bytes.n &&
			       in_path(bytes.p[at])) // what is too short for a path is so from its second / on, too
				at++;
			continue;
		}
		text_add(to, (struct str){ bytes.p + from, at - from });
		allow_path(a, str_cut(str_from(bytes, at), n), to);
		from = at += n;
	}
	text_add(to, str_from(bytes, from));
}

/** `7f00-7f01 r-xp 00000000 fe:00 501    /path` */
static void maps_line(struct allowed *a, struct str line, struct text *to)
{
	enum { FIELDS = 5 };
	struct str path = line;
	for (int i = 0; i < FIELDS; i++)
		str_word(&path);
	text_add(to, str_cut(line, line.n - path.n));
	put_components(a, path, to);
}

// --- commands, variables, parameters ---

/** A value that an option, a variable or a parameter may have: numbers and words that are known, with marks between them. */
static void put_value(struct allowed *a, struct str value, struct text *to)
{
	enum { NUMBER = 6 };
	bool number = value.n && value.n <= NUMBER;
	for (size_t i = 0; i < value.n; i++)
		number &= char_digit(value.p[i]);
	if (number)
		text_add(to, value);
	else if (memchr(value.p, ' ', value.n))
		redact_put_name(a->redactor, value, false, to);
	else
		allow_words(a, value, NUMBERS_SHORT, to);
}

/** The program's name, options that knowledge names with their values, and other words that it has. */
static void put_command_line(struct allowed *a, struct str all, char end, struct text *to)
{
	bool of_option = false, of_letter = false, first = true;
	for (size_t at = 0; at < all.n; first = false) {
		struct str rest = str_from(all, at), word = str_split(&rest, end);
		const size_t whole = word.n;
		struct str value = word, name = str_split(&value, '=');
		const bool letter = word.n == 2 && word.p[0] == '-', option = str_starts(word, S("--")) && allow_known(a, name);
		if (first)
			word = str_base(word);
		if (letter || !word.n) {
			text_add(to, word);
		} else if (option) {
			text_add(to, str_cut(word, name.n + (name.n < word.n)));
			put_value(a, value, to);
		} else if (of_letter) { // it may be a password, whatever the word
			redact_put_name(a->redactor, word, false, to);
		} else if (of_option) {
			put_value(a, word, to);
		} else {
			allow_word(a, word, NUMBERS_SHORT, false, to);
		}
		of_option = option && name.n == whole;
		of_letter = letter && word.p[1] != 'm'; // python -m vllm
		at += whole;
		text_add(to, str_cut(str_from(all, at), 1));
		at++;
	}
}

/** Those that knowledge has, and those of a job whose values are numbers. */
static void put_variables(struct allowed *a, struct str all, char end, struct text *to)
{
	while (all.n) {
		struct str one = str_split(&all, end), value = one, name = str_split(&value, '=');
		const bool of_job = str_among(name, STR_MATCHES, "RANK|WORLD_SIZE|SLURM_*ID|*_RANK|UNHANG_RECORD").n;
		if (name.n == one.n || !(know_variable(a->know, name) || of_job)) {
			drop_line(a, one);
			continue;
		}
		text_add(to, str_cut(one, name.n + 1));
		put_value(a, value, to);
		text_add(to, (struct str){ &end, 1 });
	}
}

/** Parameters that knowledge has; `quiet` and other words that it has. */
static void put_parameter(struct allowed *a, struct str module, struct str word, struct text *to)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct str value = word, name = str_split(&value, '=');
	struct str whole = module.n ? arena_printf(&room, STR_FMT "." STR_FMT, STR_ARG(module), STR_ARG(name)) : name;
	if (know_parameter(a->know, whole)) {
		text_add(to, str_cut(word, name.n + (name.n < word.n)));
		put_value(a, value, to);
	} else if (name.n == word.n && allow_known(a, word)) {
		text_add(to, word);
	} else {
		drop_line(a, word);
	}
}

/** `quiet iommu=pt`, `GRUB_CMDLINE_LINUX="quiet iommu=pt"`, `options quiet iommu=pt`: marks stay, words that are no parameters go. */
static void boot_line(struct allowed *a, struct str line, struct text *to)
{
	while (line.n) {
		size_t n = 0;
		while (n < line.n && !char_space(line.p[n]) && !char_among(line.p[n], "\"'"))
			n++;
		struct str word = str_cut(line, n);
		if (str_ends(word, S("=")) && n < line.n && allow_known(a, str_cut(word, n - 1)))
			text_add(to, word);
		else if (n)
			put_parameter(a, (struct str){ 0 }, word, to);
		text_add(to, str_cut(str_from(line, n), 1));
		line = str_from(line, n + 1);
	}
}

/** `options MODULE NAME=VALUE`; of other lines what is known; no comments. */
static void module_line(struct allowed *a, struct str line, struct text *to)
{
	struct str rest = str_trim(line), what = str_word(&rest);
	if (!what.n || what.p[0] == '#') {
		drop_line(a, what);
		return;
	}
	allow_word(a, what, NUMBERS_SHORT, false, to);
	text_add(to, S(" "));
	if (!str_is(what, "options")) {
		allow_words(a, str_trim(rest), NUMBERS_SHORT, to);
		return;
	}
	struct str module = str_word(&rest);
	allow_word(a, module, NUMBERS_SHORT, false, to);
	for (struct str word; (word = str_word(&rest)).n;) {
		text_add(to, S(" "));
		put_parameter(a, module, word, to);
	}
}

// --- all of them ---

static void values_line(struct allowed *a, struct str line, struct text *to) { allow_words(a, line, NUMBERS_LONG, to); }
static void words_line(struct allowed *a, struct str line, struct text *to) { allow_words(a, line, NUMBERS_SHORT, to); }

/** `change NAME FROM TO`, with tabs: a package that knowledge names stays. A setting is the name of a file, which is somebody's. */
static void change_line(struct allowed *a, struct str line, struct text *to)
{
	struct str rest = line, what = str_split(&rest, '\t'), name = str_split(&rest, '\t');
	const bool known = str_is(what, "change") && !str_starts(name, S("/")) && know_package(a->know, name);
	const size_t stays = known ? what.n + 1 + name.n : 0;
	text_add(to, str_cut(line, stays));
	values_line(a, str_from(line, stays), to);
}

/** processes.txt: `--- NAME` stands before each file. */
static void put_processes(struct allowed *a, struct str text, struct text *to)
{
	struct str rest = text;
	while (rest.n) {
		struct str from = rest, head = str_split(&rest, '\n'), name = head, file = rest;
		while (rest.n && !str_starts(rest, S("--- ")) && !str_starts(rest, S("=== ")))
			str_split(&rest, '\n');
		text_add(to, str_cut(from, head.n + (rest.p != from.p + head.n)));
		while (name.n && memchr(name.p, ' ', name.n))
			str_split(&name, ' ');
		_cleanup_arena_ struct arena room = { 0 };
		struct str path = arena_printf(&room, "/proc/0/" STR_FMT, STR_ARG(name));
		allow_text(a, allow_form_of(path, false), str_cut(file, file.n - rest.n), '\n', to);
	}
}

typedef void allow_line_fn(struct allowed *a, struct str line, struct text *to);

void allow_text(struct allowed *a, enum allow_form form, struct str text, char end, struct text *to)
{
	static allow_line_fn *const lines[] = {
		[ALLOW_WORDS] = words_line,    [ALLOW_VALUES] = values_line, [ALLOW_FIELDS] = field_line,
		[ALLOW_LOG] = log_line,        [ALLOW_DUMP] = put_dump_line, [ALLOW_PATHS] = allow_path,
		[ALLOW_MAPS] = maps_line,      [ALLOW_BOOT] = boot_line,     [ALLOW_MODULES] = module_line,
		[ALLOW_CHANGES] = change_line,
	};
	if (form == ALLOW_ALL)
		text_add(to, text);
	else if (form == ALLOW_COMMAND)
		put_command_line(a, text, end, to);
	else if (form == ALLOW_VARIABLES)
		put_variables(a, text, end, to);
	else if (form == ALLOW_PROCESSES)
		put_processes(a, text, to);
	else
		while (text.n) {
			struct str rest = text, line = str_split(&rest, '\n');
			lines[form](a, line, to);
			text_add(to, str_cut(str_from(text, line.n), 1));
			text = rest;
		}
}

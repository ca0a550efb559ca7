// Words that are known, and values that can be told by their form.
#include "capture/allow.h"

#include <stdlib.h>

// --- words ---

static size_t digits_of(struct str s)
{
	size_t n = 0;
	while (n < s.n && char_digit(s.p[n]))
		n++;
	return n;
}

/** Case says nothing, and short numbers do not: gfx1100 is known where gfx942 is. 0: it has no letter. */
static uint64_t hash_of(struct str word)
{
	enum { SHORT = 4 };
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	bool letters = false;
	for (size_t i = 0; i < word.n; i++) {
		const size_t digits = digits_of(str_from(word, i));
		unsigned char c = digits ? '0' : (unsigned char)char_lower(word.p[i]);
		if (digits > SHORT) // the number itself
			for (size_t n = 0; n + 1 < digits; n++)
				h = (h ^ (unsigned char)word.p[i + n]) * UINT64_C(0x100000001b3);
		h = (h ^ c) * UINT64_C(0x100000001b3);
		i += digits ? digits - 1 : 0;
		letters |= char_alpha((char)c);
	}
	h ^= h >> 29;
	return letters ? h | 1 : 0;
}

static uint64_t *slot_of(const struct allowed *a, uint64_t hash)
{
	size_t i = (size_t)hash & (a->nslots - 1);
	while (a->slots[i] && a->slots[i] != hash)
		i = (i + 1) & (a->nslots - 1);
	return &a->slots[i];
}

static void add(struct allowed *a, struct str word)
{
	uint64_t hash = hash_of(word), *slot = slot_of(a, hash);
	if (!hash || *slot)
		return;
	*slot = hash;
	if (++a->n * 2 < a->nslots)
		return;
	uint64_t *old = a->slots;
	size_t nold = a->nslots;
	a->nslots *= 2;
	a->slots = mem_alloc(a->nslots * sizeof(*a->slots));
	for (size_t i = 0; i < nold; i++)
		if (old[i])
			*slot_of(a, old[i]) = old[i];
	free(old);
}

static bool in_word(char c) { return char_word(c) || (c & 0x80) || char_among(c, "-.+@#%&*~$\\^`!?"); }

/** The word at the front of @rest, without the marks at its end; what is no word is skipped by the caller. */
static struct str word_at(struct str rest)
{
	size_t n = 0;
	while (n < rest.n && in_word(rest.p[n]))
		n++;
	while (n > 1 && char_among(rest.p[n - 1], ".-+*!?"))
		n--;
	return str_cut(rest, n);
}

/** Files of knowledge that are made of messages and of names; the others are prose. Options are known by all. */
static bool has_names(const char *file)
{
	static const char *const prose[] = { "remedies*", "program-remedies*", "sources*", "causes*", "doctor-*", "actions*" };
	for (size_t i = 0; i < sizeof(prose) / sizeof(prose[0]); i++)
		if (str_glob(str_z(prose[i]), str_base(str_z(file))))
			return false;
	return true;
}

static void add_file(struct allowed *a, const struct know_file *f)
{
	struct str rest = { f->begin, (size_t)(f->end - f->begin) };
	const bool names = has_names(f->name);
	while (rest.n) {
		struct str word = word_at(rest);
		if (word.n && (names || str_starts(word, S("--"))))
			add(a, word);
		rest = str_from(rest, word.n + !word.n);
	}
}

/** Words that messages and files of the kernel have, and knowledge does not. */
static const char common[] =
	"a all an and are as at be bit bits bytes by cannot code cpu cpus data detected disabled domain enabled end error errors failed "
	"fault for from gb has hw i in info io is it kb kernel lost mb memory node not null of off on or out pid ppid ratelimit ret "
	"rip rsp eflags rax rbx rcx rdx rsi rdi rbp r8 fs gs knlgs cs ds es cr0 cr2 cr3 cr4 orig task set size smp "
	"start state status supported symbol the thread timeout to trace type unknown use used using value version was with tainted "
	"comm uid gid total-vm anon-rss file-rss shmem-rss pgtables oom_score_adj kworker swapper kthreadd ksoftirqd migration "
	"irq rcu_sched rcu_preempt u8 u16 u32 u64 python python2 python3 bash sh sleep root tmpfs proc sysfs cgroup cgroup2 devtmpfs "
	"devpts overlay ext4 xfs btrfs vfat squashfs nfs nfs4 cifs fuse autofs mqueue hugetlbfs tracefs debugfs securityfs pstore bpf "
	"configfs rw ro nosuid nodev noexec relatime noatime shared master render video kvm docker podman kubepods slurm system.slice "
	"user.slice init.scope machine.slice lib lib64 bin sbin usr opt etc var run tmp dev sys boot home srv mnt media local share "
	"x86_64-linux-gnu site-packages dist-packages torch rocm conda venv modules modprobe.d environment.d profile.d limits.d "
	"grub grub.d grub.cfg loader entries systemd system user conf.d journald.conf coredump.conf limits.conf os-release "
	"debian ubuntu fedora rhel centos rocky almalinux arch opensuse suse gentoo nixos linux gnu lts workstation server edition "
	"bookworm trixie jammy noble amd radeon instinct pro ryzen epyc threadripper advanced micro devices inc smp preempt_dynamic preempt "
	"gcc clang ld binutils name pretty_name version_id version_codename id id_like variant variant_id platform_id cpe_name "
	"build_id ansi_color rolling forky sid generic oem lowlatency hwe cloud default amd64 x86_64 aarch64 el8 el9 el10 fc41 fc42";

void allow_begin(struct allowed *a, const struct know *k, struct redactor *r)
{
	enum { FIRST = 1 << 16 };
	struct str rest = str_z(common);
	*a = (struct allowed){ .know = k, .redactor = r, .nslots = FIRST };
	a->slots = mem_alloc(a->nslots * sizeof(*a->slots));
	for (const struct know_file *f = know_embedded; f->name; f++)
		add_file(a, f);
	while (rest.n)
		add(a, str_split(&rest, ' '));
}

void allow_end(struct allowed *a) { free(a->slots); }

/** What a redaction put: host-1. */
static bool is_counter(struct str word)
{
	ptrdiff_t at = str_find(word, S("-"));
	struct str kind = str_cut(word, at < 0 ? 0 : (size_t)at), number = str_from(word, kind.n + 1);
	for (size_t i = 0; i < number.n; i++)
		if (!char_digit(number.p[i]))
			return false;
	return number.n && redact_is_kind(kind);
}

static bool is_there(const struct allowed *a, struct str word)
{
	uint64_t hash = hash_of(word);
	return hash && *slot_of(a, hash);
}

bool allow_known(const struct allowed *a, struct str word)
{
	enum { LEAST = 3 };
	if (is_there(a, word) || is_counter(word))
		return true;
	while (word.n && (char_digit(word.p[word.n - 1]) || word.p[word.n - 1] == '.')) // libamdhip64.so.6.2
		word = str_cut(word, word.n - 1);
	return word.n >= LEAST && is_there(a, word);
}

// --- values ---

/** Numbers with points between them, and a sign or a unit: -1, 3.59.0, 12kB. */
static bool is_decimal(struct str word, size_t most)
{
	enum { UNIT = 3 };
	word = str_from(word, word.n && char_among(word.p[0], "-+#"));
	size_t n = digits_of(word);
	if (!n)
		return false;
	while (n && n <= most) {
		word = str_from(word, n);
		bool more = word.n > 1 && word.p[0] == '.' && char_digit(word.p[1]);
		if (!more)
			break;
		word = str_from(word, 1);
		n = digits_of(word);
	}
	for (size_t i = 0; i < word.n; i++)
		if (!char_alpha(word.p[i]) && word.p[i] != '%')
			return false;
	return n <= most && word.n <= UNIT;
}

static bool is_hex(struct str word, size_t most)
{
	struct str digits = word;
	const bool marked = str_behind(word, S("0x"), &digits) || str_behind(word, S("0X"), &digits);
	bool number = marked;
	for (size_t i = 0; i < digits.n; i++) {
		if (!char_hex(digits.p[i]))
			return false;
		number |= char_digit(digits.p[i]);
	}
	return digits.n && digits.n <= most && number;
}

bool allow_number(struct str word, enum allow_numbers numbers)
{
	enum { SHORT = 4, LONG = 12, SHORT_HEX = 8, LONG_HEX = 16 };
	const bool is_long = numbers == NUMBERS_LONG;
	return is_decimal(word, is_long ? LONG : SHORT) ||
	       ((is_long || str_starts(word, S("0x"))) && is_hex(word, is_long ? LONG_HEX : SHORT_HEX));
}

/** A function of the kernel with an offset in it: amdgpu_job_timedout+0x23. */
static bool is_symbol(struct str word)
{
	struct str offset = word, name = str_split(&offset, '+');
	for (size_t i = 0; i < name.n; i++)
		if (!char_word(name.p[i]) && name.p[i] != '.')
			return false;
	return name.n && name.n < word.n && str_starts(offset, S("0x")) && is_hex(offset, 16);
}

/** 6.12.0-acme-hpc: the numbers stay, and the words that are known. */
static bool put_version(struct allowed *a, struct str word, struct text *to)
{
	const size_t first = digits_of(word);
	if (!first || first == word.n || word.p[first] != '.')
		return false;
	while (word.n) {
		size_t n = 0;
		while (n < word.n && !char_among(word.p[n], ".-+~"))
			n++;
		struct str part = str_cut(word, n);
		if (!n || allow_number(part, NUMBERS_SHORT) || allow_known(a, part))
			text_add(to, part);
		else
			redact_put_name(a->redactor, part, false, to);
		text_add(to, str_cut(str_from(word, n), 1));
		word = str_from(word, n + 1);
	}
	return true;
}

/** Marks by themselves: `...`, `-->`. */
static bool is_marks(struct str word)
{
	for (size_t i = 0; i < word.n; i++)
		if (char_word(word.p[i]) || (word.p[i] & 0x80))
			return false;
	return true;
}

void allow_word(struct allowed *a, struct str word, enum allow_numbers numbers, bool same_size, struct text *to)
{
	if (is_marks(word) || allow_known(a, word) || allow_number(word, numbers) || (numbers == NUMBERS_LONG && is_symbol(word)))
		text_add(to, word);
	else if (same_size || !put_version(a, word, to))
		redact_put_name(a->redactor, word, same_size, to);
}

void allow_words(struct allowed *a, struct str line, enum allow_numbers numbers, struct text *to)
{
	while (line.n) {
		size_t gap = 0;
		while (gap < line.n && !in_word(line.p[gap]))
			gap++;
		text_add(to, str_cut(line, gap));
		line = str_from(line, gap);
		struct str word = word_at(line);
		if (word.n)
			allow_word(a, word, numbers, false, to);
		line = str_from(line, word.n);
	}
}

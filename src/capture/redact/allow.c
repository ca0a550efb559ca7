// Words that are known, and values that can be told by their form. The words come from knowledge itself: what knowledge has a message for
// may stay in a bug report, without a second list that would have to follow it.
#include "capture/redact/allow.h"

#include <stdlib.h>

#include "base/cleanup.h"

// --- words ---

static size_t digits_of(struct str s) { return str_run(s, char_digit); }

/** Case says nothing, and short numbers do not: gfx1100 is known where gfx942 is. 0: it has no letter. */
static uint64_t word_hash(struct str word)
{
	enum { SHORT = 4 };
	uint64_t h = STR_HASH_BEGIN;
	bool letters = false;
	for (size_t i = 0; i < word.n; i++) {
		const size_t digits = digits_of(str_from(word, i));
		unsigned char c = digits ? '0' : (unsigned char)char_lower(word.p[i]);
		if (digits > SHORT) // the number itself
			for (size_t n = 0; n + 1 < digits; n++)
				h = hash_mix(h, (unsigned char)word.p[i + n]);
		h = hash_mix(h, c);
		i += digits ? digits - 1 : 0;
		letters |= char_alpha((char)c);
	}
	h ^= h >> 29;
	return letters ? h | 1 : 0;
}

/** Open addressing. There is always a free slot, since a set grows when it is half full. */
static uint64_t *word_slot(const struct allow_set *set, uint64_t hash)
{
	size_t i = (size_t)hash & (set->nslots - 1);
	while (set->slots[i] && set->slots[i] != hash)
		i = (i + 1) & (set->nslots - 1);
	return &set->slots[i];
}

static void set_begin(struct allow_set *set, size_t size)
{
	*set = (struct allow_set){ mem_alloc(size * sizeof(*set->slots)), size, 0 };
}

/** Only hashes are kept. Two words of one hash would let one word too many stay, which is one in 2^63. */
static void set_add(struct allow_set *set, struct str word)
{
	uint64_t hash = word_hash(word), *slot = word_slot(set, hash);
	if (!hash || *slot)
		return;
	*slot = hash;
	if (++set->n * 2 < set->nslots)
		return;
	const struct allow_set old = *set;
	_cleanup_free_ uint64_t *slots = old.slots;
	set_begin(set, 2 * old.nslots);
	for (size_t i = 0; i < old.nslots; i++)
		if (slots[i])
			*word_slot(set, slots[i]) = slots[i];
	set->n = old.n;
}

static bool set_has(const struct allow_set *set, struct str word)
{
	uint64_t hash = word_hash(word);
	return hash && *word_slot(set, hash);
}

static bool is_mark(char c) { return !char_word(c) && !(c & 0x80); }
static bool in_word(char c) { return char_word(c) || (c & 0x80) || char_among(c, "-.+@#%&*~$\\^`!?"); }

/** What stands before the next word: blanks, brackets, and marks that belong to no word. */
static size_t gap_before(struct str rest)
{
	size_t n = 0;
	while (n < rest.n && (!in_word(rest.p[n]) || (is_mark(rest.p[n]) && rest.p[n] != '-')))
		n++;
	return n;
}

/** The word at the front of @rest, without the marks at its end. */
static struct str allow_word_at(struct str rest)
{
	size_t n = str_run(rest, in_word);
	while (n > 1 && is_mark(rest.p[n - 1]))
		n--;
	return str_cut(rest, n);
}

/** Files of knowledge that are made of messages and of names give all of their words. The others are prose, of which only options are known. */
static void add_knowledge_file(struct allowed *a, const struct know_file *f)
{
	static const char prose[] = "remedies*|program-remedies*|sources*|causes*|doctor-*|actions*";
	struct str rest = { f->begin, (size_t)(f->end - f->begin) };
	const bool names = !str_among(str_base(str_z(f->name)), STR_MATCHES, prose).n;
	while (rest.n) {
		rest = str_from(rest, gap_before(rest));
		struct str word = allow_word_at(rest);
		if (names || str_starts(word, S("--")))
			set_add(&a->words, word);
		rest = str_from(rest, word.n);
	}
}

/** The words by which context and vendors are found, and the patterns of names that mean something. */
static void add_telling(struct allowed *a, const struct know *k)
{
	for (size_t i = 0; i < k->contexts.len; i++) {
		const struct know_context *c = k->contexts.data[i];
		for (const struct know_list *l = c->words; l; l = l->next)
			set_add(&a->telling, allow_word_at(l->text));
		for (const struct know_list *l = c->processes; l; l = l->next)
			vec_push(&a->patterns, l->text);
	}
	for (size_t i = 0; i < k->vendors.len; i++)
		set_add(&a->telling, allow_word_at(k->vendors.data[i]->value));
	for (size_t i = 0; i < k->rings.len; i++)
		vec_push(&a->patterns, k->rings.data[i]->head.id);
}

/** Words that messages and files of the kernel have, and knowledge does not. */
static const char common[] =
	"a all an and are as at be bit bits bytes by cannot code cpu cpus data detected disabled domain enabled end error "
	"errors failed "
	"fault for from gb has hw i in info io is it kb kernel lost mb memory node not null of off on or out pid ppid "
	"ratelimit ret "
	"dmi board product serial number hostname edid rip rsp eflags rax rbx rcx rdx rsi rdi rbp r8 fs gs knlgs cs ds es cr0 "
	"cr2 cr3 cr4 orig task set size smp "
	"start state status supported symbol the thread timeout to trace type unknown use used using value version was with "
	"tainted "
	"comm uid gid total-vm anon-rss file-rss shmem-rss pgtables oom_score_adj kworker swapper kthreadd ksoftirqd migration "
	"irq rcu_sched rcu_preempt u8 u16 u32 u64 python python2 python3 bash sh sleep root tmpfs proc sysfs cgroup cgroup2 "
	"devtmpfs "
	"shm devpts overlay ext4 xfs btrfs vfat squashfs nfs nfs4 cifs fuse autofs mqueue hugetlbfs tracefs debugfs securityfs "
	"pstore bpf "
	"configfs rw ro nosuid nodev noexec relatime noatime shared master render video kvm docker podman kubepods slurm "
	"system.slice "
	"user.slice init.scope machine.slice lib lib64 bin sbin usr opt etc var run tmp dev sys boot home srv mnt media local "
	"share "
	"x86_64-linux-gnu site-packages dist-packages torch rocm conda venv modules modprobe.d environment.d profile.d "
	"limits.d "
	"grub grub.d grub.cfg loader entries systemd system user conf.d journald.conf coredump.conf limits.conf os-release "
	"debian ubuntu fedora rhel centos rocky almalinux arch opensuse suse gentoo nixos linux gnu lts workstation server "
	"edition "
	"allreduce allgather reducescatter broadcast alltoall send recv reduce gather scatter barrier default_pg "
	"processgroupnccl.cpp vcn_dec worker_tp0 worker_pp0 worker_dp0 "
	"enginecore_dp0 enginecore apiserver vllmworker rank0 "
	"vcn_enc vcn_unified jpeg_dec uvd uvd_enc vce events events_unbound events_highpri events_freezable tgid bookworm "
	"trixie jammy noble amd radeon instinct pro ryzen epyc threadripper advanced micro devices inc smp preempt_dynamic "
	"preempt "
	"gcc clang ld binutils name pretty_name version_id version_codename id id_like variant variant_id platform_id cpe_name "
	"modules.dep modules.builtin dockerenv containerenv envs info _rocm_sdk_core dkms kern.log journal dpkg pacman "
	"build_id ansi_color rolling forky sid generic oem lowlatency hwe cloud default amd64 x86_64 aarch64 el8 el9 el10 fc41 "
	"fc42";

void allow_begin(struct allowed *a, const struct know *k, struct redactor *r)
{
	enum { FIRST = 1 << 16, FIRST_TELLING = 1 << 10 };
	struct str rest = str_z(common);
	*a = (struct allowed){ .know = k, .redactor = r };
	set_begin(&a->words, FIRST);
	set_begin(&a->telling, FIRST_TELLING);
	for (const struct know_file *f = know_embedded; f->name; f++)
		add_knowledge_file(a, f);
	while (rest.n)
		set_add(&a->words, str_split(&rest, ' '));
	add_telling(a, k);
}

/** Numbers behind these words are people's. */
static bool is_of_person(struct str word)
{
	return str_among(word, STR_LIKE, "uid|gid|auid|euid|suid|fsuid|egid|loginuid|ses|groups|user").n;
}

/** Functions of the driver: messages name the one that wrote them. */
static bool is_of_driver(struct str word)
{
	return str_run(word, char_word) == word.n &&
	       str_among(word, STR_BEGINS, "amdgpu_|amdkfd_|kfd_|drm_|amd_|svm_|ttm_|smu_|dm_|dcn").n;
}

bool allow_known(const struct allowed *a, struct str word)
{
	enum { LEAST = 3 };
	if (set_has(&a->words, word) || redact_is_counter(a->redactor, word) || is_of_driver(word))
		return true;
	while (word.n &&
	       (char_digit(word.p[word.n - 1]) || char_among(word.p[word.n - 1], ".-_"))) // libamdhip64.so.6.2, node-1
		word = str_cut(word, word.n - 1);
	return word.n >= LEAST && set_has(&a->words, word) && !is_of_person(word);
}

bool allow_tells(const struct allowed *a, struct str line)
{
	while (line.n) {
		line = str_from(line, gap_before(line));
		struct str word = allow_word_at(line);
		if (set_has(&a->telling, word))
			return true;
		line = str_from(line, word.n);
	}
	return false;
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

/** Without 0x it needs a digit: `face` and `added` are words. */
static bool is_hex_value(struct str word, size_t most)
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

/** 09-30, 2026-11-16T12 */
static bool is_date(struct str word)
{
	static const size_t forms[][3] = { { 2, 2 }, { 4, 2, 2 } };
	for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
		struct str rest = word;
		size_t part = 0;
		while (part < 3 && forms[f][part] && digits_of(rest) == forms[f][part]) {
			rest = str_from(rest, forms[f][part++]);
			if (rest.n && rest.p[0] == '-')
				rest = str_from(rest, 1);
		}
		const bool whole = part == 3 || !forms[f][part];
		if (part > 1 && whole && (!rest.n || (rest.p[0] == 'T' && digits_of(str_from(rest, 1)) == rest.n - 1)))
			return true;
	}
	return false;
}

static bool allow_number(struct str word, enum allow_numbers numbers)
{
	enum { SHORT = 4, LONG = 12, SHORT_HEX = 8, LONG_HEX = 16 };
	const bool is_long = numbers == NUMBERS_LONG;
	return is_decimal(word, is_long ? LONG : SHORT) || (is_long && is_date(word)) ||
	       ((is_long || str_starts(word, S("0x"))) && is_hex_value(word, is_long ? LONG_HEX : SHORT_HEX));
}

/** 0000:03:00.0, 03:00.0 */
static bool is_pci_address(struct str text)
{
	enum { SHORT = 7, LONG = 12 };
	struct str rest = text.n == LONG && text.p[4] == ':' ? str_from(text, 5) : text;
	if (rest.n != SHORT || rest.p[2] != ':' || rest.p[5] != '.')
		return false;
	for (size_t i = 0; i < text.n; i++)
		if (!char_hex(text.p[i]) && !char_among(text.p[i], ":."))
			return false;
	return true;
}

bool allow_is_evidence(const struct allowed *a, struct str text)
{
	enum { ID = 6 };
	if (is_pci_address(text) || is_hex_value(text, ID) || str_starts(text, S("0x")))
		return true;
	bool known = false;
	while ((text = str_from(text, gap_before(text))).n) {
		struct str word = allow_word_at(text);
		known |= allow_known(a, word);
		if (!allow_known(a, word) && !allow_number(word, NUMBERS_SHORT))
			return false;
		text = str_from(text, word.n);
	}
	return known;
}

static bool in_symbol(char c) { return char_word(c) || c == '.'; }

/** A function of the kernel with an offset in it: amdgpu_job_timedout+0x23. */
static bool is_symbol(struct str word)
{
	struct str offset = word, name = str_split(&offset, '+');
	return name.n && str_run(name, in_symbol) == name.n && name.n < word.n && str_starts(offset, S("0x")) &&
	       is_hex_value(offset, 16);
}

/** A part of a word: it stays where it is known by itself. */
static void put_part(struct allowed *a, struct str part, struct text *to)
{
	if (!part.n || allow_number(part, NUMBERS_SHORT) || allow_known(a, part))
		text_add(to, part);
	else
		redact_put_name(a->redactor, part, false, to);
}

/** Each part of a word for itself. */
static void put_parts(struct allowed *a, struct str word, const char *between, struct text *to)
{
	while (word.n) {
		size_t n = 0;
		while (n < word.n && !char_among(word.p[n], between))
			n++;
		put_part(a, str_cut(word, n), to);
		text_add(to, str_cut(str_from(word, n), 1));
		word = str_from(word, n + 1);
	}
}

/** 6.12.0-acme-hpc, 21-Ubuntu: the numbers stay, and the words that are known. torch.cuda.nobody_knows: of what is known, too. */
static bool put_version(struct allowed *a, struct str word, struct text *to)
{
	const size_t first = digits_of(word);
	size_t letters = 0;
	for (size_t i = 0; i < word.n; i++)
		letters += char_alpha(word.p[i]);
	struct str rest = word, front = str_split(&rest, '.');
	if (first && first < word.n && (word.p[first] == '.' || (word.p[first] == '-' && letters)))
		put_parts(a, word, ".-+~", to);
	else if (!first && front.n < word.n && allow_known(a, front))
		put_parts(a, word, ".", to);
	else
		return false;
	return true;
}

/** What a pattern of names has stays of a name: `*.exe`, `vllm*`. */
static bool put_pattern(struct allowed *a, struct str word, struct text *to)
{
	for (size_t i = 0; i < a->patterns.len; i++) {
		struct str pattern = a->patterns.data[i];
		const char *star = memchr(pattern.p, '*', pattern.n);
		const size_t front = star ? (size_t)(star - pattern.p) : 0;
		if (!star || pattern.n < 3 || memchr(star + 1, '*', pattern.n - front - 1) || !str_glob(pattern, word))
			continue;
		const size_t back = pattern.n - front - 1, any = word.n - front - back;
		text_add(to, str_cut(word, front));
		put_part(a, str_cut(str_from(word, front), any), to);
		text_add(to, str_from(word, front + any));
		return true;
	}
	return false;
}

void allow_word(struct allowed *a, struct str word, enum allow_numbers numbers, bool same_size, struct text *to)
{
	const bool marks = str_run(word, is_mark) == word.n; // `...`, `-->`
	if (marks || allow_known(a, word) || allow_number(word, numbers) || (numbers == NUMBERS_LONG && is_symbol(word)))
		text_add(to, word);
	else if (same_size || !(put_version(a, word, to) || put_pattern(a, word, to)))
		redact_put_name(a->redactor, word, same_size, to);
}

void allow_words(struct allowed *a, struct str line, enum allow_numbers numbers, struct text *to)
{
	enum { FIRST_USER = 1000 }; // numbers of the system's own users are the same on every machine
	bool of_person = false;
	while (line.n) {
		int64_t number;
		const size_t gap = gap_before(line);
		text_add(to, str_cut(line, gap));
		line = str_from(line, gap);
		struct str word = allow_word_at(line);
		if (of_person && str_number(word, &number) && number >= FIRST_USER)
			redact_put_name(a->redactor, word, false, to);
		else if (word.n)
			allow_word(a, word, numbers, false, to);
		of_person = is_of_person(word) || (of_person && digits_of(word) == word.n);
		line = str_from(line, word.n);
	}
}

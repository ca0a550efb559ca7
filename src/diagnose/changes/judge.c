// Which change an incident came with (changes.h). The unit is a transaction that takes effect; the measure of time is the hours that the
// machine is known to have run. A boot without a kernel log, or without an orderly end, may have had the incident: its hours never speak
// for a change, and where they come after it they speak against it.
#include "diagnose/changes/judge.h"

#include <math.h> // for INFINITY alone: nothing else of unhang needs libm
#include <stdlib.h>

enum {
	LATELY_DAYS = 14,
	APART_S = 3600, // a hang, a reboot and the same hang within the hour of running are one
	LEAST = 2,      // one incident shortly after a change is chance too often
	LIST_MOST = 8,
	EXPECTED_MOST = 3 // incidents in the quiet time between two changes, above which the earlier one is not to blame
};
static const double chance_most = 0.05;

// --- kernels ---

/** The number that @s begins with; -1: none. Takes it off. */
static int64_t take_number(struct str *s)
{
	size_t n = 0;
	int64_t number = 0;
	for (; n < s->n && n < 9 && char_digit(s->p[n]); n++)
		number = number * 10 + (s->p[n] - '0');
	*s = str_from(*s, n);
	return n ? number : -1;
}

/** 6.15.3-200.fc42 and 6.15.3-200.fc42.x86_64, 6.8.0-90.91 and 6.8.0-90-generic, 6.15.3.arch1-1 and 6.15.3-arch1-1. What follows the three
 * numbers is compared where both have a number behind a dash: Debian's 6.12.38+deb13 has 6.12.38-1 as its package. */
static bool same_kernel(struct str version, struct str release)
{
	const ptrdiff_t epoch = str_find(version, S(":"));
	version = str_from(version, epoch < 0 ? 0 : (size_t)epoch + 1);
	for (int n = 0; n < 3; n++) {
		const int64_t a = take_number(&version), b = take_number(&release);
		const bool more = version.n && version.p[0] == '.', most = release.n && release.p[0] == '.';
		if (a < 0 || a != b)
			return false;
		if (n < 2 && (!more || !most))
			return more == most && n; // 6.16 and 6.16-rc1
		version = str_from(version, n < 2);
		release = str_from(release, n < 2);
	}
	if (!str_starts(version, S("-")) || !str_starts(release, S("-")))
		return true;
	version = str_from(version, 1);
	release = str_from(release, 1);
	const int64_t a = take_number(&version), b = take_number(&release);
	return a < 0 || b < 0 || a == b;
}

bool change_is_kernel(const struct change *c, struct str release)
{
	return c->to.n && release.n && (same_kernel(c->to, release) || str_find(c->package, release) >= 0);
}

bool change_of_kernel(const struct change *c) { return c->kind && str_is(c->kind->head.id, "kernel"); }

// --- what a transaction is ---

const struct change *transaction_only(const struct transaction *t)
{
	for (size_t n = 1; n < t->changes.len; n++)
		if (t->changes.data[n].kind != t->changes.data[0].kind)
			return NULL;
	return t->changes.len ? &t->changes.data[0] : NULL;
}

/** A program's own package concerns only what that program does. */
static bool change_concerns(const struct change *c, struct str process)
{
	return !c->kind || !c->kind->processes || (process.n && know_lists(c->kind->processes, process));
}

static bool transaction_concerns(const struct transaction *t, struct str process)
{
	return list_find(t->changes.data, t->changes.len, c, change_concerns(c, process));
}

/** When what was changed was in use first; 0: it never was. What a boot says that it ran counts more than what was installed. */
static double effect_of(const struct changes *c, const struct transaction *t, struct str process)
{
	bool boots = false, ran = false;
	for (size_t n = 0; n < t->changes.len; n++) {
		const struct change *one = &t->changes.data[n];
		if (!change_concerns(one, process))
			continue;
		if (one->kind && one->kind->effect == EFFECT_START)
			return t->when;
		boots = true;
		ran |= !change_of_kernel(one); // of a kernel alone: only where a boot ran it
	}
	for (size_t n = 0; boots && n < c->boots.len; n++) {
		const struct boot *b = &c->boots.data[n];
		if (b->begin <= t->when)
			continue;
		if (ran || !b->kernel.n ||
		    list_find(t->changes.data, t->changes.len, one, change_of_kernel(one) && change_is_kernel(one, b->kernel)))
			return b->begin;
	}
	return 0;
}

/** Whether a later one brings a part of @t to the version of before, or (@again) once more to that of @t. */
static bool brings(const struct transaction *later, const struct transaction *t, bool again)
{
	for (size_t n = 0; n < t->changes.len; n++) {
		const struct change *one = &t->changes.data[n];
		const struct str to = again ? one->to : one->from;
		if (to.n && list_find(later->changes.data, later->changes.len, c,
				      str_eq(c->package, one->package) && str_eq(c->to, to)))
			return true;
	}
	return false;
}

// --- hours ---

static double lesser(double a, double b) { return a < b ? a : b; }
static double greater(double a, double b) { return a > b ? a : b; }

/** A transaction that took effect, and the times in which it was in effect. */
struct trial {
	const struct transaction *transaction;
	double effect, end; // the end: when it was taken back; else none
	bool kernel;        // of a kernel alone: boots that ran an older one are not under it
	bool back;          // it was taken back, in effect or not yet
	double chance, since;
	bool suits; // all incidents came under it
};

struct judging {
	const struct changes *changes;
	struct boot_known {
		bool is;                     // what it had is known
		double kernel_since;         // begin of the first boot that ran its kernel; none where that is not known
	} * known;                           // of each boot
	VEC(struct past_sighting) sightings; // of the kind, that count, by time
	VEC(struct trial) trials;
	double all; // hours of known boots
};

/** Whether boot @n, as far as it lies behind the effect, is under it. */
static bool boot_under(const struct judging *j, const struct trial *t, size_t n)
{
	return !t->kernel || j->known[n].kernel_since >= t->effect;
}

/** Hours of the boots between two times. @unknown: of those that nobody knows. @under: only of those under this one; NULL: all. */
static double hours_of(const struct judging *j, double from, double to, bool unknown, const struct trial *under)
{
	double seconds = 0;
	for (size_t n = 0; n < j->changes->boots.len; n++) {
		const struct boot *b = &j->changes->boots.data[n];
		const double begin = greater(b->begin, from), end = lesser(b->end, to);
		if (end > begin && j->known[n].is != unknown && (!under || boot_under(j, under, n)))
			seconds += end - begin;
	}
	return seconds / 3600;
}

/** All hours between two times, known or not. */
static double hours_between(const struct judging *j, double from, double to)
{
	return hours_of(j, from, to, false, NULL) + hours_of(j, from, to, true, NULL);
}

/** The boot that an incident was in; the number of boots: none. Clocks of the log and of the boot's lines may differ by some seconds. */
static size_t boot_at(const struct changes *c, double when)
{
	enum { SLACK = 60 };
	size_t n = sorted_upto(c->boots.data, c->boots.len, begin, when + SLACK);
	return n && c->boots.data[n - 1].end + SLACK >= when ? n - 1 : c->boots.len;
}

static int by_when(const void *a, const void *b)
{
	const struct past_sighting *x = a, *y = b;
	return (x->when > y->when) - (x->when < y->when);
}

/** Leaves of the incidents of a boot the first, and of those within an hour of running the first. */
static void thin_out(struct judging *j, struct diag_changes *ret)
{
	size_t kept = 0, boot = j->changes->boots.len;
	if (j->sightings.len)
		qsort(j->sightings.data, j->sightings.len, sizeof(j->sightings.data[0]), by_when);
	for (size_t n = 0; n < j->sightings.len; n++) {
		const struct past_sighting one = j->sightings.data[n];
		const size_t in = boot_at(j->changes, one.when);
		if (kept && in == boot)
			continue;
		boot = in;
		ret->seen++;
		const double last = kept ? j->sightings.data[kept - 1].when : 0;
		if (kept && hours_between(j, last, one.when) * 3600 < APART_S)
			continue;
		j->sightings.data[kept++] = one;
	}
	j->sightings.len = kept;
}

/** The hours that a change is in effect, with those that nobody knows: these may have been full of incidents, or quiet. */
static double hours_under(const struct judging *j, const struct trial *t)
{
	return hours_of(j, t->effect, t->end, false, t) + hours_of(j, t->effect, t->end, true, t);
}

static bool sighting_under(const struct judging *j, const struct trial *t, const struct past_sighting *s)
{
	const size_t in = boot_at(j->changes, s->when);
	return s->when >= t->effect && s->when < t->end && (in == j->changes->boots.len || boot_under(j, t, in));
}

static void add_trials(struct judging *j, struct str process)
{
	const struct changes *c = j->changes;
	for (size_t n = 0; n < c->transactions.len; n++) {
		const struct transaction *t = &c->transactions.data[n];
		struct trial one = { .transaction = t, .end = INFINITY, .kernel = true, .suits = true };
		if (!transaction_concerns(t, process))
			continue;
		one.effect = effect_of(c, t, process);
		for (size_t k = 0; k < t->changes.len; k++)
			one.kernel &= change_of_kernel(&t->changes.data[k]);
		for (size_t later = n + 1; later < c->transactions.len && isinf(one.end); later++) {
			const struct transaction *l = &c->transactions.data[later];
			const double end = brings(l, t, false) ? effect_of(c, l, process) : 0;
			one.end = end > one.effect ? end : one.end;
			one.back = brings(l, t, false) || (one.back && !brings(l, t, true));
		}
		for (size_t k = 0; k < j->sightings.len && one.suits; k++)
			one.suits = sighting_under(j, &one, &j->sightings.data[k]);
		if (one.effect > 0)
			vec_push(&j->trials, one);
	}
}

static double to_the(double x, size_t k)
{
	double power = 1;
	while (k--)
		power *= x;
	return power;
}

/** min(1, m (t/T)^k) of each, with m those before which the machine is known to have run, and that came before the last incident. */
static void weigh(struct judging *j, struct diag_changes *ret)
{
	const size_t k = j->sightings.len;
	const double first = j->changes->boots.len ? j->changes->boots.data[0].begin : 0;
	const double last = k ? j->sightings.data[k - 1].when : INFINITY;
	for (size_t n = 0; n < j->trials.len; n++)
		ret->tried += j->trials.data[n].effect > first && j->trials.data[n].effect <= last;
	for (size_t n = 0; n < j->trials.len; n++) {
		struct trial *t = &j->trials.data[n];
		t->since = hours_under(j, t);
		const double all = hours_of(j, 0, INFINITY, false, NULL) + hours_of(j, t->effect, t->end, true, t);
		t->chance = all > 0 && k ? lesser(1, ret->tried * to_the(t->since / all, k)) : 1;
	}
}

/** Whether so long a quiet time before the first incident goes with how often it came then: else something behind the change brought it. */
static bool comes_soon(const struct judging *j, const struct trial *t)
{
	const double quiet = hours_between(j, t->effect, j->sightings.data[0].when), busy = t->since - quiet;
	return quiet * (double)(j->sightings.len - 1) <= EXPECTED_MOST * busy;
}

static void changes_list(struct diag_changes *ret, const struct trial *t, enum change_role role)
{
	if (ret->list.len < LIST_MOST)
		vec_push(&ret->list, ((struct diag_change){ t->transaction, role, t->effect }));
}

/** Whether an earlier change may be it as well: how many incidents would have been expected before @t, had @o been to blame? */
static bool is_beside(const struct judging *j, const struct trial *o, const struct trial *t)
{
	const double rate = (double)j->sightings.len / greater(t->since, 1e-6);
	return o != t && o->suits && o->chance <= chance_most && o->effect <= t->effect &&
	       hours_of(j, o->effect, t->effect, false, NULL) * rate < EXPECTED_MOST;
}

/** A user can date a file as he likes. The way back is that of the system's change, where it may be the one. */
static const struct trial *rather_of_system(const struct judging *j, const struct trial *t)
{
	for (size_t n = j->trials.len; n-- > 0 && t->transaction->own;) {
		const struct trial *o = &j->trials.data[n];
		if (!o->transaction->own && is_beside(j, o, t))
			return o;
	}
	return t;
}

static void tell_blame(struct judging *j, const struct trial *t, struct diag_changes *ret)
{
	const struct changes *c = j->changes;
	ret->chance = t->chance;
	ret->since = t->since;
	ret->all = hours_of(j, 0, INFINITY, false, NULL) + hours_of(j, t->effect, t->end, true, t);
	ret->after = hours_between(j, t->effect, ret->first);
	ret->undone = !isinf(t->end) || t->back;
	ret->pending = ret->undone && isinf(t->end);
	for (size_t n = 0; n < c->boots.len; n++)
		if (c->boots.data[n].begin < t->effect)
			*(j->known[n].is ? &ret->boots : &ret->unknown) += 1;
	changes_list(ret, t, CHANGE_TO_BLAME);
	for (size_t n = j->trials.len; n-- > 0;) {
		const struct trial *o = &j->trials.data[n];
		if (is_beside(j, o, t) || (o->transaction->own && is_beside(j, t, o) && o->suits && o->effect > t->effect))
			changes_list(ret, o, CHANGE_BESIDE);
	}
}

static int by_effect(const void *a, const void *b)
{
	const struct trial *x = a, *y = b;
	return (x->effect > y->effect) - (x->effect < y->effect);
}

void changes_judge(const struct changes_judge *given, struct diag_changes *ret)
{
	const struct changes *c = given->changes;
	_cleanup_free_ struct boot_known *known = mem_alloc((c->boots.len + 1) * sizeof(*known));
	struct judging j = { .changes = c, .known = known };
	const struct trial *best = NULL;
	*ret = (struct diag_changes){ .read = (c->boots.len || c->transactions.len) && !c->unread.len,
				      .earliest = true,
				      .chance = 1 };
	for (size_t n = 0; n < c->boots.len; n++) {
		const struct boot *b = &c->boots.data[n];
		const struct boot *first = list_find(c->boots.data, n + 1, one, str_eq(one->kernel, b->kernel));
		j.known[n] = (struct boot_known){ b->log && (b->clean || b->runs), b->kernel.n ? first->begin : INFINITY };
	}
	for (size_t n = 0; n < given->nsightings; n++) {
		const struct past_sighting *s = &given->sightings[n];
		const size_t in = boot_at(c, s->when);
		if (in < c->boots.len)
			j.known[in].is = true;
		if (str_eq(s->fingerprint, given->fingerprint))
			vec_push(&j.sightings, *s);
	}
	thin_out(&j, ret);
	ret->counted = (unsigned)j.sightings.len;
	ret->first = j.sightings.len ? j.sightings.data[0].when : given->when;
	add_trials(&j, given->process);
	if (j.trials.len)
		qsort(j.trials.data, j.trials.len, sizeof(j.trials.data[0]), by_effect);
	weigh(&j, ret);
	for (size_t n = 0; n < j.trials.len; n++) {
		const struct trial *t = &j.trials.data[n];
		if (t->suits && ret->counted >= LEAST && t->chance <= chance_most && comes_soon(&j, t) &&
		    (!best || t->since <= best->since))
			best = t;
	}
	// What was not read may be to blame instead.
	if (c->unread.len)
		best = NULL;
	if (best)
		tell_blame(&j, rather_of_system(&j, best), ret);
	for (size_t n = j.trials.len; n-- > 0 && !best;) {
		const struct trial *t = &j.trials.data[n];
		const bool lately = t->effect <= given->when && t->effect > given->when - LATELY_DAYS * 86400.0;
		if (lately && t->effect <= ret->first && isinf(t->end))
			changes_list(ret, t, CHANGE_LATELY);
		ret->earlier |= lately && t->effect > ret->first;
		ret->earliest &= t->effect > ret->first;
	}
	vec_free(&j.sightings);
	vec_free(&j.trials);
}

// --- what boots tell ---

/** A transaction of this part that the boot at @n was the first to run. */
static bool is_told(const struct changes *c, size_t n, size_t before, const char *const *parts)
{
	for (size_t t = 0; t < c->transactions.len; t++) {
		const struct transaction *one = &c->transactions.data[t];
		if (one->when <= c->boots.data[before].begin || one->when > c->boots.data[n].begin)
			continue;
		for (const char *const *part = parts; *part; part++)
			if (list_find(one->changes.data, one->changes.len, x, str_is(x->kind->head.id, *part)))
				return true;
	}
	return false;
}

static bool kernel_is_told(const struct changes *c, size_t n)
{
	const struct boot *b = &c->boots.data[n];
	for (size_t t = 0; t < c->transactions.len; t++) {
		const struct transaction *one = &c->transactions.data[t];
		if (one->when <= b->begin &&
		    list_find(one->changes.data, one->changes.len, x, change_of_kernel(x) && change_is_kernel(x, b->kernel)))
			return true;
	}
	return list_find(c->boots.data, n, earlier,
			 str_eq(earlier->kernel, b->kernel)); // somebody chose another one in the menu
}

static void add_boot_change(struct changes *c, double boot, struct change change)
{
	struct transaction t = { .begin = boot - 1, .when = boot - 1, .manager = S("boot"), .where = S("the journal") };
	if (!change.kind)
		return;
	vec_push(&t.changes, change);
	vec_push(&c->transactions, t);
}

/** What a boot says of itself, and which logs of packages may have it already. */
static const struct boot_says {
	size_t value; // in struct boot
	const char *part, *name;
	const char *told[6];
} boot_says[] = {
	{ offsetof(struct boot, kernel), "kernel", "kernel", { "kernel", "system" } },
	{ offsetof(struct boot, bios), "bios", "BIOS", { "bios" } },
	{ offsetof(struct boot, vbios), "firmware", "VBIOS", { 0 } },
	{ offsetof(struct boot, firmware), "firmware", "firmware", { "firmware", "kernel", "driver", "system" } },
	{ offsetof(struct boot, command_line), "setting", "kernel command line", { "setting", "kernel", "system" } },
};

static struct str boot_value(const struct boot *b, const struct boot_says *s)
{
	return *(const struct str *)((const char *)b + s->value);
}

static int by_transaction_when(const void *a, const void *b)
{
	const struct transaction *x = a, *y = b;
	return (x->when > y->when) - (x->when < y->when);
}

void changes_of_boots(struct changes *c, const struct know *k)
{
	for (size_t s = 0; s < ARRAY_SIZE(boot_says); s++) {
		const struct boot_says *says = &boot_says[s];
		const struct know_package *kind =
			list_find_of(k->packages.data, k->packages.len, p, str_is(p->head.id, says->part));
		size_t last = c->boots.len;
		for (size_t n = 0; n < c->boots.len; n++) {
			const struct str to = boot_value(&c->boots.data[n], says);
			const bool command = says->value == offsetof(struct boot, command_line);
			if (!c->boots.data[n].log || (!to.n && !command))
				continue;
			const struct str from = last < c->boots.len ? boot_value(&c->boots.data[last], says) : to;
			const bool kernel = says->value == offsetof(struct boot, kernel);
			if (!str_eq(from, to) && !is_told(c, n, last, says->told) && !(kernel && kernel_is_told(c, n)))
				add_boot_change(c, c->boots.data[n].begin,
						(struct change){ str_z(says->name), from, to, kind });
			last = n;
		}
	}
	if (c->transactions.len)
		qsort(c->transactions.data, c->transactions.len, sizeof(c->transactions.data[0]), by_transaction_when);
}

bool changes_get(const struct diag_changes *c, struct str name, size_t index, struct str *ret)
{
	const struct fact *f = index ? NULL : list_find(c->facts.data, c->facts.len, one, str_eq(one->name, name));
	const struct command *made = index ? NULL : changes_command(c, name);
	if (f || made)
		*ret = f ? f->value : command_str(made);
	return f || made;
}

const struct command *changes_command(const struct diag_changes *c, struct str name)
{
	const struct change_command *found = list_find(c->commands.data, c->commands.len, one, str_eq(one->name, name));
	return found ? found->command : NULL;
}

void diag_changes_free(struct diag_changes *c)
{
	vec_free(&c->list);
	vec_free(&c->facts);
	vec_free(&c->commands);
}

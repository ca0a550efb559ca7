// The way back: facts of the change that is to blame, by which knowledge (`remedy`, `way`) says how to leave it. Names and versions come
// from logs that others may have written: a command has them only as typed values (base/command.h).
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "diagnose/incident.h"

enum { PACKAGES_MOST = 16 }; // in one command

struct way_back {
	struct incident *incident;
	const struct changes *changes;
	const struct diag_change *blamed;
	const struct package_cache *cache;
};

static void back_fact(const struct way_back *w, const char *name, struct str value)
{
	if (value.n)
		vec_push(&w->incident->changes.facts,
			 ((struct fact){ .name = str_z(name), .value = arena_str(&w->incident->arena, value) }));
}

/** Managers count what they did: `last` and `1..5` would undo something else. */
static void back_number(const struct way_back *w, const char *name, struct str value)
{
	enum { DIGITS_MOST = 18 };
	if (value.n <= DIGITS_MOST && str_run(value, char_digit) == value.n)
		back_fact(w, name, value);
}

static bool change_is_whole(const struct change *c)
{
	return c->package.n < CHANGE_WORD_MOST && c->from.n < CHANGE_WORD_MOST && c->to.n < CHANGE_WORD_MOST;
}

/** A bundle may name any manager for any package. A command is printed only where knowledge has the two together. */
static bool is_known_way(const struct transaction *t)
{
	return !list_find(t->changes.data, t->changes.len, c,
			  !change_is_whole(c) || !know_package_by(c->kind, t->manager, c->package));
}

static void back_command(const struct way_back *w, const char *name, struct command_maker *m)
{
	const struct command *c = command_end(m);
	if (c)
		vec_push(&w->incident->changes.commands, ((struct change_command){ str_z(name), c }));
}

/** What a command says of a package. */
enum back_form { BACK_NAME, BACK_OLD, BACK_FILE };

/** A list of packages as a part of a command: `mesa=25.0-1 libgbm1=25.0-1`. Nothing where one is missing in it. */
static void back_packages(const struct way_back *w, const char *name, enum back_form form)
{
	const struct transaction *t = w->blamed->transaction;
	struct command_maker *m = command_begin(&w->incident->arena);
	size_t told = 0;
	bool good = true;
	for (size_t n = 0; n < t->changes.len && good; n++) {
		const struct change *c = &t->changes.data[n];
		const struct str file = package_cache_find(w->cache, c->package, c->from);
		if (!c->from.n || str_starts(c->package, S("/")))
			continue; // it was not there before, or is a file
		if (told)
			command_add(m, " ");
		good = told++ < PACKAGES_MOST && (form != BACK_FILE || file.n) &&
		       (form == BACK_FILE ? command_add_value(m, PIECE_PATH, file) :
					    command_add_value(m, PIECE_WORD, c->package));
		if (form != BACK_OLD)
			continue;
		command_add(m, "=");
		good &= command_add_value(m, PIECE_VERSION, c->from);
	}
	if (good && told)
		back_command(w, name, m);
	else
		command_end(m);
}

static const struct {
	const char *fact;
	enum back_form form;
} back_lists[] = { { "changed_names", BACK_NAME }, { "changed_olds", BACK_OLD }, { "changed_files", BACK_FILE } };

/** The transaction of the same manager before it, which led to the state to go back to; NULL. */
static const struct transaction *one_before(const struct way_back *w)
{
	const struct transaction *t = w->blamed->transaction, *before = NULL;
	for (size_t n = 0; n < w->changes->transactions.len; n++) {
		const struct transaction *one = &w->changes->transactions.data[n];
		if (one->when < t->when && str_eq(one->manager, t->manager))
			before = one;
	}
	return before;
}

/** A day on which all packages were as before: that of the transaction before, or else the day before. */
static void back_day(const struct way_back *w, const struct transaction *before)
{
	const time_t at = (time_t)(before ? before->when : w->blamed->transaction->when - 86400);
	struct tm tm;
	char day[32];
	if (gmtime_r(&at, &tm) && strftime(day, sizeof(day), "%Y/%m/%d", &tm))
		back_fact(w, "changed_day", str_z(day));
}

/** The kernels that ran last before, and first with it. */
static void back_kernels(const struct way_back *w)
{
	const struct boot *before = NULL, *since = NULL;
	for (size_t n = 0; n < w->changes->boots.len; n++) {
		const struct boot *b = &w->changes->boots.data[n];
		if (!b->kernel.n)
			continue;
		if (b->begin < w->blamed->effect)
			before = b;
		else
			since = since ? since : b;
	}
	if (!before || !since || str_eq(before->kernel, since->kernel))
		return;
	back_fact(w, "kernel_before", before->kernel);
	back_fact(w, "kernel_since", since->kernel);
	back_fact(w, "kernel_installed", package_cache_boots(w->cache, before->kernel) ? S("yes") : S("no"));
}

void changes_find_way_back(struct incident *i, const struct changes *c, const struct package_cache *cache)
{
	const struct way_back w = { i, c, i->changes.list.len ? &i->changes.list.data[0] : NULL, cache };
	if (!w.blamed || w.blamed->role != CHANGE_TO_BLAME || i->changes.undone)
		return;
	const struct transaction *t = w.blamed->transaction, *before = one_before(&w);
	const struct change *only = transaction_only(t);
	bool kept = false, missing = false, kernel = false, others = false;
	for (size_t n = 0; n < t->changes.len; n++) {
		const struct change *one = &t->changes.data[n];
		const bool has = package_cache_find(cache, one->package, one->from).n;
		kept |= has;
		missing |= one->from.n && !has;
		kernel |= change_of_kernel(one);
		others |= !change_of_kernel(one);
	}
	const bool known = is_known_way(t);
	back_fact(&w, "changed_manager", known ? t->manager : S("other"));
	back_number(&w, "changed_id", known ? t->id : (struct str){ 0 });
	back_number(&w, "changed_id_before", known && before ? before->id : (struct str){ 0 });
	back_fact(&w, "changed_part", only ? only->kind->head.id : S("several"));
	back_fact(&w, "changed_besides_kernel", others ? S("yes") : S("no"));
	back_fact(&w, "changed_kept", kept && !missing ? S("yes") : S("no"));
	if (only) {
		back_fact(&w, "changed_package", only->package);
		back_fact(&w, "changed_from", only->from);
		back_fact(&w, "changed_to", only->to);
	}
	back_day(&w, before);
	if (kernel)
		back_kernels(&w);
	for (size_t n = 0; known && n < ARRAY_SIZE(back_lists); n++)
		back_packages(&w, back_lists[n].fact, back_lists[n].form);
	vec_push(&i->also, S("after-change"));
}

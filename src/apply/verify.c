// Whether what was written is in effect, and if not, why.
#include "apply/plan.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "knowledge/parameter.h"

static const char *const names[] = { "active", "written", "changed", "half-done" };

const char *judged_name(enum judged_state s) { return names[s]; }

int64_t boot_time(struct host *h)
{
	struct str text = host_text(h, "/proc/stat", 1 << 20);
	int64_t ret;
	while (text.n) {
		struct str line = str_split(&text, '\n'), value;
		if (str_behind(line, S("btime "), &value) && str_number(value, &ret))
			return ret;
	}
	return -1;
}

/** A place where the user sets it to something else; NULL. */
static const struct host_fact *set_elsewhere(const struct host *h, const struct applied *a, const struct applied_set *s)
{
	struct host_scope scope = { .host = h };
	for (size_t n = 0; n < h->items.len; n++) {
		const struct host_item *i = h->items.data[n];
		struct str name, value;
		scope.item = i;
		if (!str_is(i->kind, "setting") || !host_get(&scope, S("name"), 0, &name) ||
		    !host_get(&scope, S("value"), 0, &value) || !str_eq(name, s->name) || value_same(value, s->value))
			continue;
		const struct host_fact *f = host_fact(h, i, S("value"), 0);
		bool ours = str_starts(f->where, S("/proc/"));
		for (size_t m = 0; m < a->files.len; m++)
			ours |= own_whole(a->files.data[m].kind) && str_starts(f->where, a->files.data[m].path);
		if (!ours)
			return f;
	}
	return NULL;
}

static bool by_modprobe(const struct applied *a, struct str name)
{
	for (size_t n = 0; n < a->files.len; n++) {
		struct str value;
		if (a->files.data[n].kind == OWN_MODPROBE && command_line_value(a->files.data[n].words, name, &value))
			return true;
	}
	return false;
}

/** Whether one of its files is a source of GRUB's configuration. */
static bool in_grub(const struct applied *a)
{
	for (size_t n = 0; n < a->files.len; n++)
		if (a->files.data[n].kind == OWN_GRUB || a->files.data[n].kind == OWN_GRUB_D)
			return true;
	return false;
}

/** What /sys shows counts; where it shows nothing, what the kernel was started with. */
static void judge_set(struct host *h, const struct applied *a, const struct applied_set *s, int64_t booted, struct judged *ret)
{
	struct str value = { 0 }, where, line = { 0 };
	const struct host_fact *cmdline = host_fact(h, host_machine(h), S("cmdline"), 0), *elsewhere = set_elsewhere(h, a, s);
	bool known = value_in_effect(h, s->name, &value, &where);
	if (known && value_same(value, s->value))
		return;
	if (ret->state == JUDGED_ACTIVE)
		ret->state = JUDGED_WRITTEN;
	bool on_line = cmdline && command_line_value(cmdline->value, s->name, &line);
	apply_note(&ret->why, STR_FMT "=" STR_FMT " is not in effect: %s" STR_FMT, STR_ARG(s->name), STR_ARG(s->value),
		   known               ? "it is " :
		   cmdline && !on_line ? "it is not on the running kernel's command line" :
					 "its value cannot be read here",
		   STR_ARG(value));
	if (booted >= 0 && booted <= a->date)
		ret->stale = true;
	else if (on_line && !value_same(line, s->value))
		apply_note(&ret->why, "the kernel command line says " STR_FMT "=" STR_FMT " (/proc/cmdline)", STR_ARG(s->name),
			   STR_ARG(line));
	else if (by_modprobe(a, s->name))
		apply_note(&ret->why, "the module was loaded without it: was the initramfs rebuilt?");
	else if (!on_line && in_grub(a))
		apply_note(&ret->why, "the kernel was started without it: was the boot loader's configuration rebuilt?");
	if (elsewhere)
		apply_note(&ret->why, "it is set to " STR_FMT " in " STR_FMT, STR_ARG(elsewhere->value),
			   STR_ARG(elsewhere->where));
}

/** A login has it or not; what this process has tells of its own only, and sudo takes variables away. */
static void judge_variable(const struct applied_set *v, struct judged *ret)
{
	const char *have = secure_getenv(arena_z(&ret->why.arena, v->name));
	if (have && str_eq(str_z(have), v->value))
		return;
	ret->state = JUDGED_WRITTEN;
	apply_note(&ret->why, "logins that began before have no " STR_FMT "; in a new one, without sudo, printenv shows it",
		   STR_ARG(v->name));
}

/** The remedy of this id, or of the check that has it. */
static const struct know_remedy *remedy_of(const struct know *k, struct str id)
{
	const struct know_remedy *r = know_remedy(k, id);
	for (size_t n = 0; !r && n < k->checks.len; n++)
		if (str_eq(k->checks.data[n]->head.id, id))
			r = k->checks.data[n]->remedy;
	for (size_t n = 0; !r && n < k->bad.len; n++)
		if (str_eq(k->bad.data[n]->head.id, id))
			r = k->bad.data[n]->remedy;
	return r;
}

static bool needless(const struct host *h, struct str id)
{
	const struct know_remedy *r = remedy_of(h->know, id);
	for (size_t n = 0; r && r->obsolete && n < h->items.len; n++) {
		const struct host_scope scope = { h, h->items.data[n] };
		const struct fact_view view = { host_get, &scope };
		bool asked = str_is(h->items.data[n]->kind, "gpu") || str_is(h->items.data[n]->kind, "machine");
		if (asked && condition_eval(r->obsolete, &view) == TRUTH_YES)
			return true;
	}
	return false;
}

void applied_judge(struct host *h, const struct applied *a, int64_t booted, struct judged *ret)
{
	*ret = (struct judged){ .state = a->state == APPLIED_DONE ? JUDGED_ACTIVE : JUDGED_HALF };
	ret->needless = needless(h, a->id);
	if (ret->state == JUDGED_HALF)
		apply_note(&ret->why, "%s was interrupted", a->state == APPLIED_PLANNED ? "writing it" : "undoing it");
	for (size_t n = 0; ret->state != JUDGED_HALF && n < a->files.len; n++) {
		// Whether the file still holds what was written.
		const struct own_file *f = &a->files.data[n];
		_cleanup_arena_ struct arena room = { 0 };
		struct str rest;
		_cleanup_(spot_close) struct spot s = { .dir = -1 };
		_cleanup_error_ struct uh_error *err = spot_open(h->root, f->path, &room, &s);
		enum own_found found = err ? OWN_ABSENT : own_strip(&room, a, f, s.content, &rest);
		if (found != OWN_THERE && ret->state <= JUDGED_WRITTEN)
			ret->state = JUDGED_CHANGED;
		if (err && err->errnum == ENOENT)
			apply_note(&ret->why, STR_FMT ": the file is gone", STR_ARG(f->path));
		else if (err)
			apply_note(&ret->why, "%s", err->message);
		else if (found == OWN_ABSENT)
			apply_note(&ret->why, STR_FMT ": it no longer has what unhang wrote", STR_ARG(f->path));
		else if (found == OWN_ALTERED)
			apply_note(&ret->why, STR_FMT ": what unhang wrote was changed", STR_ARG(f->path));
	}
	for (size_t n = 0; ret->state != JUDGED_HALF && n < a->sets.len; n++)
		judge_set(h, a, &a->sets.data[n], booted, ret);
	for (size_t n = 0; ret->state == JUDGED_ACTIVE && n < a->variables.len; n++)
		judge_variable(&a->variables.data[n], ret);
	if (ret->stale)
		apply_note(&ret->why, "this machine has not been rebooted since");
}

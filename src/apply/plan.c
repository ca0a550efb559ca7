// Makes a plan of a change: which words go to which file, by what the machine's boot loader reads. Nothing is written here. What the
// system makes itself (another tool generates the command line) is refused with the steps that the user can take.
#include "apply/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "knowledge/parameter.h"
#include "knowledge/steps.h"

enum { NAMES_MOST = 1 << 18 };

struct planner {
	struct host *h;
	const struct applied_list *have;
	const struct apply_request *r;
	struct applied *to;
	struct apply_notes *notes;
	struct text modprobe, cmdline;   // words
	enum know_writes words, options; // what is written for them on this machine
};

/** What an action is on this machine; NULL: not known. */
static const struct command *machine_action(const struct host *h, struct arena *to, const char *action,
					    const struct command *it)
{
	const struct host_scope scope = { h, host_machine(h) };
	const struct fact_view view = host_view(&scope);
	return steps_action(to, h->know, str_z(action), it, &view);
}

static enum know_writes machine_writes(const struct host *h, const char *action)
{
	const struct host_scope scope = { h, host_machine(h) };
	const struct fact_view view = host_view(&scope);
	const struct know_way *way = know_way(h->know, str_z(action), &view);
	return way ? way->writes : WRITES_NOTHING;
}

void apply_note(struct apply_notes *n, const char *format, ...)
{
	_cleanup_text_ struct text t = { 0 };
	va_list ap;
	va_start(ap, format);
	text_vprintf(&t, format, ap);
	va_end(ap);
	vec_push(&n->list, arena_str(&n->arena, text_str(&t)));
}

void apply_notes_free(struct apply_notes *n)
{
	vec_free(&n->list);
	arena_free(&n->arena);
}

/** amdgpu and cwsr_enable of amdgpu.cwsr_enable; false for a parameter of the kernel itself. */
static bool of_module(struct str name, struct str *ret_module, struct str *ret_parameter)
{
	*ret_parameter = name;
	*ret_module = str_split(ret_parameter, '.');
	return ret_parameter->n > 0;
}

bool value_in_effect(struct host *h, struct str name, struct str *ret, struct str *ret_where)
{
	struct str module, parameter;
	char *fact = arena_z(&h->arena, arena_printf(&h->arena, "param." STR_FMT, STR_ARG(name)));
	const struct host_fact *f = host_fact(h, host_machine(h), str_z(fact), 0);
	// A value that only a file names is not in effect.
	if (f && (str_starts(f->where, S("/sys/")) || str_starts(f->where, S("/proc/")))) {
		*ret = f->value;
		*ret_where = f->where;
		return true;
	}
	*ret_where = S("/proc/cmdline");
	if (!of_module(name, &module, &parameter))
		return command_line_value(host_value(h, NULL, "cmdline"), name, ret);
	*ret_where =
		arena_printf(&h->arena, "/sys/module/" STR_FMT "/parameters/" STR_FMT, STR_ARG(module), STR_ARG(parameter));
	*ret = str_trim(host_text(h, arena_z(&h->arena, *ret_where), 0));
	return ret->n;
}

/** The module is loaded, shows its parameters, and this one is not among them; or no kernel like this one has it. */
static bool lacks_parameter(struct host *h, struct str name)
{
	struct str module, parameter;
	const struct know_parameter *known = know_parameter(h->know, name);
	if (known && parameter_exists(known, host_value(h, NULL, "kernel")) == TRUTH_NO)
		return true;
	if (!of_module(name, &module, &parameter))
		return false;
	struct str path = arena_printf(&h->arena, "/sys/module/" STR_FMT "/parameters", STR_ARG(module));
	struct probe p = { .kind = PROBE_LIST, .path = arena_z(&h->arena, path), .size = NAMES_MOST };
	host_probe(h, &p, 1);
	struct str names = probe_text(&p);
	bool any = names.n;
	while (names.n)
		if (str_eq(str_split(&names, '\n'), parameter))
			return false;
	return any;
}

static bool built_in(struct host *h, struct str module)
{
	static const char *const places[] = { "/usr/lib/modules", "/lib/modules" };
	struct str kernel = host_value(h, NULL, "kernel"), end = arena_printf(&h->arena, "/" STR_FMT ".ko", STR_ARG(module));
	for (size_t n = 0; kernel.n && n < 2; n++) {
		struct str path = arena_printf(&h->arena, "%s/" STR_FMT "/modules.builtin", places[n], STR_ARG(kernel));
		struct probe p = { .kind = PROBE_FIND, .path = arena_z(&h->arena, path), .find = end };
		host_probe(h, &p, 1);
		if (p.end == PROBE_GOOD && p.n)
			return true;
	}
	return false;
}

/** Whether a module's parameter goes to modprobe.d. Not if nothing would run modprobe, or if the command line would win. */
static bool for_modprobe(struct planner *p, struct str name)
{
	struct str module, parameter, value;
	return of_module(name, &module, &parameter) && p->options == WRITES_OPTIONS &&
	       !command_line_value(host_value(p->h, NULL, "cmdline"), name, &value) && !built_in(p->h, module);
}

/** Another change of ours that sets it; NULL: none. Two changes of one parameter could not be undone one by one. */
static const struct applied *set_by(const struct applied_list *have, struct str name)
{
	for (size_t n = 0; n < have->list.len; n++)
		for (size_t s = 0; s < have->list.data[n]->sets.len; s++)
			if (str_eq(have->list.data[n]->sets.data[s].name, name))
				return have->list.data[n];
	return NULL;
}

/** Adds a setting to the plan. One that is in effect already is only noted, and one that this kernel does not know is refused: a plan
 * that changes nothing would look like a remedy. */
static struct uh_error *plan_want(struct planner *p, struct str name, struct str value)
{
	struct str now, where;
	const struct applied *other = set_by(p->have, name);
	if (other)
		return uh_error_new(STR_FMT " is set by " STR_FMT " already, which unhang applied: undo that first",
				    STR_ARG(name), STR_ARG(other->id));
	if (!applied_set_good(name, value))
		return uh_error_new(STR_FMT "=" STR_FMT ": this cannot be written to a boot loader's file", STR_ARG(name),
				    STR_ARG(value));
	if (value_in_effect(p->h, name, &now, &where)) {
		if (value_same(now, value)) {
			apply_note(p->notes, STR_FMT "=" STR_FMT " is in effect already (" STR_FMT ")", STR_ARG(name),
				   STR_ARG(value), STR_ARG(where));
			return NULL;
		}
		apply_note(p->notes, STR_FMT " is " STR_FMT " now (" STR_FMT ")", STR_ARG(name), STR_ARG(now), STR_ARG(where));
	} else if (lacks_parameter(p->h, name)) {
		return uh_error_new("this kernel's driver has no parameter " STR_FMT ": setting it would change nothing",
				    STR_ARG(name));
	}
	struct arena *a = &p->to->arena;
	vec_push(&p->to->sets, ((struct applied_set){ arena_str(a, name), arena_str(a, value) }));
	struct text *t = for_modprobe(p, name) ? &p->modprobe : &p->cmdline;
	text_printf(t, "%s" STR_FMT "=" STR_FMT, t->n ? " " : "", STR_ARG(name), STR_ARG(value));
	return NULL;
}

static struct uh_error *want_cleared(struct planner *p, struct str name, struct str bits)
{
	struct str now, where;
	int64_t value, mask;
	if (!value_in_effect(p->h, name, &now, &where) || !str_number(now, &value))
		return uh_error_new("which value of " STR_FMT " is in effect is unknown, so no bit can be cleared",
				    STR_ARG(name));
	if (!str_number(bits, &mask))
		return uh_error_new(STR_FMT ": no bits", STR_ARG(bits));
	if (value < 0 && value >= INT32_MIN)
		value = (uint32_t)value;
	struct str cleared = arena_printf(&p->h->arena, "0x%llx", (unsigned long long)(value & ~mask));
	return plan_want(p, name, (value & mask) ? cleared : now);
}

static void plan_add_file(struct planner *p, enum own_kind kind, struct str path, struct str words, bool bare)
{
	struct arena *a = &p->to->arena;
	struct own_file f = { .kind = kind, .path = arena_str(a, path), .words = arena_str(a, words), .bare = bare };
	struct str cmdline = host_value(p->h, NULL, "cmdline"), value;
	for (struct str word; (kind == OWN_GRUB || kind == OWN_GRUB_D) && (word = str_word(&words)).n;)
		f.last |= command_line_value(cmdline, str_split(&word, '='), &value);
	vec_push(&p->to->files, f);
}

static bool made_by_us(const struct applied_list *have, struct str path)
{
	for (size_t n = 0; n < have->list.len; n++)
		for (size_t m = 0; m < have->list.data[n]->made.len; m++)
			if (str_eq(have->list.data[n]->made.data[m], path))
				return true;
	return false;
}

static void need_directory(struct planner *p, const char *path)
{
	struct opened what;
	_cleanup_error_ struct uh_error *err = door_look(&(struct named){ .path = path, .root = p->h->root }, &what);
	bool there = !err && S_ISDIR(what.st.st_mode);
	if (!there || made_by_us(p->have, str_z(path)))
		vec_push(&p->to->made, str_z(path));
}

/** A file of ours. Somebody else's is not touched. */
static struct uh_error *add_whole(struct planner *p, enum own_kind kind, const char *directory, const char *end,
				  struct str words)
{
	struct arena *a = &p->to->arena;
	struct str path = arena_printf(a, "%s/zz-unhang-" STR_FMT "%s", directory, STR_ARG(p->to->id), end);
	struct uh_error *err = own_whole_free(p->h->root, p->to, path, a);
	if (err)
		return err;
	need_directory(p, directory);
	plan_add_file(p, kind, path, words, false);
	return NULL;
}

/** The value of a key of an entry; empty. */
static struct str entry_key(struct str content, const char *key)
{
	while (content.n) {
		struct str line = str_split(&content, '\n');
		if (str_is(str_word(&line), key))
			return str_trim(line);
	}
	return (struct str){ 0 };
}

/** Entries of another system, and those that start no Linux, are not ours to change. */
static bool of_this_system(struct planner *p, struct arena *room, struct str content)
{
	struct str own = { 0 }, id = entry_key(content, "machine-id");
	_cleanup_error_ struct uh_error *err = root_read(p->h->root, "/etc/machine-id", 1 << 10, room, &own, NULL);
	return entry_key(content, "linux").n && (!id.n || !own.n || str_eq(id, str_trim(own)));
}

static struct uh_error *add_part_in(struct planner *p, enum own_kind kind, struct str path, struct arena *a)
{
	_cleanup_(spot_close) struct spot s = { .dir = -1 };
	struct uh_error *err = spot_open(p->h->root, path, a, &s);
	if (err)
		return err;
	struct str words = text_str(&p->cmdline), missing = own_missing(a, kind, s.content, words), content;
	bool foreign = own_entry(kind) && !of_this_system(p, a, s.content);
	struct own_file f = { .kind = kind, .path = path, .words = words };
	bool bare = (kind == OWN_GRUB || kind == OWN_ENTRY_LINE) && s.content.n && !str_ends(s.content, S("\n"));
	if (own_entry(kind) && (foreign || !missing.n))
		vec_push(&p->to->had, arena_str(&p->to->arena, path));
	if (foreign || (kind != OWN_GRUB && !missing.n))
		return NULL;
	if (!own_insert(a, p->to, &f, s.content, &content)) {
		apply_note(p->notes, STR_FMT ": it has no line of kernel parameters to which words could be added",
			   STR_ARG(path));
		return NULL;
	}
	plan_add_file(p, kind, path, kind == OWN_GRUB ? words : missing, bare);
	return NULL;
}

static struct uh_error *plan_add_part(struct planner *p, enum own_kind kind, struct str path)
{
	_cleanup_arena_ struct arena room = { 0 };
	return p->to->files.len >= APPLIED_FILES_MOST || p->to->had.len >= APPLIED_FILES_MOST ?
		       uh_error_new(STR_FMT ": more than %d files would have to be changed", STR_ARG(path),
				    APPLIED_FILES_MOST) :
		       add_part_in(p, kind, path, &room);
}

/** Every entry of this system gets the words, because nobody knows which one will be started next. */
static struct uh_error *add_entries(struct planner *p, enum own_kind kind)
{
	const struct host_fact *f;
	struct host_item *m = host_machine(p->h);
	struct uh_error *err = NULL;
	size_t before = p->to->files.len;
	for (size_t n = 0; !err && (f = host_fact(p->h, m, S("boot_entry"), n)); n++)
		if (own_file_good(p->to, kind, f->value))
			err = plan_add_part(p, kind, f->value);
	if (!err && host_fact(p->h, m, S("boot_cmdline"), 0))
		err = plan_add_part(p, OWN_CMDLINE, S("/etc/kernel/cmdline"));
	const struct host_fact *image = host_fact(p->h, m, S("boot_image"), 0);
	if (!err && image)
		apply_note(p->notes, STR_FMT ": a kernel image with its own command line, which must be built again",
			   STR_ARG(image->value));
	if (!err && p->to->files.len == before && p->to->had.len)
		err = uh_error_new("no boot entry is left to change: each has " STR_FMT " already, or is of another system",
				   STR_ARG(text_str(&p->cmdline)));
	else if (!err && p->to->files.len == before)
		err = uh_error_new("no boot entry was found to which " STR_FMT " can be added", STR_ARG(text_str(&p->cmdline)));
	return err;
}

/** Where the words of the command line go here, by the layout of the boot loader that knowledge names. */
static struct uh_error *plan_cmdline(struct planner *p)
{
	switch (p->words) {
	case WRITES_GRUB_FILE:
		return add_whole(p, OWN_GRUB_D, "/etc/default/grub.d", ".cfg", text_str(&p->cmdline));
	case WRITES_GRUB_LINE:
		return plan_add_part(p, OWN_GRUB, S("/etc/default/grub"));
	case WRITES_ENTRY_LINES:
		return add_entries(p, OWN_ENTRY_LINE);
	case WRITES_ENTRY_WORDS:
		return add_entries(p, OWN_ENTRY_WORDS);
	case WRITES_RECORD:
		p->to->kargs = true;
		return NULL;
	case WRITES_NOTHING:
	case WRITES_OPTIONS:
		break;
	}
	// Why nothing is written, and what the user does instead.
	struct arena *a = &p->h->arena;
	struct str words = text_str(&p->cmdline), rest = words;
	_cleanup_text_ struct text how = { 0 };
	if (!host_value(p->h, NULL, "words_with").n)
		return uh_error_new("the boot loader is unknown: add " STR_FMT
				    " to the kernel command line by hand, then reboot",
				    STR_ARG(words));
	for (struct str word; (word = str_word(&rest)).n;)
		text_printf(
			&how, STR_FMT "; ",
			STR_ARG(command_str(machine_action(p->h, a, "set-word", COMMAND_OF(a, "", PIECE_PARAMETER, word)))));
	text_add(&how, command_str(machine_action(p->h, a, "activate-words", NULL)));
	return uh_error_new("unhang does not change the kernel command line on this system, because "
			    "another tool generates it. Do it yourself: " STR_FMT,
			    STR_ARG(text_str(&how)));
}

static struct uh_error *plan_session(struct planner *p)
{
	struct arena *a = &p->to->arena;
	struct uh_error *err = NULL;
	for (const struct know_pair *v = p->r->change->sessions; v; v = v->next) {
		if (!applied_variable_good(v->name, v->value))
			return uh_error_new(STR_FMT ": this cannot be written to environment.d", STR_ARG(v->name));
		vec_push(&p->to->variables, ((struct applied_set){ arena_str(a, v->name), arena_str(a, v->value) }));
	}
	for (const struct know_pair *l = p->r->change->limits; l; l = l->next) {
		if (!applied_limit_good(l->name, l->value))
			return uh_error_new(STR_FMT ": this cannot be written to profile.d", STR_ARG(l->name));
		vec_push(&p->to->limits, ((struct applied_set){ arena_str(a, l->name), arena_str(a, l->value) }));
	}
	if (p->to->variables.len)
		apply_note(p->notes,
			   "services of systemd and containers take no variables from there: " STR_FMT
			   " has the lines for them",
			   STR_ARG(command_str(COMMAND_OF(a, "unhang remedy ", PIECE_WORD, p->to->id))));
	if (p->to->variables.len)
		err = add_whole(p, OWN_ENVIRONMENT, "/etc/environment.d", ".conf", (struct str){ 0 });
	if (!err && p->to->variables.len + p->to->limits.len)
		err = add_whole(p, OWN_PROFILE, "/etc/profile.d", ".sh", (struct str){ 0 });
	return err;
}

static struct uh_error *plan_files(struct planner *p)
{
	struct uh_error *err = plan_session(p);
	if (!err && p->modprobe.n)
		err = add_whole(p, OWN_MODPROBE, "/etc/modprobe.d", ".conf", text_str(&p->modprobe));
	if (!err && p->cmdline.n)
		err = plan_cmdline(p);
	if (!err && !p->to->sets.len && !p->to->variables.len)
		err = uh_error_new("there is nothing to write: " STR_FMT,
				   STR_ARG(p->notes->list.len ? p->notes->list.data[0] : S("nothing is to be set")));
	return err;
}

struct uh_error *apply_unread(const struct host *h, struct str id)
{
	const struct host_fact *f = host_fact(h, NULL, S("unread"), 0);
	if (!h->doubt && !host_machine(h)->doubt)
		return NULL;
	return uh_error_new(STR_FMT ": " STR_FMT " did not answer, so nothing is changed", STR_ARG(id),
			    STR_ARG(f ? f->where : S("a file")));
}

struct uh_error *applied_plan(struct host *h, const struct applied_list *have, const struct apply_request *r, int64_t now,
			      struct applied *ret, struct apply_notes *notes)
{
	struct planner p = { .h = h,
			     .have = have,
			     .r = r,
			     .to = ret,
			     .notes = notes,
			     .words = machine_writes(h, "set-word"),
			     .options = machine_writes(h, "set-option") };
	struct uh_error *err = NULL;
	*ret = (struct applied){ .date = now };
	ret->id = arena_str(&ret->arena, r->id);
	ret->title = title_line(&ret->arena, r->title);
	if (!applied_id_good(r->id))
		return uh_error_new(STR_FMT ": no file can be named after this", STR_ARG(r->id));
	for (const struct know_pair *s = r->change->sets; s && !err; s = s->next)
		err = plan_want(&p, s->name, s->value);
	for (const struct know_pair *s = r->change->clears; s && !err; s = s->next)
		err = want_cleared(&p, s->name, s->value);
	if (!err)
		err = plan_files(&p);
	if (!err)
		err = apply_unread(h, r->id);
	text_free(&p.modprobe);
	text_free(&p.cmdline);
	return err;
}

static void add_action(struct apply_commands *to, const struct host *h, const char *action)
{
	const struct command *c = machine_action(h, &to->arena, action, NULL);
	for (size_t n = 0; c && n < to->list.len; n++)
		if (str_eq(command_str(to->list.data[n]), command_str(c)))
			return;
	if (c)
		vec_push(&to->list, c);
}

void applied_commands(const struct host *h, const struct applied *a, bool undo, struct apply_commands *ret)
{
	bool has[OWN_CMDLINE + 1] = { 0 };
	for (size_t n = 0; n < a->files.len; n++)
		has[a->files.data[n].kind] = true;
	if (a->kargs) {
		// An image-based system keeps its words itself: rpm-ostree is told, no file is written.
		struct command_maker *m = command_begin(&ret->arena);
		command_add(m, "sudo rpm-ostree kargs");
		for (size_t n = 0; n < a->sets.len; n++) {
			command_add_text(m, undo ? S(" --delete-if-present=") : S(" --append-if-missing="));
			command_add_value(m, PIECE_NAME, a->sets.data[n].name);
			command_add(m, "=");
			command_add_value(m, PIECE_PARAMETER, a->sets.data[n].value);
		}
		vec_push(&ret->list, command_end(m));
	}
	if (has[OWN_MODPROBE])
		add_action(ret, h, "rebuild-initramfs");
	if (has[OWN_GRUB_D] || has[OWN_GRUB] || has[OWN_CMDLINE])
		add_action(ret, h, "refresh-words");
	// Sessions that are there keep what they have.
	const bool sessions = has[OWN_ENVIRONMENT] || has[OWN_PROFILE];
	vec_push(&ret->list,
		 a->sets.len || !sessions ? COMMAND(&ret->arena, "reboot") : COMMAND(&ret->arena, "log out, and log in again"));
}

void apply_commands_free(struct apply_commands *c)
{
	vec_free(&c->list);
	arena_free(&c->arena);
}

// Fills everything that commands are made of with values from stdin (each ends with a NUL), and writes what came of it, in fields that end
// with a NUL: `text` TEXT COMMAND VALUE for each text of knowledge, where that differs from what it is with a value that is always refused;
// `words` COMMAND VALUE N WORD... for commands of C, whose words are known.
// With the argument `runs`: `run` WHERE RUN for each part that can be run. An empty value stands for one that fits the type of its fact.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apply/plan.h"
#include "host/settings/setting.h"
#include "knowledge/steps.h"

static bool any_fact(const void *ctx, struct str name, size_t index, struct str *ret)
{
	(void)name;
	*ret = *(const struct str *)ctx;
	return !index && ret->n;
}

static void put(struct str field)
{
	fwrite(field.p, 1, field.n, stdout);
	putchar(0);
}

/** One value for all facts; where it is empty, one of the fact's type. */
struct one_value {
	const struct know *know;
	struct str value;
};

static bool fitting_fact(const void *ctx, struct str name, size_t index, struct str *ret)
{
	static const char *const good[PIECE_TYPES] = {
		[PIECE_WORD] = "word",      [PIECE_NUMBER] = "4711",  [PIECE_PCI] = "0000:03:00.0",
		[PIECE_NAME] = "render",    [PIECE_PARAMETER] = "-1", [PIECE_WORDS] = "16.0 GT/s PCIe",
		[PIECE_PATH] = "/opt/rocm", [PIECE_VERSION] = "25.0.7-2",
	};
	const struct one_value *v = ctx;
	*ret = v->value.n ? v->value : str_ends(name, S("@")) ? S("/sys/file") : str_z(good[fact_type(v->know, name)]);
	return !index;
}

/** What the doctor finds out as a command. */
static const struct command *found_command(const void *ctx, struct str name)
{
	static struct arena a;
	(void)ctx;
	return str_is(name, "add_with") ? COMMAND(&a, "sudo grubby --update-kernel=ALL --args=") :
	       str_is(name, "add_grub") || str_is(name, "boot_update") ? COMMAND(&a, "update-grub") :
	       str_is(name, "initramfs_update")                        ? COMMAND(&a, "update-initramfs -u") :
									 NULL;
}

static void put_runs(const struct command *c, const char *kind, struct str id, const char *key)
{
	struct str run;
	for (size_t n = 0; (run = command_run(c, n)).n; n++) {
		put(S("run"));
		printf("%s " STR_FMT ": %s", kind, STR_ARG(id), key);
		putchar(0);
		put(run);
	}
}

struct texts_of {
	const struct know *know;
	struct fact_view view;
	const char *kind;
	struct str id;
	enum fill_mode mode;
};

static void run_text(const struct texts_of *t, const char *key, struct str text)
{
	struct arena a = { 0 };
	put_runs(steps_fill(&a, t->know, text, &t->view, t->mode), t->kind, t->id, key);
	arena_free(&a);
}

static void run_list(const struct texts_of *t, const char *key, const struct know_list *l)
{
	for (; l; l = l->next)
		run_text(t, key, l->text);
}

static void run_next(const struct texts_of *t, const struct know_next *n)
{
	for (; n; n = n->next)
		run_text(t, "next", n->run);
}

static void try_runs(const struct know *k, struct str value)
{
	const struct one_value one = { k, value };
	struct texts_of t = { k, { fitting_fact, &one, found_command }, "check", { 0 }, FILL_ALTERNATIVES };
	for (size_t i = 0; i < k->checks.len; i++) {
		const struct know_check *c = k->checks.data[i];
		t.id = c->head.id;
		run_list(&t, "do", c->steps);
		run_text(&t, "undo", c->undo);
		run_text(&t, "verify", c->verify);
	}
	t.kind = "remedy";
	t.mode = FILL_BLANKS;
	for (size_t i = 0; i < k->remedies.len; i++) {
		const struct know_remedy *r = k->remedies.data[i];
		t.id = r->head.id;
		run_text(&t, "if", r->condition_text);
		run_list(&t, "do", r->steps);
		run_text(&t, "undo", r->undo);
		run_text(&t, "verify", r->verify);
	}
	t.kind = "way";
	for (size_t i = 0; i < k->ways.len; i++) {
		const struct know_way *w = k->ways.data[i];
		t.id = w->head.id;
		run_text(&t, "run", w->run);
		run_text(&t, "say", w->say);
		run_text(&t, "undo", w->undo);
	}
	t.mode = FILL_RUN;
	t.kind = "cause";
	for (size_t i = 0; i < k->causes.len; i++) {
		t.id = k->causes.data[i]->head.id;
		run_next(&t, k->causes.data[i]->next_steps);
	}
	t.kind = "action";
	for (size_t i = 0; i < k->actions.len; i++) {
		t.id = k->actions.data[i]->head.id;
		run_next(&t, k->actions.data[i]->next_steps);
		run_next(&t, k->actions.data[i]->then_steps);
	}
}

/** What an action becomes is another text of knowledge. */
static bool names_action(const struct know *k, struct str text)
{
	while (text.n) {
		str_split(&text, '{');
		struct str name = text;
		if (str_starts(name, S("undo ")))
			return true;
		for (size_t i = 0; name.n && i < k->ways.len; i++)
			if (str_starts(name, k->ways.data[i]->head.id))
				return true;
	}
	return false;
}

static void try_text(const struct know *k, struct str text, enum fill_mode mode, struct str value)
{
	static const struct str refused = { ";", 1 };
	if (!text.n || (!str_eq(value, refused) && !memchr(text.p, '{', text.n)))
		return; // nothing to fill: what it is with one value, it is with all
	struct arena a = { 0 };
	if (names_action(k, text))
		return;
	struct str c = command_str(steps_fill(&a, k, text, &(struct fact_view){ any_fact, &value, NULL }, mode)),
		   without = command_str(steps_fill(&a, k, text, &(struct fact_view){ any_fact, &refused, NULL }, mode));
	if (text.n && (!str_eq(c, without) || str_eq(value, refused))) {
		put(S("text"));
		put(text);
		put(c);
		put(value);
	}
	arena_free(&a);
}

static void try_knowledge(const struct know *k, struct str value)
{
	for (size_t i = 0; i < k->checks.len; i++) {
		const struct know_check *c = k->checks.data[i];
		for (const struct know_list *l = c->steps; l; l = l->next)
			try_text(k, l->text, FILL_ALTERNATIVES, value);
		try_text(k, c->undo, FILL_ALTERNATIVES, value);
		try_text(k, c->verify, FILL_ALTERNATIVES, value);
	}
	for (size_t i = 0; i < k->remedies.len; i++) {
		const struct know_remedy *r = k->remedies.data[i];
		for (const struct know_list *l = r->steps; l; l = l->next)
			try_text(k, l->text, FILL_BLANKS, value);
		try_text(k, r->undo, FILL_BLANKS, value);
		try_text(k, r->verify, FILL_BLANKS, value);
	}
	for (size_t i = 0; i < k->ways.len; i++) {
		try_text(k, k->ways.data[i]->run, FILL_BLANKS, value);
		try_text(k, k->ways.data[i]->say, FILL_BLANKS, value);
		try_text(k, k->ways.data[i]->undo, FILL_BLANKS, value);
	}
	for (size_t i = 0; i < k->causes.len; i++)
		for (const struct know_next *n = k->causes.data[i]->next_steps; n; n = n->next)
			try_text(k, n->run, FILL_BLANKS, value);
}

static void put_words(const struct command *c, struct str value, struct str words)
{
	char number[16];
	size_t n = 1;
	if (!c)
		return;
	for (size_t i = 0; i < words.n; i++)
		n += words.p[i] == '\n';
	snprintf(number, sizeof(number), "%zu", n);
	put(S("words"));
	put(command_str(c));
	put(value);
	put(str_z(number));
	while (n--)
		put(str_split(&words, '\n'));
}

static void try_loader(const struct know *k, const char *loader, const char *before, struct str value)
{
	struct host h = { .know = k };
	struct settings s = { .h = &h };
	struct host_item *m = host_add(&h, "machine", NULL);
	host_note(&h, m, "words_with", str_z(loader), S("/boot"));
	struct setting t = {
		.name = value, .value = value, .word = value, .place = "loader-entry", .where = S("/boot/a.conf:1")
	};
	setting_note_change(&s, m, &t);
	const struct host_fact *remove = host_fact(&h, m, S("remove"), 0);
	if (str_starts(remove->value, S("sudo")))
		put_words(remove->command, value, arena_printf(&h.arena, "%s" STR_FMT, before, STR_ARG(value)));
	host_free(&h);
}

static void try_apply(const struct know *k, struct str value)
{
	struct host h = { .know = k };
	struct applied a = { .id = S("x"), .kargs = true };
	struct apply_commands commands = { 0 };
	host_add(&h, "machine", NULL);
	vec_push(&a.sets, ((struct applied_set){ S("iommu"), value }));
	applied_commands(&h, &a, false, &commands);
	put_words(commands.list.data[0], value,
		  arena_printf(&h.arena, "sudo\nrpm-ostree\nkargs\n--append-if-missing=iommu=" STR_FMT, STR_ARG(value)));
	apply_commands_free(&commands);
	vec_free(&a.sets);
	host_free(&h);
}

static void try_path(struct str value)
{
	struct arena a = { 0 };
	put_words(COMMAND_OF(&a, "tac ", PIECE_PATH, value), value,
		  arena_printf(&a, "tac\n%s" STR_FMT, str_starts(value, S("-")) ? "./" : "", STR_ARG(value)));
	arena_free(&a);
}

int main(int argc, char **argv)
{
	const bool runs = argc > 1 && !strcmp(argv[1], "runs");
	struct know *k = know_load(&(struct know_problems){ 0 });
	char *line = NULL;
	size_t size = 0;
	for (ssize_t n; (n = getdelim(&line, &size, 0, stdin)) > 0;) {
		struct str value = { line, (size_t)n - 1 };
		if (runs) {
			try_runs(k, value);
			continue;
		}
		try_knowledge(k, value);
		try_loader(k, "rpm-ostree", "sudo\nrpm-ostree\nkargs\n--delete-if-present=", value);
		try_loader(k, "grubby", "sudo\ngrubby\n--update-kernel=ALL\n--remove-args=", value);
		try_apply(k, value);
		try_path(value);
	}
	free(line);
	know_free(k);
	return 0;
}

// Fills everything that commands are made of with values from stdin (each ends with a NUL), and writes what came of it, in fields that end
// with a NUL: `text` TEXT COMMAND VALUE for each text of knowledge, where that differs from what it is with a value that is always refused;
// `words` COMMAND VALUE N WORD... for commands of C, whose words are known.
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

static void try_text(const struct know *k, struct str text, enum fill_mode mode, struct str value)
{
	static const struct str refused = { ";", 1 };
	if (!text.n || (!str_eq(value, refused) && !memchr(text.p, '{', text.n)))
		return; // nothing to fill: what it is with one value, it is with all
	struct arena a = { 0 };
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
	host_note(&h, m, "boot_loader", str_z(loader), S("/boot"));
	struct setting t = {
		.name = value, .value = value, .word = value, .place = "loader-entry", .where = S("/boot/a.conf:1")
	};
	setting_note_change(&s, m, &t);
	const struct host_fact *remove = host_fact(&h, m, S("remove"), 0);
	if (str_starts(remove->value, S("sudo")))
		put_words(remove->command, value, arena_printf(&h.arena, "%s" STR_FMT, before, STR_ARG(value)));
	else
		put_words(remove->command, value, S("Take\nthis\nsetting\nout\nof\n/boot/a.conf:1"));
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
		  arena_printf(&h.arena, "rpm-ostree\nkargs\n--append-if-missing=iommu=" STR_FMT, STR_ARG(value)));
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

int main(void)
{
	struct know *k = know_load(&(struct know_problems){ 0 });
	char *line = NULL;
	size_t size = 0;
	for (ssize_t n; (n = getdelim(&line, &size, 0, stdin)) > 0;) {
		struct str value = { line, (size_t)n - 1 };
		try_knowledge(k, value);
		try_loader(k, "rpm-ostree", "sudo\nrpm-ostree\nkargs\n--delete=", value);
		try_loader(k, "grubby", "sudo\ngrubby\n--update-kernel=ALL\n--remove-args=", value);
		try_apply(k, value);
		try_path(value);
	}
	free(line);
	know_free(k);
	return 0;
}

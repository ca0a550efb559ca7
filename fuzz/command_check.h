// Puts hostile values into everything that commands are made of, and says where a shell would see other words than it should. For the fuzz
// target and the test.
#pragma once

#include <stdlib.h>

#include "apply/plan.h"
#include "host/settings/setting.h"
#include "knowledge/steps.h"

/** What the check itself does is no way through the program: a fuzzer that follows it is slow. */
#ifdef __clang__
#define UNFOLLOWED __attribute__((no_sanitize("coverage"))) static inline
#else
#define UNFOLLOWED static inline
#endif

// --- words as a POSIX shell splits them ---

/** No template has so many facts that their marks would be white space. */
enum { FACTS_MOST = 6, HOSTILE_MOST = 8 };
/** Before a byte that the shell would act on: an expansion, a pattern, an operator. */
static const char command_acts = '\x01';

struct command_words {
	char bytes[16 << 10]; // all words, each with a NUL behind it
	size_t used, n;
	bool inside;
};

UNFOLLOWED void command_byte(struct command_words *w, bool acts, char c)
{
	if (w->used + 3 > sizeof(w->bytes))
		return;
	if (acts)
		w->bytes[w->used++] = command_acts;
	w->bytes[w->used++] = c;
	w->inside = true;
}

UNFOLLOWED void command_word_end(struct command_words *w)
{
	w->n += w->inside;
	if (w->inside && w->used < sizeof(w->bytes))
		w->bytes[w->used++] = 0;
	w->inside = false;
}

/** What a backslash before it takes the meaning from. */
UNFOLLOWED bool command_escapes(char quote, char next) { return !quote || strchr("$`\"\\\n", next); }

/** A home is meant where ~ begins a word, and behind = or : in what may be an assignment. */
UNFOLLOWED bool command_home(const struct command_words *w)
{
	return !w->inside || !w->used || strchr("=:", w->bytes[w->used - 1]);
}

UNFOLLOWED void command_split(struct command_words *w, struct str s)
{
	char quote = 0;
	w->used = w->n = 0;
	w->inside = false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (quote && c == quote) {
			quote = 0;
		} else if (quote == '\'') {
			command_byte(w, false, c);
		} else if (c == '\\' && i + 1 < s.n && command_escapes(quote, s.p[i + 1])) {
			w->inside = true;
			if (s.p[++i] != '\n')
				command_byte(w, false, s.p[i]);
		} else if (c == '$' || c == '`') {
			command_byte(w, true, c);
		} else if (quote) {
			command_byte(w, false, c);
		} else if (c == '\'' || c == '"') {
			quote = c;
			w->inside = true;
		} else if (c == ' ' || c == '\t') {
			command_word_end(w);
		} else if (c == '#' && !w->inside) {
			while (i + 1 < s.n && s.p[i + 1] != '\n')
				i++;
		} else if (strchr(";&|<>()\n", c)) {
			command_word_end(w);
			command_byte(w, true, c ? c : ' ');
			command_word_end(w);
		} else {
			command_byte(w, c == '~' ? command_home(w) : strchr("*?[!", c) != NULL, c);
		}
	}
	command_word_end(w);
}

// --- what a command must be: text, and values that are each a part of one word ---

enum { MARK_FIRST = '\x02' }; // of the first value; more follow

struct command_value {
	struct str value, blank; // either of which stands there
};

/** Whether @have is @want with one of the two strings of a value where its mark is. */
UNFOLLOWED bool command_same(struct str have, struct str want, const struct command_value *values, size_t n)
{
	while (want.n && (unsigned char)want.p[0] - (size_t)MARK_FIRST >= n) {
		if (!have.n || have.p[0] != want.p[0])
			return false;
		have = str_from(have, 1);
		want = str_from(want, 1);
	}
	if (!want.n)
		return !have.n;
	const struct command_value *v = &values[want.p[0] - MARK_FIRST];
	want = str_from(want, 1);
	return (v->value.n && str_starts(have, v->value) && command_same(str_from(have, v->value.n), want, values, n)) ||
	       (v->blank.n && str_starts(have, v->blank) && command_same(str_from(have, v->blank.n), want, values, n));
}

/** Whether the words are those of @pattern, with a value as a part of one word for each mark. */
UNFOLLOWED bool command_matches(struct str text, struct str pattern, const struct command_value *values, size_t n)
{
	struct command_words have, want;
	command_split(&have, text);
	command_split(&want, pattern);
	return have.n == want.n &&
	       command_same((struct str){ have.bytes, have.used }, (struct str){ want.bytes, want.used }, values, n);
}

// --- the facts ---

struct hostile {
	const struct know *know;
	struct arena arena;
	struct str values[HOSTILE_MOST];
	size_t n;
	const struct command *step; // of {remove} and the like
};

UNFOLLOWED struct str hostile_value(const struct hostile *h, struct str name)
{
	size_t sum = 0;
	for (size_t i = 0; i < name.n; i++)
		sum = sum * 31 + (unsigned char)name.p[i];
	return h->n ? h->values[sum % h->n] : (struct str){ 0 };
}

static inline bool hostile_get(const void *ctx, struct str name, size_t index, struct str *ret)
{
	*ret = hostile_value(ctx, name);
	return !index && ret->n;
}

static inline const struct command *hostile_step(const void *ctx, struct str name)
{
	const struct hostile *h = ctx;
	return str_starts(name, S("remove")) || str_starts(name, S("written")) ? h->step : NULL;
}

/** Plain words with a space between: what the type of that name lets in. */
UNFOLLOWED bool hostile_words(struct str s)
{
	bool good = s.n && s.n <= 256, begins = true;
	for (size_t i = 0; good && i < s.n; i++) {
		good = begins ? !strchr(" -=", s.p[i]) : s.p[i] != ' ' || i + 1 < s.n;
		good &= char_word(s.p[i]) || (s.p[i] && strchr(" ./:,=+@%-", s.p[i]));
		begins = s.p[i] == ' ';
	}
	return good;
}

UNFOLLOWED struct str hostile_blank(struct arena *a, struct str name)
{
	struct text t = { 0 };
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] == '@')
			text_add(&t, S("_FILE"));
		else
			text_printf(&t, "%c",
				    name.p[i] >= 'a' && name.p[i] <= 'z' ? name.p[i] - 'a' + 'A' :
				    name.p[i] == '.'                     ? '_' :
									   name.p[i]);
	struct str blank = arena_str(a, text_str(&t));
	text_free(&t);
	return blank;
}

// --- commands of knowledge ---

/** The text with a mark for each fact; what is a step, or several words, stands there as it is. */
UNFOLLOWED struct str template_pattern(struct hostile *h, struct str text, struct command_value values[static FACTS_MOST],
				       size_t *ret_n)
{
	struct text out = { 0 };
	*ret_n = 0;
	for (size_t i = 0; i < text.n; i++) {
		struct str rest = str_from(text, i + 1), name = str_split(&rest, '}');
		bool fact = text.p[i] == '{' && name.n && name.p[0] >= 'a' && name.p[0] <= 'z' && i + 1 + name.n < text.n;
		for (size_t n = 0; fact && n < name.n; n++)
			fact = char_word(name.p[n]) || name.p[n] == '.' || name.p[n] == '@';
		if (!fact) {
			// The mark around what can be run is not printed.
			if (str_starts(str_from(text, i), S("``")))
				i++;
			else
				text_add(&out, (struct str){ text.p + i, 1 });
			continue;
		}
		struct str value = hostile_value(h, name);
		if (hostile_step(h, name)) {
			struct str step = command_str(h->step);
			// A sentence within another begins with a small letter.
			bool lowered = out.n && step.n > 1 && step.p[0] >= 'A' && step.p[0] <= 'Z' && step.p[1] >= 'a' &&
				       step.p[1] <= 'z';
			text_printf(&out, "%s" STR_FMT, lowered ? (char[]){ (char)(step.p[0] + 32), 0 } : "",
				    STR_ARG(lowered ? str_from(step, 1) : step));
		} else if (fact_type(h->know, name) == PIECE_WORDS && hostile_words(value)) {
			text_add(&out, value);
		} else if (*ret_n < FACTS_MOST) {
			text_printf(&out, "%c", (int)(MARK_FIRST + *ret_n));
			values[(*ret_n)++] = (struct command_value){ value, hostile_blank(&h->arena, name) };
		}
		i += name.n + 1;
	}
	struct str pattern = arena_str(&h->arena, text_str(&out));
	text_free(&out);
	return pattern;
}

static inline bool template_wrong(struct hostile *h, struct str text, enum fill_mode mode)
{
	const struct fact_view view = { hostile_get, h, hostile_step };
	const struct command *c = steps_fill(&h->arena, h->know, text, &view, mode);
	if (!c)
		return mode == FILL_BLANKS && text.n;
	while (text.n) {
		struct command_value values[FACTS_MOST];
		size_t n;
		ptrdiff_t bars = mode == FILL_BLANKS ? -1 : str_find(text, S(" || "));
		struct str one = bars < 0 ? text : str_cut(text, (size_t)bars), pattern = template_pattern(h, one, values, &n);
		if (command_matches(command_str(c), pattern, values, n))
			return false;
		text = str_from(text, bars < 0 ? text.n : (size_t)bars + 4);
	}
	return true;
}

/** The texts of knowledge that have facts in them; the others are the same whatever the facts are. */
struct command_texts {
	struct {
		struct str text;
		enum fill_mode mode;
	} list[1024];
	size_t n;
};

/** What an action becomes is another text of knowledge: that of a way. `{rebuild-initramfs}`, `{set-word: iommu=pt}` */
static inline bool names_action(struct str text)
{
	for (size_t i = 0; i < text.n; i++) {
		struct str rest = str_from(text, i + 1), inside = str_split(&rest, '}');
		if (text.p[i] == '{' && inside.n && inside.p[0] >= 'a' && inside.p[0] <= 'z' && memchr(inside.p, '-', inside.n))
			return true;
	}
	return false;
}

static inline void add_text(struct command_texts *to, struct str text, enum fill_mode mode)
{
	bool fact = false;
	for (size_t i = 0; i + 1 < text.n; i++)
		fact |= text.p[i] == '{' && text.p[i + 1] >= 'a' && text.p[i + 1] <= 'z';
	if (!fact || names_action(text))
		return;
	if (to->n == ARRAY_SIZE(to->list))
		abort();
	to->list[to->n].text = text;
	to->list[to->n++].mode = mode;
}

static inline void add_list(struct command_texts *to, const struct know_list *l, enum fill_mode mode)
{
	for (; l; l = l->next)
		add_text(to, l->text, mode);
}

static inline void command_texts_find(const struct know *k, struct command_texts *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < k->checks.len; i++) {
		const struct know_check *c = k->checks.data[i];
		add_list(ret, c->steps, FILL_ALTERNATIVES);
		add_text(ret, c->undo, FILL_ALTERNATIVES);
		add_text(ret, c->verify, FILL_ALTERNATIVES);
	}
	for (size_t i = 0; i < k->remedies.len; i++)
		for (enum fill_mode mode = FILL_ALTERNATIVES; mode <= FILL_BLANKS; mode++) { // by the doctor, and by explain
			const struct know_remedy *r = k->remedies.data[i];
			add_list(ret, r->steps, mode);
			add_text(ret, r->undo, mode);
			add_text(ret, r->verify, mode);
		}
	for (size_t i = 0; i < k->ways.len; i++) {
		add_text(ret, k->ways.data[i]->run, FILL_BLANKS);
		add_text(ret, k->ways.data[i]->say, FILL_BLANKS);
		add_text(ret, k->ways.data[i]->undo, FILL_BLANKS);
	}
	for (size_t i = 0; i < k->causes.len; i++)
		for (const struct know_next *n = k->causes.data[i]->next_steps; n; n = n->next)
			add_text(ret, n->run, FILL_BLANKS);
}

// --- commands of C ---

UNFOLLOWED const struct command *noted(const struct host_item *i, const char *name)
{
	const struct command *c = NULL;
	for (size_t n = 0; n < i->facts.len; n++)
		if (str_is(i->facts.data[n]->name, name))
			c = i->facts.data[n]->command;
	return c;
}

/** Whether it is the text of a way, with one of @its for {it} and the third mark for the file. */
UNFOLLOWED bool is_a_way(struct hostile *h, const struct command *c, const char *const *its,
			 const struct command_value values[4])
{
	for (size_t i = 0; c && i < h->know->ways.len; i++) {
		const struct str texts[] = { h->know->ways.data[i]->run, h->know->ways.data[i]->say,
					     h->know->ways.data[i]->undo };
		for (size_t n = 0; n < 3; n++)
			for (const char *const *it = its; *it && texts[n].n; it++) {
				struct text pattern = { 0 };
				for (struct str rest = texts[n], take; rest.n; rest = str_from(rest, take.n)) {
					take = str_starts(rest, S("{it}"))        ? S("{it}") :
					       str_starts(rest, S("{stands_in}")) ? S("{stands_in}") :
					       str_starts(rest, S("``"))          ? S("``") :
										    str_cut(rest, 1);
					text_add(&pattern, str_is(take, "{it}")        ? str_z(*it) :
							   str_is(take, "{stands_in}") ? S("\x03") :
							   str_is(take, "``")          ? S("") :
											 take);
				}
				bool same = command_matches(command_str(c), text_str(&pattern), values, 4);
				text_free(&pattern);
				if (same)
					return true;
			}
	}
	return false;
}

static inline const char *setting_complaint(struct hostile *h, const char *loader, const char *place)
{
	struct host host = { .know = h->know };
	struct settings s = { .h = &host };
	struct host_item *m = host_add(&host, "machine", NULL);
	host_note(&host, m, "words_with", str_z(loader), S("/etc/default/grub"));
	host_note_command(&host, m, "boot_update", COMMAND(&host.arena, "update-grub"), S("/usr/sbin/update-grub"));
	struct setting t = { .name = hostile_value(h, S("name")),
			     .value = hostile_value(h, S("value")),
			     .place = place,
			     .where = hostile_value(h, S("where")),
			     .word = hostile_value(h, S("word")) };
	struct command_value values[] = { { t.word, t.name },
					  { t.where, arena_printf(&h->arena, "./" STR_FMT, STR_ARG(t.where)) },
					  { t.name, { 0 } },
					  { t.value, S("VALUE") } };
	static const char *const words[] = { "\x02", "WORD", NULL };
	static const char *const writes[] = { "\x04=\x05", "options \x04=\x05", "\x04=", "options \x04=", "WORD", NULL };
	struct str word = arena_printf(&h->arena, STR_FMT "=" STR_FMT, STR_ARG(t.name), STR_ARG(t.value));
	// A name with = in it is split elsewhere.
	bool named = t.name.n && !memchr(t.name.p, '=', t.name.n) && !memchr(t.name.p, 0, t.name.n) &&
		     (!t.value.n || !memchr(t.value.p, 0, t.value.n));
	setting_note_change(&s, m, &t);
	const struct command *remove = noted(m, "remove"), *write = NULL;
	const char *wrong = is_a_way(h, remove, words, values) ? NULL : "how a setting is removed";
	if (named) {
		setting_note_write(&s, m, &t, word);
		write = noted(m, "write");
	}
	if (!wrong && write && !is_a_way(h, write, writes, values))
		wrong = "how a setting is written";
	// It is part of the steps of knowledge.
	struct command_maker *again = command_begin(&h->arena);
	command_add_command(again, remove);
	h->step = command_end(again);
	host_free(&host);
	return wrong;
}

/** What --apply writes for a shell to read, and tells to run. */
static inline const char *apply_complaint(struct hostile *h)
{
	struct applied a = { .id = S("an-id"), .kargs = true };
	struct host host = { .know = h->know };
	struct apply_commands commands = { 0 };
	struct applied_set set = { hostile_value(h, S("name")), hostile_value(h, S("value")) };
	struct command_value values[] = { { set.name, { 0 } }, { set.value, { 0 } } };
	const char *wrong = NULL;
	host_add(&host, "machine", NULL);
	a.title = title_line(&h->arena, hostile_value(h, S("title")));
	vec_push(&a.sets, set);
	applied_commands(&host, &a, false, &commands);
	const struct command *kargs = commands.list.data[0];
	if (kargs && !command_matches(command_str(kargs), S("sudo rpm-ostree kargs --append-if-missing=\x02=\x03"), values, 2))
		wrong = "rpm-ostree's arguments";
	if (!kargs && applied_set_good(set.name, set.value))
		wrong = "no command for what may be written";
	if (!wrong && applied_set_good(set.name, set.value)) {
		struct own_file f = { .kind = OWN_GRUB_D,
				      .words = arena_printf(&h->arena, STR_FMT "=" STR_FMT, STR_ARG(set.name),
							    STR_ARG(set.value)) };
		struct str text = own_text(&h->arena, &a, &f);
		if (!command_matches(text, S("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX \x02=\x03\""), values, 2) &&
		    !command_matches(text, S("\n\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX \x02=\x03\"\n"), values, 2))
			wrong = "what a shell reads for GRUB";
	}
	apply_commands_free(&commands);
	vec_free(&a.sets);
	host_free(&host);
	return wrong;
}

static inline const char *profile_complaint(struct hostile *h)
{
	struct know_pair env = { .name = S("NAME"), .value = hostile_value(h, S("value")) };
	struct know_change change = { .envs = &env };
	struct apply_request r = { S("an-id"), hostile_value(h, S("title")), &change };
	struct command_value value = { env.value, { 0 } };
	struct text t = { 0 };
	if (!env.value.n || memchr(env.value.p, 0, env.value.n))
		return NULL;
	uh_error_free(profile_text(&r, &t));
	bool good = command_matches(text_str(&t), S("\n\nexport NAME=\x02\n"), &value, 1);
	text_free(&t);
	return good ? NULL : "a profile for the shell";
}

static inline const char *path_complaint(struct hostile *h)
{
	struct str path = hostile_value(h, S("path"));
	const struct command *c = COMMAND_OF(&h->arena, "tac ", PIECE_PATH, path);
	struct command_value value = { path, { 0 } };
	if (!c || command_matches(command_str(c), S("tac \x02"), &value, 1) ||
	    command_matches(command_str(c), S("tac ./\x02"), &value, 1))
		return NULL;
	return "a path is another word";
}

/** Values lie between bytes 0xff, behind two that choose what is tried. NULL: nothing is wrong. */
static inline const char *command_complaint(const struct know *k, const struct command_texts *texts, struct str bytes)
{
	static const char *const loaders[] = { "rpm-ostree", "grubby", "grub", "systemd-boot", "unknown" };
	static const char *const places[] = { "cmdline", "modprobe", "grub", "kernel-cmdline", "loader-entry" };
	enum { PARTS = 16 };
	struct hostile h = { .know = k };
	if (bytes.n < 3)
		return NULL;
	unsigned char how = (unsigned char)bytes.p[0], part = (unsigned char)bytes.p[1];
	for (struct str rest = str_from(bytes, 2); rest.n && h.n < HOSTILE_MOST;) {
		struct str value = str_split(&rest, '\xff');
		if (value.n)
			h.values[h.n++] = value;
	}
	const char *wrong = setting_complaint(&h, loaders[how % 5], places[how / 5 % 5]);
	wrong = wrong ? wrong : apply_complaint(&h);
	wrong = wrong ? wrong : profile_complaint(&h);
	wrong = wrong ? wrong : path_complaint(&h);
	for (size_t i = part % PARTS; !wrong && i < texts->n; i += PARTS)
		if (template_wrong(&h, texts->list[i].text, texts->list[i].mode))
			wrong = "a text of knowledge has other words";
	arena_free(&h.arena);
	return wrong;
}

// An update of knowledge: what it holds, what it changes, and which version is in use.
#include <stdlib.h>

#include "base/base64.h"
#include "base/print.h"
#include "knowledge/signed/changes.h"
#include "report/knowledge.h"

typedef unsigned long long ull;

enum { NAMED_MOST = 8 }; // blocks of a kind that are named

/** Blocks of one kind that changed in one way. */
struct change_kind {
	struct str kind;
	struct str ids[NAMED_MOST];
	size_t n;
};

struct changes {
	struct arena arena;
	VEC(struct change_kind) of[DIFFERENCE_GONE + 1];
	bool any;
};

static void note_change(void *ctx, enum know_difference change, struct str kind, struct str id)
{
	struct changes *c = ctx;
	size_t i = 0;
	while (i < c->of[change].len && !str_eq(c->of[change].data[i].kind, kind))
		i++;
	if (i == c->of[change].len) {
		const struct change_kind one = { .kind = arena_str(&c->arena, kind) };
		vec_push(&c->of[change], one);
	}
	struct change_kind *k = &c->of[change].data[i];
	if (k->n < NAMED_MOST)
		k->ids[k->n] = arena_str(&c->arena, str_cut(id, 60));
	k->n++;
	c->any = true;
}

static void put_changes(struct changes *c, FILE *out)
{
	static const char *const words[] = { "new", "changed", "gone" };
	for (int change = DIFFERENCE_NEW; change <= DIFFERENCE_GONE; change++) {
		for (size_t i = 0; i < c->of[change].len; i++) {
			const struct change_kind *k = &c->of[change].data[i];
			fprintf(out, "  %-8s %zu ", words[change], k->n);
			print_safe(out, k->kind);
			for (size_t n = 0; n < k->n && n < NAMED_MOST; n++) {
				fputs(n ? ", " : ": ", out);
				print_safe(out, k->ids[n]);
			}
			fputs(k->n > NAMED_MOST ? ", ...\n" : "\n", out);
		}
		vec_free(&c->of[change]);
	}
	if (!c->any)
		fputs("  it changes no block\n", out);
	arena_free(&c->arena);
}

/** How many blocks of each of the kinds that people ask for. */
struct counts {
	unsigned of[4], all;
};
static const char *const counted_kinds[] = { "signature", "known-bad", "remedy", "retract" };

static void count_kind(void *ctx, struct str kind)
{
	struct counts *c = ctx;
	c->all++;
	for (size_t i = 0; i < sizeof(counted_kinds) / sizeof(counted_kinds[0]); i++)
		c->of[i] += str_is(kind, counted_kinds[i]);
}

static void put_update(const struct container *c, struct str key_file, FILE *out)
{
	struct counts counts = { 0 };
	know_update_blocks(c, count_kind, &counts);
	fprintf(out, "knowledge %llu of " STR_FMT ", signed with the key in ", (ull)c->version, STR_ARG(c->made));
	print_safe(out, key_file);
	if (c->note.n) {
		fputs("\n  note     ", out);
		print_safe(out, c->note);
	}
	fprintf(out, "\n  holds    %zu file%s, %u block%s:", c->nfiles, c->nfiles == 1 ? "" : "s", counts.all,
		counts.all == 1 ? "" : "s");
	for (size_t i = 0; i < sizeof(counted_kinds) / sizeof(counted_kinds[0]); i++)
		fprintf(out, "%s %u %s", i ? "," : "", counts.of[i], counted_kinds[i]);
	fputc('\n', out);
}

void report_update(const struct container *c, const struct container *before, struct str key_file, FILE *out)
{
	struct changes changes = { 0 };
	put_update(c, key_file, out);
	know_changes(before, c, note_change, &changes);
	put_changes(&changes, out);
}

// --- version ---

static bool in_use(const struct installed *v) { return v->there && v->update.version > know_embedded_version; }

static void walk_installed(struct sheet *s, const struct container *c, struct text *key)
{
	base64_write(key, c->key, KEY_BYTES);
	sheet_put(s, "version", v_number(c->version));
	sheet_put(s, "made", v_text(c->made));
	sheet_put(s, "note", v_known(c->note));
	sheet_put(s, "key", v_text(text_str(key)));
	sheet_put(s, "file", v_word(c->path));
}

void report_versions(const struct installed *v, bool as_json, FILE *out)
{
	struct sheet s = sheet_on(as_json, out);
	struct text key = { 0 };
	const ull built_in = know_embedded_version, there = v->update.version;
	sheet_open(&s, NULL, '{');
	sheet_put(&s, "in_use", v_number(in_use(v) ? there : built_in));
	sheet_put(&s, "built_in", v_number(built_in));
	if (sheet_object(&s, "update", v->there)) {
		walk_installed(&s, &v->update, &key);
		sheet_close(&s, '}');
	}
	sheet_put(&s, "problem", v_word(v->err ? v->err->message : NULL));
	if (in_use(v))
		sheet_say(&s, "knowledge %llu of " STR_FMT ", from %s (built in: %llu)\n", there, STR_ARG(v->update.made),
			  v->update.path, built_in);
	else
		sheet_say(&s, "knowledge %llu, built in\n", built_in);
	if (v->there && !in_use(v))
		sheet_say(&s, "version %llu in %s is not newer, and not used\n", there, v->update.path);
	if (v->err)
		sheet_say(&s, "%s; not used\n", v->err->message);
	sheet_close(&s, '}');
	text_free(&key);
}

// An update of knowledge: what it holds, what it changes, and which version is in use.
#include <stdlib.h>

#include "base/base64.h"
#include "base/print.h"
#include "knowledge/signed/changes.h"
#include "report/knowledge.h"

typedef unsigned long long ull;

enum { NAMED_MOST = 8 }; // so many blocks of a kind are named

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

static void versions_json(const struct installed *v, FILE *out)
{
	struct json j = { .out = out };
	struct text key = { 0 };
	jw_open(&j, '{');
	jw_key(&j, "in_use");
	jw_unsigned(&j, in_use(v) ? v->update.version : know_embedded_version);
	jw_key(&j, "built_in");
	jw_unsigned(&j, know_embedded_version);
	jw_key(&j, "update");
	if (v->there) {
		base64_write(&key, v->update.key, KEY_BYTES);
		jw_open(&j, '{');
		jw_key(&j, "version");
		jw_unsigned(&j, v->update.version);
		jw_field(&j, "made", v->update.made);
		jw_field(&j, "note", v->update.note.n ? v->update.note : (struct str){ 0 });
		jw_field(&j, "key", text_str(&key));
		jw_field(&j, "file", str_z(v->update.path));
		jw_close(&j, '}');
	} else {
		jw_null(&j);
	}
	jw_field(&j, "problem", str_z(v->err ? v->err->message : NULL));
	jw_close(&j, '}');
	text_free(&key);
}

static void versions_text(const struct installed *v, FILE *out)
{
	if (in_use(v))
		fprintf(out, "knowledge %llu of " STR_FMT ", from %s (built in: %llu)\n", (ull)v->update.version,
			STR_ARG(v->update.made), v->update.path, (ull)know_embedded_version);
	else
		fprintf(out, "knowledge %llu, built in\n", (ull)know_embedded_version);
	if (v->there && !in_use(v))
		fprintf(out, "version %llu in %s is not newer, and not used\n", (ull)v->update.version, v->update.path);
	if (v->err)
		fprintf(out, "%s; not used\n", v->err->message);
}

void report_versions(const struct installed *i, bool as_json, FILE *out) { (as_json ? versions_json : versions_text)(i, out); }

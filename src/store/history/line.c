#include "store/history/line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "store/record.h"
#include "store/store.h"

const char *const history_kinds[] = { "incident", "run", "configuration", "exposure", "samples", "source", NULL };
const char *const history_columns[] = { "time", "busy", "power", "temperature", "memory", NULL };

void json_in_line(struct text *to, struct str json)
{
	bool quoted = false;
	size_t begin = 0;
	for (size_t n = 0; n < json.n; n++) {
		const char c = json.p[n];
		if (quoted && c == '\\') {
			n++;
		} else if (c == '"') {
			quoted = !quoted;
		} else if (!quoted && char_space(c)) {
			text_add(to, (struct str){ json.p + begin, n - begin });
			begin = n + 1;
		}
	}
	text_add(to, str_from(json, begin));
}

/** What all lines have. */
struct line_head {
	enum history_kind kind;
	struct str id;
	int64_t revision;
	struct str host;
};

/** A document that is put into a line as it is. */
struct line_document {
	const char *key; // NULL: none
	struct str json; // empty: null
};

static void line_put_document(struct text *to, const struct line_document *d)
{
	const struct str json = str_trim(d->json);
	text_printf(to, ",\"%s\":", d->key);
	if (json.n > 1 && json.p[0] == '{' && json.p[json.n - 1] == '}')
		json_in_line(to, json);
	else
		text_add(to, S("null"));
}

/** @body writes what only this kind has. */
static void line_write(struct text *to, const struct line_head *h, void (*body)(struct json *j, const void *ctx),
		       const void *ctx, const struct line_document *document)
{
	_cleanup_free_ char *bytes = NULL;
	size_t n = 0;
	struct json j = { .out = open_memstream(&bytes, &n) };
	jw_open(&j, '{');
	jw_field(&j, "schema", S(HISTORY_SCHEMA));
	jw_field(&j, "kind", str_z(history_kinds[h->kind]));
	jw_field(&j, "id", h->id);
	jw_key(&j, "revision");
	jw_int(&j, h->revision);
	jw_field(&j, "host", h->host.n ? h->host : (struct str){ 0 });
	body(&j, ctx);
	jw_close(&j, '}');
	fclose(j.out);
	const struct str all = str_trim((struct str){ bytes, n });
	json_in_line(to, str_cut(all, all.n - 1));
	if (document && document->key)
		line_put_document(to, document);
	text_add(to, S("}\n"));
}

static void put_int(struct json *j, const char *key, int64_t n)
{
	jw_key(j, key);
	jw_int(j, n);
}

static void line_put_known(struct json *j, const char *key, struct str value)
{
	jw_field(j, key, value.n ? value : (struct str){ 0 });
}

// --- incidents ---

struct incident_line {
	const struct stored *stored;
	struct str place;
};

static void put_incident(struct json *j, const void *ctx)
{
	const struct incident_line *i = ctx;
	line_put_known(j, "place", i->place);
	jw_key(j, "record");
	stored_json(i->stored, j);
}

void line_of_incident(struct text *to, const struct stored *i, struct str place, struct str diagnosis)
{
	const struct line_head head = { HISTORY_INCIDENT, i->id, i->revision, i->host };
	const struct line_document document = { "diagnosis",
						diagnosis.n <= HISTORY_DIAGNOSIS_MOST ? diagnosis : (struct str){ 0 } };
	line_write(to, &head, put_incident, &(struct incident_line){ i, place }, &document);
}

// --- runs ---

static void put_nothing(struct json *j, const void *ctx)
{
	(void)j;
	(void)ctx;
}

void line_of_run(struct text *to, struct str host, struct str id, int64_t revision, struct str report)
{
	const struct line_document document = { "run", report };
	line_write(to, &(struct line_head){ HISTORY_RUN, id, revision, host }, put_nothing, NULL, &document);
}

// --- the machine ---

struct item_list {
	const struct history_item *items;
	size_t n;
};

static void put_items(struct json *j, const void *ctx)
{
	const struct item_list *l = ctx;
	jw_key(j, "items");
	jw_open(j, '[');
	for (size_t n = 0; n < l->n; n++) {
		jw_open(j, '{');
		line_put_known(j, "gpu", l->items[n].gpu);
		jw_field(j, "name", l->items[n].name);
		jw_field(j, "value", l->items[n].value);
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

void line_of_configuration(struct text *to, struct str host, int64_t when, const struct history_item *items, size_t n)
{
	line_write(to, &(struct line_head){ HISTORY_CONFIGURATION, S("machine"), when, host }, put_items,
		   &(struct item_list){ items, n }, NULL);
}

static void put_work(struct json *j, const void *ctx)
{
	const struct history_work *w = ctx;
	line_put_known(j, "serial", w->serial);
	line_put_known(j, "part", w->part);
	put_int(j, "from", w->from);
	put_int(j, "until", w->until);
	jw_key(j, "busy");
	jw_decimal(j, w->busy, 1);
}

void line_of_work(struct text *to, struct str host, const struct history_work *w)
{
	line_write(to, &(struct line_head){ HISTORY_EXPOSURE, w->gpu, w->from, host }, put_work, w, NULL);
}

struct sample_list {
	const struct history_sample *list;
	size_t n;
};

static void put_samples(struct json *j, const void *ctx)
{
	const struct sample_list *l = ctx;
	jw_key(j, "columns");
	jw_open(j, '[');
	for (const char *const *name = history_columns; *name; name++)
		jw_str(j, str_z(*name));
	jw_close(j, ']');
	jw_key(j, "rows");
	jw_open(j, '[');
	for (size_t n = 0; n < l->n; n++) {
		const struct history_sample *s = &l->list[n];
		const double values[] = { s->busy, s->power, s->temperature, s->memory };
		jw_open(j, '[');
		jw_int(j, s->when);
		for (size_t i = 0; i < ARRAY_SIZE(values); i++)
			if (isfinite(values[i]))
				jw_decimal(j, values[i], 1);
			else
				jw_null(j);
		jw_close(j, ']');
	}
	jw_close(j, ']');
}

void line_of_samples(struct text *to, struct str host, struct str gpu, const struct history_sample *list, size_t n)
{
	if (n)
		line_write(to, &(struct line_head){ HISTORY_SAMPLES, gpu, list[n - 1].when, host }, put_samples,
			   &(struct sample_list){ list, n }, NULL);
}

// --- files that were explained ---

static void put_source(struct json *j, const void *ctx)
{
	const struct history_source *s = ctx;
	line_put_known(j, "path", s->path);
	put_int(j, "bytes", s->bytes);
	put_int(j, "incidents", s->incidents);
	line_put_known(j, "verdict", s->verdict);
}

void line_of_source(struct text *to, const struct history_source *s, int64_t when)
{
	line_write(to, &(struct line_head){ HISTORY_SOURCE, s->hash, when, { 0 } }, put_source, s, NULL);
}

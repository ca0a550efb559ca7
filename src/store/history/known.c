#include "store/history/known.h"

#include <stdlib.h>

void index_known_free(struct index_known *k)
{
	name_table_free(&k->keys);
	vec_free(&k->rows);
	json_decref(k->asked);
	arena_free(&k->arena);
}

/** Texts have no NUL in them: that stands between. */
static void key_text(const struct known_key *key, struct text *to)
{
	text_printf(to, "%d" STR_FMT "%c" STR_FMT "%c%lld", (int)key->kind, STR_ARG(key->host), 0, STR_ARG(key->id), 0,
		    (long long)key->n);
}

void index_known_want(struct index_known *k, const struct known_key *key)
{
	_cleanup_text_ struct text name = { 0 };
	key_text(key, &name);
	k->keys.arena = &k->arena;
	if (name_number(&k->keys, text_str(&name)) < k->rows.len)
		return;
	const struct known_row none = { 0 };
	vec_push(&k->rows, none);
	k->asked = k->asked ? k->asked : json_array();
	json_t *one = json_pack("[i,s%,s%,I]", (int)key->kind, key->host.n ? key->host.p : "", key->host.n,
				key->id.n ? key->id.p : "", key->id.n, (json_int_t)key->n);
	json_array_append_new(k->asked, one ? one : json_null()); // it has the place of its row
}

static void known_take(void *ctx, const struct db_value *row, size_t n)
{
	struct index_known *k = ctx;
	if (n < 3 || row[0].number < 1 || (size_t)row[0].number > k->rows.len)
		return;
	k->rows.data[row[0].number - 1] =
		(struct known_row){ true, row[1].number, arena_str(&k->arena, row[2].type == DB_TEXT ? row[2].text : S("")) };
}

struct uh_error *index_known_ask(struct index_known *k, struct db *d)
{
	static const char sql[] =
		"WITH asked AS (SELECT at, CAST(e->>0 AS BIGINT) AS kind, e->>1 AS host, e->>2 AS id, CAST(e->>3 AS BIGINT) AS "
		"n "
		"FROM json_array_elements(CAST($1 AS json)) WITH ORDINALITY AS x (e, at)) "
		"SELECT at, revision, t.host FROM asked JOIN incidents t ON t.id = asked.id WHERE kind = 0 UNION ALL "
		"SELECT at, revision, t.host FROM asked JOIN runs t ON t.id = asked.id WHERE kind = 1 UNION ALL "
		"SELECT at, time, t.host FROM asked JOIN snapshots t ON t.host = asked.host AND time = n WHERE kind = 2 UNION "
		"ALL "
		"SELECT at, since, t.host FROM asked JOIN exposure t ON t.host = asked.host AND gpu = asked.id AND since = n "
		"WHERE kind = 3 UNION ALL "
		"SELECT at, revision, NULL FROM asked JOIN sources ON hash = id WHERE kind = 5";
	_Static_assert(HISTORY_INCIDENT == 0 && HISTORY_RUN == 1 && HISTORY_CONFIGURATION == 2 && HISTORY_EXPOSURE == 3 &&
			       HISTORY_SOURCE == 5,
		       "the statement names kinds by their numbers");
	if (!k->rows.len || !db_on_server(d))
		return NULL;
	_cleanup_free_ char *text = json_dumps(k->asked, JSON_COMPACT);
	return db_run(d, sql, DB_VALUES(db_text(str_z(text))), known_take, k);
}

struct known_row *index_known_row(const struct index_known *k, const struct known_key *key)
{
	_cleanup_text_ struct text name = { 0 };
	uint32_t at;
	key_text(key, &name);
	return name_known(&k->keys, text_str(&name), &at) ? &k->rows.data[at] : NULL;
}

// Files that are one document of JSON (or a pickle of the same): parsed once, then offered to each of their readers. The
// parser is jansson: it bounds its depth and takes pointer and length (docs/DECISIONS.md).
#include "evidence/documents/document.h"

#include "evidence/artefact.h"
#include "evidence/documents/pickle.h"

static const struct document_reader *const documents[] = {
	&container_document,
	&flight_recorder_document,
	&kernel_api_document,
	&py_spy_document,
};

/** Keys that one of our documents has near its beginning. */
static const char *const keys[] = { "\"State\"",         "\"Id\"",        "\"containerStatuses\"", "\"kind\"",
				    "\"apiVersion\"",    "\"entries\"",   "\"pg_config\"",         "\"comm_lib_version\"",
				    "\"function_name\"", "\"pg_status\"", "\"nccl_version\"",      "\"thread_name\"",
				    "'entries'",         "'pg_config'",   "'pg_status'",           "'nccl_version'" };

bool document_begins(struct str head)
{
	if (pickle_begins(head))
		return true;
	head = str_trim(head);
	if (!head.n || (head.p[0] != '{' && head.p[0] != '['))
		return false;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (str_find(str_cut(head, 16384), str_z(keys[i])) >= 0)
			return true;
	return false;
}

struct str document_text(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	return json_is_string(value) ? (struct str){ json_string_value(value), json_string_length(value) } : (struct str){ 0 };
}

static const char *offer(const struct artefact_output *out, const json_t *root)
{
	for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
		if (documents[i]->read(out, root))
			return documents[i]->kind;
	return NULL;
}

/** A file with a document in each line (metadata.jsonl): the last line is the newest state. */
static const char *read_last_line(const struct artefact_output *out, struct str bytes)
{
	struct str last = { 0 };
	struct artefact_output line_out = *out;
	for (uint64_t n = 1; bytes.n; n++) {
		struct str line = str_trim(str_split(&bytes, '\n'));
		if (line.n) {
			last = line;
			line_out.line = n;
		}
	}
	json_t *root = json_loadb(last.p, last.n, 0, NULL);
	const char *kind = root ? offer(&line_out, root) : NULL;
	json_decref(root);
	return kind;
}

/** Each value costs far more memory than its bytes, so documents with too many values are refused. */
static bool is_modest(struct str bytes)
{
	enum { VALUES_MAX = 2 << 20 };
	size_t values = 0;
	for (size_t i = 0; i < bytes.n; i++)
		values += bytes.p[i] == ',' || bytes.p[i] == '[' || bytes.p[i] == '{';
	return values <= VALUES_MAX;
}

/** Python's way to print what JSON can say, as JSON: quotes, names of constants, tuples, commas before a bracket. */
static void python_to_json(struct str bytes, struct text *out)
{
	static const char *const words[][2] = { { "True", "true" }, { "False", "false" }, { "None", "null" } };
	for (size_t i = 0; i < bytes.n;) {
		char c = bytes.p[i++], close = c;
		if (c == '\'' || c == '"') {
			text_add(out, S("\""));
			while (i < bytes.n && bytes.p[i] != close) {
				// JSON has no escape for a single quote, and no raw double one.
				bool escaped = bytes.p[i] == '\\' && i + 1 < bytes.n;
				if (escaped && bytes.p[i + 1] != '\'')
					text_add(out, str_cut(str_from(bytes, i), 2));
				else
					text_add(out, !escaped && bytes.p[i] == '"' ? S("\\\"") :
										      str_cut(str_from(bytes, i + escaped), 1));
				i += escaped ? 2 : 1;
			}
			text_add(out, S("\""));
			i++;
			continue;
		}
		struct str here = str_from(bytes, i - 1), next = str_trim(str_cut(str_from(bytes, i), 64));
		size_t w = 0;
		while (w < 3 && !str_starts(here, str_z(words[w][0])))
			w++;
		if (w < 3) {
			text_add(out, str_z(words[w][1]));
			i += strlen(words[w][0]) - 1;
		} else if (c == '(' || c == ')') {
			text_add(out, c == '(' ? S("[") : S("]"));
		} else if (c != ',' || !next.n || !char_among(next.p[0], ")]}")) {
			text_add(out, str_cut(here, 1));
		}
	}
}

/** A document that somebody printed with Python. */
static json_t *load_printed(struct str bytes)
{
	_cleanup_(text_free) struct text json = { 0 };
	if (str_find(str_cut(bytes, 16384), S("'")) < 0)
		return NULL;
	python_to_json(bytes, &json);
	struct str made = text_str(&json);
	return json_loadb(made.p, made.n, 0, NULL);
}

const char *document_read(const struct artefact_output *out, struct str bytes)
{
	if (!pickle_begins(bytes) && !is_modest(bytes))
		return NULL;
	json_t *root = pickle_begins(bytes) ? pickle_load(bytes) : json_loadb(bytes.p, bytes.n, 0, NULL);
	if (!root)
		root = load_printed(bytes);
	if (!root)
		return read_last_line(out, bytes);
	const char *kind = offer(out, root);
	json_decref(root);
	return kind;
}

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
				    "\"function_name\"", "\"pg_status\"", "\"nccl_version\"",      "\"thread_name\"" };

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

const char *document_read(const struct artefact_output *out, struct str bytes)
{
	if (!pickle_begins(bytes) && !is_modest(bytes))
		return NULL;
	json_t *root = pickle_begins(bytes) ? pickle_load(bytes) : json_loadb(bytes.p, bytes.n, 0, NULL);
	if (!root)
		return read_last_line(out, bytes);
	const char *kind = offer(out, root);
	json_decref(root);
	return kind;
}

// What amd-smi prints of hardware errors with --json: counts (metric), bad pages, records (ras), and the file that it writes beside each record.
// Its text is made from the same keys in capitals, so that counts.c reads both. rocm-smi prints none of it as JSON; what looks like it is told
// as not understood.
#include "evidence/documents/document.h"
#include "evidence/hardware/counts.h"
#include "evidence/hardware/list.h"

enum { DEPTH_MOST = 8, LINE_MOST = 96 };

struct smi_gpu {
	struct error_counts counts;
	bool counted; // it said something of errors
};

static struct str smi_value(const json_t *value, char room[static LINE_MOST])
{
	if (json_is_object(value)) // with its unit
		value = json_object_get(value, "value");
	if (json_is_string(value))
		return (struct str){ json_string_value(value), json_string_length(value) };
	const double real = json_real_value(value);
	if (json_is_integer(value) || (json_is_real(value) && real >= 0 && real < 1e15 && real == (double)(int64_t)real))
		snprintf(room, LINE_MOST, "%lld", json_is_real(value) ? (long long)real : (long long)json_integer_value(value));
	else if (json_is_real(value))
		snprintf(room, LINE_MOST, "%g", real);
	else
		snprintf(room, LINE_MOST, "%s", json_is_null(value) ? "N/A" : "");
	return str_z(room);
}

/** `"uncorrectable_count": 4` as `UNCORRECTABLE_COUNT: 4`. What speaks of errors and is no line that is known is odd. */
static void smi_line(struct smi_gpu *g, const char *key, const json_t *value)
{
	char room[LINE_MOST], line[2 * LINE_MOST];
	const bool parent = (json_is_object(value) && !json_object_get(value, "value")) || json_is_array(value);
	const struct str text = parent ? (struct str){ 0 } : smi_value(value, room);
	snprintf(line, sizeof(line), "%.*s:%s%.*s", LINE_MOST - 1, key, parent ? "" : " ",
		 (int)(text.n < LINE_MOST ? text.n : LINE_MOST - 1), text.p ? text.p : "");
	for (char *c = line; *c && *c != ':'; c++)
		*c = *c >= 'a' && *c <= 'z' ? (char)(*c & ~32) : *c;
	const struct str all = str_z(line);
	const bool taken = counts_line(&g->counts, all), errors = str_find(all, S("UNCORRECTABLE")) >= 0;
	g->counted |= taken || errors;
	if (errors && !taken && !parent && !str_starts(all, S("CACHE_")) && !str_is(text, "0") && !str_is(text, "N/A") &&
	    !g->counts.odd[0])
		str_copy(g->counts.odd, sizeof(g->counts.odd), S("an unknown form"));
}

static void smi_walk(struct smi_gpu *g, const json_t *object, unsigned depth)
{
	const char *key;
	json_t *value;
	size_t n;
	if (depth > DEPTH_MOST)
		return;
	json_object_foreach((json_t *)object, key, value)
	{
		smi_line(g, key, value);
		smi_walk(g, value, depth + 1);
	}
	json_array_foreach(object, n, value) smi_walk(g, value, depth + 1);
}

/** A row of `amd-smi ras --cper`, or the file beside a record. Logs have severities, too: a row has nothing else. */
static bool smi_record(const struct artefact_output *out, const json_t *row)
{
	static const char rows[] = "timestamp|gpu|gpu_id|severity|cper_file|file_name|metadata_file|afids|list_of_afids|decode_failed";
	const bool beside = json_object_get(row, "error_severity") && json_object_get(row, "notify_type");
	char room[2][LINE_MOST];
	const char *key;
	json_t *value;
	struct str rest = document_text(row, "timestamp");
	struct listed_record r = { .grade = document_text(row, beside ? "error_severity" : "severity"),
				   .date = str_word(&rest) };
	r.file = document_text(row, "cper_file");
	r.file = str_base(r.file.n ? r.file : document_text(row, "file_name"));
	if (!r.grade.n && json_object_get(row, "afids")) // `ras --afid`: the name of the file says how bad it was
		r.grade = r.file;
	if (!r.grade.n)
		return false;
	json_object_foreach((json_t *)row, key, value) if (!beside && !str_among(str_z(key), STR_EQUALS, rows).n) return false;
	if (beside && str_is(document_text(row, "notify_type"), "BOOT"))
		r.grade = S("boot");
	const json_t *gpu = json_object_get(row, "gpu"), *afids = json_object_get(row, "afids");
	gpu = gpu ? gpu : json_object_get(row, "gpu_id");
	afids = afids ? afids : json_object_get(row, "list_of_afids");
	r.clock = str_word(&rest);
	r.gpu = gpu ? smi_value(gpu, room[0]) : (struct str){ 0 };
	r.afid = json_array_size(afids) ? smi_value(json_array_get(afids, 0), room[1]) : (struct str){ 0 };
	if (json_is_true(json_object_get(row, "decode_failed")))
		r.afid = S("decode");
	return list_tell(out, &r, (struct place){ out->source, out->line },
			 S("a record of a hardware error, as amd-smi lists it"));
}

/** `{"gpu": 0, "ecc": ...}`; rocm-smi's objects have the name of the card as their key. */
static bool smi_gpu(const struct artefact_output *out, const json_t *one, struct str name)
{
	struct smi_gpu g = { 0 };
	char room[LINE_MOST];
	int64_t index = -1;
	if (!json_is_object(one) || (!name.n && !json_object_get(one, "gpu")))
		return false;
	smi_walk(&g, one, 0);
	if (!str_number(name.n ? name : smi_value(json_object_get(one, "gpu"), room), &index))
		index = -1;
	if (g.counted)
		counts_tell(&g.counts, out, (struct place){ out->source, out->line }, (struct str){ 0 }, index);
	return g.counted;
}

static bool smi_read(const struct artefact_output *out, const json_t *root)
{
	const json_t *list = json_object_get(root, "gpu_data");
	const char *key;
	json_t *one;
	size_t n;
	bool any = false;
	if (out->line > 1) // the last line of a log
		return false;
	list = json_is_array(list) ? list : root;
	json_array_foreach(list, n, one) any |= smi_record(out, one) || smi_gpu(out, one, (struct str){ 0 });
	if (json_is_object(list))
		any = smi_record(out, list) || smi_gpu(out, list, (struct str){ 0 });
	json_object_foreach((json_t *)(any ? NULL : list), key, one)
	{
		struct str number;
		any |= json_is_object(one) &&
		       (smi_record(out, one) || (str_behind(str_z(key), S("card"), &number) && smi_gpu(out, one, number)));
	}
	return any;
}

const struct document_reader smi_document = { "inventory", smi_read };

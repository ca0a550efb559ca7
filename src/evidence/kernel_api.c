// Logs that SGLang and FlashInfer write at the border of each kernel call (SGLANG_KERNEL_API_LOGLEVEL, FLASHINFER_LOGLEVEL):
// the last call before the end, its tensors, and the values in them that are no numbers; and the metadata of their dumps.
//
//   [2026-03-12 14:15:02] SGLang Kernel API Call: RMSNorm.forward
//   Positional input arguments:
//     arg[0]=Tensor(
//         shape=(64, 7168)
//         nan_count=0
#include <stdlib.h>

#include "evidence/artefact.h"
#include "evidence/documents/document.h"

enum { SHAPES_BYTES = 600, NAME_BYTES = 160, ODD_INDEX = 1000000 };

/** A call that has begun. */
struct call {
	struct str name, exception;
	struct place at;
	struct stamp time;
	struct writer writer;
	int64_t nan, inf;
	struct str odd_range; // of an integer argument
	bool returned, poisoned;
};

struct kernel_api {
	struct artefact_output out;
	struct arena arena;
	struct call call; // the newest
	bool has_call;
	bool outputs;   // its results are being printed
	bool tells_end; // the level at which ends of calls are printed
	struct text shapes;
	char dump[400]; // where the inputs were saved
	bool integers;  // the tensor that is being printed holds integers
	char low[24];
	uint64_t calls;
};

static bool find_call(struct str line, struct str *ret_name)
{
	if (!str_after(line, S("SGLang Kernel API Call: "), ret_name) && !str_after(line, S("FlashInfer API Call: "), ret_name))
		return false;
	*ret_name = str_trim(*ret_name);
	return true;
}

static bool kernel_api_begins(struct str line) { return find_call(line, &(struct str){ 0 }); }

static void begin_call(struct kernel_api *k, const struct logline *line, struct str name, struct place at)
{
	if (k->has_call) // FlashInfer names the dump before the call
		k->dump[0] = 0;
	arena_free(&k->arena);
	k->call = (struct call){ .name = arena_str(&k->arena, str_cut(name, NAME_BYTES)), .at = at };
	k->call.time = line_time(line);
	k->call.writer.rank = arena_str(&k->arena, line->writer.rank);
	k->call.writer.pid = arena_str(&k->arena, line->writer.pid);
	k->has_call = true;
	k->outputs = false;
	k->calls++;
	text_clear(&k->shapes);
}

static enum taken kernel_api_line(void *self, const struct logline *line, struct place at)
{
	struct kernel_api *k = self;
	struct str text = str_trim(line->message), rest;
	int64_t n;
	if (str_behind(text, S("dtype=torch."), &rest)) { // a new tensor: what was known of the one before is not of it
		k->integers = str_starts(rest, S("int"));
		k->low[0] = 0;
	}
	if (find_call(text, &rest)) {
		begin_call(k, line, rest, at);
		return true;
	}
	if (str_after(text, S("API Exception: "), &rest)) {
		if (!k->call.exception.n)
			k->call.exception = arena_str(&k->arena, str_cut(rest, 240));
		return true;
	}
	if (str_behind(text, S("Output"), &rest)) {
		k->outputs = k->call.returned = k->tells_end = true;
	} else if (str_behind(text, S("Dumped inputs to: "), &rest)) {
		k->has_call &= !k->call.returned;
		str_copy(k->dump, sizeof(k->dump), rest);
	} else if (str_behind(text, S("shape="), &rest) && !k->outputs && k->shapes.n < SHAPES_BYTES) {
		text_printf(&k->shapes, "%s" STR_FMT, k->shapes.n ? " " : "", STR_ARG(rest));
	} else if (str_behind(text, S("dtype=torch."), &rest) && !k->outputs && k->shapes.n && k->shapes.n < SHAPES_BYTES) {
		text_printf(&k->shapes, ":" STR_FMT, STR_ARG(str_cut(rest, 20)));
	} else if (str_behind(text, S("min="), &rest) && rest.n < sizeof(k->low)) {
		str_copy(k->low, sizeof(k->low), rest);
	} else if (str_behind(text, S("max="), &rest) && k->integers && !k->outputs && !k->call.odd_range.n) {
		char number[24];
		str_copy(number, sizeof(number), rest);
		double low = strtod(k->low, NULL), top = strtod(number, NULL);
		// Ids and offsets that no table of a model reaches, or that wrapped round.
		if (low < -1 || top > ODD_INDEX)
			k->call.odd_range = arena_printf(&k->arena, "%.0f to %.0f", low, top);
	} else if ((str_behind(text, S("nan_count="), &rest) || str_behind(text, S("inf_count="), &rest)) && !k->outputs &&
		   str_number(rest, &n)) {
		int64_t *sum = text.p[0] == 'n' ? &k->call.nan : &k->call.inf;
		*sum += n > 0 && *sum < INT64_MAX - n ? n : 0;
	} else if (str_starts(text, S("statistics=[unavailable"))) {
		k->call.poisoned = true;
	} else {
		// Words with which lines of the block begin that follows a call.
		const char *words =
			"arg[|return|Positional input|Keyword input|Default param|Tensor(|shape=|dtype=|device=|requires_grad=|"
			"is_contiguous=|stride=|min=|max=|mean=|nan_count=|inf_count=|statistics=|repr=|)|[|Output|Dumped "
			"|====|"
			"----|Warning:|<";
		return !text.n || str_among(text, STR_BEGINS, words).n ? TAKEN_LOOKS_LIKE : TAKEN_NO;
	}
	return true;
}

static void add_call(struct event *e, struct arena *a, struct str name, struct str shapes, struct str dump)
{
	event_add_text(e, a, "api_call", name);
	event_add_text(e, a, "shapes", shapes);
	event_add_text(e, a, "dump", dump);
}

static void kernel_api_close(void *self)
{
	struct kernel_api *k = self;
	const struct call *c = &k->call;
	struct event e;
	if (k->has_call && artefact_event(&k->out, "api-last-call", c->at, &e)) {
		e.time = c->time;
		add_call(&e, &k->arena, c->name, text_str(&k->shapes), str_z(k->dump));
		event_add(&e, S("rank"), c->writer.rank, FACT_NUMBER);
		event_add(&e, S("pid"), c->writer.pid, FACT_NUMBER);
		event_add(&e, S("api_returned"), c->returned ? S("yes") : k->tells_end ? S("no") : S("unknown"), FACT_TEXT);
		event_add(&e, S("exception"), c->exception, FACT_TEXT);
		if (c->nan || c->inf) {
			event_add_number(&e, &k->arena, "nan_count", c->nan);
			event_add_number(&e, &k->arena, "inf_count", c->inf);
		}
		event_add(&e, S("odd_range"), c->odd_range, FACT_TEXT);
		if (c->poisoned)
			event_add(&e, S("api_poisoned"), S("yes"), FACT_TEXT);
		event_add_number(&e, &k->arena, "api_calls", (int64_t)k->calls);
		artefact_tell(&k->out, &e);
	}
	text_free(&k->shapes);
	arena_free(&k->arena);
}

ARTEFACT_READER(kernel_api, "kernel-api-log", UINT32_MAX); // such a log has lines of everything else between its calls

// --- metadata of a dump ---

static bool kernel_api_document_read(const struct artefact_output *out, const json_t *root)
{
	struct str name = document_text(root, "function_name"), status = document_text(root, "execution_status");
	struct event e;
	if (!name.n || !status.n)
		return false;
	// A call that ended says nothing; of a file with one line for each state the last one counts.
	if (!artefact_event(out, str_is(status, "inputs_saved") ? "api-dump-open" : "api-dump-closed",
			    (struct place){ out->source, out->line }, &e))
		return true;
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text shapes = { 0 };
	const char *key;
	json_t *tensor;
	json_object_foreach(json_object_get(root, "tensor_details"), key, tensor)
	{
		enum { DIMENSIONS_MAX = 16 };
		const char *type = json_string_value(json_object_get(tensor, "dtype"));
		const json_t *shape = json_object_get(tensor, "shape");
		if (shapes.n >= SHAPES_BYTES)
			break;
		text_printf(&shapes, "%s[", shapes.n ? " " : ""); // `[16, 4096]:torch.bfloat16`
		for (size_t n = 0; n < json_array_size(shape) && n < DIMENSIONS_MAX; n++)
			text_printf(&shapes, "%s%lld", n ? ", " : "", (long long)json_integer_value(json_array_get(shape, n)));
		text_printf(&shapes, "]:%.40s", type ? type : "?");
	}
	add_call(&e, &a, str_cut(name, NAME_BYTES), text_str(&shapes), str_cut(document_text(root, "dump_dir"), 400));
	event_add_text(&e, &a, "execution_status", status);
	json_int_t pid = json_integer_value(json_object_get(root, "process_id"));
	if (pid > 0)
		event_add_number(&e, &a, "pid", pid);
	artefact_tell(out, &e);
	return true;
}

const struct document_reader kernel_api_document = { "kernel-api-dump", kernel_api_document_read };

// Inputs of launches that level 10 saved.
#include "evidence/recording/inputs.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "evidence/documents/document.h"
#include "source/file.h"

enum { LIST_MOST = 64, METADATA_BYTES = 1 << 18, HEAD_SIZE = 8 };

static bool number_of(const json_t *object, const char *key, uint64_t *ret)
{
	const json_t *v = json_object_get(object, key);
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return false;
	*ret = (uint64_t)json_integer_value(v);
	return true;
}

static json_t *inputs_json(struct str text)
{
	return text.n ? json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, NULL) : NULL;
}

/** Where the tensor of an argument lies in the data behind the head, if it lies there and is as long as it should be. */
static bool tensor_place(const json_t *head, uint64_t data, uint64_t size, struct input_saved *in)
{
	char name[32];
	snprintf(name, sizeof(name), "argument_%u", in->argument);
	const json_t *offsets = json_object_get(json_object_get(head, name), "data_offsets");
	const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
	if (!json_is_integer(from) || !json_is_integer(to) || json_integer_value(from) < 0 || json_integer_value(to) < 0)
		return false;
	const uint64_t begin = (uint64_t)json_integer_value(from), end = (uint64_t)json_integer_value(to);
	if (end < begin || end > size - data || end - begin != in->bytes)
		return false;
	in->at = data + begin;
	return true;
}

static bool take_input(struct arena *a, const json_t *of, const json_t *head, uint64_t data, uint64_t size,
		       struct input_saved *ret)
{
	uint64_t argument;
	struct str address = document_text(of, "address");
	if (!number_of(of, "argument", &argument) || argument > UINT16_MAX || !number_of(of, "bytes", &ret->bytes) ||
	    !str_starts(address, S("0x")) || !str_hex(address, &ret->address))
		return false;
	ret->argument = (uint32_t)argument;
	ret->dtype = arena_str(a, document_text(of, "dtype"));
	ret->guessed = !json_is_false(json_object_get(of, "guessed"));
	return tensor_place(head, data, size, ret);
}

struct uh_error *inputs_parse(struct arena *a, struct str metadata, struct str tensors, uint64_t size, struct inputs_saved *ret)
{
	uint64_t head = tensors.n >= HEAD_SIZE ? get_u64(tensors.p) : 0, pid, queue;
	_cleanup_json_ json_t *what = inputs_json(metadata);
	if (!head || head > tensors.n - HEAD_SIZE || size < HEAD_SIZE + head)
		return uh_error_new("the head of " INPUTS_TENSORS " is not whole");
	_cleanup_json_ json_t *where = inputs_json((struct str){ tensors.p + HEAD_SIZE, head });
	struct inputs_saved in = { 0 };
	if (!json_is_object(what) || !str_is(document_text(what, "schema"), "unhang/inputs/1") ||
	    !number_of(what, "pid", &pid) || !number_of(what, "queue", &queue) || queue > UINT32_MAX ||
	    !number_of(what, "packet", &in.packet))
		return uh_error_new(INPUTS_METADATA " is not that of a launch's inputs");
	const json_t *list = json_object_get(what, "inputs");
	const size_t n = json_array_size(list) < LIST_MOST ? json_array_size(list) : LIST_MOST;
	in.pid = (int64_t)pid;
	in.queue = (uint32_t)queue;
	in.kernel = arena_str(a, document_text(what, "kernel"));
	in.list = arena_alloc(a, (n + 1) * sizeof(*in.list));
	for (size_t i = 0; i < n; i++)
		in.n += take_input(a, json_array_get(list, i), where, HEAD_SIZE + head, size, &in.list[in.n]);
	*ret = in;
	return NULL;
}

/** One launch; false: it is not whole, or of another process. */
static bool inputs_read_one(struct arena *a, const char *directory, int64_t pid, struct inputs_saved *ret)
{
	_cleanup_arena_ struct arena room = { 0 };
	struct str metadata;
	struct file f;
	const char *tensors = arena_printf(&room, "%s/" INPUTS_TENSORS, directory).p;
	const struct named named = { .path = arena_printf(&room, "%s/" INPUTS_METADATA, directory).p };
	struct uh_error *err = named_read(&named, METADATA_BYTES, &room, &metadata, NULL);
	err = err ? err : file_open(tensors, &f);
	if (err) {
		door_forget(err);
		return false;
	}
	char size[HEAD_SIZE];
	const size_t most = HEAD_SIZE + (file_read(&f, 0, size, sizeof(size)) ? get_u64(size) : 0);
	const size_t n = most > INPUTS_HEAD_MOST ? 0 : most;
	char *head = arena_alloc(&room, n + 1);
	const bool read = n > HEAD_SIZE && file_read(&f, 0, head, n);
	err = read ? inputs_parse(a, metadata, (struct str){ head, n }, f.size, ret) : uh_error_new("no head");
	file_close(&f);
	const bool good = !err && ret->pid == pid;
	uh_error_free(err);
	ret->directory = good ? arena_str(a, str_z(directory)) : (struct str){ 0 };
	return good;
}

struct inputs_saved *inputs_read(struct arena *a, const char *directory, int64_t pid, size_t *ret_n)
{
	struct door_names names = { 0 };
	door_forget(door_names(&(struct named){ .path = directory }, false, a, &names));
	const size_t most = names.n < INPUTS_LAUNCHES ? names.n : INPUTS_LAUNCHES;
	struct inputs_saved *list = arena_alloc(a, (most + 1) * sizeof(*list));
	size_t n = 0;
	for (size_t i = names.n - most; i < names.n; i++) // numbered: the last are the newest
		if (char_digit(names.list[i][0]))
			n += inputs_read_one(a, arena_printf(a, "%s/%s", directory, names.list[i]).p, pid, &list[n]);
	*ret_n = n;
	return list;
}

const struct inputs_saved *inputs_of(const struct inputs_saved *list, size_t n, uint32_t queue, uint64_t packet)
{
	return list_find(list, n, it, it->queue == queue && it->packet == packet);
}

// Level 10: the inputs of a kernel before it runs, as safetensors with a metadata.json beside it. A directory for each launch; the oldest
// are removed when there are too many, or too many bytes.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/inputs/inputs.h"

#define UNHANG_RECORDER_INSIDE
#include "recorder/statistics.h"
#include "unhang/recorder.h"

enum { DUMPS_KEPT = 4096, HEAD_MOST = 16384, NUMBERS_MOST = 1000000, NOT_READ = -1 };

static const char *const dtypes[UNHANG_DTYPES] = {
	[UNHANG_FLOAT64] = "F64",         [UNHANG_FLOAT32] = "F32",
	[UNHANG_FLOAT16] = "F16",         [UNHANG_BFLOAT16] = "BF16",
	[UNHANG_FLOAT8_E4M3] = "F8_E4M3", [UNHANG_FLOAT8_E5M2] = "F8_E5M2",
	[UNHANG_INT64] = "I64",           [UNHANG_INT32] = "I32",
	[UNHANG_INT16] = "I16",           [UNHANG_INT8] = "I8",
	[UNHANG_UINT64] = "U64",          [UNHANG_UINT32] = "U32",
	[UNHANG_UINT16] = "U16",          [UNHANG_UINT8] = "U8",
	[UNHANG_BOOL] = "BOOL",           [UNHANG_COMPLEX64] = "C64",
};

/** The dumps that there are, oldest first, as a ring. One thread alone makes them. */
static struct {
	uint64_t first, next;
	uint64_t number; // of the next directory
	uint64_t bytes;  // of all
	struct {
		uint64_t number, bytes;
	} list[DUMPS_KEPT];
} kept;

static void dump_path(uint64_t number, const char *file, char ret[PATH_MOST + 64])
{
	snprintf(ret, PATH_MOST + 64, "%s/%06llu%s%s", rec.settings.dumps, (unsigned long long)number, file ? "/" : "",
		 file ? file : "");
}

static void files_remove(uint64_t number)
{
	char path[PATH_MOST + 64];
	static const char *const files[] = { "inputs.safetensors", "metadata.json", NULL };
	for (unsigned i = 0; i < 3; i++) {
		dump_path(number, files[i], path);
		if (files[i])
			unlink(path);
		else
			rmdir(path);
	}
}

static void remove_oldest(void)
{
	files_remove(kept.list[kept.first % DUMPS_KEPT].number);
	kept.bytes -= kept.list[kept.first % DUMPS_KEPT].bytes;
	kept.first++;
}

/** Room for @bytes more; false: it is more than may be dumped at all. */
static bool make_room(uint64_t bytes)
{
	const uint32_t most = rec.settings.dump_count < DUMPS_KEPT ? rec.settings.dump_count : DUMPS_KEPT;
	if (bytes > rec.settings.dump_bytes || !most)
		return false;
	while (kept.first < kept.next && (kept.next - kept.first >= most || kept.bytes + bytes > rec.settings.dump_bytes))
		remove_oldest();
	return true;
}

struct head {
	char text[HEAD_MOST];
	size_t n;
};

static void add(struct head *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct head *h, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	const int n = vsnprintf(h->text + h->n, sizeof(h->text) - h->n, format, ap);
	va_end(ap);
	h->n = n < 0 || h->n + (size_t)n >= sizeof(h->text) ? sizeof(h->text) - 1 : h->n + (size_t)n;
}

/** A type that safetensors has no name for is written as bytes. */
static const char *type_name(const struct input *in) { return dtypes[in->dtype] ? dtypes[in->dtype] : "U8"; }

static void add_shape(struct head *h, const struct input *in)
{
	add(h, "[");
	for (unsigned d = 0; dtypes[in->dtype] && d < in->ndim; d++)
		add(h, "%s%llu", d ? "," : "", (unsigned long long)in->shape[d]);
	if (!dtypes[in->dtype])
		add(h, "%llu", (unsigned long long)in->bytes);
	add(h, "]");
}

/** The head of a safetensors file: where each tensor is. Padded with spaces to 8 bytes. */
static void head_make(struct head *h, const struct inputs *in)
{
	uint64_t at = 0;
	add(h, "{");
	for (size_t i = 0; i < in->n; i++) {
		add(h, "%s\"argument_%u\":{\"dtype\":\"%s\",\"shape\":", i ? "," : "", in->list[i].argument,
		    type_name(&in->list[i]));
		add_shape(h, &in->list[i]);
		add(h, ",\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)(at + in->list[i].bytes));
		at += in->list[i].bytes;
	}
	add(h, "}");
	while (h->n % 8)
		add(h, " ");
}

/** A file that is being written. */
struct file {
	int fd, error;
};

static bool write_piece(void *ctx, const void *bytes, size_t n)
{
	struct file *f = ctx;
	const char *p = bytes;
	while (n) {
		const ssize_t done = write(f->fd, p, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			f->error = done ? errno : ENOSPC;
			return false;
		}
		p += done;
		n -= (size_t)done;
	}
	return true;
}

static struct file file_make(const char *path)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return (struct file){ fd, fd < 0 ? errno : 0 };
}

static void file_end(const struct file *f)
{
	if (f->fd >= 0)
		close(f->fd);
}

/** 0, errno of the file, or NOT_READ. */
static int write_tensors(const struct inputs *in, const char *path)
{
	struct head h = { .n = 0 };
	head_make(&h, in);
	const uint64_t size = h.n;
	struct file f = file_make(path);
	bool good = f.fd >= 0 && write_piece(&f, &size, sizeof(size)) && write_piece(&f, h.text, h.n);
	for (size_t i = 0; good && i < in->n; i++)
		good = input_read(&in->list[i], write_piece, &f);
	file_end(&f);
	return good && reading_on() ? 0 : f.error ? f.error : NOT_READ;
}

/** A name from a code object may hold anything. */
static void add_text(struct head *h, const char *text)
{
	add(h, "\"");
	for (size_t i = 0; text && text[i] && i < 1024; i++) {
		const unsigned char c = (unsigned char)text[i];
		add(h, c < 0x20 || c == '"' || c == '\\' || c >= 0x7f ? "\\u%04x" : "%c", c);
	}
	add(h, "\"");
}

static int write_metadata(const struct inputs *in, const char *path)
{
	struct head h = { .n = 0 };
	add(&h, "{\"schema\":\"unhang/inputs/1\",\"pid\":%d,\"rank\":%d,\"queue\":%u,\"packet\":%llu,\"kernel\":", (int)rec.pid,
	    rec.settings.rank, in->queue, (unsigned long long)in->packet);
	add_text(&h, in->name);
	add(&h, ",\"operation\":%u,\"inputs\":[", in->operation);
	for (size_t i = 0; i < in->n; i++) {
		add(&h, "%s{\"argument\":%u,\"address\":\"0x%llx\",\"bytes\":%llu,\"dtype\":\"%s\",\"guessed\":%s,\"shape\":",
		    i ? "," : "", in->list[i].argument, (unsigned long long)in->list[i].address,
		    (unsigned long long)in->list[i].bytes, type_name(&in->list[i]), in->list[i].guessed ? "true" : "false");
		add_shape(&h, &in->list[i]);
		add(&h, "}");
	}
	add(&h, "]}\n");
	struct file f = file_make(path);
	if (f.fd >= 0)
		write_piece(&f, h.text, h.n);
	file_end(&f);
	return f.error;
}

/** A directory of its own. Others of this name are of an earlier job, or of another one that dumps to the same place. */
static int directory_make(void)
{
	char path[PATH_MOST + 64];
	if (mkdir(rec.settings.dumps, 0700) && errno != EEXIST)
		return errno;
	for (; kept.number < NUMBERS_MOST; kept.number++) {
		dump_path(kept.number, NULL, path);
		if (!mkdir(path, 0700))
			return 0;
		if (errno != EEXIST)
			return errno;
	}
	return EEXIST;
}

/** The metadata comes last: a directory that has it is whole. */
static int write_dump(const struct inputs *in)
{
	char path[PATH_MOST + 64];
	dump_path(kept.number, "inputs.safetensors", path);
	const int error = write_tensors(in, path);
	if (error)
		return error;
	dump_path(kept.number, "metadata.json", path);
	return write_metadata(in, path);
}

static void dump_keep(uint64_t bytes)
{
	kept.list[kept.next % DUMPS_KEPT].number = kept.number;
	kept.list[kept.next++ % DUMPS_KEPT].bytes = bytes;
	kept.bytes += bytes;
}

/** Beside the directories of launches, and not counted with them. */
static int code_write(uint64_t kernel)
{
	char path[PATH_MOST + 64];
	_cleanup_free_ char *bytes = NULL;
	size_t size = 0;
	const uint64_t base = code_keep(kernel, &bytes, &size);
	if (!base)
		return 0;
	snprintf(path, sizeof(path), "%s/code-%d-%llx.co", rec.settings.dumps, (int)rec.pid, (unsigned long long)base);
	struct file f = file_make(path);
	if (f.fd >= 0)
		write_piece(&f, bytes, size);
	file_end(&f);
	return f.error == EEXIST ? 0 : f.error;
}

void inputs_dump(const struct inputs *in)
{
	static bool told;
	uint64_t bytes = 0;
	for (size_t i = 0; i < in->n; i++)
		bytes += in->list[i].bytes;
	if (!make_room(bytes))
		return;
	int error = directory_make();
	if (!error) {
		error = code_write(in->kernel);
		error = error ? error : write_dump(in);
		if (error)
			files_remove(kept.number);
		else
			dump_keep(bytes);
		kept.number++;
	}
	if (error && error != NOT_READ && !told) {
		told = true;
		rec_line("cannot write inputs to %s: %s", rec.settings.dumps, strerror(error));
	}
}

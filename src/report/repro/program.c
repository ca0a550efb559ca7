// The program: HIP in C++, which any compiler that finds HIP's headers can build. Its first part is the same for all; what follows is numbers, and
// names of kernels as octal.
#include "base/cleanup.h"
#include "report/repro/repro.h"

static const char prelude[] =
	"// A GPU launch that failed, as a standalone program. unhang repro wrote it; README.md says how to build it and what "
	"it must show.\n"
	"#include <hip/hip_runtime.h>\n"
	"#include <stdint.h>\n"
	"#include <stdio.h>\n"
	"#include <stdlib.h>\n"
	"#include <string.h>\n"
	"\n"
	"// As hip/hip_ext.h has it, which needs hipcc: this one counts the grid in work-items, as the GPU does.\n"
	"hipError_t hipExtModuleLaunchKernel(hipFunction_t kernel, uint32_t grid_x, uint32_t grid_y, uint32_t "
	"grid_z,\n"
	"                                    uint32_t group_x, uint32_t group_y, uint32_t group_z, size_t lds, "
	"hipStream_t stream,\n"
	"                                    void **parameters, void **extra, hipEvent_t begin, hipEvent_t end, "
	"uint32_t flags);\n"
	"\n"
	"#define CHECK(call) check((call), #call)\n"
	"static void check(hipError_t error, const char *call)\n"
	"{\n"
	"\tif (error == hipSuccess)\n"
	"\t\treturn;\n"
	"\tfprintf(stderr, \"%s: %s (%s)\\n\", call, hipGetErrorName(error), hipGetErrorString(error));\n"
	"\texit(1);\n"
	"}\n"
	"\n"
	"enum { DEVICE, HOST };\n"
	"struct pointer {\n"
	"\tuint64_t at;      // these eight bytes are an address:\n"
	"\tuint32_t buffer;  // of this buffer\n"
	"\tint64_t offset;   // and so many bytes into it\n"
	"};\n"
	"static char *buffers[BUFFERS];\n"
	"static hipModule_t objects[OBJECTS];\n"
	"static hipStream_t streams[STREAMS];\n"
	"\n"
	"static void allocate(unsigned i, uint64_t bytes, int where)\n"
	"{\n"
	"\tif (where == HOST)\n"
	"\t\tCHECK(hipHostMalloc((void **)&buffers[i], bytes, 0));\n"
	"\telse\n"
	"\t\tCHECK(hipMalloc((void **)&buffers[i], bytes));\n"
	"\tprintf(\"buffer %u: %llu bytes, 0x%llx to 0x%llx\\n\", i, (unsigned long long)bytes, (unsigned long "
	"long)(uintptr_t)buffers[i],\n"
	"\t       (unsigned long long)((uintptr_t)buffers[i] + bytes));\n"
	"}\n"
	"\n"
	"static void release(unsigned i, int where)\n"
	"{\n"
	"\tif (where == HOST)\n"
	"\t\tCHECK(hipHostFree(buffers[i]));\n"
	"\telse\n"
	"\t\tCHECK(hipFree(buffers[i]));\n"
	"\tprintf(\"buffer %u: freed\\n\", i);\n"
	"}\n"
	"\n"
	"static void point(void *bytes, const struct pointer *pointers, size_t n)\n"
	"{\n"
	"\tfor (size_t i = 0; i < n; i++) {\n"
	"\t\tuint64_t address = (uint64_t)(uintptr_t)buffers[pointers[i].buffer] + (uint64_t)pointers[i].offset;\n"
	"\t\tmemcpy((char *)bytes + pointers[i].at, &address, sizeof(address));\n"
	"\t}\n"
	"}\n"
	"\n"
	"static void put(unsigned i, uint64_t offset, void *image, uint64_t bytes, const struct pointer *pointers, size_t n)\n"
	"{\n"
	"\tpoint(image, pointers, n);\n"
	"\tCHECK(hipMemcpy(buffers[i] + offset, image, bytes, hipMemcpyDefault));\n"
	"\tfree(image);\n"
	"}\n"
	"\n"
	"static void *image_of(uint64_t bytes)\n"
	"{\n"
	"\tvoid *image = calloc(1, bytes ? bytes : 1);\n"
	"\tif (!image) {\n"
	"\t\tfprintf(stderr, \"no memory for %llu bytes\\n\", (unsigned long long)bytes);\n"
	"\t\texit(2);\n"
	"\t}\n"
	"\treturn image;\n"
	"}\n"
	"\n"
	"static void zeros(unsigned i, uint64_t offset, uint64_t bytes, const struct pointer *pointers, size_t n)\n"
	"{\n"
	"\tif (n)\n"
	"\t\tput(i, offset, image_of(bytes), bytes, pointers, n);\n"
	"\telse\n"
	"\t\tCHECK(hipMemset(buffers[i] + offset, 0, bytes));\n"
	"}\n"
	"\n"
	"// Numbers that rise from the first to the last; of a type that is not among these: zeros.\n"
	"static void values(unsigned i, uint64_t offset, uint64_t bytes, const char *type, double least, double most)\n"
	"{\n"
	"\tvoid *image = image_of(bytes);\n"
	"\tconst int is_float = !strcmp(type, \"float32\"), is_double = !strcmp(type, \"float64\");\n"
	"\tconst int is_int = !strcmp(type, \"int32\"), is_long = !strcmp(type, \"int64\");\n"
	"\tconst uint64_t size = is_double || is_long ? 8 : 4, n = bytes / size;\n"
	"\tfor (uint64_t k = 0; k < n; k++) {\n"
	"\t\tconst double v = least + (n > 1 ? (most - least) * (double)k / (double)(n - 1) : 0);\n"
	"\t\tif (is_float)\n"
	"\t\t\t((float *)image)[k] = (float)v;\n"
	"\t\telse if (is_double)\n"
	"\t\t\t((double *)image)[k] = v;\n"
	"\t\telse if (is_int)\n"
	"\t\t\t((int32_t *)image)[k] = (int32_t)v;\n"
	"\t\telse if (is_long)\n"
	"\t\t\t((int64_t *)image)[k] = (int64_t)v;\n"
	"\t}\n"
	"\tput(i, offset, image, bytes, NULL, 0);\n"
	"}\n"
	"\n"
	"static void saved(unsigned i, uint64_t offset, const char *file, uint64_t bytes, const struct pointer *pointers, "
	"size_t n)\n"
	"{\n"
	"\tvoid *image = image_of(bytes);\n"
	"\tFILE *f = fopen(file, \"rb\");\n"
	"\tif (!f || fread(image, 1, bytes, f) != bytes) {\n"
	"\t\tfprintf(stderr, \"%s: cannot be read; start the program in its own directory\\n\", file);\n"
	"\t\texit(2);\n"
	"\t}\n"
	"\tfclose(f);\n"
	"\tput(i, offset, image, bytes, pointers, n);\n"
	"}\n"
	"\n"
	"struct launching {\n"
	"\tunsigned object;\n"
	"\tconst char *kernel;\n"
	"\tuint32_t grid[3], group[3], lds; // the grid counts work-items\n"
	"\tunsigned stream;\n"
	"\tint wait; // until it has ended\n"
	"};\n"
	"static void launch(const struct launching *l, void *arguments, size_t size, const struct pointer *pointers, size_t "
	"n)\n"
	"{\n"
	"\thipFunction_t kernel;\n"
	"\tvoid *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, "
	"HIP_LAUNCH_PARAM_END };\n"
	"\tCHECK(hipModuleGetFunction(&kernel, objects[l->object], l->kernel));\n"
	"\tpoint(arguments, pointers, n);\n"
	"\tfflush(stdout);\n"
	"\tCHECK(hipExtModuleLaunchKernel(kernel, l->grid[0], l->grid[1], l->grid[2], l->group[0], l->group[1], l->group[2], "
	"l->lds,\n"
	"\t                               streams[l->stream], NULL, extra, NULL, NULL, 0));\n"
	"\tif (l->wait)\n"
	"\t\tCHECK(hipDeviceSynchronize());\n"
	"}\n"
	"\n";

// --- the plan, as it is after shrinking ---

struct repro_walk repro_walk_begin(const struct repro_plan *p, struct arena *a)
{
	struct repro_walk w = { .used = arena_alloc(a, p->buffers.len + 1), .written = arena_alloc(a, p->buffers.len + 1) };
	for (size_t i = 0; i < p->launches.len; i++)
		for (size_t k = 0; !p->launches.data[i].dropped && k < p->launches.data[i].npointers; k++)
			w.used[p->launches.data[i].pointers[k].buffer] = true;
	for (size_t i = 0; i < p->writes.len; i++) {
		const struct repro_write *x = &p->writes.data[i];
		for (size_t k = 0; !p->launches.data[x->launch].dropped && k < x->npointers; k++)
			w.used[x->pointers[k].buffer] = true;
	}
	return w;
}

/** Saved bytes are written before each launch: who wrote to the buffer since the launch before is not always known. Others are only put where
 * nobody has written yet. */
static bool write_needed(const struct repro_plan *p, const struct repro_write *w, const bool *written)
{
	const struct repro_launch *l = &p->launches.data[w->launch];
	return !l->dropped && (!written[w->buffer] || w->fill == REPRO_SAVED);
}

bool repro_walk_next(const struct repro_plan *p, struct repro_walk *w, struct repro_step *ret)
{
	while (w->at < p->steps.len) {
		const struct repro_step s = p->steps.data[w->at++];
		const struct repro_launch *l = s.act == REPRO_LAUNCH ? &p->launches.data[s.index] : NULL;
		bool wanted = l ? !l->dropped : true;
		if (s.act == REPRO_ALLOCATE || s.act == REPRO_RELEASE)
			wanted = w->used[s.index] && (s.act == REPRO_ALLOCATE || p->buffers.data[s.index].freed);
		if (s.act == REPRO_WRITE)
			wanted = write_needed(p, &p->writes.data[s.index], w->written);
		for (size_t k = 0; wanted && l && k < l->npointers; k++)
			w->written[l->pointers[k].buffer] = true;
		if (wanted) {
			*ret = s;
			return true;
		}
	}
	return false;
}

size_t repro_launches_left(const struct repro_plan *p)
{
	size_t n = 0;
	for (size_t i = 0; i < p->launches.len; i++)
		n += !p->launches.data[i].dropped;
	return n;
}

uint64_t repro_bytes_left(const struct repro_plan *p)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct repro_walk w = repro_walk_begin(p, &a);
	uint64_t n = 0;
	for (size_t i = 0; i < p->buffers.len; i++)
		n += w.used[i] ? p->buffers.data[i].bytes : 0;
	return n;
}

bool repro_object_used(const struct repro_plan *p, size_t object)
{
	return list_find(p->launches.data, p->launches.len, it, it->object == object && !it->dropped);
}

const struct repro_launch *repro_failing(const struct repro_plan *p)
{
	const struct repro_launch *l = list_find(p->launches.data, p->launches.len, it, it->role == REPRO_FAILS);
	return l ? l : &p->launches.data[p->launches.len - 1];
}

// --- its text ---

/** A string of C, whatever is in it. */
static void write_name(struct str s, FILE *out)
{
	fputc('"', out);
	for (size_t i = 0; i < s.n; i++)
		if (char_word(s.p[i]))
			fputc(s.p[i], out);
		else
			fprintf(out, "\\%03o", (unsigned)(unsigned char)s.p[i]);
	fputc('"', out);
}

/** The name of a table of pointers and its length, as two arguments. */
static void write_pointers(const struct repro_pointer *list, size_t n, const char *name, size_t number, FILE *out)
{
	if (!n)
		return;
	fprintf(out, "static const struct pointer %s%zu[] = {\n", name, number);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "\t{ %llu, %u, %lld },\n", (unsigned long long)list[i].at, list[i].buffer,
			(long long)list[i].offset);
	fprintf(out, "};\n");
}

static void write_pointed(size_t n, const char *name, size_t number, FILE *out)
{
	if (n)
		fprintf(out, "%s%zu, %zu);\n", name, number, n);
	else
		fprintf(out, "NULL, 0);\n");
}

/** How many bytes of a write are left, and how many of its pointers lie in them. */
static uint64_t write_left(const struct repro_plan *p, const struct repro_write *w, size_t *ret_pointers)
{
	const uint64_t room = p->buffers.data[w->buffer].bytes, left = w->offset < room ? room - w->offset : 0;
	const uint64_t bytes = w->bytes < left ? w->bytes : left;
	size_t n = 0;
	while (n < w->npointers && w->pointers[n].at + 8 <= bytes)
		n++;
	*ret_pointers = n;
	return bytes;
}

static void write_tables(const struct repro_plan *p, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct repro_walk w = repro_walk_begin(p, &a);
	struct repro_step s;
	while (repro_walk_next(p, &w, &s)) {
		const struct repro_write *x = s.act == REPRO_WRITE ? &p->writes.data[s.index] : NULL;
		const struct repro_launch *l = s.act == REPRO_LAUNCH ? &p->launches.data[s.index] : NULL;
		size_t n;
		if (x && write_left(p, x, &n))
			write_pointers(x->pointers, n, "in_bytes_", s.index, out);
		if (!l)
			continue;
		write_pointers(l->pointers, l->npointers, "in_arguments_", s.index, out);
		fprintf(out, "static unsigned char arguments_%u[] = {", s.index);
		for (size_t i = 0; i < l->arguments.n; i++)
			fprintf(out, "%s0x%02x,", i % 16 ? " " : "\n\t", (unsigned)(unsigned char)l->arguments.p[i]);
		fprintf(out, "%s\n};\n", l->arguments.n ? "" : "\n\t0,");
	}
}

static void write_contents(const struct repro_plan *p, size_t at, FILE *out)
{
	const struct repro_write *w = &p->writes.data[at];
	size_t pointers;
	const unsigned long long offset = w->offset, n = write_left(p, w, &pointers);
	if (!n)
		return;
	if (w->fill == REPRO_SAVED && !w->dropped) {
		fprintf(out, "\tsaved(%u, %llu, \"data-%u.bin\", %llu, ", w->buffer, offset, w->file, n);
		write_pointed(pointers, "in_bytes_", at, out);
	} else if (w->fill == REPRO_VALUES && !w->dropped && !pointers) {
		fprintf(out, "\tvalues(%u, %llu, %llu, ", w->buffer, offset, n);
		write_name(w->dtype, out);
		fprintf(out, ", %.17g, %.17g);\n", w->least, w->most);
	} else {
		fprintf(out, "\tzeros(%u, %llu, %llu, ", w->buffer, offset, n);
		write_pointed(pointers, "in_bytes_", at, out);
	}
}

static void write_launch(const struct repro_plan *p, size_t at, FILE *out)
{
	static const char *const roles[] = { "before it", "beside it", "the one that fails" };
	const struct repro_launch *l = &p->launches.data[at];
	fprintf(out, "\n\t// queue %u, packet %llu: %s\n\tconst struct launching launch_%zu = { %u, ", l->queue,
		(unsigned long long)l->packet, roles[l->role], at, l->object);
	write_name(l->symbol, out);
	fprintf(out, ", { %u, %u, %u }, { %u, %u, %u }, %u, %u, %d };\n", l->grid[0], l->grid[1], l->grid[2], l->group[0],
		l->group[1], l->group[2], l->lds, l->stream, l->role == REPRO_EARLIER);
	fprintf(out, "\tlaunch(&launch_%zu, arguments_%zu, %zu, ", at, at, l->arguments.n);
	write_pointed(l->npointers, "in_arguments_", at, out);
}

static void write_step(const struct repro_plan *p, struct repro_step s, FILE *out)
{
	const struct repro_buffer *b = s.act <= REPRO_RELEASE ? &p->buffers.data[s.index] : NULL;
	const char *where = b && b->host ? "HOST" : "DEVICE";
	if (s.act == REPRO_ALLOCATE)
		fprintf(out, "\tallocate(%u, %llu, %s);\n", s.index, (unsigned long long)b->bytes, where);
	else if (s.act == REPRO_RELEASE)
		fprintf(out, "\trelease(%u, %s);\n", s.index, where);
	else if (s.act == REPRO_WRITE)
		write_contents(p, s.index, out);
	else
		write_launch(p, s.index, out);
}

void repro_write_program(const struct repro_plan *p, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct repro_walk w = repro_walk_begin(p, &a);
	struct repro_step s;
	uint32_t streams = 0;
	for (size_t i = 0; i < p->launches.len; i++)
		streams = p->launches.data[i].stream > streams ? p->launches.data[i].stream : streams;
	fprintf(out, "#define BUFFERS %zu\n#define OBJECTS %zu\n#define STREAMS %u\n", p->buffers.len + 1, p->objects.len,
		streams + 1);
	fputs(prelude, out);
	write_tables(p, out);
	fprintf(out, "\nint main(void)\n{\n\tsetvbuf(stdout, NULL, _IOLBF, 0);\n");
	for (size_t i = 0; i < p->objects.len; i++)
		if (repro_object_used(p, i))
			fprintf(out, "\tCHECK(hipModuleLoad(&objects[%zu], \"code-%zu.co\"));\n", i, i);
	fprintf(out, "\tfor (int i = 0; i < STREAMS; i++)\n\t\tCHECK(hipStreamCreateWithFlags(&streams[i], "
		     "hipStreamNonBlocking));\n");
	while (repro_walk_next(p, &w, &s))
		write_step(p, s, out);
	fprintf(out, "\n\tCHECK(hipDeviceSynchronize());\n\tputs(\"It did not fail.\");\n\treturn 0;\n}\n");
}

// Names: kernels and their code as they are loaded, GPUs, pools, and what frameworks call their operations. They go into a log that only
// grows; a kernel's size of arguments is also kept here, for level 3.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "recorder/note.h"
#include "recorder/recorder.h"

enum { TABLE_FIRST = 4096, NAME_MOST = 8192, TEXTS = 4096, PROBES = 64, METADATA_MOST = 48 << 10 };

/** Kernels by object. A table that has grown too full is left as it is, for those who still look into it, and a larger one made. */
struct kernel_table {
	uint64_t mask, used;
	struct kernel_row {
		_Atomic uint64_t kernel; // 0: free
		_Atomic int32_t arguments;
		uint32_t name;           // place in the log
		_Atomic uint32_t filter; // FILTER_IN, FILTER_OUT
	} rows[];
};
static struct kernel_table *_Atomic kernels;

static struct kernel_row *row_of(struct kernel_table *t, uint64_t kernel)
{
	uint64_t i = (kernel >> 6) * 0x9e3779b97f4a7c15u >> 32;
	for (;; i++) {
		struct kernel_row *r = &t->rows[i & t->mask];
		const uint64_t key = atomic_load_explicit(&r->kernel, memory_order_acquire);
		if (key == kernel || !key)
			return r;
	}
}

static struct kernel_table *table_new(uint64_t rows)
{
	struct kernel_table *t = calloc(1, sizeof(*t) + rows * sizeof(t->rows[0]));
	if (t)
		t->mask = rows - 1;
	return t;
}

/** The lock is held. */
static void kernel_put(uint64_t kernel, int32_t arguments, uint32_t name, uint32_t filter)
{
	struct kernel_table *t = atomic_load(&kernels);
	if (!t || 2 * t->used >= t->mask) {
		struct kernel_table *more = table_new(t ? 4 * (t->mask + 1) : TABLE_FIRST);
		if (!more)
			return;
		for (uint64_t i = 0; t && i <= t->mask; i++) {
			if (!t->rows[i].kernel)
				continue;
			struct kernel_row *r = row_of(more, t->rows[i].kernel);
			*r = t->rows[i];
			more->used++;
		}
		t = more;
		atomic_store_explicit(&kernels, t, memory_order_release);
	}
	struct kernel_row *r = row_of(t, kernel);
	t->used += !r->kernel;
	r->name = name;
	atomic_store_explicit(&r->filter, filter, memory_order_relaxed);
	atomic_store_explicit(&r->arguments, arguments, memory_order_relaxed);
	atomic_store_explicit(&r->kernel, kernel, memory_order_release);
}

int kernel_arguments_in(uint64_t kernel, uint32_t around)
{
	struct kernel_table *t = atomic_load_explicit(&kernels, memory_order_acquire);
	const struct kernel_row *r = t && kernel ? row_of(t, kernel) : NULL;
	if (!r || !r->kernel)
		return -1;
	const uint32_t filter = atomic_load_explicit(&r->filter, memory_order_relaxed) | around;
	return filter == FILTER_IN ? atomic_load_explicit(&r->arguments, memory_order_relaxed) : -2;
}

int kernel_arguments(uint64_t kernel) { return kernel_arguments_in(kernel, thread_here()->filter); }

const char *kernel_name(uint64_t kernel)
{
	struct kernel_table *t = atomic_load_explicit(&kernels, memory_order_acquire);
	const struct kernel_row *r = t && kernel ? row_of(t, kernel) : NULL;
	return r && r->kernel && r->name ? (const char *)(rec.log + 1) + r->name + sizeof(struct rec_entry) : NULL;
}

static bool log_bytes(enum rec_entry_kind kind, uint32_t id, const uint64_t *n, unsigned nn, const char *text, size_t len)
{
	const size_t size = (sizeof(struct rec_entry) + len + 8) / 8 * 8; // with at least one NUL behind the text
	if (!rec.log || rec.log->used + size > rec.log_size) {
		rec.header->lost_names++;
		return false;
	}
	struct rec_entry *e = (void *)((char *)(rec.log + 1) + rec.log->used);
	*e = (struct rec_entry){
		.size = (uint32_t)size, .kind = (uint16_t)kind, .text = (uint16_t)len, .id = id, .time = rec_ticks()
	};
	memcpy(e->n, n, nn * sizeof(*n));
	if (len)
		memcpy(e + 1, text, len);
	e->check = rec_check((const uint64_t *)e, (unsigned)(size / 8), rec.log->used);
	__atomic_store_n(&rec.log->used, rec.log->used + size, __ATOMIC_RELEASE);
	return true;
}

bool log_add(enum rec_entry_kind kind, uint32_t id, const uint64_t *n, unsigned nn, const char *text)
{
	return log_bytes(kind, id, n, nn, text, text ? strnlen(text, NAME_MOST) : 0);
}

/** Keeps what the code at @at, which takes @space, says of its kernels' arguments: its memory is gone when somebody asks. Of large objects,
 * which are files, a reader can look into these. The lock is held. */
static void metadata_keep(hsa_handle loaded, hsa_handle executable, uint64_t at, uint64_t space)
{
	uint32_t type = 0, n = 0;
	uint64_t base = 0, size = 0;
	if (rec.loader.info(loaded, LOADED_STORAGE, &type) != HSA_OK || type != STORAGE_MEMORY ||
	    rec.loader.info(loaded, LOADED_STORAGE_BASE, &base) != HSA_OK || !base ||
	    rec.loader.info(loaded, LOADED_STORAGE_SIZE, &size) != HSA_OK)
		return;
	code_loaded(&(struct code_storage){ executable, at, space, base, size });
	const char *text = metadata_find((const char *)(uintptr_t)base, size, &n);
	if (text && n <= METADATA_MOST && rec.log && rec.log->used < rec.log_size / 2)
		log_bytes(ENTRY_METADATA, 0, (uint64_t[]){ executable }, 1, text, n);
}

/** What is being loaded. */
struct loading {
	hsa_handle executable;
	uint64_t kernels;
};

static hsa_status symbol_note(hsa_handle executable, hsa_handle symbol, void *ctx)
{
	hsa_status (*info)(hsa_handle, uint32_t, void *) =
		(hsa_status(*)(hsa_handle, uint32_t, void *))next.core[CORE_SYMBOL_GET_INFO];
	struct loading *l = ctx;
	uint32_t type = 0, len = 0, arguments = 0;
	uint64_t kernel = 0;
	char room[NAME_MOST + 1];
	(void)executable;
	if (info(symbol, SYMBOL_INFO_TYPE, &type) != HSA_OK || type != SYMBOL_KERNEL ||
	    info(symbol, SYMBOL_INFO_KERNEL, &kernel) != HSA_OK || !kernel ||
	    info(symbol, SYMBOL_INFO_NAME_LENGTH, &len) != HSA_OK || len > NAME_MOST ||
	    info(symbol, SYMBOL_INFO_NAME, room) != HSA_OK)
		return HSA_OK;
	room[len] = 0;
	if (len > 3 && !strcmp(room + len - 3, ".kd"))
		room[len - 3] = 0;
	info(symbol, SYMBOL_INFO_ARGUMENTS, &arguments);
	l->kernels++;
	pthread_mutex_lock(&rec.lock);
	const uint64_t at = rec.log ? rec.log->used : 0;
	const bool named = log_add(ENTRY_KERNEL, 0, (uint64_t[]){ kernel, arguments, l->executable }, 3, room);
	kernel_put(kernel, (int32_t)arguments, named ? (uint32_t)at : 0, filter_of(&rec.settings, room));
	pthread_mutex_unlock(&rec.lock);
	return HSA_OK;
}

static hsa_status code_note(hsa_handle executable, hsa_handle loaded, void *ctx)
{
	uint64_t base = 0, size = 0, delta = 0;
	uint32_t len = 0;
	char uri[NAME_MOST + 1] = "";
	(void)ctx;
	if (rec.loader.info(loaded, LOADED_BASE, &base) != HSA_OK || rec.loader.info(loaded, LOADED_SIZE, &size) != HSA_OK ||
	    rec.loader.info(loaded, LOADED_DELTA, &delta) != HSA_OK)
		return HSA_OK;
	if (rec.loader.info(loaded, LOADED_URI_LENGTH, &len) != HSA_OK || len > NAME_MOST ||
	    rec.loader.info(loaded, LOADED_URI, uri) != HSA_OK)
		len = 0;
	uri[len] = 0;
	pthread_mutex_lock(&rec.lock);
	log_add(ENTRY_CODE, 0, (uint64_t[]){ base, size, delta, executable }, 4, uri);
	metadata_keep(loaded, executable, base, size);
	pthread_mutex_unlock(&rec.lock);
	return HSA_OK;
}

/** Frameworks that hand out parts of what they allocate: a buffer of theirs is not what the program calls a buffer. */
static const struct allocator {
	const char *library, *name;
	uint64_t multiple;
} allocators[] = { { "libc10_hip.so", "PyTorch", 2 << 20 } };

static void allocators_note(void)
{
	static _Atomic bool noted[ARRAY_SIZE(allocators)];
	for (size_t i = 0; i < ARRAY_SIZE(allocators); i++) {
		void *loaded = noted[i] ? NULL : dlopen(allocators[i].library, RTLD_LAZY | RTLD_NOLOAD);
		if (!loaded)
			continue;
		dlclose(loaded);
		pthread_mutex_lock(&rec.lock);
		if (!atomic_exchange(&noted[i], true))
			log_add(ENTRY_ALLOCATOR, 0, &allocators[i].multiple, 1, allocators[i].name);
		pthread_mutex_unlock(&rec.lock);
	}
}

void names_of_executable(hsa_handle executable)
{
	typedef hsa_status each_fn(hsa_handle executable, hsa_handle symbol, void *ctx);
	hsa_status (*iterate)(hsa_handle, each_fn *, void *) =
		(hsa_status(*)(hsa_handle, each_fn *, void *))next.core[CORE_ITERATE_SYMBOLS];
	struct loading l = { .executable = executable };
	if (rec.loader.iterate && rec.loader.info)
		rec.loader.iterate(executable, code_note, NULL);
	iterate(executable, symbol_note, &l);
	allocators_note();
	event_note(thread_here(), CALL_LOAD, HSA_OK, (uint64_t[4]){ executable, l.kernels });
}

void names_unload(hsa_handle executable)
{
	pthread_mutex_lock(&rec.lock);
	log_add(ENTRY_UNLOAD, 0, (uint64_t[]){ executable }, 1, NULL);
	code_unloaded(executable);
	pthread_mutex_unlock(&rec.lock);
}

/** Texts are found again by where they lie: a framework hands the same literal or interned string each time. What is at that place may
 * change, so it is compared. */
static struct text_row {
	_Atomic uint64_t hash;
	_Atomic uint32_t number; // place in the log, plus one
} texts[TEXTS];
static uint8_t text_filters[TEXTS]; // by number

uint32_t text_filter(uint32_t number) { return number ? text_filters[number % TEXTS] : 0; }

/** Where names are made up without end (step 1, step 2) the table fills: what is not found soon has no name. */
static uint64_t text_hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; text[i] && i < NAME_MOST; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
	return h | 1;
}

uint32_t text_number(const char *text)
{
	static uint32_t made;
	const uint64_t hash = text_hash(text);
	uint32_t number = 0;
	for (size_t i = hash % TEXTS, n = 0; n < PROBES; i = (i + 1) % TEXTS, n++) {
		const uint64_t key = atomic_load_explicit(&texts[i].hash, memory_order_acquire);
		if (key == hash)
			return atomic_load_explicit(&texts[i].number, memory_order_relaxed);
		if (!key)
			break;
	}
	pthread_mutex_lock(&rec.lock);
	for (size_t i = hash % TEXTS, n = 0; n < PROBES && !number; i = (i + 1) % TEXTS, n++) {
		const uint64_t key = atomic_load(&texts[i].hash);
		if (key == hash)
			number = atomic_load(&texts[i].number);
		else if (!key && log_add(ENTRY_TEXT, made + 1, NULL, 0, text)) {
			number = ++made;
			text_filters[number % TEXTS] = (uint8_t)filter_of(&rec.settings, text);
			atomic_store(&texts[i].number, number);
			atomic_store_explicit(&texts[i].hash, hash, memory_order_release);
		} else if (!key)
			break;
	}
	pthread_mutex_unlock(&rec.lock);
	return number;
}

void text_copy(uint32_t number, char *ret, size_t size)
{
	const char *at = (const char *)(rec.log + 1);
	const uint64_t used = rec.log ? __atomic_load_n(&rec.log->used, __ATOMIC_ACQUIRE) : 0;
	ret[0] = 0;
	for (uint64_t i = 0; i + sizeof(struct rec_entry) <= used;) {
		const struct rec_entry *e = (const struct rec_entry *)(const void *)(at + i);
		if (e->kind == ENTRY_TEXT && e->id == number) {
			const size_t n = e->text < size ? e->text : size - 1;
			memcpy(ret, e + 1, n);
			ret[n] = 0;
			return;
		}
		i += e->size ? e->size : used;
	}
}

// The light GPU core: an ELF core of some megabytes, with what explains a fault and without the GPU's memory. The list of code objects and
// the code, the queues, the waves that were saved, arguments and signals of the packets in flight. Everything is read through the kernel,
// so that memory which is gone faults nobody.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "recorder/fault/core_form.h"
#include "recorder/fault/fault.h"

enum {
	PIECES_MOST = 4096,
	RANGES_MOST = 16384,
	ROOM = 64 << 10,
	LINKS_MOST = 4096,
	URI_MOST = 512,
	BACK = 64, // packets before the read index: some of them may still run
	PACKET = 64,
	PACKET_WORDS = PACKET / 8,
	XCCS_MOST = 64,
	SEGMENTS_MOST = 64,
	IMAGE_MOST = 64 << 20,
	ARGUMENTS_UNKNOWN = 256,
	SIGNAL = 64,
	SHARE = 8,
};

struct piece {
	uint64_t address, size, offset;
};

struct link {
	uint64_t base, memory, size; // memory: where the process has the code object; 0: in a file
};

struct core_writer {
	int fd, memory; // memory: /proc/self/mem
	uint64_t at, most, deadline;
	uint32_t n, nranges, nlinks;
	bool reads_code;
	struct piece pieces[PIECES_MOST];
	struct piece ranges[RANGES_MOST]; // memory that there was, and that is not in the file
	struct link links[LINKS_MOST];
	struct kfd_state kfd;
	char room[ROOM];
	char notes[ROOM + sizeof(struct kfd_state)];
};

/** Where memory begins in the file: there is room for all headers before it. */
static uint64_t memory_at(void)
{
	const uint64_t head = sizeof(Elf64_Ehdr) + (PIECES_MOST + RANGES_MOST + 1) * sizeof(Elf64_Phdr) +
			      sizeof(((struct core_writer *)0)->notes);
	return (head + CORE_PAGE - 1) / CORE_PAGE * CORE_PAGE;
}

static bool late(const struct core_writer *w) { return boot_ns() >= w->deadline; }

/** What is not written yet of [*at, end): *at moves behind what is. Returns where the next piece begins. */
static uint64_t gap(const struct core_writer *w, uint64_t *at, uint64_t end)
{
	for (bool moved = true; moved;) {
		moved = false;
		for (uint32_t i = 0; i < w->n; i++)
			if (*at - w->pieces[i].address < w->pieces[i].size) {
				*at = w->pieces[i].address + w->pieces[i].size;
				moved = true;
			}
	}
	for (uint32_t i = 0; i < w->n; i++)
		if (w->pieces[i].address > *at && w->pieces[i].address < end)
			end = w->pieces[i].address;
	return end;
}

/** The driver may let itself be asked for a GPU's memory (/proc/self/mem), where a copy between processes is not possible. That is slow,
 * and only for code. */
static ssize_t memory_read(const struct core_writer *w, uint64_t at, void *to, size_t size)
{
	struct iovec there = { to, size }, here = { (void *)(uintptr_t)at, size };
	const ssize_t n = process_vm_readv(rec.pid, &there, 1, &here, 1, 0);
	return n > 0 || !w->reads_code ? n : pread(w->memory, to, size, (off_t)at);
}

/** Copies what can be read; a page that cannot ends the piece, and the next begins behind it. */
static void copy(struct core_writer *w, uint64_t at, uint64_t end)
{
	struct piece *p = NULL;
	while (at < end && w->at < w->most && !late(w)) {
		const size_t wanted = end - at < ROOM ? (size_t)(end - at) : ROOM;
		const ssize_t n = memory_read(w, at, w->room, wanted);
		if (n <= 0) {
			p = NULL;
			at = (at / CORE_PAGE + 1) * CORE_PAGE;
			continue;
		}
		if (!p && w->n == PIECES_MOST)
			return;
		if (pwrite(w->fd, w->room, (size_t)n, (off_t)w->at) != n)
			return;
		if (!p) {
			p = &w->pieces[w->n++];
			*p = (struct piece){ .address = at, .offset = w->at };
		}
		p->size += (uint64_t)n;
		w->at += (uint64_t)n;
		at += (uint64_t)n;
	}
}

/** Whole pages: what lies beside it may matter, too. */
static void add(struct core_writer *w, uint64_t address, uint64_t size)
{
	uint64_t at = address / CORE_PAGE * CORE_PAGE;
	if (!address || !size || size > UINT64_MAX - address - CORE_PAGE)
		return;
	const uint64_t end = (address + size + CORE_PAGE - 1) / CORE_PAGE * CORE_PAGE;
	while (at < end && !late(w)) {
		const uint64_t until = gap(w, &at, end);
		if (at >= end)
			return;
		copy(w, at, until);
		at = until;
	}
}

static bool get(uint64_t address, void *to, size_t size)
{
	return address && !read_safely((void *)(uintptr_t)address, to, size);
}

// --- code ---

/** memory://PID#offset=0x7f0000000000&size=1234 */
static void uri_take(struct core_writer *w, uint64_t address, struct link *l)
{
	char uri[URI_MOST] = "", *p, *end;
	// It may end shortly before the end of its page.
	for (size_t n = 0; n + 64 < sizeof(uri); n += 64)
		if (!get(address + n, uri + n, 64) || memchr(uri + n, 0, 64))
			break;
	uri[URI_MOST - 1] = 0;
	add(w, address, strlen(uri) + 1);
	if (strncmp(uri, "memory://", 9) || !(p = strstr(uri, "#offset=")))
		return;
	l->memory = strtoull(p + 8, &end, 0);
	if (!strncmp(end, "&size=", 6))
		l->size = strtoull(end + 6, NULL, 0);
}

static void list_take(struct core_writer *w)
{
	struct { // r_debug, link_map
		uint64_t a, b, c, next, e;
	} m;
	const uint64_t list = w->kfd.runtime.r_debug;
	if (!get(list, &m, sizeof(m)))
		return;
	add(w, list, sizeof(m));
	for (uint64_t at = m.b; at && w->nlinks < LINKS_MOST && !late(w) && get(at, &m, sizeof(m)); at = m.next) {
		struct link *l = &w->links[w->nlinks++];
		*l = (struct link){ .base = m.a };
		add(w, at, sizeof(m));
		uri_take(w, m.b, l);
	}
}

/** A code object of a file, as it is loaded: the file may be another one by the time that somebody looks. */
static void image_add(struct core_writer *w, uint64_t base)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;
	uint64_t end = 0;
	w->reads_code = true;
	if (memory_read(w, base, &e, sizeof(e)) == sizeof(e) && !memcmp(e.e_ident, ELFMAG, SELFMAG) &&
	    e.e_phentsize == sizeof(p))
		for (unsigned i = 0; i < e.e_phnum && i < SEGMENTS_MOST; i++)
			if (memory_read(w, base + e.e_phoff + i * sizeof(p), &p, sizeof(p)) == sizeof(p) &&
			    p.p_type == PT_LOAD && p.p_vaddr < IMAGE_MOST && p.p_memsz < IMAGE_MOST &&
			    p.p_vaddr + p.p_memsz > end)
				end = p.p_vaddr + p.p_memsz;
	add(w, base, end);
	w->reads_code = false;
}

/** The code object that a kernel is in: the one that begins last before it. */
static void code_of(struct core_writer *w, uint64_t kernel)
{
	const struct link *best = NULL;
	for (uint32_t i = 0; i < w->nlinks; i++)
		if (w->links[i].base <= kernel && (!best || w->links[i].base > best->base))
			best = &w->links[i];
	if (best && best->memory)
		add(w, best->memory, best->size);
	else if (best)
		image_add(w, best->base);
}

static void code_all(struct core_writer *w)
{
	for (uint32_t i = 0; i < w->nlinks; i++)
		if (w->links[i].memory)
			add(w, w->links[i].memory, w->links[i].size);
}

// --- queues ---

static uint32_t xccs_of(const struct core_writer *w, uint32_t gpu_id)
{
	for (uint32_t i = 0; i < w->kfd.ngpus; i++)
		if (w->kfd.gpus[i].gpu_id == gpu_id && w->kfd.gpus[i].xccs && w->kfd.gpus[i].xccs <= XCCS_MOST)
			return w->kfd.gpus[i].xccs;
	return 1;
}

/** Of the area that waves are saved to only what is used: the whole may have hundreds of megabytes. */
static void save_area_add(struct core_writer *w, const struct kfd_queue *q)
{
	struct {
		uint32_t stack, stack_size, waves, waves_size;
	} h;
	const uint32_t xccs = q->save_area ? xccs_of(w, q->gpu_id) : 0;
	for (uint32_t i = 0; i < xccs; i++) {
		const uint64_t base = q->save_area + (uint64_t)i * q->save_area_size;
		if (!get(base, &h, sizeof(h)))
			continue;
		add(w, base, sizeof(h));
		if (h.waves > h.stack && h.waves <= q->save_area_size)
			add(w, base + h.stack, h.waves - h.stack);
	}
}

/** What a packet in flight points to. */
static void packet_add(struct core_writer *w, const uint64_t *p)
{
	const int size = kernel_arguments(p[4]);
	if ((p[0] & 0xff) != AQL_KIND_DISPATCH && (p[0] & 0xff) != AQL_KIND_INVALID) {
		for (unsigned i = 1; i <= 5 && (p[0] & 0xff) != AQL_KIND_VENDOR; i++)
			add(w, p[i], SIGNAL);
		return;
	}
	add(w, p[5], size > 0 ? (uint64_t)size : ARGUMENTS_UNKNOWN);
	add(w, p[7], SIGNAL);
	code_of(w, p[4]);
}

static void queue_add_memory(struct core_writer *w, const struct kfd_queue *q)
{
	uint64_t read, write, p[PACKET_WORDS];
	const uint64_t slots = q->ring_size / PACKET;
	add(w, q->ring, q->ring_size);
	add(w, q->read, sizeof(read));
	add(w, q->write, sizeof(write));
	if (!slots || !get(q->read, &read, sizeof(read)) || !get(q->write, &write, sizeof(write)))
		return;
	write = write - read > slots ? read + slots : write;
	for (uint64_t id = read > BACK ? read - BACK : 0; id < write && !late(w); id++)
		if (get(q->ring + id % slots * PACKET, p, sizeof(p)))
			packet_add(w, p);
}

/** The buffers that live, without what is in them: they say where a fault's address lies. */
static void ranges_add(struct core_writer *w)
{
	for (uint64_t i = 0; rec.allocations && i <= rec.allocation_mask && w->nranges < RANGES_MOST; i++) {
		struct rec_allocation a;
		if (rec_read((const uint64_t *)&rec.allocations[i], (uint64_t *)&a, RECORD_WORDS, i) &&
		    a.state == REC_MEMORY_LIVE && a.call != CALL_RESERVE && a.size <= UINT64_MAX - a.address)
			w->ranges[w->nranges++] = (struct piece){ .address = a.address, .size = a.size };
	}
}

static void memory_add(struct core_writer *w)
{
	ranges_add(w);
	list_take(w);
	for (uint32_t i = 0; i < w->kfd.nqueues; i++)
		save_area_add(w, &w->kfd.queues[i]);
	for (uint32_t i = 0; i < w->kfd.nqueues; i++)
		queue_add_memory(w, &w->kfd.queues[i]);
	code_all(w);
}

// --- the file ---

/** Who it was, as the kernel notes it in cores of processes. */
static char *note_process(char *at)
{
	char *info = core_note_begin(at, "CORE", NT_PRPSINFO, CORE_INFO_SIZE);
	memcpy(info + CORE_INFO_PID, &(uint32_t){ (uint32_t)rec.pid }, 4);
	memcpy(info + CORE_INFO_NAME, rec.header->program, 15);
	memcpy(info + CORE_INFO_ARGUMENTS, rec.header->command, CORE_INFO_SIZE - CORE_INFO_ARGUMENTS - 1);
	return info + CORE_INFO_SIZE;
}

static char *note_gpus(char *at, const struct kfd_state *s)
{
	struct {
		uint64_t version;
		uint32_t major, minor;
		uint64_t runtime_size;
		uint32_t ngpus, gpu_size, nqueues, queue_size;
	} head = { 1, s->major, s->minor, sizeof(s->runtime), s->ngpus, sizeof(s->gpus[0]), s->nqueues, sizeof(s->queues[0]) };
	const size_t gpus = s->ngpus * sizeof(s->gpus[0]), queues = s->nqueues * sizeof(s->queues[0]);
	char *p = core_note_begin(at, "AMDGPU", CORE_NOTE_GPUS, (uint32_t)(sizeof(head) + sizeof(s->runtime) + gpus + queues));
	memcpy(p, &head, sizeof(head));
	memcpy(p += sizeof(head), &s->runtime, sizeof(s->runtime));
	memcpy(p += sizeof(s->runtime), s->gpus, gpus);
	memcpy(p += gpus, s->queues, queues);
	return p + queues;
}

static bool header_write(const struct core_writer *w, uint32_t i, const Elf64_Phdr *p)
{
	return pwrite(w->fd, p, sizeof(*p), (off_t)(sizeof(Elf64_Ehdr) + i * sizeof(*p))) == sizeof(*p);
}

/** Last: a file that was not finished does not begin as a core. */
static bool headers_write(struct core_writer *w)
{
	const uint64_t phdrs = (w->n + w->nranges + 1) * sizeof(Elf64_Phdr), notes_at = sizeof(Elf64_Ehdr) + phdrs;
	const uint64_t notes = (uint64_t)(note_gpus(note_process(w->notes), &w->kfd) - w->notes);
	const Elf64_Ehdr e = core_file_head(w->n + w->nranges + 1);
	const Elf64_Phdr note = core_notes_head(notes_at, notes);
	bool good = pwrite(w->fd, w->notes, notes, (off_t)notes_at) == (ssize_t)notes && header_write(w, 0, &note);
	for (uint32_t i = 0; good && i < w->n + w->nranges; i++) {
		const struct piece *m = i < w->n ? &w->pieces[i] : &w->ranges[i - w->n];
		const Elf64_Phdr load = core_load_head(m->address, m->offset, i < w->n ? m->size : 0, m->size);
		good = header_write(w, i + 1, &load);
	}
	return good && pwrite(w->fd, &e, sizeof(e), 0) == sizeof(e);
}

/** As many bytes as the settings allow, and as leave most of the room to others. */
static uint64_t bytes_most(int fd)
{
	struct statvfs fs;
	const uint64_t share = fstatvfs(fd, &fs) ? 0 : (uint64_t)fs.f_bavail * fs.f_frsize / SHARE;
	return memory_at() + (share < rec.settings.core_bytes ? share : rec.settings.core_bytes);
}

/** Into @part first: a core that was not finished has another name. */
static bool core_fill(struct core_writer *w, const char *part, const char *path)
{
	kfd_take(&w->kfd);
	memory_add(w);
	const bool good = headers_write(w) && put_in_place(part, path, CORE_MAGIC, sizeof(CORE_MAGIC));
	kfd_release(&w->kfd);
	if (!good)
		remove_open(part, w->fd);
	return good;
}

static void writer_free(struct core_writer *w)
{
	if (w->memory >= 0)
		close(w->memory);
	munmap(w, sizeof(*w));
}

uint64_t core_write(const char *path, uint64_t deadline)
{
	char part[PATH_MOST + 8];
	uint64_t bytes = 0;
	snprintf(part, sizeof(part), "%s.part", path);
	_cleanup_close_ int fd = place_begin(part);
	struct core_writer *w =
		fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w != MAP_FAILED) {
		w->fd = fd;
		w->memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
		w->at = memory_at();
		w->most = bytes_most(fd);
		w->deadline = deadline - (deadline - boot_ns()) / SHARE; // the rest is for the headers
		bytes = core_fill(w, part, path) ? w->at : 0;
		writer_free(w);
	}
	if (!bytes)
		rec_line("cannot write %s; there is no GPU core", path);
	return bytes;
}

// Memory as a descriptor, which other processes and render nodes can take: a socket in which lies a message with the file that holds the
// memory, and where in it. Who looks takes a copy of both; so it lives as long as somebody has it open, whatever becomes of who made it.
#include "emulator/preload/state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DMABUF_MAGIC UINT64_C(0x66756261676e6168)

struct dmabuf {
	uint64_t magic, offset, size;
	uint32_t gpu_id, flags;
	struct kmt_metadata metadata;
};

// --- the message ---

union dmabuf_control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

static bool put(int socket, struct dmabuf *d, int file)
{
	union dmabuf_control control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec io = { d, sizeof(*d) };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	memcpy(CMSG_DATA(&control.header), &file, sizeof(file));
	return sendmsg(socket, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(*d);
}

/** The file that it is in, for the caller to close; -1: it is no dma-buf of ours. */
static int look(int fd, struct dmabuf *ret)
{
	union dmabuf_control control = { 0 };
	struct iovec io = { ret, sizeof(*ret) };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	int file = -1;
	ssize_t n = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n > 0 && m.msg_controllen && control.header.cmsg_type == SCM_RIGHTS)
		memcpy(&file, CMSG_DATA(&control.header), sizeof(file));
	if (file >= 0 && (n != (ssize_t)sizeof(*ret) || ret->magic != DMABUF_MAGIC)) {
		syscall(SYS_close, file);
		file = -1;
	}
	return file;
}

int64_t dmabuf_size(int fd)
{
	struct dmabuf d;
	int file = look(fd, &d);
	if (file >= 0)
		syscall(SYS_close, file);
	return file < 0 ? -1 : (int64_t)d.size;
}

bool dmabuf_is_out(struct kmt *t, uint64_t offset)
{
	bool out = false;
	size_t kept = 0;
	for (size_t i = 0; i < t->out.len; i++) {
		struct pollfd p = { .fd = t->out.data[i].socket };
		if (poll(&p, 1, 0) == 1 && p.revents & POLLHUP) {
			syscall(SYS_close, p.fd);
			continue;
		}
		out |= t->out.data[i].offset == offset;
		t->out.data[kept++] = t->out.data[i];
	}
	t->out.len = kept;
	return out;
}

static int make(struct kmt *t, const struct kmt_block *b, uint32_t flags, int *ret)
{
	struct dmabuf d = { DMABUF_MAGIC, b->offset, b->size, b->gpu->id, b->flags, b->metadata };
	int ends[2];
	if (b->file < 0)
		return -EINVAL;
	if (b->socket >= 0) {
		*ret = fcntl(b->socket, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
		return *ret < 0 ? -errno : 0;
	}
	dmabuf_is_out(t, 0); // closes those that nobody has any more
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	if (!put(ends[1], &d, b->file)) {
		syscall(SYS_close, ends[0]);
		syscall(SYS_close, ends[1]);
		return -ENOMEM;
	}
	if (!(flags & O_CLOEXEC))
		fcntl(ends[0], F_SETFD, 0);
	vec_push(&t->out, ((struct kmt_out){ ends[1], b->offset }));
	*ret = ends[0];
	return 0;
}

/** What a dma-buf holds, as a block that has no address yet. Memory of this process is known as such; of another's, the dma-buf stays
 * open, by which its owner knows that it is used. */
static int open_block(const struct kmt *t, int fd, struct kmt_block *ret)
{
	struct dmabuf d;
	struct stat its, ours;
	int file = look(fd, &d);
	if (file < 0)
		return -EINVAL;
	*ret = (struct kmt_block){ .size = d.size,
				   .gpu = kfd_gpu(t, d.gpu_id),
				   .flags = d.flags,
				   .metadata = d.metadata,
				   .offset = d.offset,
				   .file = file,
				   .socket = -1 };
	if (!fstat(file, &its) && !fstat(t->file, &ours) && its.st_ino == ours.st_ino) { // all are of one file system

		syscall(SYS_close, file);
		ret->file = t->file;
		ret->mmap_offset = ret->offset;
	} else {
		ret->socket = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		ret->inode = its.st_ino;
	}
	if (ret->gpu && memory_open(ret))
		return 0;
	if (ret->file != t->file)
		syscall(SYS_close, ret->file);
	if (ret->socket >= 0)
		syscall(SYS_close, ret->socket);
	return ret->gpu ? -ENOMEM : -EINVAL;
}

// --- at /dev/kfd ---

int dmabuf_export(struct kmt *t, struct kfd_ioctl_export_dmabuf_args *a)
{
	int fd = -1;
	pthread_rwlock_wrlock(&t->memory);
	const struct kmt_block *b = memory_of(t, a->handle);
	int result = b ? make(t, b, a->flags, &fd) : -EINVAL;
	pthread_rwlock_unlock(&t->memory);
	a->dmabuf_fd = (uint32_t)fd;
	return result;
}

int dmabuf_info(struct kmt *t, struct kfd_ioctl_get_dmabuf_info_args *a)
{
	struct dmabuf d;
	int file = look((int)a->dmabuf_fd, &d);
	if (file >= 0)
		syscall(SYS_close, file);
	if (file < 0 || !kfd_gpu(t, d.gpu_id))
		return -EINVAL;
	const bool fits = !a->metadata_ptr || d.metadata.size <= a->metadata_size;
	if (a->metadata_ptr && fits)
		memcpy((void *)(uintptr_t)a->metadata_ptr, d.metadata.data, d.metadata.size);
	a->size = d.size;
	a->metadata_size = d.metadata.size;
	a->gpu_id = d.gpu_id;
	a->flags = d.flags;
	return fits ? 0 : -EINVAL;
}

int dmabuf_import(struct kmt *t, struct kfd_ioctl_import_dmabuf_args *a)
{
	struct kmt_block wanted;
	if (!kfd_gpu(t, a->gpu_id))
		return -EINVAL;
	int result = open_block(t, (int)a->dmabuf_fd, &wanted);
	if (result)
		return result;
	wanted.base = a->va_addr;
	pthread_rwlock_wrlock(&t->memory);
	a->handle = memory_insert(t, &wanted)->handle;
	pthread_rwlock_unlock(&t->memory);
	return 0;
}

// --- at a render node: a GEM object is a block without an address; where it is mapped, another that has the same memory ---

enum {
	DRM_GEM_CLOSE = 0x09,
	DRM_PRIME_HANDLE_TO_FD = 0x2d,
	DRM_PRIME_FD_TO_HANDLE = 0x2e,
	DRM_AMDGPU_GEM_MMAP = 0x41,
	DRM_AMDGPU_GEM_METADATA = 0x46,
	DRM_AMDGPU_GEM_VA = 0x48,
	DRM_AMDGPU_GEM_OP = 0x50,
};
enum {
	VA_MAP = 1,
	VA_UNMAP = 2,
	PAGE_WRITEABLE = 1 << 2,
	METADATA_SET = 1,
	METADATA_GET = 2,
	OP_CREATE_INFO = 0,
	DOMAIN_GTT = 2,
	DOMAIN_VRAM = 4
};

struct gem_prime {
	uint32_t handle, flags;
	int32_t fd;
};

struct gem_va {
	uint32_t handle, pad, operation, flags;
	uint64_t address, offset, size;
};

struct gem_metadata {
	uint32_t handle, operation;
	struct kmt_metadata is;
};

struct gem_op {
	uint32_t handle, operation;
	uint64_t value;
};

static bool is_same(const struct kmt_block *a, const struct kmt_block *b)
{
	const bool file = a->file == b->file || (a->inode && a->inode == b->inode);
	return file && a->file >= 0 && a->offset == b->offset && a->size == b->size;
}

/** A second import of the same memory gives the same object. */
static int prime_import(struct kmt *t, const struct plan_gpu *g, struct gem_prime *a)
{
	struct kmt_block wanted;
	int result = open_block(t, a->fd, &wanted);
	if (result)
		return result;
	wanted.gem = g;
	struct kmt_block *b = memory_insert(t, &wanted);
	a->handle = (uint32_t)b->handle;
	for (size_t i = 0; i < t->blocks.len; i++) {
		const struct kmt_block *o = t->blocks.data[i];
		if (o == b || o->gem != g || !is_same(o, b))
			continue;
		a->handle = (uint32_t)o->handle;
		memory_drop(t, b);
		break;
	}
	return 0;
}

/** The same memory may be mapped at one address for several GPUs. */
static int va_map(struct kmt *t, const struct plan_gpu *g, const struct kmt_block *object, const struct gem_va *a)
{
	struct kmt_block *there = memory_block(t, a->address), wanted = *object;
	if (a->size % KMT_PAGE || a->address % KMT_PAGE || a->offset % KMT_PAGE || a->offset > object->size ||
	    a->size > object->size - a->offset)
		return -EINVAL;
	wanted.base = a->address;
	wanted.size = a->size;
	wanted.offset += a->offset;
	if (there && there->base == wanted.base && is_same(there, &wanted)) {
		there->gpus |= gpu_bit(t, g);
		return 0;
	}
	if (there)
		return -EINVAL;
	wanted.gem = NULL;
	wanted.gpus = gpu_bit(t, g);
	wanted.flags = (object->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) |
		       (a->flags & PAGE_WRITEABLE ? KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE : 0);
	if (!memory_open(&wanted))
		return -ENOMEM;
	if (object->file != t->file) {
		wanted.file = fcntl(object->file, F_DUPFD_CLOEXEC, 0);
		wanted.socket = fcntl(object->socket, F_DUPFD_CLOEXEC, 0);
	}
	memory_insert(t, &wanted);
	return 0;
}

static int va_unmap(struct kmt *t, const struct plan_gpu *g, const struct gem_va *a)
{
	struct kmt_block *b = memory_block(t, a->address);
	if (!b || b->base != a->address || b->size != a->size || !(b->gpus & gpu_bit(t, g)))
		return -EINVAL;
	b->gpus &= ~gpu_bit(t, g);
	if (!b->gpus)
		memory_drop(t, b);
	return 0;
}

/** What a runtime says of memory, which whoever imports it can read. */
static int use_metadata(struct kmt *t, const struct kmt_block *object, struct gem_metadata *a)
{
	if (a->operation == METADATA_GET)
		a->is = object->metadata;
	else if (a->operation != METADATA_SET || a->is.size > sizeof(a->is.data))
		return -EINVAL;
	for (size_t i = 0; a->operation == METADATA_SET && i < t->blocks.len; i++)
		if (is_same(t->blocks.data[i], object))
			t->blocks.data[i]->metadata = a->is;
	return 0;
}

static int use_object(struct kmt *t, const struct plan_gpu *g, struct kmt_block *b, unsigned number, void *arguments)
{
	struct gem_prime *prime = arguments;
	const struct gem_va *va = arguments;
	const struct gem_op *op = arguments;
	switch (number) {
	case DRM_GEM_CLOSE:
		memory_drop(t, b);
		return 0;
	case DRM_PRIME_HANDLE_TO_FD:
		return make(t, b, prime->flags, &prime->fd);
	case DRM_AMDGPU_GEM_MMAP:
		*(uint64_t *)arguments = b->mmap_offset;
		return 0;
	case DRM_AMDGPU_GEM_VA:
		return va->operation == VA_MAP ? va_map(t, g, b, va) : va->operation == VA_UNMAP ? va_unmap(t, g, va) : -EINVAL;
	case DRM_AMDGPU_GEM_METADATA:
		return use_metadata(t, b, arguments);
	case DRM_AMDGPU_GEM_OP:
		if (op->operation != OP_CREATE_INFO)
			return -EINVAL;
		const uint64_t domain = b->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? DOMAIN_VRAM : DOMAIN_GTT;
		memcpy((void *)(uintptr_t)op->value, (const uint64_t[]){ b->size, KMT_PAGE, domain, 0 }, 4 * sizeof(domain));
		return 0;
	default:
		return -EINVAL;
	}
}

int gem_ioctl(struct kmt *t, const struct plan_gpu *g, unsigned number, void *arguments)
{
	int result = -ENOENT;
	pthread_rwlock_wrlock(&t->memory);
	if (number == DRM_PRIME_FD_TO_HANDLE) {
		result = prime_import(t, g, arguments);
	} else if (number == DRM_GEM_CLOSE || number == DRM_PRIME_HANDLE_TO_FD || number == DRM_AMDGPU_GEM_MMAP ||
		   number == DRM_AMDGPU_GEM_VA || number == DRM_AMDGPU_GEM_METADATA || number == DRM_AMDGPU_GEM_OP) {
		struct kmt_block *b = memory_of(t, *(uint32_t *)arguments); // the first word of each names it
		if (b && b->gem == g)
			result = use_object(t, g, b, number, arguments);
	} else {
		result = -EINVAL;
	}
	pthread_rwlock_unlock(&t->memory);
	return result;
}

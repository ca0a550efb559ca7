// What a program says of its own memory (shared virtual memory): which GPUs may reach it, and where it would best be. Nothing moves here.
#include "emulator/preload/state.h"

#include <errno.h>
#include <stdlib.h>

static const struct kmt_svm nothing_said = { .preferred = KFD_IOCTL_SVM_LOCATION_UNDEFINED,
					     .prefetched = KFD_IOCTL_SVM_LOCATION_UNDEFINED,
					     .granularity = 9 };

static bool covers(const struct kmt_block *b, uint64_t address) { return address - b->base < b->size; }

/** What was said last of an address. */
static struct kmt_svm *range_of(struct kmt *t, uint64_t address)
{
	for (size_t i = t->svm.len; i--;)
		if (covers(&t->svm.data[i].block, address))
			return &t->svm.data[i];
	return NULL;
}

/** All of the program's memory around an address that may be read; NULL: nothing is there. */
static struct kmt_block *own_block(uint64_t address)
{
	static _Thread_local struct kmt_block found;
	struct text text = { 0 };
	files_maps(&text);
	struct str rest = text_str(&text);
	found = (struct kmt_block){ .file = -1, .socket = -1 };
	while (rest.n) {
		const struct str line = str_split(&rest, '\n');
		char *p = NULL;
		const uint64_t begin = strtoull(line.p, &p, 16), end = strtoull(p + 1, &p, 16);
		const uint32_t flags = p[2] == 'w' ? KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE : 0;
		if (end <= address || p[1] != 'r')
			continue;
		if (begin <= address)
			found = (struct kmt_block){ .base = begin, .inside = (char *)(uintptr_t)begin, .flags = flags };
		if (begin != found.base + found.size || found.flags != flags)
			break;
		found.size = end - found.base;
	}
	text_free(&text);
	return found.size ? &found : NULL;
}

struct kmt_block *svm_block(struct kmt *t, const struct plan_gpu *g, uint64_t address)
{
	struct kmt_svm *range = range_of(t, address);
	if (range && range->block.gpus & gpu_bit(t, g))
		return &range->block;
	return t->xnack && !memory_block(t, address) ? own_block(address) : NULL;
}

/** The range of exactly these addresses; a new one begins with what was said of them. */
static struct kmt_svm *range_for(struct kmt *t, uint64_t address, uint64_t size)
{
	for (size_t i = t->svm.len; i--;)
		if (t->svm.data[i].block.base == address && t->svm.data[i].block.size == size)
			return &t->svm.data[i];
	const struct kmt_svm *before = range_of(t, address);
	struct kmt_svm range = before ? *before : nothing_said;
	range.block.base = address;
	range.block.size = size;
	range.block.inside = (char *)(uintptr_t)address;
	range.block.flags = KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
	vec_push(&t->svm, range);
	return &t->svm.data[t->svm.len - 1];
}

static void set_access(const struct kmt *t, struct kmt_block *b, uint32_t id, bool access)
{
	const struct plan_gpu *g = kfd_gpu(t, id);
	uint64_t bit = g ? gpu_bit(t, g) : 0;
	b->gpus = access ? b->gpus | bit : b->gpus & ~bit;
}

static int set_attributes(struct kmt *t, const struct kfd_ioctl_svm_args *a)
{
	const struct kfd_ioctl_svm_attribute *attributes = a->attrs;
	if (a->start_addr % KMT_PAGE || !a->size || a->size % KMT_PAGE)
		return -EINVAL;
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_svm *range = range_for(t, a->start_addr, a->size);
	for (unsigned i = 0; i < a->nattr; i++) {
		uint32_t value = attributes[i].value;
		switch (attributes[i].type) {
		case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
			range->preferred = value;
			break;
		case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
			range->prefetched = value;
			break;
		case KFD_IOCTL_SVM_ATTR_ACCESS:
		case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
		case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
			set_access(t, &range->block, value, attributes[i].type != KFD_IOCTL_SVM_ATTR_NO_ACCESS);
			break;
		case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
			range->flags |= value;
			break;
		case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
			range->flags &= ~value;
			break;
		case KFD_IOCTL_SVM_ATTR_GRANULARITY:
			range->granularity = value;
			break;
		default:
			break;
		}
	}
	pthread_rwlock_unlock(&t->memory);
	return 0;
}

static void answer(const struct kmt *t, const struct kmt_svm *range, struct kfd_ioctl_svm_attribute *a)
{
	const struct plan_gpu *g;
	switch (a->type) {
	case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
		a->value = range->preferred;
		break;
	case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
		a->value = range->prefetched;
		break;
	case KFD_IOCTL_SVM_ATTR_ACCESS:
	case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
	case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
		g = kfd_gpu(t, a->value);
		a->type = g && range->block.gpus & gpu_bit(t, g) ? KFD_IOCTL_SVM_ATTR_ACCESS : KFD_IOCTL_SVM_ATTR_NO_ACCESS;
		break;
	case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
		a->value = range->flags;
		break;
	case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
		a->value = ~range->flags;
		break;
	case KFD_IOCTL_SVM_ATTR_GRANULARITY:
		a->value = range->granularity;
		break;
	default:
		break;
	}
}

int svm_ioctl(struct kmt *t, struct kfd_ioctl_svm_args *a)
{
	if (a->op == KFD_IOCTL_SVM_OP_SET_ATTR)
		return set_attributes(t, a);
	if (a->op != KFD_IOCTL_SVM_OP_GET_ATTR)
		return -EINVAL;
	pthread_rwlock_rdlock(&t->memory);
	const struct kmt_svm *range = range_of(t, a->start_addr);
	for (unsigned i = 0; i < a->nattr; i++)
		answer(t, range ? range : &nothing_said, &a->attrs[i]);
	pthread_rwlock_unlock(&t->memory);
	return 0;
}

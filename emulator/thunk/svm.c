// What a program says of its own memory (shared virtual memory): which GPUs may reach it, and where it would best be. Nothing moves here.
#include "emulator/thunk/interface.h"
#include "emulator/thunk/thunk.h"

enum { NOWHERE = UINT32_MAX };

static bool covers(const struct kmt_block *b, uint64_t address) { return address - b->base < b->size; }

/** What was said last of an address. */
static struct kmt_svm *range_of(struct thunk *t, uint64_t address)
{
	for (size_t i = t->svm.len; i--;)
		if (covers(&t->svm.data[i].block, address))
			return &t->svm.data[i];
	return NULL;
}

struct kmt_block *svm_block(struct thunk *t, uint32_t node, uint64_t address)
{
	struct kmt_svm *range = range_of(t, address);
	for (uint32_t i = 0; range && i < range->block.nmapped; i++)
		if (range->block.mapped[i] == node)
			return &range->block;
	return NULL;
}

/** The range of exactly these addresses; a new one begins with what was said of them. */
static struct kmt_svm *range_for(struct thunk *t, void *address, uint64_t size)
{
	for (size_t i = t->svm.len; i--;)
		if (t->svm.data[i].block.base == (uintptr_t)address && t->svm.data[i].block.size == size)
			return &t->svm.data[i];
	const struct kmt_svm *before = range_of(t, (uintptr_t)address);
	struct kmt_svm range = { .preferred = NOWHERE, .prefetched = NOWHERE, .granularity = 9 };
	if (before)
		range = *before;
	range.block.base = (uintptr_t)address;
	range.block.size = size;
	range.block.inside = address;
	vec_push(&t->svm, range);
	return &t->svm.data[t->svm.len - 1];
}

static void set_access(struct kmt_block *b, uint32_t node, bool access)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < b->nmapped; i++)
		if (b->mapped[i] != node)
			b->mapped[n++] = b->mapped[i];
	b->nmapped = n;
	if (access && n < KMT_NODES_MOST)
		b->mapped[b->nmapped++] = node;
}

int hsaKmtSVMSetAttr(void *address, uint64_t size, unsigned n, struct kmt_svm_attribute *attributes)
{
	struct thunk *t = thunk_get();
	if ((uintptr_t)address % KMT_PAGE || !size || size % KMT_PAGE)
		return KMT_INVALID_PARAMETER;
	pthread_rwlock_wrlock(&t->memory);
	struct kmt_svm *range = range_for(t, address, size);
	for (unsigned i = 0; i < n; i++) {
		uint32_t value = attributes[i].value;
		switch (attributes[i].type) {
		case KMT_SVM_PREFERRED:
			range->preferred = value;
			break;
		case KMT_SVM_PREFETCH:
			range->prefetched = value;
			break;
		case KMT_SVM_ACCESS:
		case KMT_SVM_ACCESS_IN_PLACE:
		case KMT_SVM_NO_ACCESS:
			set_access(&range->block, value, attributes[i].type != KMT_SVM_NO_ACCESS);
			break;
		case KMT_SVM_SET_FLAGS:
			range->flags |= value;
			break;
		case KMT_SVM_CLEAR_FLAGS:
			range->flags &= ~value;
			break;
		case KMT_SVM_GRANULARITY:
			range->granularity = value;
			break;
		default:
			break;
		}
	}
	pthread_rwlock_unlock(&t->memory);
	return KMT_SUCCESS;
}

static void answer(struct thunk *t, const struct kmt_svm *range, uint64_t address, struct kmt_svm_attribute *a)
{
	switch (a->type) {
	case KMT_SVM_PREFERRED:
		a->value = range->preferred;
		break;
	case KMT_SVM_PREFETCH:
		a->value = range->prefetched;
		break;
	case KMT_SVM_ACCESS:
	case KMT_SVM_ACCESS_IN_PLACE:
	case KMT_SVM_NO_ACCESS:
		a->type = svm_block(t, a->value, address) ? KMT_SVM_ACCESS : KMT_SVM_NO_ACCESS;
		break;
	case KMT_SVM_SET_FLAGS:
		a->value = range->flags;
		break;
	case KMT_SVM_CLEAR_FLAGS:
		a->value = ~range->flags;
		break;
	case KMT_SVM_GRANULARITY:
		a->value = range->granularity;
		break;
	default:
		break;
	}
}

int hsaKmtSVMGetAttr(void *address, uint64_t size, unsigned n, struct kmt_svm_attribute *attributes)
{
	struct thunk *t = thunk_get();
	static const struct kmt_svm nothing_said = { .preferred = NOWHERE, .prefetched = NOWHERE, .granularity = 9 };
	(void)size;
	pthread_rwlock_rdlock(&t->memory);
	const struct kmt_svm *range = range_of(t, (uintptr_t)address);
	for (unsigned i = 0; i < n; i++)
		answer(t, range ? range : &nothing_said, (uintptr_t)address, &attributes[i]);
	pthread_rwlock_unlock(&t->memory);
	return KMT_SUCCESS;
}

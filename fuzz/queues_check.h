// What must hold of the texts of KFD and of devcoredumps, whatever is in them.
#pragma once

#include "gpu/find/clients.h"
#include "gpu/find/kfd.h"
#include "gpu/register/registers.h"
#include "gpu/target.h"
#include "source/file.h"

/** Reads every word, so that one that is not there is noticed. */
static inline uint32_t sum_words(const uint32_t *words, size_t n)
{
	uint32_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += words[i];
	return sum;
}

/** NULL, or what is wrong. */
static inline const char *kfd_complaint(const struct know *k, const char *data, size_t size)
{
	static const char *const parts[] = { "gfx906", "gfx942", "gfx1030", "gfx1100", "gfx1201" };
	struct arena a = { 0 };
	struct str text = { data, size };
	const struct kfd_mqd *mqds;
	const struct kfd_hqd *hqds;
	const struct kfd_runlist *lists;
	const char *wrong = NULL;
	uint32_t sum = 0;
	size_t n = kfd_mqds_parse(&a, text, &mqds);
	for (size_t i = 0; i < n; i++) {
		const struct know_mqd *layout = mqd_layout(k, str_z(parts[i % 5]));
		struct queue q = { 0 };
		sum += sum_words(mqds[i].words, mqds[i].n);
		if (!layout)
			wrong = "a part without a layout";
		else if (mqd_queue(layout, &mqds[i], &q) && (q.ring & 0xff || q.ring_size & (q.ring_size - 1)))
			wrong = "a ring that cannot be";
		wrong = mqds[i].pid > 0 ? wrong : "a queue of no process";
	}
	n = kfd_hqds_parse(&a, text, &hqds);
	for (size_t i = 0; i < n; i++) {
		unsigned vmid;
		const struct know_mqd *layout = mqd_layout(k, str_z(parts[i % 5]));
		sum += sum_words(hqds[i].words, hqds[i].n) + (uint32_t)hqd_ring(layout, &hqds[i]);
		if (hqd_active(layout, &hqds[i], &vmid) && vmid > 15)
			wrong = "a VMID that cannot be";
	}
	n = kfd_runlists_parse(&a, text, &lists);
	for (size_t i = 0; i < n; i++)
		sum += sum_words(lists[i].words, lists[i].n);
	struct vm_tables tables = { 0 };
	unsigned type = 0;
	uint64_t mqd = 0;
	if (mqd_info_parse(text, &type, &mqd) && (type > USER_QUEUE_COPY || !mqd))
		wrong = "a user queue that cannot be";
	if (page_table_info_parse(text, &tables) && (!tables.root || tables.depth > 3 || tables.block > 18))
		wrong = "page tables that cannot be";
	arena_free(&a);
	return sum == UINT32_MAX - 1 && n == SIZE_MAX ? "the words were read" : wrong;
}

static inline const char *dump_complaint(const struct know *k, const char *data, size_t size)
{
	struct file f = file_memory(S("dump"), (struct str){ data, size });
	struct target *t;
	struct uh_error *err = target_devcoredump(k, &f, &t);
	const char *wrong = NULL;
	if (err) {
		uh_error_free(err);
		return NULL;
	}
	struct reg reg = { .name = S("GRBM_STATUS") };
	struct request ask[] = {
		{ .kind = REQUEST_AGENTS },
		{ .kind = REQUEST_RINGS },
		{ .kind = REQUEST_REGISTER, .ip = S("gc"), .reg = &reg, .bank = BANK_NONE },
		{ .kind = REQUEST_QUEUES },
	};
	t->ask(t, ask, ARRAY_SIZE(ask));
	for (size_t i = 0; i < ask[1].n; i++)
		if (sum_words(ask[1].rings[i].words, ask[1].rings[i].n) && !ask[1].rings[i].n)
			wrong = "words of an empty ring";
	if (ask[0].n != 1 || ask[3].n)
		wrong = "a devcoredump is of one GPU and has no queues";
	target_close(t);
	return wrong;
}

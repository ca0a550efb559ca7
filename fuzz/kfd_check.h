// What must hold of what the emulated KFD reads, whatever is in it: plans, code objects in memory, what guests tell.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include "emulator/guest/guest.h"
#include "emulator/preload/state.h"
#include "scenario_check.h"

/** NULL, or what is wrong. */
static inline const char *plan_complaint(const char *data, size_t size)
{
	struct kfd_plan *p = mem_alloc(sizeof(*p));
	char why[PLAN_WHY] = "";
	const char *wrong = NULL;
	if (!plan_read(p, (struct str){ data, size }, why) && !why[0])
		wrong = "a plan that is wrong without a reason";
	if (p->ngpus > PLAN_GPUS_MOST || p->nrules > PLAN_RULES_MOST)
		wrong = "a plan that is too long";
	for (size_t i = 0; i < p->nrules && !wrong; i++) {
		plan_names(&p->rules[i], (struct str){ data, size < 64 ? size : 64 });
		if (p->rules[i].does == PLAN_EXCEPTION && !p->rules[i].code)
			wrong = "an exception without a number";
	}
	if (plan_plain_name((struct str){ data, size }).n > size)
		wrong = "a name that is longer than its symbol";
	free(p);
	return wrong;
}

/** The bytes are what is in memory where a packet says that its kernel is. */
static inline const char *code_in_memory_complaint(const char *data, size_t size, size_t *ret_kernels)
{
	struct kmt *t = mem_alloc(sizeof(*t));
	struct kmt_block block = { .base = 0x700000000000, .size = size, .file = -1 };
	struct kmt_block *b = &block;
	const char *wrong = NULL;
	bool unread = false;
	block.inside = mem_alloc(size); // of exactly this size
	memcpy(block.inside, data, size);
	vec_push(&t->blocks, b);
	if (size)
		code_read(t, b->base);
	for (size_t i = 0; b->code && i < b->code->kernels.len && !wrong; i++) {
		const struct kmt_kernel *k = &b->code->kernels.data[i];
		if (k->object < b->base || k->object - b->base > size - 64)
			wrong = "a kernel that is outside of its code";
		else if (!code_kernel(t, k->object, &unread) || unread)
			wrong = "a kernel that is not found";
	}
	if (ret_kernels)
		*ret_kernels = b->code ? b->code->kernels.len : 0;
	code_free(b->code);
	vec_free(&t->blocks);
	free(block.inside);
	free(t);
	return wrong;
}

/** Each line is told by a guest. */
static inline const char *guest_complaint(const struct know *k, const char *data, size_t size)
{
	struct emu_machine *m;
	struct uh_error *err = emu_read(k, "guest", S("gpu 0000:03:00.0\n part gfx90a\nkfd\n"), &m);
	if (err) {
		uh_error_free(err);
		return "no machine";
	}
	struct emu_process *p = emu_guest_join(m, S("guest"), (int)getpid());
	struct str rest = { data, size };
	double t = 1;
	while (rest.n)
		emu_guest_tells(m, p, str_split(&rest, '\n'), t += 0.01);
	const char *wrong = scenario_machine_complaint(m, t + 1);
	emu_guest_leave(m, p, t + 2);
	if (!wrong && emu_queues(m))
		wrong = "a queue of a guest that has left";
	if (!wrong)
		wrong = scenario_machine_complaint(m, t + 3);
	emu_free(m);
	return wrong;
}

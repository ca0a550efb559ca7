// Where a queue is on a live GPU: which of the command processor's slots was filled from its descriptor.
#include "gpu/silicon/target.h"

enum { BASE, BASE_HI, ACTIVE, VMID, EACH, PIPES = 4, QUEUES = 8 };

bool target_queue_slot(struct target *target, uint64_t mqd, bool graphics, struct queue_slot *ret)
{
	static const char *const names[][EACH] = {
		{ "gc.CP_MQD_BASE_ADDR", "gc.CP_MQD_BASE_ADDR_HI", "gc.CP_HQD_ACTIVE", "gc.CP_HQD_VMID" },
		{ "gc.CP_GFX_MQD_BASE_ADDR", "gc.CP_GFX_MQD_BASE_ADDR_HI", "gc.CP_GFX_HQD_ACTIVE", "gc.CP_GFX_HQD_VMID" },
	};
	const unsigned me = graphics ? 0 : 1;
	struct device_register registers[EACH];
	struct request requests[PIPES * QUEUES * EACH];
	size_t n = 0;
	for (size_t i = 0; i < EACH; i++)
		if (!device_registers(target_device_of(target), str_z(names[graphics][i]), &registers[i], 1))
			return false;
	for (int pipe = 0; pipe < PIPES; pipe++)
		for (int queue = 0; queue < QUEUES; queue++)
			for (size_t i = 0; i < EACH; i++)
				requests[n++] = (struct request){ .kind = REQUEST_REGISTER,
								  .ip = S("gc"),
								  .reg = &registers[i].reg,
								  .bank = { -1, -1, -1, -1, (int)me, pipe, queue, -1 } };
	target->ask(target, requests, n);
	for (size_t i = 0; i < n; i += EACH) {
		const struct request *r = &requests[i];
		if (list_find(r, EACH, it, it->answer != ANSWER_GIVEN) || !(r[ACTIVE].value & 1) ||
		    ((uint64_t)r[BASE_HI].value << 32 | r[BASE].value) != mqd)
			continue;
		*ret = (struct queue_slot){ .known = true,
					    .me = me,
					    .pipe = (unsigned)(i / EACH / QUEUES),
					    .queue = (unsigned)(i / EACH % QUEUES),
					    .vmid = r[VMID].value & 15,
					    .xccs = 1 };
		return true;
	}
	return false;
}

// Whose address spaces the VMIDs of a live GPU are, by its registers: where their page tables begin, and their PASIDs. Between two such
// looks a VMID may become another's, so who reads memory through one looks before and after.
#include <stdio.h>

#include "gpu/memory/vm.h"
#include "gpu/silicon/target.h"

enum { XCCS_MOST = 16, END_PAGES = VM_PAGE };

/** Registers of one name, by XCC. */
struct xcc_registers {
	size_t n;
	struct device_register found[XCCS_MOST];
};

static struct xcc_registers context_registers(const struct device *d, unsigned vmid, const char *name)
{
	struct xcc_registers r;
	char pattern[96];
	snprintf(pattern, sizeof(pattern), "gc.*VM_CONTEXT%u_%s", vmid, name);
	r.n = device_registers(d, str_z(pattern), r.found, XCCS_MOST);
	r.n = r.n < XCCS_MOST ? r.n : XCCS_MOST;
	return r;
}

static struct request request_of_register(const struct device_register *r)
{
	return (struct request){
		.kind = REQUEST_REGISTER, .ip = r->ip->name, .ip_instance = r->ip->instance, .reg = &r->reg, .bank = BANK_NONE
	};
}

size_t target_spaces(struct target *target, unsigned vmid, struct address_space *ret, size_t most)
{
	enum { ROOT_LO, ROOT_HI, END_LO, END_HI, EACH };
	static const char *const names[EACH] = { "PAGE_TABLE_BASE_ADDR_LO32", "PAGE_TABLE_BASE_ADDR_HI32",
						 "PAGE_TABLE_END_ADDR_LO32", "PAGE_TABLE_END_ADDR_HI32" };
	struct silicon *t = (struct silicon *)target;
	struct xcc_registers registers[EACH];
	struct device_register pasid;
	struct request requests[EACH * XCCS_MOST + 1];
	struct vm_format format;
	char name[96];
	size_t xccs = most < XCCS_MOST ? most : XCCS_MOST;
	for (size_t i = 0; i < EACH; i++) {
		registers[i] = context_registers(t->device, vmid, names[i]);
		xccs = registers[i].n < xccs ? registers[i].n : xccs;
	}
	if (!xccs || !vm_format_of(t->know, t->device->gfx, &format))
		return 0;
	for (size_t x = 0; x < xccs; x++)
		for (size_t i = 0; i < EACH; i++)
			requests[x * EACH + i] = request_of_register(&registers[i].found[x]);
	const bool has_pasid = vm_pasid_register(t->know, t->device->gfx, vmid, name, sizeof(name)) &&
			       device_registers(t->device, str_z(name), &pasid, 1);
	if (has_pasid)
		requests[xccs * EACH] = request_of_register(&pasid);
	target->ask(target, requests, xccs * EACH + has_pasid);
	for (size_t x = 0; x < xccs; x++) {
		const struct request *q = &requests[x * EACH], *last = &requests[xccs * EACH];
		const struct request *bad = list_find(q, EACH, it, it->answer != ANSWER_GIVEN);
		const uint64_t root = q[ROOT_LO].value | (uint64_t)q[ROOT_HI].value << 32;
		const uint64_t end = q[END_LO].value | (uint64_t)q[END_HI].value << 32;
		ret[x] = (struct address_space){ .answer = bad ? bad->answer : ANSWER_GIVEN };
		if (bad)
			continue;
		ret[x].root = root != UINT64_MAX && vm_bits_get(format.valid, root) ? root : 0;
		ret[x].end = end * END_PAGES + END_PAGES - 1;
		ret[x].pasid = has_pasid && last->answer == ANSWER_GIVEN ? last->value & 0xffff : 0;
		ret[x].pasid_known = ret[x].pasid; // 0 is nobody's
	}
	return xccs;
}

uint32_t target_vmids_of(struct target *target, const uint32_t *pasids, size_t n)
{
	struct silicon *t = (struct silicon *)target;
	struct device_register registers[VM_IDS];
	struct request requests[VM_IDS];
	size_t asked = 0;
	uint32_t vmids = 0;
	for (unsigned vmid = 1; n && vmid < VM_IDS; vmid++) {
		char name[96];
		if (!vm_pasid_register(t->know, t->device->gfx, vmid, name, sizeof(name)) ||
		    !device_registers(t->device, str_z(name), &registers[asked], 1))
			return 0;
		requests[asked] = request_of_register(&registers[asked]);
		asked++;
	}
	target->ask(target, requests, asked);
	for (size_t i = 0; i < asked; i++)
		for (size_t k = 0; k < n; k++)
			if (requests[i].answer == ANSWER_GIVEN && (requests[i].value & 0xffff) == pasids[k])
				vmids |= 2u << i;
	return vmids;
}

// The status register of a page fault, decoded by the table in knowledge/ and held against the printed lines.
#include <stdio.h>

#include "diagnose/incident.h"

static void set_code(struct incident *i, struct diag_event *e, struct str name, uint64_t value, struct place at)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "0x%llx", (unsigned long long)value);
	diag_set_fact(i, e, (struct fact){ name, { text, (size_t)n }, FACT_CODE, at });
}

/** What a zero register leaves of an event: its sub-lines only repeat the zero. */
static void drop_empty_fields(struct diag_event *e)
{
	static const char *const fields[] = { "fault_client", "fault_client_id",   "fault_client_detail", "more_faults",
					      "walker_error", "permission_faults", "mapping_error",       "rw" };
	size_t n = 0;
	for (size_t i = 0; i < e->nfacts; i++) {
		bool empty = false;
		for (size_t f = 0; f < ARRAY_SIZE(fields); f++)
			empty |= str_is(e->facts[i].name, fields[f]);
		if (!empty)
			e->facts[n++] = e->facts[i];
	}
	e->nfacts = n;
}

static void set_client_name(struct incident *i, struct diag_event *e, const struct know *k, uint64_t id, struct place at)
{
	const struct fact *hub = diag_fact(e, "hub");
	if (diag_fact(e, "fault_client") || !hub || !str_is(hub->value, "gfxhub"))
		return;
	struct str name = know_name(k, S("client-gfxhub"), (int64_t)id);
	if (name.n)
		diag_set_fact(i, e, (struct fact){ S("fault_client"), name, FACT_TEXT, at });
}

/** Where the line with the VMID is missing, the register's is what there is. */
static void set_vmid(struct incident *i, struct diag_event *e, uint64_t vmid, struct place at)
{
	char text[8];
	int n = snprintf(text, sizeof(text), "%u", (unsigned)(vmid & 15));
	if (!diag_fact(e, "vmid"))
		diag_set_fact(i, e, (struct fact){ S("vmid"), { text, (size_t)n }, FACT_NUMBER, at });
}

/** In words what the permission bits and the direction say. */
static void set_meaning(struct incident *i, struct diag_event *e, uint64_t permissions, struct place at)
{
	struct str meaning = permissions & 1 ? S("not mapped") :
			     permissions & 4 ? S("mapped, but read-only") :
			     permissions & 8 ? S("mapped, but not for code") :
			     permissions & 2 ? S("mapped, but not readable") :
					       (struct str){ 0 };
	if (meaning.n)
		diag_set_fact(i, e, (struct fact){ S("fault_meaning"), meaning, FACT_TEXT, at });
}

void fault_status_decode(struct incident *i, struct diag_event *e, const struct know *k)
{
	const struct fact *status = diag_fact(e, "fault_status"), *which = diag_fact(e, "fault_register");
	const struct know_register *r = which ? know_register(k, which->value) : NULL;
	uint64_t value, printed;
	if (!status || !r || !str_hex(status->value, &value) || diag_fact(e, "status_agrees"))
		return;
	struct place at = status->at;
	if (!value) {
		drop_empty_fields(e);
		return;
	}
	bool agrees = true, printed_any = false;
	for (const struct know_field *f = r->fields; f; f = f->next) {
		uint64_t field = value >> f->low & ((2ull << (f->high - f->low)) - 1);
		const struct fact *have = diag_find(e, f->name);
		printed_any |= have != NULL;
		if (str_is(f->name, "rw")) {
			struct str direction = know_name(k, S("rw"), (int64_t)field);
			if (have)
				agrees &= str_eq(have->value, direction);
			else
				diag_set_fact(i, e, (struct fact){ f->name, direction, FACT_TEXT, at });
			continue;
		}
		if (str_is(f->name, "fault_client_id"))
			set_client_name(i, e, k, field, at);
		if (str_is(f->name, "permission_faults"))
			set_meaning(i, e, field, at);
		// The VMID in the register may be that of another fault: the printed one counts.
		if (have && str_hex(have->value, &printed))
			agrees &= printed == field;
		else if (str_is(f->name, "status_vmid"))
			set_vmid(i, e, field, at);
		else if (!have)
			set_code(i, e, f->name, field, at);
	}
	struct str verdict = !printed_any ? S("unprinted") : agrees ? S("yes") : S("no");
	diag_set_fact(i, e, (struct fact){ S("status_agrees"), verdict, FACT_TEXT, at });
}

// An error bank of the hardware (ACA): what its registers say, by the tables of knowledge/error-banks.know.
#pragma once

#include "evidence/event.h"

enum bank_register { BANK_STATUS, BANK_ADDR, BANK_MISC, BANK_IPID, BANK_SYND, BANK_REGISTERS };

struct error_bank {
	uint64_t value[BANK_REGISTERS];
	unsigned known;  // bits: which of them were read
	bool unnumbered; // of a part whose errors AMD does not number
	bool threshold;  // of a record: the driver says that there are too many bad pages
	bool grave;      // who reports it says that it was not corrected
	struct str boot; // of a record of the boot firmware: what failed; empty: it is none
};

/** The register that a log calls @name; BANK_REGISTERS: one that says nothing more. */
enum bank_register bank_register(struct str name);
/** Whether all of what is wanted was read. */
static inline bool bank_has(const struct error_bank *b, enum bank_register which) { return b->known >> which & 1; }
static inline void bank_set(struct error_bank *b, enum bank_register which, uint64_t value)
{
	b->value[which] = value;
	b->known |= 1u << which;
}
/** Adds the facts that become known with the register @newest: severity and bits, the place, the error and AMD's number for it.
 * BANK_REGISTERS: all of them. Texts lie in @a or in @k. */
void bank_facts(const struct know *k, const struct error_bank *b, enum bank_register newest, struct event *e, struct arena *a);

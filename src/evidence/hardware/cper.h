// Records of hardware errors (CPER) as the amdgpu driver keeps them: a file of one or several, or the driver's ring as debugfs shows it.
#pragma once

#include "evidence/artefact.h"
#include "evidence/hardware/bank.h"

/** Whether a file that begins with @head holds such records. */
bool cper_begins(struct str head);
/** Sections of AMD: a crash dump, or an error at run time; the processor's form of the latter has its registers at the same place. */
enum cper_section { SECTION_CRASH, SECTION_RUNTIME, SECTION_OTHER };
/** Whether it is of the boot firmware: messages in place of registers. */
bool cper_section_boots(enum cper_section kind, struct str section);
/** Adds what a section says to an event. @b is filled; what its record says of it is there already. */
void cper_section_facts(const struct know *k, enum cper_section kind, struct str section, struct error_bank *b, struct event *e,
			struct arena *a);
/** `2026-05-28T11:22:33Z` */
struct str utc_text(struct arena *a, double seconds);

/** Tells each record as an event. What is cut off or damaged is told, too. false: there was such a one. */
bool cper_read(const struct artefact_output *out, struct str bytes);

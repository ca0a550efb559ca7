// Records of hardware errors (CPER) as the amdgpu driver keeps them: a file of one or several, or the driver's ring as debugfs shows it.
#pragma once

#include "evidence/artefact.h"

/** Whether a file that begins with @head holds such records. */
bool cper_begins(struct str head);
/** Tells each record as an event. What is cut off or damaged is told, too. false: there was such a one. */
bool cper_read(const struct artefact_output *out, struct str bytes);

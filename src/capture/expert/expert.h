// What an expert asks for next, and a report rarely has.
#pragma once

#include "capture/parts.h"

#define BUNDLE_MORE "more/"
#define EXPERT_PCI BUNDLE_MORE "pci-config.txt"

void capture_expert_files(struct taking *c);
/** What programs of others say: lspci of what was saved, the containers, and, where no GPU hangs, ROCm's own tools. */
void capture_expert_programs(struct taking *c);

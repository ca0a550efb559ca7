// Guests: processes of the command that use the emulated KFD (emulator/preload/). They come and go, and tell what
// they do in lines of text (preload/tell.h); the machine shows it as it shows what a scenario says.
#pragma once

#include "emulator/model.h"

/** Whether the scenario has a block `kfd`, and what a guest's library is told of the machine. */
bool emu_kfd(const struct emu_machine *m);
void emu_kfd_text(const struct emu_machine *m, struct text *ret);

struct emu_process *emu_guest_join(struct emu_machine *m, struct str name, int pid);
void emu_guest_leave(struct emu_machine *m, struct emu_process *p, double t);
/** What a guest tells. false: it is nothing that could be told. */
bool emu_guest_tells(struct emu_machine *m, struct emu_process *p, struct str line, double t);

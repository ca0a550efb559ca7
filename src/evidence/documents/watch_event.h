// What unhang watch saw and no log has, as an event that lies in its bundle.
#pragma once

#include "base/arena.h"

struct watch_event {
	struct str signature;    // watch-votes, kfd-page-fault or kfd-reset-begin
	struct str incident;     // how the watch names what it belongs to
	struct str boot_id, gpu; // gpu: its PCI address
	int64_t us;              // when it was, on the kernel's clock; of votes, since when nothing moved
	struct str process;      // whose fault it is, with pid; empty: nobody's alone
	int64_t pid;             // 0: not known
	struct str votes;        // on progress; empty: none
	struct str reset_source; // why the GPU was reset, as KFD says it; empty: it does not
	int64_t stood;           // seconds for which they saw nothing move
};
/** As a document, which lies in @a. */
struct str watch_event_text(const struct watch_event *w, struct arena *a);

// What boot loaders will put on the kernel's command line, from their configuration. Nothing is executed.
#pragma once

#include "host/words.h"

struct placed_words {
	struct placed_word *data;
	size_t len, cap;
};

/** /etc/default/grub, then the files in grub.d. They are shell files; only assignments to two variables are understood. */
struct grub {
	struct placed_words all, normal; // GRUB_CMDLINE_LINUX, GRUB_CMDLINE_LINUX_DEFAULT
};
void grub_read(struct arena *a, struct str text, const char *path, struct grub *g);
void grub_free(struct grub *g);

/** /etc/kernel/cmdline. */
void kernel_cmdline_read(struct arena *a, struct str text, const char *path, struct placed_words *ret);

/** An entry of the Boot Loader Specification. Adds the words of its options. */
struct loader_entry {
	struct str version, title;
	struct placed_words words;
};
void loader_entry_read(struct arena *a, struct str text, const char *path, struct loader_entry *ret);

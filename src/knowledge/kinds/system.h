// How systems are kept: ways to do things on them, signs of what they are, and packages. See docs/KNOWLEDGE.md.
#pragma once

#include "knowledge/condition.h"
#include "knowledge/know_head.h"

/** What --apply writes for a kernel word. WRITES_NOTHING: the files are made from something else, so the user has to do it. */
enum know_writes {
	WRITES_NOTHING,
	WRITES_GRUB_FILE,
	WRITES_GRUB_LINE,
	WRITES_ENTRY_LINES,
	WRITES_ENTRY_WORDS,
	WRITES_RECORD,
	WRITES_OPTIONS
};

/** How an action is done on machines that fit; the id is the action. Of several the first that fits is taken. */
struct know_way {
	struct know_head head;
	struct condition *when;
	struct str run;  // a command as it is typed
	struct str say;  // or a sentence, with a capital
	struct str undo; // the same the other way round
	struct str source;
	enum know_writes writes;
};

/** What tells a fact of the system: that files are there, or what stands in them. */
struct know_sign {
	struct know_head head;
	struct know_pair *says;  // the fact and its value
	struct know_list *paths; // one of them is there; one with / at its end is a directory
	struct str text;         // what one of them contains; empty: anything
	struct condition *when, *unless;
};

/** When what a package brings is used: at the next boot (kernel, firmware in the initramfs), or when a program starts (Mesa, ROCm). */
enum know_effect { EFFECT_BOOT, EFFECT_START };

/** Packages, and settings, that concern a GPU; the id is the part of the machine that they are. */
struct know_package {
	struct know_head head;
	struct str title;            // for people: `the kernel`
	struct know_list *names;     // patterns of names, of all distributions
	struct know_list * not ;     // patterns of those names that it does not mean
	struct know_list *processes; // patterns of the processes that it concerns; NULL: every one
	struct know_list *managers;  // who brings it: `apt`; `pip:torch`: under this name alone
	enum know_effect effect;
};

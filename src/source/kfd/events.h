// What KFD tells of its GPUs (AMDKFD_IOC_SMI_EVENTS): lines `EVENT ARGUMENTS`, in hexadecimal. No program can write them, but for the name
// of the thread that met a fault.
#pragma once

#include "base/arena.h"

// Numbers of the kernel.
enum { KFD_PAGE_FAULT = 1, KFD_RESET_BEGINS = 3, KFD_ALL_PROCESSES = 64 };

/** What has happened. */
struct kfd_event {
	unsigned kind;   // KFD_PAGE_FAULT, KFD_RESET_BEGINS; 0: another, or one that is not to be trusted
	uint64_t number; // of the thread that met a fault; else of the reset
	struct str text; // the name of that thread; else why the GPU is reset, where the kernel says it
};

/** What has to be remembered between lines; zero at the beginning. */
struct kfd_lines {
	size_t may_be_name; // so many bytes behind the last line may still be of the name in it: names may have newlines
};

/** Takes the next line off @bytes. false: it is not whole yet. */
bool kfd_event_take(struct kfd_lines *l, struct str *bytes, struct kfd_event *ret);

/** An event as it is handed on, with what /proc knew of the thread: its process. */
struct kfd_told {
	struct str pci;
	struct kfd_event event;
	int64_t pid;
	struct str process;
};

void kfd_told_text(const struct kfd_told *t, struct text *to);
bool kfd_told_parse(struct str text, struct kfd_told *ret);

// Errors and bad pages of one GPU, as amd-smi counts them (metric --ecc, metric --ecc-blocks, bad-pages).
#pragma once

#include "evidence/artefact.h"

enum error_count { COUNT_CORRECTED, COUNT_UNCORRECTED, COUNT_DEFERRED, ERROR_COUNTS };
enum page_list { PAGES_RETIRED, PAGES_PENDING, PAGES_STUCK, PAGE_LISTS };
enum { COUNT_BLOCKS = 32 };

struct error_counts {
	int64_t total[ERROR_COUNTS], pages[PAGE_LISTS];
	enum page_list list; // that is being read
	bool cut;            // its beginning is not there: nothing says of which block a count is
	bool by_block, sums; // what is being read
	char odd[24]; // the first count that is none: negative, beyond all numbers, or no number
	size_t n;
	struct block_counts {
		char name[24]; // as the driver calls it
		int64_t count[ERROR_COUNTS];
	} blocks[COUNT_BLOCKS];
};

/** Whether it is a count, which says of which GPU and block it is only in lines before it. */
bool counts_cut(struct str text);
/** Whether a line says something of it. */
bool counts_line(struct error_counts *c, struct str text);
/** An event for each count. @pci: empty, @index: negative, where it is not known. */
void counts_tell(const struct error_counts *c, const struct artefact_output *out, struct place at, struct str pci,
		 int64_t index);

// Fuzzes a line of the history, which may come from any host of a cluster, into the tables.
#include <stdint.h>
#include <stdlib.h>

#include "store/history/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct db *d;
	static unsigned runs;
	if (!d && index_open(NULL, DB_MAKE, &d))
		abort();
	const char *p = (const char *)data;
	str_each (line, ((struct str){ p, size }), '\n') {
		enum index_taken taken;
		uh_error_free(index_take(d, line, &taken));
	}
	// It does not grow without end.
	if (++runs % 1000 == 0) {
		db_close(d);
		d = NULL;
	}
	return 0;
}

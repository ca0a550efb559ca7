// A tools library that is loaded before the recorder: it keeps the runtime's own functions, so that a program can switch the recorder's off
// and on between two launches and compare within one process.
#include <stdbool.h>
#include <string.h>

#include "recorder/hsa.h"

enum { FUNCTIONS_MOST = 160 };

static struct hsa_table *tables[2];
static void *own[2][FUNCTIONS_MOST], *hooked[2][FUNCTIONS_MOST];

static size_t functions(const struct hsa_table *t)
{
	const size_t n = (t->minor - sizeof(*t)) / sizeof(void *);
	return n < FUNCTIONS_MOST ? n : FUNCTIONS_MOST;
}

bool OnLoad(struct hsa_root *root, uint64_t version, uint64_t failed, const char *const *names);
bool OnLoad(struct hsa_root *root, uint64_t version, uint64_t failed, const char *const *names)
{
	(void)version;
	(void)failed;
	(void)names;
	tables[0] = root->core;
	tables[1] = root->ext;
	for (int i = 0; i < 2; i++)
		memcpy(own[i], tables[i]->functions, functions(tables[i]) * sizeof(void *));
	return true;
}

void bench_switch(bool on);
void bench_switch(bool on)
{
	for (int i = 0; i < 2; i++) {
		const size_t bytes = functions(tables[i]) * sizeof(void *);
		if (!hooked[i][0])
			memcpy(hooked[i], tables[i]->functions, bytes);
		memcpy(tables[i]->functions, on ? hooked[i] : own[i], bytes);
	}
}

// Fuzzes what unhang check and the arbiter read: the state of a watch with what is judged by it, and a line of the arbiter's journal.
#include <stdio.h>

#include "feed.h"
#include "session/fleet/fleet.h"
#include "watch/node/fitness.h"
#include "watch/node/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *nowhere;
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text line = { 0 };
	const struct str text = { (const char *)data, size };
	struct watch_state s;
	struct fleet_entry e;
	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	if (fleet_entry_read(text, &e))
		fleet_entry_write(&line, &e);
	struct uh_error *err = state_parse(text, &a, &s);
	if (!err) {
		struct node_answer r = { .source = S("watch"), .host = s.host };
		fitness_judge(&s,
			      &(struct fitness_asked){ .now = s.written, .expected = 2, .partition = "SPX", .new_rules = 50 },
			      &a, &r);
		report_node(&r, true, 80, nowhere);
		report_node(&r, false, 80, nowhere);
		report_node_slurm(&r, nowhere);
		report_node_npd(&r, nowhere);
		report_node_prometheus(&r, nowhere);
		vec_free(&r.findings);
	}
	uh_error_free(err);
	return 0;
}

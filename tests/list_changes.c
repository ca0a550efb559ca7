// Prints what changes_read() reads of this machine, a tree or a bundle, for tests: list_changes [ROOT|BUNDLE] [WHEN]
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/child.h"
#include "host/changes/changes.h"
#include "host/changes/readers.h"
#include "session/machine.h"

int main(int argc, char **argv)
{
	struct know_problems problems = { 0 };
	struct know *k = know_load(&problems);
	_cleanup_changes_ struct changes c;
	_cleanup_text_ struct text out = { 0 };
	struct machine_at at = { .root = argc > 1 && argv[1][0] ? argv[1] : NULL };
	struct uh_machine *machine = NULL;
	struct stat st;
	if (at.root && !stat(at.root, &st) && S_ISREG(st.st_mode)) {
		uh_error_free(uh_machine_open(at.root, &machine));
		at = (struct machine_at){ .tape = machine_tape(machine, "changes") };
	}
	const int64_t began = now_ms();
	changes_read(k, at, argc > 2 ? atof(argv[2]) : 0, &c);
	text_printf(&out, "took\t%lld\n", (long long)(now_ms() - began));
	changes_write(&c, &out);
	fwrite(out.p, 1, out.n, stdout);
	uh_machine_free(machine);
	know_free(k);
	return 0;
}

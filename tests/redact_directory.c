// redact_directory [--bug-report] DIRECTORY: redacts what a capture saved there, as before it is packed.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "capture/steps.h"
#include "session/look.h"

int main(int argc, char **argv)
{
	const bool bug_report = argc == 3 && !strcmp(argv[1], "--bug-report");
	struct arena a = { 0 };
	struct manifest m = { .host = S("emu-host") };
	_cleanup_close_ int dir = argc < 2 ? -1 : open(argv[argc - 1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct know *k = look_knowledge((struct teller){ 0 });
	struct capture_options o = { .redact = true, .know = k, .known_only = bug_report };
	struct taking c = { .options = &o, .arena = &a, .manifest = &m, .dir = dir, .lock = -1 };
	if (dir < 0)
		return 2;
	_cleanup_error_ struct uh_error *err = redact_partial(&c, 0);
	if (err)
		fprintf(stderr, "%s\n", uh_error_message(err));
	for (size_t i = 0; i < m.nreplaced; i++)
		printf("%s %llu %llu\n", m.replaced[i].kind, m.replaced[i].names, m.replaced[i].places);
	know_free(k);
	arena_free(&a);
	return err ? 1 : 0;
}

// A program that links the library as it is installed, with functions of its own that have names of the library's inside.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unhang/unhang.h>

int str_trim(void);
int know_load(void);
int mem_alloc(void);

int str_trim(void) { return 1; }
int know_load(void) { return 2; }
int mem_alloc(void) { return 4; }

static void problem(void *ctx, const char *message)
{
	(void)ctx;
	fprintf(stderr, "%s\n", message);
}

/** Explains files that were read by somebody else, and writes JSON. */
static int explain_bytes(int argc, char **argv)
{
	enum { MOST = 8 << 20 };
	struct uh_session *s = uh_session_new(problem, NULL);
	for (int i = 0; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		char *bytes = malloc(MOST);
		size_t n = f && bytes ? fread(bytes, 1, MOST, f) : 0;
		uh_session_add_bytes(s, argv[i], bytes, n);
		free(bytes);
		if (f)
			fclose(f);
	}
	uh_session_end(s);
	uh_session_report(s, stdout, &(struct uh_report_options){ .json = true });
	uh_session_free(s);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "--bytes"))
		return explain_bytes(argc - 2, argv + 2);
	struct uh_session *s = uh_session_new(problem, NULL);
	for (int i = 1; i < argc; i++)
		uh_session_add_path(s, argv[i]);
	uh_session_end(s);
	printf("%u incidents, own %d\n", uh_session_incidents(s), str_trim() + know_load() + mem_alloc());
	uh_session_free(s);
	return 0;
}

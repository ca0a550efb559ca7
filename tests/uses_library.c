// A program that links the library as it is installed, with functions of its own that have names of the library's inside.
#include <stdio.h>
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

int main(int argc, char **argv)
{
	struct uh_session *s = uh_session_new(problem, NULL);
	for (int i = 1; i < argc; i++)
		uh_session_add_path(s, argv[i]);
	uh_session_end(s);
	printf("%u incidents, own %d\n", uh_session_incidents(s), str_trim() + know_load() + mem_alloc());
	uh_session_free(s);
	return 0;
}

// What a page cannot have. absent.json tells its users.
#include "code/disassemble/disassemble.h"
#include "code/lines/lines.h"
#include "host/changes/readers.h"
#include "source/source.h"

struct uh_error *code_lines_new(struct str name, struct str bytes, const uint64_t *addresses, size_t n, struct code_lines **ret)
{
	(void)addresses;
	(void)n;
	*ret = NULL;
	if (str_find(bytes, S(".debug_line")) < 0)
		return NULL;
	return uh_error_new("source lines of " STR_FMT
			    " are not shown: this page does not read debug information; the program does",
			    STR_ARG(name));
}

void code_lines_free(struct code_lines *l) { (void)l; }

struct str code_lines_note(const struct code_lines *l)
{
	(void)l;
	return (struct str){ 0 };
}

size_t code_lines_at(const struct code_lines *l, uint64_t address, struct code_frame frames[static CODE_FRAMES])
{
	(void)l;
	(void)address;
	(void)frames;
	return 0;
}

bool code_lines_row(const struct code_lines *l, uint64_t address, uint64_t *ret_begin)
{
	(void)l;
	(void)address;
	(void)ret_begin;
	return false;
}

struct uh_error *disassemble(struct arena *a, struct str target_id, const struct code_range *ranges, size_t n,
			     struct disassembly *ret)
{
	(void)a;
	(void)target_id;
	(void)ranges;
	(void)n;
	*ret = (struct disassembly){ 0 };
	return uh_error_new("this page has no disassembler; the program has");
}

struct uh_error *source_journal_file(const struct named *n, const char *path, const struct source_visitor *v)
{
	(void)n;
	(void)v;
	return uh_error_new("%s: a journal file, which the page cannot read; save it as text with journalctl", path);
}

struct uh_error *source_journal(const char *root, int boot, const struct source_visitor *v)
{
	(void)root;
	(void)boot;
	(void)v;
	return uh_error_new("the page has no journal");
}

struct uh_error *source_journal_past(const char *root, int boot, int milliseconds, const struct source_visitor *v,
				     void (*whole)(void *ctx))
{
	(void)milliseconds;
	(void)whole;
	return source_journal(root, boot, v);
}

int source_journal_boots(const char *root)
{
	(void)root;
	return 0;
}

struct uh_error *source_kmsg(const char *path, const struct source_visitor *v)
{
	(void)v;
	return uh_error_new("%s: the page has no kernel", path);
}

void changes_collect(struct changes *c, const struct know *k, const char *root)
{
	(void)c;
	(void)k;
	(void)root;
}

void changes_boots(struct changes *c, const struct know *k, const char *root) { changes_collect(c, k, root); }

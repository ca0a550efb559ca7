// The driver's files of counted errors (sysfs: ras/umc_err_count, ras/aca_umc), as people and bundles keep them: alone in a tree, one behind the
// other, or below the headings of head and tail. unhang itself never reads them of a live machine: that asks the hardware.
#include "evidence/hardware/counts.h"
#include "knowledge/template.h"

enum { NO_COUNT = 0xffff0 }; // what the counters of a GPU that sleeps read as, or a multiple of it

static const char *const keys[ERROR_COUNTS] = {
	[COUNT_CORRECTED] = "ce: ", [COUNT_UNCORRECTED] = "ue: ", [COUNT_DEFERRED] = "de: "
};

struct error_files {
	struct artefact_output out;
	struct error_counts counts; // of the file that is being read
	bool open;
	struct place at;
	char path[256]; // by the last heading
};

/** `==> ras/umc_err_count <==` */
static struct str files_heading(struct str line)
{
	struct str path;
	return str_behind(line, S("==> "), &path) && str_ends(path, S(" <==")) ? str_cut(path, path.n - 4) : (struct str){ 0 };
}

/** Which of the counts a line has; ERROR_COUNTS: it is no such line. */
static enum error_count files_key(struct str line, struct str *ret_number)
{
	size_t i = 0;
	while (i < ERROR_COUNTS && !str_behind(line, str_z(keys[i]), ret_number))
		i++;
	return (enum error_count)i;
}

/** `umc` of ras/umc_err_count and of ras/aca_umc; empty: it is no file of a block. What an archive holds stands in brackets. */
static struct str files_block(struct str path)
{
	const struct str base = str_base(path), name = str_cut(base, base.n - str_ends(base, S(")")));
	struct str block = { 0 };
	if (str_ends(name, S("_err_count")))
		block = str_cut(name, name.n - strlen("_err_count"));
	else
		str_behind(name, S("aca_"), &block);
	return block.n && str_run(block, char_word) == block.n ? block : (struct str){ 0 };
}

static bool error_files_begins(struct str line)
{
	struct str number, rest;
	int64_t n;
	return files_block(files_heading(line)).n || (str_behind(line, str_z(keys[COUNT_UNCORRECTED]), &number) &&
						      str_number((rest = number, str_word(&rest)), &n) && !rest.n);
}

static void error_files_close(void *self)
{
	struct error_files *f = self;
	const struct str path = f->path[0] ? str_z(f->path) : f->out.name, block = files_block(path);
	struct str rest = path, pci = { 0 };
	while (rest.n) {
		const struct str part = str_split(&rest, '/');
		pci = part.n && pci_length(part) == part.n ? part : pci;
	}
	if (f->open && block.n) {
		struct block_counts *b = &f->counts.blocks[f->counts.n++];
		str_copy(b->name, sizeof(b->name), block);
		memcpy(b->count, f->counts.total, sizeof(b->count));
	}
	if (f->open)
		counts_tell(&f->counts, &f->out, f->at, pci, -1);
	f->open = false;
	f->counts = (struct error_counts){ .n = 0 };
}

static enum taken error_files_line(void *self, const struct logline *line, struct place at)
{
	struct error_files *f = self;
	struct str number, heading = files_heading(line->text);
	int64_t n = 0;
	if (heading.n) {
		error_files_close(f);
		str_copy(f->path, sizeof(f->path), heading);
		return files_block(heading).n ? TAKEN_YES : TAKEN_NO;
	}
	const enum error_count key = files_key(line->text, &number);
	if (key == ERROR_COUNTS)
		return TAKEN_NO;
	if (key == COUNT_UNCORRECTED || !f->open) { // each file begins with it
		error_files_close(f);
		f->at = at;
		f->open = true;
	}
	number = str_trim(number);
	if (str_number(number, &n) && n >= 0 && n < NO_COUNT)
		f->counts.total[key] = n;
	else if (!f->counts.odd[0])
		str_copy(f->counts.odd, sizeof(f->counts.odd), number.n ? number : S("nothing"));
	return TAKEN_YES;
}

ARTEFACT_READER(error_files, "inventory", 0);

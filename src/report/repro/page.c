// The Makefile and the README of the program.
#include "base/cleanup.h"
#include "report/repro/repro.h"
#include "unhang/unhang.h"

struct str repro_plain(struct arena *a, struct str s)
{
	_cleanup_text_ struct text t = { 0 };
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] >= ' ' && s.p[i] < 0x7f && !char_among(s.p[i], "`|[]\\#!"))
			text_add(&t, (struct str){ &s.p[i], 1 });
		else
			text_printf(&t, "?");
	return arena_str(a, text_str(&t));
}

/** A stranger's name for Markdown: code makes no markup, no link, and calls nobody. */
static struct str name_code(struct arena *a, struct str s)
{
	return s.n ? arena_printf(a, "`" STR_FMT "`", STR_ARG(repro_plain(a, s))) : S("one without a name");
}

/** Whether Markdown takes nothing in a word for markup, a link or a person. */
static bool word_plain(struct str word)
{
	for (size_t i = 0; i < word.n; i++)
		if (char_among(word.p[i], "<>&*@~$_#[]!\\") || (word.p[i] == '/' && i && word.p[i - 1] == '/'))
			return false;
	return str_find(word, S("www.")) < 0 && str_find(word, S("WWW.")) < 0;
}

/** A sentence with names in it: those that could mean something are code. */
static struct str sentence_code(struct arena *a, struct str s)
{
	_cleanup_text_ struct text t = { 0 };
	struct str rest = repro_plain(a, s);
	while (rest.n) {
		const struct str word = str_split(&rest, ' ');
		const char *mark = word_plain(word) ? "" : "`";
		text_printf(&t, "%s%s" STR_FMT "%s", t.n ? " " : "", mark, STR_ARG(word), mark);
	}
	return arena_str(a, text_str(&t));
}

void repro_write_makefile(FILE *out)
{
	fputs("# The GPU's code is in code-*.co: only the host's part is compiled, so that any C++ compiler will do.\n"
	      "ROCM ?= /opt/rocm\n"
	      "\n"
	      "repro: " REPRO_PROGRAM "\n"
	      "\t$(CXX) -O1 -D__HIP_PLATFORM_AMD__ -I$(ROCM)/include -o $@ " REPRO_PROGRAM
	      " -L$(ROCM)/lib -Wl,-rpath,$(ROCM)/lib -lamdhip64\n"
	      "\n"
	      "run: repro\n"
	      "\t./repro\n"
	      "\n"
	      "clean:\n"
	      "\trm -f repro\n"
	      "\n"
	      ".PHONY: run clean\n",
	      out);
}

/** What must be seen, by the kind of the failure. */
static const char *const shows[] = {
	[REPRO_FAULT] =
		"A memory fault of the GPU. ROCm before 7 prints `Memory access fault by GPU node` and aborts the program; "
		"from 7 on a call returns hipErrorIllegalAddress.",
	[REPRO_ERROR] =
		"An error of the queue. ROCm before 7 prints it and aborts the program; from 7 on a call returns an error.",
	[REPRO_HANG] = "The program does not end. Stop it with Ctrl-C, or start it as `timeout 60 ./repro`.",
};

static void write_failure(const struct repro_plan *p, struct arena *a, FILE *out)
{
	const struct repro_failure *f = &p->failure;
	const bool shown = !p->unrecorded || repro_failing(p)->npointers;
	fprintf(out, "\n## What it %s show\n%s\n", shown ? "must" : "will",
		shown ? shows[f->kind] : "A memory fault of the GPU, whatever the bug was: see above.");
	if (f->said.n)
		fprintf(out, "In the job the fault was " STR_FMT ".\n", STR_ARG(sentence_code(a, f->said)));
	if (f->code.n)
		fprintf(out, "A wave of it was at " STR_FMT ".\n", STR_ARG(name_code(a, f->code)));
	if (f->kind == REPRO_ERROR)
		fprintf(out, "The recording has the status 0x%llx.\n", (unsigned long long)f->status);
	if (f->argument >= 0 && repro_failing(p)->npointers)
		fprintf(out,
			"The pointer to that buffer is at byte %lld of the arguments. The program prints where its buffers "
			"are, so "
			"that you can compare.\n",
			(long long)f->argument);
	if (p->tried.runs)
		fprintf(out, "unhang built and ran it where it was made: it %s.\n",
			p->tried.alike ? "failed in the same way" : "did not fail in the same way");
}

static const char *contents_say(const struct repro_write *w)
{
	return w->dropped              ? "zeros: it fails with them, too" :
	       w->withheld             ? "not saved (`--user-data` saves them)" :
	       w->fill == REPRO_SAVED  ? "as they were" :
	       w->fill == REPRO_VALUES ? "rising values in the range that was recorded" :
					 "zeros: what they were was not recorded";
}

static void write_buffers(const struct repro_plan *p, struct arena *a, FILE *out)
{
	struct repro_walk w = repro_walk_begin(p, a);
	struct repro_step s;
	fprintf(out, "\n| buffer | bytes | was | contents |\n|---|---|---|---|\n");
	while (repro_walk_next(p, &w, &s)) {
		const struct repro_buffer *b = &p->buffers.data[s.index];
		if (s.act != REPRO_ALLOCATE)
			continue;
		const struct repro_write *x = list_find(p->writes.data, p->writes.len, it,
							it->buffer == s.index && !p->launches.data[it->launch].dropped);
		fprintf(out, "| %u | %llu | %llu bytes%s%s%s " STR_FMT "| %s |\n", s.index, (unsigned long long)b->bytes,
			(unsigned long long)b->recorded, b->host ? " of host memory" : "",
			b->freed ? ", freed before the launch" : "", b->was.n ? "," : "", STR_ARG(sentence_code(a, b->was)),
			b->freed ? "none" :
			x        ? contents_say(x) :
				   "none: only its address is used");
	}
}

static void write_launches(const struct repro_plan *p, struct arena *a, FILE *out)
{
	static const char *const roles[] = { "before", "at the same time", "**fails**" };
	struct repro_walk w = repro_walk_begin(p, a);
	struct repro_step s;
	fprintf(out, "\n| launch | kernel | work-items | group | |\n|---|---|---|---|---|\n");
	while (repro_walk_next(p, &w, &s)) {
		const struct repro_launch *l = &p->launches.data[s.index];
		if (s.act == REPRO_LAUNCH)
			fprintf(out, "| queue %u, packet %llu | " STR_FMT " | %u x %u x %u | %u x %u x %u | %s |\n", l->queue,
				(unsigned long long)l->packet, STR_ARG(name_code(a, l->plain)), l->grid[0], l->grid[1], l->grid[2],
				l->group[0], l->group[1], l->group[2], roles[l->role]);
	}
	for (size_t i = 0; i < p->launches.len; i++)
		if (p->launches.data[i].role == REPRO_FAILS && p->launches.data[i].told.n)
			fprintf(out, "\nArguments of the launch that fails, as they were in the job: " STR_FMT "\n",
				STR_ARG(name_code(a, p->launches.data[i].told)));
}

/** Whether a file has what a buffer held. */
static bool contents_saved(const struct repro_plan *p)
{
	return list_find(p->writes.data, p->writes.len, it,
			 it->fill == REPRO_SAVED && !it->dropped && !p->launches.data[it->launch].dropped);
}

static void write_private(const struct repro_plan *p, FILE *out)
{
	fprintf(out, "\n## Private data\n%s%s",
		contents_saved(p) ?
			"The files data-*.bin hold what the buffers of the job held: look at them before you send them.\n" :
			"No contents of buffers are in it. Numbers that were given to the kernels are.\n",
		"The files code-*.co are the job's GPU code, with names of kernels and perhaps of source files.\n");
	if (p->redacted)
		fprintf(out, "Names of the program, its machine and its paths are left out.\n");
}

/** The version that LLVM counts from 2 on, as the header of the code has it. */
static unsigned code_version(const struct repro_plan *p)
{
	enum { FIRST_VERSION = 2 };
	return p->objects.len ? p->objects.data[0].abi + FIRST_VERSION : 0;
}

struct str repro_worth(const struct repro_plan *p, struct arena *a)
{
	const uint32_t all = p->unrecorded + (uint32_t)repro_failing(p)->npointers;
	if (!p->unrecorded)
		return (struct str){ 0 };
	if (p->unrecorded < all)
		return arena_printf(a, "%u of its %u buffers were not recorded: it may fault for that reason alone.",
				    p->unrecorded, all);
	return arena_printf(a,
			    "This program faults in any case: %s was recorded. It does not reproduce the bug; use it to read the "
			    "kernel and its arguments.",
			    all == 1 ? "not even its one buffer" : arena_printf(a, "none of its %u buffers", all).p);
}

void repro_write_readme(const struct repro_plan *p, FILE *out)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct str gfx = p->objects.len ? sentence_code(&a, p->objects.data[0].gfx) : (struct str){ 0 };
	const struct str worth = repro_worth(p, &a);
	fprintf(out,
		"# A GPU launch that failed, as a standalone program\n" STR_FMT "%sunhang %s wrote it. Kernel: " STR_FMT
		". GPU: " STR_FMT ".\n",
		STR_ARG(worth), worth.n ? "\n\n" : "", UNHANG_VERSION, STR_ARG(name_code(&a, repro_failing(p)->plain)), STR_ARG(gfx));
	if (!p->redacted)
		fprintf(out, "It was made from " STR_FMT ", of the program " STR_FMT ".\n", STR_ARG(name_code(&a, p->source)),
			STR_ARG(name_code(&a, p->program)));
	fprintf(out,
		"\n## Build and run\n    make\n    ./repro\n\nIt needs HIP's headers and library, a C++ compiler, and a GPU "
		"that runs code for " STR_FMT ". The code is of code object version %u, which ROCm's runtime there must load. If "
		"ROCm is not in /opt/rocm: `make ROCM=DIRECTORY`.\n",
		STR_ARG(gfx), code_version(p));
	write_failure(p, &a, out);
	fprintf(out, "\n## What is in it\n`" REPRO_PROGRAM
		     "` allocates the buffers, fills them, and launches the kernels in the order of the "
		     "recording. Addresses among the arguments are those of the new buffers.\n");
	write_launches(p, &a, out);
	write_buffers(p, &a, out);
	fprintf(out, "\n## What was left out\n%s", p->left_out.len ? "" : "Nothing that is known.\n");
	for (size_t i = 0; i < p->left_out.len; i++)
		fprintf(out, "- " STR_FMT "\n", STR_ARG(sentence_code(&a, p->left_out.data[i])));
	write_private(p, out);
}

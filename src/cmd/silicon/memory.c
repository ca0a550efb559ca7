// unhang memory: bytes, page tables and instructions behind an address of a GPU.
#include <getopt.h>

#include "cmd/cmd.h"

enum { VMIDS = 16, XCCS = 64 };

/** As option_row.take. */
static bool take_small(void *to, const char *text, const char *option, int64_t most)
{
	int64_t n;
	if (!str_number(str_z(text), &n) || n < 0 || n >= most)
		return reject("%s needs a number below %lld, not '%s'", option, (long long)most, text);
	*(int *)to = (int)n;
	return true;
}
static bool take_vmid(void *to, const char *text) { return take_small(to, text, "--vmid", VMIDS); }
static bool take_memory_xcc(void *to, const char *text) { return take_small(to, text, "--xcc", XCCS); }

static bool take_memory_pid(void *to, const char *text)
{
	int64_t n;
	if (!str_number(str_z(text), &n) || n <= 0)
		return reject("--pid needs the number of a process, not '%s'", text);
	*(long long *)to = n;
	return true;
}

static bool take_length(void *to, const char *text)
{
	int64_t n;
	if (!str_number(str_z(text), &n) || n <= 0)
		return reject("--length needs a number of bytes, not '%s'", text);
	*(unsigned long long *)to = (unsigned long long)n;
	return true;
}

static const struct help_text memory_help = {
	.name = "memory",
	.usage = "unhang memory [--vmid N | --pid PID] [OPTION...] ADDRESS\n"
		 "       unhang memory --fault [INCIDENT]",
	.about = "Shows the memory of a GPU behind ADDRESS, as a program or the driver (VMID 0) has it: its bytes, the way "
		 "through the page tables, or the instructions. unhang walks the page tables itself and only reads, and only "
		 "when that is safe. Where it is not clear whose address it is, it lists the candidates and exits with 2. With --fault: what the page "
		 "tables say now about the address of the newest page fault in this machine's log, or of an incident's, and what is mapped "
		 "around it; or that its address space is gone. It needs root.",
	.status = "exit status: 0 the memory was read, or --walk shows that nothing is mapped there, 2 it could not be read",
};

int cmd_memory(int argc, char **argv)
{
	struct uh_look_options o = { .width = terminal_width() };
	struct uh_memory_query q = { .vmid = -1, .xcc = -1 };
	const struct option_row rows[] = {
		{ 0, "vmid", "N", "the address is one of this VMID; 0: of the driver", TO_FUNCTION(take_vmid, &q.vmid) },
		{ 0, "pid", "PID", "the address is one of this process", TO_FUNCTION(take_memory_pid, &q.pid) },
		{ 0, "gpu", "GPU", "the GPU: its PCI address or number; needed if more than one GPU is possible",
		  TO_TEXT(&o.gpu) },
		{ 0, "xcc", "N", "on this XCC (compute die): elsewhere the same VMID may be another program's",
		  TO_FUNCTION(take_memory_xcc, &q.xcc) },
		{ 0, "length", "BYTES", "how many bytes to show (64; with --code 256), at most 1 MiB",
		  TO_FUNCTION(take_length, &q.length) },
		{ 0, "walk", NULL, "show each entry of the page tables on the way, and what is mapped around the address",
		  TO_FLAG(&q.walk) },
		{ 0, "code", NULL, "show the bytes as instructions; one has to begin at ADDRESS", TO_FLAG(&q.code) },
		{ 0, "fault", NULL, "look at the address of the newest page fault in the log, or of that of INCIDENT", TO_FLAG(&q.fault) },
		{ 'a', "all", NULL, "show lines that are the same as the one before, too", TO_FLAG(&o.all) },
		JSON_ROW(&o.json, "memory"),
	};
	options_parse(&memory_help, ROWS(rows), NO_ROWS, argc, argv);
	if (optind >= argc && !q.fault)
		return refuse("which address? unhang memory --vmid 8 0x7f0000000000");
	if (!operands_end(argc, argv, 1, q.fault ? "give one incident at a time" : "give one address at a time"))
		return EXIT_CANNOT;
	if (q.vmid >= 0 && q.pid)
		return refuse("give --vmid or --pid, not both");
	if (q.fault && (q.vmid >= 0 || q.pid || o.gpu || q.length || q.code))
		return refuse("--fault takes GPU, process and address from the log; only --xcc and --json go with it");
	if (q.fault)
		q.incident = optind < argc ? argv[optind] : NULL;
	else
		q.address = argv[optind];
	return done(uh_look_memory(&o, &q, stdout, complain_line, NULL));
}

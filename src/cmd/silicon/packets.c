// unhang packets: the commands in a buffer of a GPU, or in a file of words.
#include <getopt.h>
#include <string.h>

#include "cmd/cmd.h"

/** `ADDRESS[@VMID]`, as option_row.take. */
static bool take_ib(void *to, const char *text)
{
	struct uh_memory_query *q = to;
	const char *at = strchr(text, '@');
	int64_t vmid;
	if (at && (!str_number(str_z(at + 1), &vmid) || vmid < 0 || vmid > 15))
		return reject("--ib needs ADDRESS@VMID, such as 0x7f0000000000@8, not '%s'", text);
	q->address = text;
	q->vmid = at ? (int)vmid : -1;
	return true;
}

static bool take_words(void *to, const char *text)
{
	int64_t n;
	if (!str_number(str_z(text), &n) || n <= 0 || n > INT32_MAX)
		return reject("--words needs a number, not '%s'", text);
	*(unsigned long long *)to = (unsigned long long)n * 4;
	return true;
}

static bool take_packets_xcc(void *to, const char *text)
{
	int64_t n;
	if (!str_number(str_z(text), &n) || n < 0 || n > 63)
		return reject("--xcc needs a number, not '%s'", text);
	*(int *)to = (int)n;
	return true;
}

static const struct help_text packets_help = {
	.name = "packets",
	.usage = "unhang packets --ib ADDRESS[@VMID] [OPTION...]\n"
		 "       unhang packets --part PART [OPTION...] FILE",
	.about = "Shows the commands in an indirect buffer (IB) of a GPU, and in the buffers that it runs; or in FILE (- is "
		 "standard "
		 "input), which has words of 32 bits, as bytes or as hexadecimal numbers. In such a text, "
		 "what comes before a colon is an address, and # starts a comment. Reading from a GPU needs root and changes nothing.",
	.status = "exit status: 0 there were packets, 2 they could not be read",
	.operands = "FILE",
};

int cmd_packets(int argc, char **argv)
{
	struct uh_look_options o = { .width = terminal_width() };
	struct uh_packets_query q = { .at = { .vmid = -1, .xcc = -1 } };
	char address[64];
	const struct option_row rows[] = {
		{ 0, "ib", "ADDRESS[@VMID]", "the buffer at this address; without VMID, of the only process with compute work",
		  TO_FUNCTION(take_ib, &q.at) },
		{ 0, "words", "N", "so many words of it; without, up to the end of its page",
		  TO_FUNCTION(take_words, &q.at.length) },
		{ 0, "gpu", "GPU", "the GPU: its PCI address or number; needed if there are several", TO_TEXT(&o.gpu) },
		{ 0, "xcc", "N", "on this XCC (compute die)", TO_FUNCTION(take_packets_xcc, &q.at.xcc) },
		{ 0, "part", "PART", "the GPU whose packets are in FILE, such as gfx1100", TO_TEXT(&q.part) },
		{ 0, "language", "NAME",
		  "pm4 (command processor), sdma (copy engine), mes (scheduler) or aql (user queues); pm4",
		  TO_TEXT(&q.language) },
		JSON_ROW(&o.json, "packets"),
	};
	options_parse(&packets_help, ROWS(rows), NO_ROWS, argc, argv);
	if (!operands_end(argc, argv, 1, "give one file"))
		return EXIT_CANNOT;
	q.path = optind < argc ? argv[optind] : NULL;
	if (!q.path == !q.at.address)
		return refuse("give --ib ADDRESS@VMID, or a file of words");
	if (q.path && !q.part)
		return refuse("of which GPU are these packets? --part gfx1100");
	if (q.at.address) {
		str_copy(address, sizeof(address), str_cut(str_z(q.at.address), strcspn(q.at.address, "@")));
		q.at.address = address;
	}
	return done(uh_look_packets(&o, &q, stdout, complain_line, NULL));
}

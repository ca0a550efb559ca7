// What a text or a file is, by its content.
#include <stdlib.h>

#include "evidence/artefact.h"
#include "evidence/reader.h"

static const struct {
	const char *bytes;
	size_t size;
	const char *what;
} magics[] = {
	{ "\x7f"
	  "ELF",
	  4, "an ELF file (a program, a library or a core)" },
	{ "\x89PNG", 4, "a picture (PNG); paste the text of the log instead" },
	{ "\xff\xd8\xff", 3, "a picture (JPEG); paste the text of the log instead" },
	{ "%PDF", 4, "a PDF" },
	{ "\xff\xfe", 2, "UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8" },
	{ "\xfe\xff", 2, "UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8" },
	{ "KDUMP   ", 8, "a kernel core; give the dmesg file that kdump wrote beside it" },
	{ "SQLite format 3", 15, "an SQLite database" },
};

const char *recognise_binary(struct str head)
{
	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		if (str_starts(head, (struct str){ magics[i].bytes, magics[i].size }))
			return magics[i].what;
	// A log of a machine that lost power has runs of NULs; other control characters are rare in any text.
	size_t control = 0, text = 0;
	for (size_t i = 0; i < head.n; i++) {
		unsigned char c = (unsigned char)head.p[i];
		if (!c)
			continue;
		bool odd = c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != 0x1b && c != '\b' && c != '\f';
		control += odd;
		text += !odd;
	}
	if (!control && !text)
		return "nothing but NUL bytes";
	return control * 20 > control + text ? "not text" : NULL;
}

static const struct artefact_reader *const artefacts[] = {
	&debug_agent_reader, &rocgdb_reader,        &devcoredump_reader, &kernel_api_reader, &stacks_reader,
	&fence_info_reader,  &firmware_info_reader, &inventory_reader,   &umr_reader,        &udev_monitor_reader,
	&error_files_reader, &error_list_reader,    &apei_reader,
};

const struct artefact_reader *recognise_artefact(struct str line)
{
	for (size_t i = 0; i < ARRAY_SIZE(artefacts); i++)
		if (artefacts[i]->begins(line))
			return artefacts[i];
	return NULL;
}

void *artefact_open(const struct artefact_reader *r, const struct artefact_output *out)
{
	struct artefact_output *self = mem_alloc(r->size);
	*self = *out;
	return self;
}

void artefact_close(const struct artefact_reader *r, void *self)
{
	if (r->close)
		r->close(self);
	free(self);
}

bool artefact_event(const struct artefact_output *out, const char *id, struct place at, struct event *ret)
{
	event_begin(ret, at);
	ret->signature = know_signature(out->know, str_z(id));
	for (const struct know_pair *p = ret->signature ? ret->signature->sets : NULL; p; p = p->next)
		event_add(ret, p->name, p->value, FACT_TEXT);
	return ret->signature;
}

void artefact_tell(const struct artefact_output *out, const struct event *e) { out->sink.event(out->sink.ctx, e); }

// Artefacts inside a text: a wave dump, a debugger's transcript, a driver's file. Each has its own reader in its own file; recognise.c
// lists them, and docs/HOWTO_ADD_ARTEFACT.md adds one. The log reader gives every line to the artefact that is open. A line that the
// artefact does not take is an ordinary log line, because several processes write into one log.
#pragma once

#include "evidence/event.h"
#include "evidence/log/line.h"

/** Where an artefact puts what it finds. */
struct artefact_output {
	const struct know *know;
	unsigned source;
	struct event_sink sink;
	struct str name;         // of the source
	struct code_shelf *code; // of the waves it tells of
	uint64_t line;           // of a document
};

/** TAKEN_LOOKS_LIKE: the line may belong to the artefact but says nothing, so it may as well be a line of the log. */
enum taken { TAKEN_NO, TAKEN_YES, TAKEN_LOOKS_LIKE };

struct artefact_reader {
	const char *kind; // as in "sources"
	/** Whether the artefact begins with this line. It may be called for every line of a text. */
	bool (*begins)(struct str line);
	size_t size; // of @self: zeroed memory that begins with a struct artefact_output, which is filled
	/** Whether the line belongs to the artefact. The first line it gets is the one with which the artefact begins. */
	enum taken (*line)(void *self, const struct logline *line, struct place at);
	/** Hands on what is left and frees what @self holds; NULL: there is nothing. */
	void (*close)(void *self);
	unsigned patience; // how many lines of others may stand between its own before it counts as ended
};
/** The reader that has its state in struct NAME, and the functions NAME_begins(), NAME_line() and NAME_close(). */
#define ARTEFACT_READER(name, its_kind, lines_of_others)                                                                       \
	const struct artefact_reader name##_reader = { its_kind,    name##_begins, sizeof(struct name),                        \
						       name##_line, name##_close,  lines_of_others }
/** The memory of a reader. */
void *artefact_open(const struct artefact_reader *r, const struct artefact_output *out);
/** Closes the reader and frees @self. */
void artefact_close(const struct artefact_reader *r, void *self);

/** All of them. */
extern const struct artefact_reader apei_reader, debug_agent_reader, devcoredump_reader, error_files_reader, error_list_reader, fence_info_reader,
	firmware_info_reader, inventory_reader, kernel_api_reader, rocgdb_reader, stacks_reader, udev_monitor_reader, umr_reader;

/** The reader of the artefact that begins with this line, or NULL. */
const struct artefact_reader *recognise_artefact(struct str line);

/** Begins an event of the signature @id. The signature names its reader in knowledge/. false: the user has retracted it. */
bool artefact_event(const struct artefact_output *out, const char *id, struct place at, struct event *ret);

/** Hands an event on. */
void artefact_tell(const struct artefact_output *out, const struct event *e);

/** `ME feature version: 35, fw version: 0x902`, as two of the driver's files print it: the event of a firmware's version. */
bool firmware_line(const struct artefact_output *out, struct str text, struct place at);
/** The version of an engine's firmware: `RLC SRLC` becomes the fact fw_rlc_srlc. */
void firmware_fact(struct event *e, struct arena *a, struct str engine, uint64_t version);

/** A whole file of JSON, parsed; its readers are listed in document.c. */
struct json_t;
struct document_reader {
	const char *kind;
	/** false: the document is not of this kind. */
	bool (*read)(const struct artefact_output *out, const struct json_t *root);
};

/** All of them. */
extern const struct document_reader bisect_document, container_document, flight_recorder_document, kernel_api_document,
	py_spy_document, repro_document, smi_document, try_document, watch_event_document;

/** Whether a file that begins with @head may be a document and is worth reading as a whole. */
bool document_begins(struct str head);
/** Reads a document, hands on its events, and returns its kind; NULL: it is none. */
const char *document_read(const struct artefact_output *out, struct str bytes);

// Texts that quote messages without being logs: source code, patches, templates, manuals, commands that search for a message.
#pragma once

#include "evidence/log/line.h"

struct quotes {
	bool hunk;      // inside of a patch's hunk
	bool unstamped; // the text is a document: lines without a time in it are quotes
	bool all;       // so are those with one
	uint64_t at;    // line of the first message that was only quoted; 0: none
};

/** Each line that is read, in order. */
void quotes_line(struct quotes *q, struct str line);
/** What words in the text say it is: `lines`, or `all`. */
void quotes_text(struct quotes *q, struct str which);
/** Whether the message at @begin to @end of the line's message is only quoted by it. @program: it is one of a program. */
bool quotes_message(const struct quotes *q, const struct logline *line, size_t begin, size_t end, bool program);

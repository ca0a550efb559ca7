// Commands and steps that people paste into a root shell. Every command that is printed or run is a struct command, and only this file
// can make one: from literal text, and from values that pass the test of their type. Evidence is hostile. A value that a shell might
// not take literally is refused; a path is quoted instead.
#pragma once

#include "base/arena.h"

// What can be given to a shell as it stands is marked in the text it is made of: `Look who holds it: ``sudo fuser -v /dev/kfd```. The marks
// are not printed. Reports keep such a part together, and tests/shell.py gives each to a shell.

struct command; // defined in command.c, so that nothing else can make one
struct command_maker;

/** What a value may be. Only a path may have characters that mean something to a shell. */
enum piece_type {
	PIECE_WORD,      // letters, digits and _./:,=+@%-, with no minus in front
	PIECE_NUMBER,    // decimal or 0x hexadecimal
	PIECE_PCI,       // 0000:03:00.0
	PIECE_NAME,      // the name of a parameter or a variable
	PIECE_PARAMETER, // a parameter's value, or NAME=VALUE: a word that may begin with a minus
	PIECE_WORDS,     // several PIECE_WORD with spaces between, for sentences
	PIECE_VERSION,   // of a package: a word that may have ~ within
	PIECE_PATH,      // any printable characters; quoted where needed
	PIECE_TYPES,
};

/** Whether a shell takes @value literally, within quotes of either kind and without quotes. */
bool piece_plain(enum piece_type type, struct str value);
/** The type called word, number, pci, name, parameter, words, version or path; PIECE_TYPES for any other name. */
enum piece_type piece_type_named(struct str name);

struct command_maker *command_begin(struct arena *arena);
void command_add_text(struct command_maker *m, struct str text);
/** Text from this program. */
#define command_add(m, literal) command_add_text((m), S("" literal ""))
/** Text from knowledge, which is trusted as the program is. */
static inline void command_add_known(struct command_maker *m, struct str text) { command_add_text(m, text); }
/** Begins or ends a part that can be run as it stands, as the mark `` in a text does. */
void command_mark(struct command_maker *m);
/** Another command, with its marks. */
void command_add_command(struct command_maker *m, const struct command *c);
/** The same behind other words: its sentence begins with a small letter. A value keeps its letters: `Ae` is another file than `ae`. */
void command_add_within(struct command_maker *m, const struct command *c);
/** false: its type refuses the value; then command_end() returns NULL. A path is quoted here, so it must not stand between quotes. */
bool command_add_value(struct command_maker *m, enum piece_type type, struct str value);
/** A gap for a person to fill in: fault_address becomes FAULT_ADDRESS. */
void command_add_blank(struct command_maker *m, struct str name);
/** The finished command, in the arena. NULL: a value was refused, or the command is empty. */
const struct command *command_end(struct command_maker *m);

/** A command without values. */
#define COMMAND(arena, literal) command_literal((arena), S("" literal ""))
const struct command *command_literal(struct arena *arena, struct str text);
/** The literal text and a value; NULL where the value is refused. */
#define COMMAND_OF(arena, literal, type, value) command_of((arena), S("" literal ""), (type), (value))
const struct command *command_of(struct arena *arena, struct str before, enum piece_type type, struct str value);

/** As it is printed; empty for NULL. */
struct str command_str(const struct command *c);
/** The @index-th part that can be run, which lies in command_str(); empty: there are no more. */
struct str command_run(const struct command *c, size_t index);

/** @s as one word of a shell, whatever is in it. */
void shell_quote(struct text *to, struct str s);
/** The same, in quotes only where a shell would take it otherwise without. */
void shell_word(struct text *to, struct str s);
/** A command as somebody gave it, with spaces between its words. */
void shell_words(struct text *to, char *const *words);

/** A job as somebody started it. */
struct job_words {
	char *const *words;
	const char *const *env; // NAME=VALUE that it was given
	size_t nenv;
	struct str trial, run; // options of `unhang try` and `unhang bisect`, and of `unhang run`; each begins with a space
};
/** A text in which the job stands for PROGRAM, so that its commands work when they are copied. A job whose words do not print stays PROGRAM. */
const struct command *command_of_job(struct arena *arena, const struct job_words *job, struct str text);

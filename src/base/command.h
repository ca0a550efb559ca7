// Commands and steps that people paste into a root shell. Whatever is printed or run as one is a struct command, and only this place can
// make it: of literal text, and of values that their type lets in. Evidence is hostile: a value that a shell could take for more than
// itself is refused, or quoted where it is a path.
#pragma once

#include "base/arena.h"

struct command; // what is inside only command.c knows, so that nothing else makes one
struct command_maker;

/** What a value may be. None but a path has characters that mean something to a shell, within quotes or without. */
enum piece_type {
	PIECE_WORD,      // of letters, digits and _./:,=+@%-, and no option
	PIECE_NUMBER,    // decimal or 0x hexadecimal
	PIECE_PCI,       // 0000:03:00.0
	PIECE_NAME,      // of a parameter or a variable
	PIECE_PARAMETER, // its value, or NAME=VALUE: a word that may begin with a minus
	PIECE_WORDS,     // several of PIECE_WORD with a space between, for sentences
	PIECE_PATH,      // may hold whatever prints; quoted where it must be
	PIECE_TYPES,
};

/** Whether it stands for itself wherever it is put: between quotes of either kind, or without. */
bool piece_plain(enum piece_type type, struct str value);
/** PIECE_TYPES: there is none of this name (word, number, pci, name, parameter, words, path). */
enum piece_type piece_type_named(struct str name);

struct command_maker *command_begin(struct arena *arena);
void command_add_text(struct command_maker *m, struct str text);
/** Text of this program. */
#define command_add(m, literal) command_add_text((m), S("" literal ""))
/** Text of knowledge, which is as trusted as the program is. */
static inline void command_add_known(struct command_maker *m, struct str text) { command_add_text(m, text); }
/** A command that is made already. */
void command_add_command(struct command_maker *m, const struct command *c);
/** Refused by its type, it is not added, and there will be no command. A path is quoted: it must not stand between quotes. */
bool command_add_value(struct command_maker *m, enum piece_type type, struct str value);
/** What a person has to fill in: FAULT_ADDRESS of fault_address. */
void command_add_blank(struct command_maker *m, struct str name);
/** NULL: a value was refused, or it is empty. It lives as long as the arena. */
const struct command *command_end(struct command_maker *m);

/** A command without values. */
#define COMMAND(arena, literal) command_literal((arena), S("" literal ""))
const struct command *command_literal(struct arena *arena, struct str text);
/** BEFORE and a value; NULL where that is refused. */
#define COMMAND_OF(arena, literal, type, value) command_of((arena), S("" literal ""), (type), (value))
const struct command *command_of(struct arena *arena, struct str before, enum piece_type type, struct str value);

/** As it is printed; empty for NULL. */
struct str command_str(const struct command *c);

/** @s as one word of a shell, whatever is in it. */
void shell_quote(struct text *to, struct str s);

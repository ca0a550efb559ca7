// The kinds of knowledge. One table (table.c) says of each what a block of it holds, how it is read and where it is kept; whoever
// loads, frees, retracts, lists or shows blocks asks the table. docs/HOWTO_ADD_KIND.md adds a row to it.
#pragma once

#include "knowledge/know.h"

/** What the value of a key is, and with it the type of the member that takes it. */
enum key_type {
	KEY_NONE,
	KEY_TEXT,    // struct str
	KEY_LIST,    // struct know_list *: one for each line
	KEY_WORDS,   // struct know_list *: one for each word
	KEY_WHEN,    // struct condition *
	KEY_NUMBER,  // int
	KEY_SECONDS, // int, a day at most
	KEY_CHOICE,  // an enum, or an int: the place of the word in the choices
	KEY_FLAG,    // bool
	KEY_SET,     // struct know_pair *
	KEY_NEXT,    // struct know_next *
	KEY_MATCH,   // the templates of a know_signature
};

struct kind_key {
	const char *key;
	enum key_type type;
	size_t offset;
	bool required;
	const char *choices; // of a KEY_CHOICE, or of the words of a KEY_TEXT; separated by spaces
	const char *refers;  // what it names is the id of a block of this kind, or of one of these; NULL: of none
};

struct loader {
	struct know *know;
	struct know_problems *problems;
	bool user;                      // the file is the user's, not one of ours
	const struct container *update; // of what is built in; NULL: none
	bool built_in;                  // what is built in is loaded
};

/** What becomes of blocks with the same id. */
enum kind_same {
	SAME_REPLACES,    // the later one counts, so that a user's file can correct ours
	SAME_BESIDE,      // all count
	SAME_USERS_FIRST, // all count, and the first that fits is taken, so the user's come before ours
};

struct know_kind;
typedef void kind_load_fn(struct loader *l, const struct know_kind *kind, const struct know_block *b);
typedef bool kind_check_fn(struct loader *l, struct know_head *object);

struct know_kind {
	const char *name;
	size_t size;  // of the struct that a block becomes; it begins with a know_head
	size_t place; // of the vector that keeps them, in struct know
	const struct kind_key *keys;
	const void *defaults; // of the struct; NULL: zeros
	enum kind_same same;
	bool fixed;               // they cannot be retracted
	bool bulk;                // there are many: they are listed only if this kind is asked for
	bool optional;            // a row need not have a value
	enum key_type label_type; // what `knowledge list` shows beside the id: its type
	size_t label;             // and its place in the struct
	/** NULL: the heading is an id, and the keys are @keys. */
	kind_load_fn *load;
	/** Checks what @keys cannot express. false, and a problem was reported: the block is wrong. NULL: nothing to check. */
	kind_check_fn *check;
};

/** Ends with a row without a name. */
extern const struct know_kind know_kinds[];
extern const char know_subsystems[], know_levels[];
extern const struct kind_key work_kind_keys[], blame_keys[], question_keys[], explanation_keys[];
extern const struct kind_key bank_keys[], error_severity_keys[], afid_keys[], metrics_keys[], escalation_keys[], experiment_keys[];
extern const struct kind_key race_keys[], suspect_keys[], mqd_keys[], mqd_words_keys[], page_table_keys[];
extern const struct kind_key way_keys[], sign_keys[], package_keys[];
extern const struct kind_key defect_keys[], case_keys[], source_keys[];
const struct know_kind *kind_named(struct str name);

// --- from blocks to structs ---
/** A new object with its heading, the rest zero or default. It lives as long as the knowledge. */
void *kind_object(struct loader *l, const struct know_kind *kind, const struct know_block *b, struct str id);
void kind_load(struct loader *l, const struct know_kind *kind, const struct know_block *b);
/** The keys of a block into an object; false where one is wrong. */
bool kind_fill(struct loader *l, const struct know_kind *kind, const struct know_block *b, struct know_head *object);
/** Checks an object and, if it is right, adds it to those of its kind. */
void kind_take(struct loader *l, struct know_head *object);
/** Place of @word in a list of words that are separated by spaces, or -1. */
int word_index(const char *list, struct str word);
void signature_template(struct loader *l, struct know_signature *s, struct str text, const char *file, unsigned line);
void pair_append(struct arena *a, struct know_pair **list, struct str name, struct str value);

/** The packets of GPU queues, as their kind is read (packet.c). */
bool packet_parse(struct arena *a, const struct know_block *b, struct know_problems *problems, struct know_packet *p);

// load_pair: NAME VALUE. load_rows: NAMES... :: VALUE, a row for each name. load_words: words, a row for each.
kind_load_fn load_pair, load_rows, load_words, load_anchor, load_class, load_message, load_month, load_names, load_packet;
kind_load_fn load_part, load_register, load_case;
kind_check_fn check_bad, check_calibration, check_context, check_fact, check_opening, check_frame, check_instruction;
kind_check_fn check_parameter, check_question, check_remedy, check_ring, check_signature, check_sign, check_way, check_vendor;
kind_check_fn check_bank, check_metrics, check_defect, check_suspect;

// --- the vectors of struct know ---
/** The first block of a vector that is called so; NULL: there is none. */
#define KNOW_BY_ID(v, name)                                                                                                    \
	({                                                                                                                     \
		size_t _at = 0;                                                                                                \
		while (_at < (v).len && !str_eq((v).data[_at]->head.id, (name)))                                               \
			_at++;                                                                                                 \
		_at < (v).len ? (v).data[_at] : NULL;                                                                          \
	})
/** Where the next link of a list goes. */
#define LIST_END(list)                                                                                                         \
	({                                                                                                                     \
		__typeof__(list) _end = (list);                                                                                \
		while (*_end)                                                                                                  \
			_end = &(*_end)->next;                                                                                 \
		_end;                                                                                                          \
	})
/** Tells where explanations and their questions do not fit together. */
void explanations_resolve(const struct know *k, struct know_problems *problems);
/** Tells what blocks refer to that does not exist. */
void kinds_refer(const struct know *k, struct know_problems *problems);
void kind_add(struct know *k, struct know_head *object);
/** Of several blocks of this kind with one id the last counts, in the place of the first: for kinds with too many blocks for
 * SAME_REPLACES. Each id becomes a term of the kind @ids, which has the place of its block. */
void kind_keep_last(struct know *k, const struct know_kind *kind, enum know_term_kind ids, struct know_problems *problems);
void kinds_free(struct know *k);

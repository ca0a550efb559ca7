// A document that is walked once. JSON is all that the walk hands over; a text shows a part of it, in an order of its own: a line of text
// names the fields that it is made of, so that there is nothing in a text that is not in the walk.
#pragma once

#include <math.h>

#include "base/json.h"
#include "report/text/wrap.h"

enum sheet_type { SHEET_NULL, SHEET_TEXT, SHEET_NUMBER, SHEET_INT, SHEET_HEX, SHEET_BOOL, SHEET_DATE, SHEET_DECIMAL };

struct sheet_value {
	enum sheet_type type;
	int digits; // of a decimal: behind its point, at most
	union {
		uint64_t number;
		double decimal;
	};
	struct str text;            // of a decimal: what a text has in its place
	const struct command *step; // of which it is the text; else NULL
};

static inline struct sheet_value v_null(void) { return (struct sheet_value){ 0 }; }
/** Of a value that may not be known. */
static inline struct sheet_value v_if(bool known, struct sheet_value v) { return known ? v : v_null(); }
/** A text, and one that is null where it is empty. */
static inline struct sheet_value v_text(struct str s) { return v_if(s.p, (struct sheet_value){ SHEET_TEXT, .text = s }); }
static inline struct sheet_value v_known(struct str s) { return v_if(s.n, v_text(s)); }
static inline struct sheet_value v_word(const char *s) { return v_text(str_z(s)); }
static inline struct sheet_value v_command(const struct command *c)
{
	return v_if(c, (struct sheet_value){ SHEET_TEXT, .text = command_str(c), .step = c });
}
static inline struct sheet_value v_number(uint64_t n) { return (struct sheet_value){ SHEET_NUMBER, .number = n }; }
static inline struct sheet_value v_int(int64_t n) { return (struct sheet_value){ SHEET_INT, .number = (uint64_t)n }; }
static inline struct sheet_value v_hex(uint64_t n) { return (struct sheet_value){ SHEET_HEX, .number = n }; }
static inline struct sheet_value v_bool(bool b) { return (struct sheet_value){ SHEET_BOOL, .number = b }; }
/** A number that is negative where it is not known. */
static inline struct sheet_value v_count(int64_t n) { return v_if(n >= 0, v_int(n)); }

/** Seconds since 1970; 0: not known. */
static inline struct sheet_value v_date(int64_t seconds)
{
	return v_if(seconds, (struct sheet_value){ SHEET_DATE, .number = (uint64_t)seconds });
}
static inline struct sheet_value v_decimal(double d, int digits)
{
	return v_if(isfinite(d), (struct sheet_value){ SHEET_DECIMAL, .decimal = d, .digits = digits });
}
/** 2026-08-27T03:28:27Z; empty where it is 0, or no date. */
enum { DATE_ROOM = 40 };
struct str date_text(int64_t seconds, char room[static DATE_ROOM]);

/** A part of a line of text: what stands before a field, the field, and what stands behind it. */
struct column {
	const char *key;    // "slot.vmid": a field of the object "slot"
	const char *before; // of a bool: what is written where it is true
	int width;          // columns at least; negative: with the value on the left
	int digits;         // of a number that is written as a hexadecimal one
	const char *none;   // instead of a value that is not known; NULL: nothing, and nothing before or behind
	const char *no;     // where a bool is false
	const char *after;
	unsigned least; // a number below it is not known
	bool plural;    // an "s" behind it, where it is not 1
};

enum { SHEET_FIELDS = 128, SHEET_DEPTH = 16 };

struct sheet {
	bool as_json;
	struct json json; // .out also of a text
	// What a text may show: the fields of the objects that are open.
	size_t n, depth;
	struct sheet_field {
		const char *of, *key;
		struct sheet_value value;
	} fields[SHEET_FIELDS];
	struct sheet_open {
		const char *key;
		size_t n;
	} open[SHEET_DEPTH];
};

static inline struct sheet sheet_on(bool as_json, FILE *out) { return (struct sheet){ .as_json = as_json, .json.out = out }; }
/** @bracket: '{' or '['. @key: NULL in a list. The fields of an object in a list are forgotten when it closes. */
void sheet_open(struct sheet *s, const char *key, char bracket);
void sheet_close(struct sheet *s, char bracket);
/** An object that is null where it is not @known; then false, and it is not open. */
bool sheet_object(struct sheet *s, const char *key, bool known);
/** A loop over the objects of the list @key: @i counts them, and each is open in the loop. The last one and the list are closed where the
 * loop ends, so a body may continue, but not break. */
#define sheet_each(i, s, key, n)                                                                                               \
	for (size_t i = 0, i##_end = (sheet_open((s), (key), '['), (n)); sheet_next((s), i, i##_end); i++)
bool sheet_next(struct sheet *s, size_t i, size_t n);
/** The same of a list of plain values, which the body writes: in JSON only. */
#define sheet_values(i, s, key, n)                                                                                             \
	for (size_t i = 0, i##_end = (sheet_open((s), (key), '['), (s)->as_json ? (n) : 0);                                    \
	     i < i##_end || (sheet_close((s), ']'), false); i++)
/** The object that is the document, up to its list @list. */
void sheet_begin(struct sheet *s, const char *schema, const char *list);
void sheet_end(struct sheet *s);
/** A text has to live until the lines are written that show it. */
void sheet_put(struct sheet *s, const char *key, struct sheet_value v);
/** What only a text shows, because JSON has it in parts. */
void sheet_note(struct sheet *s, const char *key, struct sheet_value v);
/** Fields in their order, and an object that has these and no others: its brackets cannot be forgotten. */
struct sheet_entry {
	const char *key;
	struct sheet_value value;
	bool text_only; // as sheet_note() has it
};
enum { TEXT_ONLY = true };
#define SHEET_ENTRIES(...)                                                                                                     \
	(const struct sheet_entry[]){ __VA_ARGS__ },                                                                           \
		sizeof((const struct sheet_entry[]){ __VA_ARGS__ }) / sizeof(struct sheet_entry)
#define sheet_fields(s, ...) sheet_put_all((s), SHEET_ENTRIES(__VA_ARGS__))
#define sheet_record(s, key, ...) sheet_put_object((s), (key), SHEET_ENTRIES(__VA_ARGS__))
void sheet_put_all(struct sheet *s, const struct sheet_entry *list, size_t n);
void sheet_put_object(struct sheet *s, const char *key, const struct sheet_entry *list, size_t n);
/** Lists are in JSON only. */
void sheet_texts(struct sheet *s, const char *key, const struct str *list, size_t n);
void sheet_commands(struct sheet *s, const char *key, const struct command *const *list, size_t n);
/** x, y and z; @known: else null. */
void sheet_three(struct sheet *s, const char *key, const uint32_t v[3], bool known);
/** Text only. Returns the columns that it took. */
unsigned sheet_say(struct sheet *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** A text of which nobody knows what is in it. */
void sheet_say_safe(struct sheet *s, const char *before, struct str text, const char *after);

#define COLUMNS(columns) (columns), ARRAY_SIZE(columns)
/** Those of a line that is written in one place. */
#define COLUMNS_OF(...)                                                                                                        \
	(const struct column[]){ __VA_ARGS__ }, sizeof((const struct column[]){ __VA_ARGS__ }) / sizeof(struct column)
/** The same, written: as a part of a line, whose columns are returned; as a word of lines; and as a line behind @indent spaces, which is
 * not there where nothing is known. */
unsigned sheet_part(struct sheet *s, const struct column *columns, size_t n);
void sheet_wrap(struct sheet *s, const struct column *columns, size_t n, struct wrapping *w);
void sheet_line(struct sheet *s, unsigned indent, const struct column *columns, size_t n);
/** Each of them as a row of its own behind a label, which stands in @before. */
void sheet_rows(struct sheet *s, const struct row_style *style, const struct column *rows, size_t n);
/** Parts before each of which ", " stands, but for the first, in lines that begin at the label of @at, but for the first, too. */
void sheet_list(struct sheet *s, const struct column *columns, size_t n, struct row_style at);

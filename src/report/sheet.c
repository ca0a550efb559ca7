// A walk hands each field over once. JSON has all of them in the order of the walk; a text keeps those of the objects that are open,
// and a line names the ones that it shows. So a text cannot say what JSON does not have. Fields and depth are bounded: a walk that
// needs more is a mistake of this program, and an assertion says so.
#include "report/sheet.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/print.h"

// --- the walk ---

struct str date_text(int64_t seconds, char room[static DATE_ROOM])
{
	const time_t t = (time_t)seconds;
	struct tm tm;
	if (!seconds || !gmtime_r(&t, &tm))
		return (struct str){ 0 };
	return (struct str){ room, strftime(room, DATE_ROOM, "%Y-%m-%dT%H:%M:%SZ", &tm) };
}

static void put_json(struct json *j, const char *key, struct sheet_value v)
{
	char room[DATE_ROOM];
	jw_key(j, key);
	switch (v.type) {
	case SHEET_NULL: // its text has no place either
	case SHEET_TEXT:
		jw_str(j, v.text);
		break;
	case SHEET_NUMBER:
		jw_unsigned(j, v.number);
		break;
	case SHEET_INT:
		jw_int(j, (int64_t)v.number);
		break;
	case SHEET_HEX:
		jw_hex(j, v.number);
		break;
	case SHEET_BOOL:
		jw_bool(j, v.number);
		break;
	case SHEET_DATE:
		jw_str(j, date_text((int64_t)v.number, room));
		break;
	case SHEET_DECIMAL:
		jw_decimal(j, v.decimal, v.digits);
		break;
	}
}

void sheet_open(struct sheet *s, const char *key, char bracket)
{
	if (s->as_json) {
		if (key)
			jw_key(&s->json, key);
		jw_open(&s->json, bracket);
		return;
	}
	assert(s->depth < SHEET_DEPTH);
	s->open[s->depth++] = (struct sheet_open){ bracket == '{' ? key : NULL, s->n };
}

void sheet_close(struct sheet *s, char bracket)
{
	if (s->as_json)
		jw_close(&s->json, bracket);
	else if (!s->open[--s->depth].key)
		s->n = s->open[s->depth].n;
}

bool sheet_object(struct sheet *s, const char *key, bool known)
{
	if (known)
		sheet_open(s, key, '{');
	else
		sheet_put(s, key, v_null());
	return known;
}

bool sheet_next(struct sheet *s, size_t i, size_t n)
{
	if (i)
		sheet_close(s, '}');
	if (i < n)
		sheet_open(s, NULL, '{');
	else
		sheet_close(s, ']');
	return i < n;
}

void sheet_begin(struct sheet *s, const char *schema, const char *list)
{
	sheet_open(s, NULL, '{');
	sheet_put(s, "schema", v_word(schema));
	if (list)
		sheet_open(s, list, '[');
}

void sheet_end(struct sheet *s)
{
	sheet_close(s, ']');
	sheet_close(s, '}');
}

void sheet_note(struct sheet *s, const char *key, struct sheet_value v)
{
	if (s->as_json)
		return;
	assert(s->n < SHEET_FIELDS);
	s->fields[s->n++] = (struct sheet_field){ s->depth ? s->open[s->depth - 1].key : NULL, key, v };
}

void sheet_put(struct sheet *s, const char *key, struct sheet_value v)
{
	if (s->as_json)
		put_json(&s->json, key, v);
	else
		sheet_note(s, key, v);
}

void sheet_put_all(struct sheet *s, const struct sheet_entry *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(list[i].text_only ? sheet_note : sheet_put)(s, list[i].key, list[i].value);
}

void sheet_put_object(struct sheet *s, const char *key, const struct sheet_entry *list, size_t n)
{
	sheet_open(s, key, '{');
	sheet_put_all(s, list, n);
	sheet_close(s, '}');
}

void sheet_texts(struct sheet *s, const char *key, const struct str *list, size_t n)
{
	sheet_values (i, s, key, n)
		jw_str(&s->json, list[i]);
}

void sheet_commands(struct sheet *s, const char *key, const struct command *const *list, size_t n)
{
	if (s->as_json)
		jw_commands(&s->json, key, list, n);
}

void sheet_three(struct sheet *s, const char *key, const uint32_t v[3], bool known)
{
	if (!known) {
		sheet_put(s, key, v_null());
		return;
	}
	sheet_values (i, s, key, 3)
		jw_int(&s->json, v[i]);
}

unsigned sheet_say(struct sheet *s, const char *format, ...)
{
	va_list ap;
	if (s->as_json)
		return 0;
	va_start(ap, format);
	int n = vfprintf(s->json.out, format, ap);
	va_end(ap);
	return n > 0 ? (unsigned)n : 0;
}

void sheet_say_safe(struct sheet *s, const char *before, struct str text, const char *after)
{
	if (s->as_json)
		return;
	fputs(before, s->json.out);
	print_safe(s->json.out, text);
	fputs(after, s->json.out);
}

// --- lines of text ---

static const struct sheet_field *find_field(const struct sheet *s, struct str of, struct str key)
{
	for (size_t i = s->n; i; i--) {
		const struct sheet_field *f = &s->fields[i - 1];
		if (str_is(key, f->key) && str_eq(str_z(f->of), of))
			return f;
	}
	return NULL;
}

/** Of the innermost field of this name. A line that names a field which nobody put is a mistake of this program. */
static struct sheet_value sheet_value_of(const struct sheet *s, const char *key)
{
	struct str rest = str_z(key), first = str_split(&rest, '.');
	const struct str of = rest.n ? first : (struct str){ 0 };
	const struct sheet_field *f = find_field(s, of, rest.n ? rest : first);
	assert(f || (of.n && find_field(s, (struct str){ 0 }, of))); // or its object, which is null
	return f ? f->value : v_null();
}

static struct str value_text(const struct sheet_value *v, int digits, char room[static DATE_ROOM])
{
	if (v->type == SHEET_TEXT || v->type == SHEET_DECIMAL)
		return v->text;
	if (v->type == SHEET_DATE)
		return date_text((int64_t)v->number, room);
	if (digits || v->type == SHEET_HEX)
		snprintf(room, DATE_ROOM, "0x%0*llx", digits, (unsigned long long)v->number);
	else
		snprintf(room, DATE_ROOM, v->type == SHEET_INT ? "%lld" : "%llu", (unsigned long long)v->number);
	return str_z(room);
}

/** A value that is not known takes its words along, unless the column says what stands instead. */
static void add_column(struct text *to, const struct column *c, struct sheet_value v)
{
	char room[DATE_ROOM];
	const bool there = v.type == SHEET_TEXT || v.type == SHEET_DECIMAL ? v.text.n : v.type && v.number >= c->least;
	if (v.type == SHEET_BOOL)
		text_add(to, str_z(v.number ? c->before : c->no));
	if (v.type == SHEET_BOOL || (!there && !c->none))
		return;
	text_add(to, str_z(c->before));
	// Padded by columns, not by bytes: names may be UTF-8.
	const struct str s = there ? value_text(&v, c->digits, room) : str_z(c->none);
	const int columns = (int)print_columns(s);
	if (c->width > columns)
		text_printf(to, "%*s", c->width - columns, "");
	text_add(to, s);
	if (-c->width > columns)
		text_printf(to, "%*s", -c->width - columns, "");
	text_add(to, str_z(c->after));
	if (c->plural && v.number != 1)
		text_add(to, S("s"));
}

/** The fields that were put, as text. */
static void sheet_add(const struct sheet *s, const struct column *columns, size_t n, struct text *to)
{
	for (size_t i = 0; i < n; i++)
		add_column(to, &columns[i], sheet_value_of(s, columns[i].key));
}

unsigned sheet_part(struct sheet *s, const struct column *columns, size_t n)
{
	_cleanup_text_ struct text part = { 0 };
	if (s->as_json)
		return 0;
	sheet_add(s, columns, n, &part);
	print_safe(s->json.out, text_str(&part));
	n = part.n;
	return (unsigned)n;
}

void sheet_wrap(struct sheet *s, const struct column *columns, size_t n, struct wrapping *w)
{
	_cleanup_text_ struct text word = { 0 };
	if (s->as_json)
		return;
	sheet_add(s, columns, n, &word);
	wrap_word(w, text_str(&word));
}

void sheet_line(struct sheet *s, unsigned indent, const struct column *columns, size_t n)
{
	_cleanup_text_ struct text line = { 0 };
	if (s->as_json)
		return;
	sheet_add(s, columns, n, &line);
	if (line.n) {
		fprintf(s->json.out, "%*s", (int)indent, "");
		print_safe(s->json.out, text_str(&line));
		fputc('\n', s->json.out);
	}
}

void sheet_rows(struct sheet *s, const struct row_style *style, const struct column *rows, size_t n)
{
	for (size_t i = 0; !s->as_json && i < n; i++) {
		const struct sheet_value v = sheet_value_of(s, rows[i].key);
		if (v.step)
			wrap_step_row(s->json.out, style, rows[i].before, v.step);
		else
			wrap_row(s->json.out, style, rows[i].before, v.text, 0);
	}
}

void sheet_list(struct sheet *s, const struct column *columns, size_t n, struct row_style at)
{
	_cleanup_text_ struct text line = { 0 };
	if (s->as_json)
		return;
	sheet_add(s, columns, n, &line);
	if (line.n) {
		fprintf(s->json.out, "%*s", (int)at.left, "");
		print_wrapped(s->json.out, str_from(text_str(&line), 2), at.left + at.label, at.left, at.width);
	}
}

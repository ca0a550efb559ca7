#include "base/json.h"

#include "base/print.h"

static void base_json_put(FILE *out, const char *text) { print_str(out, str_z(text)); }

static void base_json_indent(const struct json *j)
{
	static const char spaces[] = "\n                                ";
	unsigned n = 2 * j->depth;
	if (j->one_line) {
		if (j->comma)
			base_json_put(j->out, " ");
		return;
	}
	print_str(j->out, str_cut(S(spaces), n + 1));
	for (unsigned i = sizeof(spaces) - 2; i < n; i += 2)
		base_json_put(j->out, "  ");
}

static void json_begin_value(struct json *j)
{
	if (j->after_key) {
		j->after_key = false;
		return;
	}
	if (j->comma)
		base_json_put(j->out, ",");
	if (j->depth)
		base_json_indent(j);
}

void jw_open(struct json *j, char bracket)
{
	json_begin_value(j);
	putc_unlocked(bracket, j->out);
	j->depth++;
	j->comma = false;
}

void jw_close(struct json *j, char bracket)
{
	j->depth--;
	if (j->comma)
		base_json_indent(j);
	putc_unlocked(bracket, j->out);
	j->comma = true;
	if (!j->depth)
		base_json_put(j->out, "\n");
}

static void json_escaped(FILE *out, struct str s)
{
	unsigned char c = (unsigned char)s.p[0];
	uint32_t point = utf8_point(s);
	if (c == '"' || c == '\\')
		fprintf(out, "\\%c", c);
	else if (point_shows(point))
		print_str(out, s);
	else if (point < 0x10000)
		fprintf(out, "\\u%04x", point);
	else
		fprintf(out, "\\u%04x\\u%04x", 0xd7c0 + (point >> 10), 0xdc00 + (point & 0x3ff));
}

static void json_text(FILE *out, struct str s)
{
	base_json_put(out, "\"");
	while (s.n) {
		size_t n = 0, plain = print_plain(s);
		while (n < plain && s.p[n] != '"' && s.p[n] != '\\')
			n++;
		print_str(out, str_cut(s, n));
		s = str_from(s, n);
		if (!s.n)
			break;
		n = utf8_length(s);
		if (n)
			json_escaped(out, str_cut(s, n));
		else
			base_json_put(out, "\\ufffd");
		s = str_from(s, n ? n : 1);
	}
	base_json_put(out, "\"");
}

void jw_key(struct json *j, const char *key)
{
	json_begin_value(j);
	json_text(j->out, str_z(key));
	base_json_put(j->out, ": ");
	j->after_key = true;
	j->comma = true;
}

void jw_str(struct json *j, struct str s)
{
	json_begin_value(j);
	if (s.p)
		json_text(j->out, s);
	else
		base_json_put(j->out, "null");
	j->comma = true;
}

void jw_field(struct json *j, const char *key, struct str value)
{
	jw_key(j, key);
	jw_str(j, value);
}

void jw_commands(struct json *j, const char *key, const struct command *const *list, size_t n)
{
	jw_key(j, key);
	jw_open(j, '[');
	for (size_t i = 0; i < n; i++)
		jw_str(j, command_str(list[i]));
	jw_close(j, ']');
}

void jw_int(struct json *j, int64_t v)
{
	json_begin_value(j);
	if (v < 0)
		base_json_put(j->out, "-");
	print_number(j->out, v < 0 ? -(uint64_t)v : (uint64_t)v, 10);
	j->comma = true;
}

void jw_unsigned(struct json *j, uint64_t v)
{
	json_begin_value(j);
	print_number(j->out, v, 10);
	j->comma = true;
}

void jw_hex(struct json *j, uint64_t v)
{
	json_begin_value(j);
	base_json_put(j->out, "\"0x");
	print_number(j->out, v, 16);
	base_json_put(j->out, "\"");
	j->comma = true;
}

void jw_bool(struct json *j, bool v)
{
	json_begin_value(j);
	base_json_put(j->out, v ? "true" : "false");
	j->comma = true;
}

void jw_null(struct json *j)
{
	json_begin_value(j);
	base_json_put(j->out, "null");
	j->comma = true;
}

void jw_document(struct json *j, struct str json)
{
	json_begin_value(j);
	print_str(j->out, json);
	j->comma = true;
}

void jw_decimal(struct json *j, double v, int digits)
{
	json_begin_value(j);
	char number[64];
	int n = snprintf(number, sizeof(number), "%.*f", digits, v);
	while (n > 1 && digits && number[n - 1] == '0')
		n--;
	if (number[n - 1] == '.')
		n--;
	fwrite(number, 1, (size_t)n, j->out);
	j->comma = true;
}

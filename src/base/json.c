#include "base/json.h"

#include "base/print.h"

static void json_begin_value(struct json *j)
{
	if (j->after_key) {
		j->after_key = false;
		return;
	}
	if (j->comma)
		fputc(',', j->out);
	if (j->depth) {
		fputc('\n', j->out);
		for (unsigned i = 0; i < j->depth; i++)
			fputs("  ", j->out);
	}
}

void jw_open(struct json *j, char bracket)
{
	json_begin_value(j);
	fputc(bracket, j->out);
	j->depth++;
	j->comma = false;
}

void jw_close(struct json *j, char bracket)
{
	j->depth--;
	if (j->comma) {
		fputc('\n', j->out);
		for (unsigned i = 0; i < j->depth; i++)
			fputs("  ", j->out);
	}
	fputc(bracket, j->out);
	j->comma = true;
	if (!j->depth)
		fputc('\n', j->out);
}

static void json_text(FILE *out, struct str s)
{
	fputc('"', out);
	while (s.n) {
		unsigned char c = (unsigned char)s.p[0];
		size_t n = utf8_length(s);
		if (!n) {
			fputs("\\ufffd", out);
			n = 1;
		} else if (c == '"' || c == '\\') {
			fprintf(out, "\\%c", c);
		} else if (c < 0x20 || c == 0x7f) {
			fprintf(out, "\\u%04x", c);
		} else {
			fwrite(s.p, 1, n, out);
		}
		s = str_from(s, n);
	}
	fputc('"', out);
}

void jw_key(struct json *j, const char *key)
{
	json_begin_value(j);
	json_text(j->out, str_z(key));
	fputs(": ", j->out);
	j->after_key = true;
	j->comma = true;
}

void jw_str(struct json *j, struct str s)
{
	json_begin_value(j);
	if (s.p)
		json_text(j->out, s);
	else
		fputs("null", j->out);
	j->comma = true;
}

void jw_field(struct json *j, const char *key, struct str value)
{
	jw_key(j, key);
	jw_str(j, value);
}

void jw_int(struct json *j, int64_t v)
{
	json_begin_value(j);
	fprintf(j->out, "%lld", (long long)v);
	j->comma = true;
}

void jw_hex(struct json *j, uint64_t v)
{
	json_begin_value(j);
	fprintf(j->out, "\"0x%llx\"", (unsigned long long)v);
	j->comma = true;
}

void jw_bool(struct json *j, bool v)
{
	json_begin_value(j);
	fputs(v ? "true" : "false", j->out);
	j->comma = true;
}

void jw_null(struct json *j)
{
	json_begin_value(j);
	fputs("null", j->out);
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

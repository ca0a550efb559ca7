// DWARF line tables, versions 2 to 5.
#include <dwarf.h>
#include <stdlib.h>

#include "code/lines/build.h"

enum { FORMATS = 16 };

struct lines_machine {
	const struct build_unit *u;
	struct index_sequence run; // of rows without a gap
	struct index_row last;     // it is not known yet how far it reaches
	uint32_t next;             // the first address at or after it that will be asked for
	uint64_t address;
	uint32_t line, column, file;
	bool open, dead; // dead: of code that the linker has left out
};

static void lines_table_add_path(struct builder *b, struct index_text *path, struct str part)
{
	if (!part.n)
		return;
	if (path->n && b->tables[INDEX_BYTES].items[path->at + path->n - 1] != '/')
		build_text(b, path, S("/"));
	build_text(b, path, part);
}

/** Directory 0 is the unit's own, since version 5 in writing. */
static void lines_table_add_file(struct build_unit *u, const struct build_lines *h, struct str name, struct str directory,
				 bool own_directory)
{
	struct index_text *path = build_add(u->b, INDEX_FILES);
	if (!path)
		return;
	u->nfiles++;
	if (!str_starts(name, S("/"))) {
		if (!str_starts(directory, S("/")) && (h->version < 5 || !own_directory))
			lines_table_add_path(u->b, path, u->directory);
		lines_table_add_path(u->b, path, directory);
	}
	lines_table_add_path(u->b, path, name);
}

struct lines_entry {
	struct str path;
	uint64_t directory;
};

static struct str section_string(struct str section, uint64_t at)
{
	struct lines_cursor c = cursor_at(section, at, section.n);
	return c.bad ? (struct str){ 0 } : cursor_z(&c);
}

/** One field of a file or directory; false for a form that is not known. */
static bool lines_table_read_field(const struct build_unit *u, const struct build_lines *h, struct lines_cursor *c,
				   uint64_t form, struct str *text, uint64_t *n)
{
	switch (form) {
	case DW_FORM_string:
		*text = cursor_z(c);
		return true;
	case DW_FORM_line_strp:
	case DW_FORM_strp:
		*text = section_string(u->b->sections[form == DW_FORM_strp ? IN_STR : IN_LINE_STR],
				       cursor_number(c, h->offset_size));
		return true;
	case DW_FORM_udata:
		*n = cursor_leb(c);
		return true;
	case DW_FORM_data1:
	case DW_FORM_data2:
	case DW_FORM_data4:
	case DW_FORM_data8:
		*n = cursor_number(c, form == DW_FORM_data1 ? 1 : form == DW_FORM_data2 ? 2 : form == DW_FORM_data4 ? 4 : 8);
		return true;
	case DW_FORM_data16:
		cursor_skip(c, 16);
		return true;
	case DW_FORM_block:
		cursor_skip(c, cursor_leb(c));
		return true;
	default:
		return false;
	}
}

struct formats {
	unsigned n;
	uint64_t content[FORMATS], form[FORMATS];
};

static bool read_formats(struct lines_cursor *c, struct formats *f)
{
	f->n = cursor_byte(c);
	for (unsigned i = 0; i < f->n && i < FORMATS; i++) {
		f->content[i] = cursor_leb(c);
		f->form[i] = cursor_leb(c);
	}
	return f->n <= FORMATS && !c->bad;
}

static bool lines_table_read_entry(const struct build_unit *u, const struct build_lines *h, struct lines_cursor *c,
				   const struct formats *f, struct lines_entry *ret)
{
	const uint8_t *before = c->p;
	*ret = (struct lines_entry){ 0 };
	for (unsigned i = 0; i < f->n; i++) {
		struct str text = { 0 };
		uint64_t n = 0;
		if (!lines_table_read_field(u, h, c, f->form[i], &text, &n))
			return false;
		if (f->content[i] == DW_LNCT_path)
			ret->path = text;
		else if (f->content[i] == DW_LNCT_directory_index)
			ret->directory = n;
	}
	return !c->bad && c->p > before;
}

static void begin_sequence(struct lines_machine *m)
{
	*m = (struct lines_machine){ .u = m->u, .line = 1, .file = build_file(m->u, 1) };
}

static void lines_table_end_run(struct lines_machine *m)
{
	struct index_sequence *s = m->run.nrows ? build_add(m->u->b, INDEX_SEQUENCES) : NULL;
	if (s)
		*s = m->run;
	m->run.nrows = 0;
}

/** The last row, which is wanted, reaches to @end. */
static void keep_row(struct lines_machine *m, uint32_t end)
{
	struct builder *b = m->u->b;
	if (m->run.nrows && m->run.end != m->last.at)
		lines_table_end_run(m);
	struct index_row *row = build_add(b, INDEX_ROWS);
	if (!row)
		return;
	*row = m->last;
	if (!m->run.nrows)
		m->run = (struct index_sequence){ .begin = m->last.at, .row = build_count(b, INDEX_ROWS) - 1 };
	m->run.nrows++;
	m->run.end = end;
}

/** Of rows at one address the last one counts. */
static void lines_table_add_row(struct lines_machine *m)
{
	const struct index_head *h = m->u->b->head;
	const uint64_t at = m->address - h->begin;
	if (m->dead || m->address < h->begin || at >= h->size) {
		m->dead = true;
		return;
	}
	if (m->open && m->last.at > at)
		return;
	if (m->open && m->last.at < at && m->next < at)
		keep_row(m, (uint32_t)at);
	if (!m->open || m->next < at)
		m->next = build_next(m->u->b, (uint32_t)at);
	m->open = true;
	m->last = (struct index_row){ (uint32_t)at, m->line, m->file, m->column };
}

static void end_sequence(struct lines_machine *m)
{
	const struct index_head *h = m->u->b->head;
	const uint64_t end = m->address - h->begin;
	if (m->open && !m->dead && end > m->last.at && end <= h->size && m->next < end)
		keep_row(m, (uint32_t)end);
	lines_table_end_run(m);
	begin_sequence(m);
}

/** Opcodes with a length of their own, which ends them whatever they hold. */
static void run_extended(struct lines_machine *m, struct lines_cursor *c)
{
	uint64_t length = cursor_leb(c);
	if (!length || length > (uint64_t)(c->end - c->p)) {
		cursor_skip(c, length);
		return;
	}
	struct lines_cursor inner = { c->p, c->p + length, false };
	cursor_skip(c, length);
	switch (cursor_byte(&inner)) {
	case DW_LNE_end_sequence:
		end_sequence(m);
		break;
	case DW_LNE_set_address:
		m->address = cursor_number(&inner, length - 1 < 8 ? (unsigned)length - 1 : 8);
		break;
	default:
		break;
	}
}

/** An opcode of the line program. One that is not known is skipped by the length that the header gives for it. */
static void run_standard(struct lines_machine *m, const struct build_lines *h, struct lines_cursor *c, uint8_t opcode)
{
	switch (opcode) {
	case DW_LNS_copy:
		lines_table_add_row(m);
		break;
	case DW_LNS_advance_pc:
		m->address += cursor_leb(c) * h->instruction;
		break;
	case DW_LNS_advance_line:
		m->line += (uint32_t)cursor_sleb(c);
		break;
	case DW_LNS_set_file:
		m->file = build_file(m->u, cursor_leb(c));
		break;
	case DW_LNS_set_column:
		m->column = (uint32_t)cursor_leb(c);
		break;
	case DW_LNS_const_add_pc:
		m->address += (uint64_t)((255 - h->opcode_base) / h->line_range) * h->instruction;
		break;
	case DW_LNS_fixed_advance_pc:
		m->address += cursor_number(c, 2);
		break;
	default:
		for (unsigned n = h->lengths[opcode]; n; n--)
			cursor_leb(c);
	}
}

/** What a special opcode adds. */
struct advance {
	uint32_t address, line;
};

/** The part of the machine that most opcodes change. */
struct registers {
	uint64_t at; // counted from the code's begin
	uint32_t line, column, file;
};

enum { SHORT_OPCODE = 3 };

/** Reads an operand of up to two bytes. Returns what follows it; NULL: it is longer. */
static inline const uint8_t *short_leb(const uint8_t *p, uint32_t *ret)
{
	*ret = p[0];
	if (!(p[0] & 0x80))
		return p + 1;
	*ret = (p[0] & 0x7fu) | (uint32_t)p[1] << 7;
	return p[1] & 0x80 ? NULL : p + 2;
}

/** Runs a standard opcode of at most SHORT_OPCODE bytes. Returns what follows it; NULL: it is another one. */
static inline const uint8_t *run_short(const struct build_unit *u, const struct build_lines *l, const uint8_t *p,
				       struct registers *r)
{
	uint32_t v;
	const uint8_t *behind;
	switch (*p) {
	case DW_LNS_set_column:
		behind = short_leb(p + 1, &v);
		r->column = behind ? v : r->column;
		return behind;
	case DW_LNS_advance_line:
		behind = short_leb(p + 1, &v);
		if (behind)
			r->line += p[1] & 0x80 ? (v ^ 0x2000) - 0x2000 : (v ^ 0x40) - 0x40;
		return behind;
	case DW_LNS_set_file:
		behind = short_leb(p + 1, &v);
		r->file = behind ? build_file(u, v) : r->file;
		return behind;
	case DW_LNS_advance_pc:
		behind = short_leb(p + 1, &v);
		r->at += behind ? (uint64_t)v * l->instruction : 0;
		return behind;
	case DW_LNS_const_add_pc:
		r->at += (uint64_t)((255 - l->opcode_base) / l->line_range) * l->instruction;
		return p + 1;
	case DW_LNS_negate_stmt:
		return l->lengths[DW_LNS_negate_stmt] ? NULL : p + 1;
	default:
		return NULL;
	}
}

/** Runs the most frequent opcodes, in an open sequence and while addresses go up. Returns where another opcode begins. */
static const uint8_t *run_common(struct lines_machine *m, const struct build_lines *l, const struct advance *advances,
				 const uint8_t *p, const uint8_t *end)
{
	const struct index_head *h = m->u->b->head;
	const uint64_t size = h->size;
	const uint8_t opcode_base = l->opcode_base, *limit = end - p < SHORT_OPCODE ? p : end - SHORT_OPCODE + 1;
	struct registers r = { m->address - h->begin, m->line, m->column, m->file };
	uint64_t last = m->last.at, next = m->next;
	while (p < limit) {
		const uint8_t opcode = *p;
		if (opcode < opcode_base) {
			const uint8_t *behind = run_short(m->u, l, p, &r);
			if (!behind)
				break;
			p = behind;
			continue;
		}
		const uint64_t at = r.at + advances[opcode].address;
		if (at < last || at >= size)
			break;
		p++;
		r.at = at;
		r.line += advances[opcode].line;
		if (next < at) {
			if (last < at)
				keep_row(m, (uint32_t)at);
			next = build_next(m->u->b, (uint32_t)at);
		}
		last = at;
		m->last = (struct index_row){ (uint32_t)at, r.line, r.file, r.column };
	}
	m->next = (uint32_t)next;
	m->address = r.at + h->begin;
	m->line = r.line;
	m->column = r.column;
	m->file = r.file;
	return p;
}

bool build_rows(const struct build_unit *u, const struct build_lines *l)
{
	struct advance advances[256];
	struct lines_cursor c = l->program;
	struct lines_machine m = { .u = u };
	// What each special opcode adds, computed once: most rows are made by one.
	uint32_t address = 0, line = 0;
	for (unsigned i = l->opcode_base; i < 256; i++) {
		advances[i] = (struct advance){ address, line + (uint32_t)l->line_base };
		if (++line == l->line_range) {
			line = 0;
			address += l->instruction;
		}
	}
	begin_sequence(&m);
	while (c.p < c.end) {
		if (m.open && !m.dead)
			c.p = run_common(&m, l, advances, c.p, c.end);
		if (c.p == c.end)
			break;
		uint8_t opcode = *c.p++;
		if (opcode >= l->opcode_base) {
			m.address += advances[opcode].address;
			m.line += advances[opcode].line;
			lines_table_add_row(&m);
		} else if (opcode) {
			run_standard(&m, l, &c, opcode);
		} else {
			run_extended(&m, &c);
		}
	}
	lines_table_end_run(&m);
	return !c.bad;
}

/** Reads the header up to the files and cuts @c to the table. Returns where the program begins; NULL: it is bad. */
static const uint8_t *lines_table_read_header(struct build_lines *h, struct lines_cursor *c)
{
	uint64_t length = cursor_number(c, 4);
	h->offset_size = length == UINT32_MAX ? 8 : 4;
	if (h->offset_size == 8)
		length = cursor_number(c, 8);
	if (c->bad || length > (uint64_t)(c->end - c->p))
		return NULL;
	c->end = c->p + length;
	h->version = (unsigned)cursor_number(c, 2);
	if (h->version < 2 || h->version > 5)
		return NULL;
	if (h->version >= 5)
		cursor_skip(c, 2); // sizes of addresses and of segment selectors
	uint64_t header_length = cursor_number(c, h->offset_size);
	if (c->bad || header_length > (uint64_t)(c->end - c->p))
		return NULL;
	const uint8_t *program = c->p + header_length;
	h->instruction = cursor_byte(c);
	if (h->version >= 4)
		cursor_byte(c); // operations of an instruction: 1 on all but VLIW machines
	cursor_byte(c);         // is_stmt
	h->line_base = (int8_t)cursor_byte(c);
	h->line_range = cursor_byte(c);
	h->opcode_base = cursor_byte(c);
	for (unsigned i = 1; i < h->opcode_base; i++)
		h->lengths[i] = cursor_byte(c);
	return c->bad || !h->line_range || !h->opcode_base ? NULL : program;
}

bool build_files(struct build_unit *u, uint64_t offset, struct build_lines *ret)
{
	const struct str section = u->b->sections[IN_LINE];
	struct lines_cursor c = cursor_at(section, offset, section.n);
	const uint8_t *program = c.bad ? NULL : lines_table_read_header(ret, &c);
	u->first_file = build_count(u->b, INDEX_FILES);
	if (!program)
		return false;
	ret->program = (struct lines_cursor){ program, c.end, false };
	c.end = program > c.p ? program : c.p;
	if (ret->version >= 5) {
		_cleanup_vec_ VEC(struct str) directories = { 0 };
		struct formats f;
		struct lines_entry e;
		bool good = read_formats(&c, &f);
		for (uint64_t n = good ? cursor_leb(&c) : 0; n && good; n--) {
			good = lines_table_read_entry(u, ret, &c, &f, &e);
			vec_push(&directories, e.path);
		}
		good = good && read_formats(&c, &f);
		for (uint64_t n = good ? cursor_leb(&c) : 0; n && good; n--) {
			good = lines_table_read_entry(u, ret, &c, &f, &e);
			if (good)
				lines_table_add_file(u, ret, e.path,
						     e.directory < directories.len ? directories.data[e.directory] :
										     (struct str){ 0 },
						     !e.directory);
		}
		return good;
	}
	// Up to DWARF 4, directories and files are two lists that end with an empty name; files count from 1.
	_cleanup_vec_ VEC(struct str) directories = { 0 };
	struct str s;
	u->file_base = 1;
	while ((s = cursor_z(&c)).n)
		vec_push(&directories, s);
	while (!c.bad && (s = cursor_z(&c)).n) {
		uint64_t directory = cursor_leb(&c);
		cursor_leb(&c); // time
		cursor_leb(&c); // size
		bool named = directory && directory <= directories.len;
		lines_table_add_file(u, ret, s, named ? directories.data[directory - 1] : (struct str){ 0 }, !directory);
	}
	return true;
}

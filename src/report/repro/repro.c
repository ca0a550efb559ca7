// What unhang repro says of the program that it made.
#include "report/repro/repro.h"

#include "base/cleanup.h"
#include "gpu/memory/map.h"
#include "report/sheet.h"

const char *repro_kind_name(enum repro_kind k)
{
	static const char *const names[] = { "memory-fault", "queue-error", "hang" };
	return names[k];
}

static const char *fill_name(const struct repro_write *w)
{
	return w->dropped              ? "dropped" :
	       w->withheld             ? "withheld" :
	       w->fill == REPRO_SAVED  ? "saved" :
	       w->fill == REPRO_VALUES ? "range" :
					 "zeros";
}

static void put_failure(const struct repro_failure *f, struct sheet *s)
{
	sheet_record(s, "failure", { "kind", v_word(repro_kind_name(f->kind)) }, { "kernel", v_known(f->kernel) },
		     { "status", v_if(f->kind == REPRO_ERROR, v_hex(f->status)) },
		     { "relation", v_if(f->kind == REPRO_FAULT, v_word(near_name(f->relation))) },
		     { "argument", v_count(f->argument) }, { "distance", v_if(f->kind == REPRO_FAULT, v_number(f->distance)) },
		     { "place", v_known(f->said) }, { "code", v_known(f->code) });
}

static void put_pointers(struct sheet *s, const struct repro_pointer *list, size_t n)
{
	sheet_each (i, s, "pointers", n)
		sheet_fields(s, { "at", v_number(list[i].at) }, { "buffer", v_number(list[i].buffer) },
			     { "offset", v_int(list[i].offset) });
}

static void put_launches(const struct repro_plan *p, struct sheet *s)
{
	static const char *const roles[] = { "before", "beside", "fails" };
	sheet_each (i, s, "launches", p->launches.len) {
		const struct repro_launch *l = &p->launches.data[i];
		sheet_fields(s, { "kernel", v_text(l->symbol) }, { "name", v_text(l->plain) },
			     { "role", v_word(roles[l->role]) }, { "queue", v_number(l->queue) },
			     { "packet", v_number(l->packet) }, { "lds", v_number(l->lds) }, { "dropped", v_bool(l->dropped) });
		sheet_three(s, "grid", l->grid, true);
		sheet_three(s, "workgroup", l->group, true);
		put_pointers(s, l->pointers, l->npointers);
	}
}

static void put_buffers(const struct repro_plan *p, struct sheet *s)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct repro_walk w = repro_walk_begin(p, &a);
	sheet_each (i, s, "buffers", p->buffers.len) {
		const struct repro_buffer *b = &p->buffers.data[i];
		sheet_fields(s, { "bytes", v_number(b->bytes) }, { "recorded_bytes", v_number(b->recorded) },
			     { "host", v_bool(b->host) }, { "freed", v_bool(b->freed) }, { "used", v_bool(w.used[i]) });
		sheet_values (k, s, "contents", p->writes.len)
			if (p->writes.data[k].buffer == i)
				jw_str(&s->json, str_z(fill_name(&p->writes.data[k])));
	}
}

static void repro_json(const struct repro_plan *p, FILE *out)
{
	struct sheet s = sheet_on(true, out);
	const struct repro_tried *t = &p->tried;
	sheet_begin(&s, "unhang/repro/1", NULL);
	sheet_fields(&s, { "directory", v_text(p->directory) }, { "source", v_if(!p->redacted, v_text(p->source)) },
		     { "program", v_if(!p->redacted, v_known(p->program)) }, { "user_data", v_bool(p->user_data) },
		     { "redacted", v_bool(p->redacted) }, { "unrecorded_buffers", v_number(p->unrecorded) });
	put_failure(&p->failure, &s);
	put_launches(p, &s);
	put_buffers(p, &s);
	sheet_texts(&s, "left_out", p->left_out.data, p->left_out.len);
	if (sheet_object(&s, "tried", t->asked)) {
		sheet_fields(&s, { "runs", v_number(t->runs) }, { "alike", v_bool(t->alike) },
			     { "why_not", v_known(t->why_not) }, { "other", v_known(t->other) },
			     { "launches_before", v_number(t->launches_before) },
			     { "launches_after", v_number(t->launches_after) }, { "bytes_before", v_number(t->bytes_before) },
			     { "bytes_after", v_number(t->bytes_after) });
		sheet_close(&s, '}');
	}
	sheet_close(&s, '}');
	fputc('\n', out);
}

void repro_write_answer(const struct repro_plan *p, FILE *out) { repro_json(p, out); }

// --- for people ---

static const struct row_style row = { .left = 2, .label = 10 };

static void say_row(struct arena *a, const char *label, struct str text, FILE *out)
{
	wrap_row(out, &row, label, repro_plain(a, text), 0);
}

static void say_tried(const struct repro_tried *t, struct arena *a, FILE *out)
{
	if (t->why_not.n)
		say_row(a, "Tried", arena_printf(a, "no: " STR_FMT, STR_ARG(t->why_not)), out);
	else if (t->asked)
		say_row(a, "Tried",
			arena_printf(a, "it %s (%u run%s)%s" STR_FMT,
				     t->alike ? "fails in the same way" : "does not fail in the same way", t->runs,
				     t->runs == 1 ? "" : "s", t->other.n ? ": " : "", STR_ARG(t->other)),
			out);
	if (t->asked && (t->launches_after < t->launches_before || t->bytes_after < t->bytes_before))
		say_row(a, "Shrunk",
			arena_printf(a, "from %u launch%s to %u, from " STR_FMT " of buffers to " STR_FMT, t->launches_before,
				     t->launches_before == 1 ? "" : "es", t->launches_after,
				     STR_ARG(map_size_say(a, t->bytes_before)), STR_ARG(map_size_say(a, t->bytes_after))),
			out);
}

static struct str buffers_say(const struct repro_plan *p, struct arena *a)
{
	const struct repro_walk w = repro_walk_begin(p, a);
	size_t n = 0, saved = 0, withheld = 0;
	for (size_t i = 0; i < p->buffers.len; i++)
		n += w.used[i];
	for (size_t i = 0; i < p->writes.len; i++) {
		withheld += p->writes.data[i].withheld;
		saved += p->writes.data[i].fill == REPRO_SAVED && !p->writes.data[i].dropped;
	}
	return arena_printf(a, "%zu, " STR_FMT "; contents %s", n, STR_ARG(map_size_say(a, repro_bytes_left(p))),
			    saved    ? "as they were" :
			    withheld ? "not saved: --user-data saves them" :
				       "not recorded, or not needed");
}

static void repro_text(const struct repro_plan *p, FILE *out)
{
	static const char *const kinds[] = { "memory fault", "error of the queue", "hang" };
	_cleanup_arena_ struct arena a = { 0 };
	fprintf(out, STR_FMT ": the failing launch as a standalone program\n", STR_ARG(repro_plain(&a, p->directory)));
	say_row(&a, "Kernel", repro_failing(p)->plain, out);
	say_row(&a, "Failure",
		arena_printf(&a, "%s%s" STR_FMT, kinds[p->failure.kind], p->failure.said.n ? ", " : "",
			     STR_ARG(p->failure.said)),
		out);
	say_row(&a, "At", p->failure.code, out);
	say_row(&a, "Launches", arena_printf(&a, "%zu", repro_launches_left(p)), out);
	say_row(&a, "Buffers", buffers_say(p, &a), out);
	if (p->unrecorded)
		say_row(&a, "Worth", repro_worth(p, &a), out);
	say_tried(&p->tried, &a, out);
	for (size_t i = 0; i < p->left_out.len; i++)
		say_row(&a, i ? "" : "Left out", p->left_out.data[i], out);
	wrap_step_row(out, &row, "Next", p->next);
}

void report_repro(const struct repro_plan *p, bool json, FILE *out)
{
	if (json)
		repro_json(p, out);
	else
		repro_text(p, out);
}

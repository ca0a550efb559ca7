// Registers: of a GPU, of a device core, or values that somebody has.
#include <stdlib.h>

#include "base/cleanup.h"
#include "report/live/regs.h"
#include "session/live.h"
#include "session/machine.h"
#include "source/file.h"

enum { MANY = 512 };

static void regs_free(struct regs *g)
{
	vec_free(&g->rows);
	arena_free(&g->arena);
}

// --- of a GPU or a device core ---

/** What is looked at: a GPU or a device core. */
struct looked {
	const struct know *know;
	struct live live;
	const struct device *device; // NULL: a device core
	struct part_tables tables;   // of a device core
	struct target *target;
	struct str why_not[ANSWER_TIMED_OUT + 1]; // said once
};

static struct uh_error *open_device(struct looked *l, struct regs *g)
{
	struct uh_error *err = live_find(l->know, g->options, "regs", true, &l->live);
	if (err)
		return err;
	l->device = l->live.list[0];
	l->target = target_device(l->know, l->device);
	g->target = l->device->pci;
	g->gfx = l->device->gfx;
	g->title = live_title(&g->arena, l->device);
	return NULL;
}

static struct uh_error *open_dump(struct looked *l, struct regs *g)
{
	struct file f;
	struct request agents = { .kind = REQUEST_AGENTS };
	if (g->options->ntargets > 1)
		return uh_error_new("give one device core at a time");
	struct uh_error *err = file_open(g->options->targets[0], &f);
	if (err)
		return err;
	err = target_devcoredump(l->know, &f, &l->target);
	file_close(&f);
	if (err)
		return err;
	target_ask(l->target, &agents);
	g->target = l->target->name;
	g->gfx = agents.n ? agents.agents[0].gfx : (struct str){ 0 };
	g->title = arena_printf(&g->arena, STR_FMT ", " STR_FMT, STR_ARG(g->target), STR_ARG(g->gfx));
	part_tables_of_device(&g->arena, devcoredump_device(l->target), &l->tables);
	return l->tables.len ? NULL : part_tables_of(l->know, g->gfx, &l->tables);
}

static void close_looked(struct looked *l)
{
	target_close(l->target);
	vec_free(&l->tables);
	live_free(&l->live);
}

static size_t named(struct looked *l, struct arena *a, struct str name, struct named_registers *to)
{
	return l->device ? named_device_registers(a, l->device, name, to) : part_registers(&l->tables, name, to);
}

/** Why a name means no register that can be read. */
static void tell_unknown(struct looked *l, struct regs *g, const struct teller *t, struct str name)
{
	struct named_registers found = { 0 }, all = { 0 };
	struct part_tables tables = { 0 };
	struct str why = S("reading it would need a write to another register");
	if (l->device)
		part_tables_of_device(&g->arena, l->device, &tables);
	if (!part_registers(&tables, name, &found)) {
		named(l, &g->arena, S("*"), &all);
		why = arena_printf(&g->arena, STR_FMT " has no such register" STR_FMT, STR_ARG(g->gfx),
				   STR_ARG(near_names(&g->arena, &all, name)));
	}
	look_tell(t, arena_printf(&g->arena, STR_FMT ": " STR_FMT, STR_ARG(name), STR_ARG(why)));
	vec_free(&found);
	vec_free(&all);
	vec_free(&tables);
}

/** Each XCC is an instance of GC; of a GPU it is a bank, too. */
static bool is_xcc(const struct named_register *r) { return str_is(r->block.ip, "gc"); }

static struct request request_of(const struct looked *l, const struct uh_bank *b, const struct named_register *r)
{
	const int instance = is_xcc(r) && r->block.instance ? (int)r->block.instance : -1;
	return (struct request){
		.kind = REQUEST_REGISTER,
		.ip = r->block.ip,
		.ip_instance = r->block.instance,
		.reg = &r->reg,
		.bank = { l->device ? instance : -1, b->se, b->sh, b->instance, b->me, b->pipe, b->queue, b->vmid },
	};
}

/** Of the registers that each XCC has, those of the one that was asked for. */
static void keep_xcc(const struct uh_bank *b, struct named_registers *found)
{
	size_t n = 0;
	for (size_t i = 0; i < found->len; i++)
		if (b->xcc < 0 || !is_xcc(&found->data[i]) || (int)found->data[i].block.instance == b->xcc)
			found->data[n++] = found->data[i];
	found->len = n;
}

static struct str why_not(struct looked *l, struct regs *g, enum answer answer)
{
	if (!l->why_not[answer].n)
		l->why_not[answer] = l->device ? live_why_not(&g->arena, l->target, answer) : S("it is not in the device core");
	return l->why_not[answer];
}

static struct row answered(struct looked *l, struct regs *g, const struct named_register *r, const struct request *q)
{
	static const enum row_state states[] = { [ANSWER_GIVEN] = ROW_READ,
						 [ANSWER_ABSENT] = ROW_ABSENT,
						 [ANSWER_REFUSED] = ROW_REFUSED,
						 [ANSWER_TIMED_OUT] = ROW_TIMED_OUT };
	struct row row = { .r = *r, .state = states[q->answer], .value = q->value };
	if (q->answer != ANSWER_GIVEN)
		row.why_not = why_not(l, g, q->answer);
	return row;
}

/** Asks for all of them in one batch; *@ret_read are those that gave a value. */
static void ask_registers(struct looked *l, struct regs *g, const struct named_registers *found, unsigned *ret_read)
{
	_cleanup_free_ struct request *requests = mem_alloc(found->len * sizeof(*requests) + 1);
	size_t n = 0, at = 0;
	for (size_t i = 0; i < found->len; i++)
		if (!l->device || !register_acts(&found->data[i].reg))
			requests[n++] = request_of(l, &g->options->bank, &found->data[i]);
	l->target->ask(l->target, requests, n);
	for (size_t i = 0; i < found->len; i++) {
		const struct named_register *r = &found->data[i];
		struct row row = { .r = *r, .state = ROW_REFUSED, .why_not = S("reading it acts on the GPU") };
		if (at < n && requests[at].reg == &r->reg)
			row = answered(l, g, r, &requests[at++]);
		*ret_read += row.state == ROW_READ;
		vec_push(&g->rows, row);
	}
}

/** Drops registers that match a pattern but are not in the device core: they are not worth a line. */
static void drop_absent(struct regs *g)
{
	size_t n = 0;
	for (size_t i = 0; i < g->rows.len; i++)
		if (g->rows.data[i].state != ROW_ABSENT)
			g->rows.data[n++] = g->rows.data[i];
	g->rows.len = n;
}

static struct uh_error *look_regs(struct looked *l, struct regs *g, const char *const *names, size_t n,
				  const struct teller *teller, unsigned *ret_read)
{
	struct named_registers found = { 0 };
	struct uh_error *err = NULL;
	bool pattern = false;
	for (size_t i = 0; i < n; i++) {
		pattern |= str_is_pattern(str_z(names[i]));
		if (!named(l, &g->arena, str_z(names[i]), &found))
			tell_unknown(l, g, teller, str_z(names[i]));
	}
	keep_xcc(&g->options->bank, &found);
	if (l->device && pattern && found.len > MANY && !g->options->all) {
		err = uh_error_new("this matches %zu registers of a GPU; add --all to read them all", found.len);
	} else {
		if (l->device)
			live_progress(&l->live, g->options, 0);
		ask_registers(l, g, &found, ret_read);
		if (l->device)
			live_progress(&l->live, g->options, l->live.n);
		if (pattern && !l->device)
			drop_absent(g);
		report_regs(g);
		look_tell(teller, l->target->problems(l->target));
	}
	if (l->device)
		live_tell_root(&l->live, teller);
	vec_free(&found);
	return err;
}

struct uh_error *uh_look_regs(const struct uh_look_options *o, const char *const *names, size_t n, FILE *out,
			      uh_problem_fn *problem, void *ctx, unsigned *ret_read)
{
	struct teller teller = { problem, ctx };
	struct machine_options at;
	*ret_read = 0;
	struct uh_error *err = machine_resolve(o, &at);
	if (err)
		return err;
	struct know *k = look_knowledge_of(at.options.machine, &teller);
	struct regs g = { .options = &at.options, .out = out };
	struct looked l = { .know = k };
	err = at.options.ntargets ? open_dump(&l, &g) : open_device(&l, &g);
	if (!err)
		err = look_regs(&l, &g, names, n, &teller, ret_read);
	close_looked(&l);
	regs_free(&g);
	look_knowledge_free(at.options.machine, k);
	machine_options_free(&at);
	return err;
}

// --- values and names without a GPU ---

static struct row *row_of(struct regs *g, const struct named_register *r)
{
	for (size_t i = 0; i < g->rows.len; i++)
		if (str_eq(g->rows.data[i].r.reg.name, r->reg.name) && str_eq(g->rows.data[i].r.block.name, r->block.name))
			return &g->rows.data[i];
	vec_push(&g->rows, ((struct row){ .r = *r, .state = ROW_GIVEN }));
	return &g->rows.data[g->rows.len - 1];
}

/** NAME.FIELD, where all of it is no register. */
static bool split_field(struct str *name, struct str *ret_field)
{
	size_t point = name->n;
	while (point && name->p[point - 1] != '.')
		point--;
	if (point < 2 || point == name->n)
		return false;
	*ret_field = str_from(*name, point);
	*name = str_cut(*name, point - 1);
	return true;
}

static struct uh_error *give(struct regs *g, struct named_register *r, struct str field, uint64_t value)
{
	struct reg_field f = { .bits = 32 };
	if (field.n && !register_field_find(&r->reg, field, &f))
		return uh_error_new(STR_FMT " has no field '" STR_FMT "'", STR_ARG(r->reg.name), STR_ARG(field));
	if (f.bits < 64 && value >> f.bits)
		return uh_error_new("0x%llx is more than the %u bits of " STR_FMT, (unsigned long long)value, f.bits,
				    STR_ARG(field.n ? field : r->reg.name));
	struct row *row = row_of(g, r);
	row->value = field_put(&f, row->value, (uint32_t)value);
	return NULL;
}

/** One NAME=VALUE. */
static struct uh_error *decode(struct regs *g, const struct part_tables *tables, struct str text)
{
	struct named_registers found = { 0 }, all = { 0 };
	struct str value = text, name = str_split(&value, '='), whole = name, field = { 0 };
	int64_t number;
	if (!value.n || !str_number(value, &number) || number < 0)
		return uh_error_new("'" STR_FMT "': give NAME=VALUE, such as GRBM_STATUS=0xa0003028", STR_ARG(text));
	struct uh_error *err = NULL;
	if (!part_registers(tables, name, &found) && split_field(&name, &field))
		part_registers(tables, name, &found);
	for (size_t i = 0; i < found.len && !err; i++)
		err = give(g, &found.data[i], field, (uint64_t)number);
	if (!found.len) {
		part_registers(tables, S("*"), &all);
		err = uh_error_new(STR_FMT " has no register '" STR_FMT "'" STR_FMT, STR_ARG(g->title), STR_ARG(whole),
				   STR_ARG(near_names(&g->arena, &all, whole)));
	}
	vec_free(&found);
	vec_free(&all);
	return err;
}

static struct uh_error *list(struct regs *g, const struct part_tables *tables, struct str pattern)
{
	struct named_registers found = { 0 }, all = { 0 };
	struct uh_error *err = NULL;
	if (!part_registers(tables, pattern, &found)) {
		part_registers(tables, S("*"), &all);
		err = uh_error_new(STR_FMT " has no register '" STR_FMT "'" STR_FMT, STR_ARG(g->title), STR_ARG(pattern),
				   STR_ARG(near_names(&g->arena, &all, pattern)));
	}
	for (size_t i = 0; i < found.len; i++)
		vec_push(&g->rows, ((struct row){ .r = found.data[i] }));
	vec_free(&found);
	vec_free(&all);
	return err;
}

typedef struct uh_error *each_fn(struct regs *g, const struct part_tables *tables, struct str text);

/** @g has options, output, and the name of the part as its title. */
static struct uh_error *without_gpu(struct regs *g, const char *const *texts, size_t n, struct teller *teller, each_fn *each)
{
	struct know *k = look_knowledge(teller);
	struct part_tables tables = { 0 };
	struct uh_error *err = part_tables_of(k, g->title, &tables), *one;
	g->gfx = str_starts(g->title, S("gfx")) ? g->title : (struct str){ 0 };
	const bool has_tables = !err;
	for (size_t i = 0; i < n && has_tables; i++) {
		one = each(g, &tables, str_z(texts[i]));
		if (one && err)
			live_could(err, teller, 1); // told, so that the new one takes its place
		err = one ? one : err;
	}
	// What is wrong with one does not keep the others from being shown.
	err = live_could(err, teller, g->rows.len);
	if (!err)
		report_regs(g);
	vec_free(&tables);
	regs_free(g);
	know_free(k);
	return err;
}

struct uh_error *uh_decode_regs(const struct uh_look_options *o, const char *part, const char *const *values, size_t n,
				FILE *out, uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	struct regs g = { .options = o, .out = out, .title = str_z(part) };
	return without_gpu(&g, values, n, &teller, decode);
}

struct uh_error *uh_list_regs(const struct uh_look_options *o, const char *part, const char *const *patterns, size_t n,
			      FILE *out, uh_problem_fn *problem, void *ctx)
{
	static const char *const any[] = { "*" };
	struct teller teller = { problem, ctx };
	struct regs g = { .options = o, .out = out, .title = str_z(part) };
	return without_gpu(&g, n ? patterns : any, n ? n : 1, &teller, list);
}

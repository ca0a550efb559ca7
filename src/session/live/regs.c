// Registers: of a GPU, of a device core, or values that somebody has.
#include "gpu/find/clients.h"
#include "gpu/process/target.h"
#include "session/look.h"

enum { MANY = 512 };

static void regs_free(struct regs *g)
{
	vec_free(&g->rows);
	arena_free(&g->arena);
}

// --- of a GPU or a device core ---

/** What is looked at: a GPU or a device core. */
struct looked {
	struct looking at;
	struct live live;
	const struct device *device; // NULL: a device core
	struct part_tables tables;   // of a device core
	enum register_kind space;    // of addresses
	struct target *target;
	struct str why_not[ANSWER_TIMED_OUT + 1]; // said once
};

static void looked_close(struct looked *l)
{
	target_close(l->target);
	vec_free(&l->tables);
	live_free(&l->live);
	looking_end(&l->at);
}

/** The queue of a process that computes; an empty @ret: it has none of this number. */
static struct uh_error *find_process_queue(struct looked *l, int64_t pid, int64_t number, bool *ret_there,
					   struct queue_slot *ret)
{
	_cleanup_(kfd_free) struct kfd kfd = { 0 };
	_cleanup_target_ struct target *process = NULL;
	const struct devices *d = &l->live.found.devices;
	struct request r = { .kind = REQUEST_QUEUES };
	kfd_look(d, &kfd);
	kfd_look_at_places(&kfd, l->at.know, d);
	struct uh_error *err = target_process_of(l->at.know, d, &kfd, pid, &process);
	if (err)
		return err;
	target_ask(process, &r);
	for (size_t i = 0; i < r.n; i++) {
		unsigned partition;
		if (r.queues[i].id == (uint32_t)number && r.queues[i].agent &&
		    devices_with_gpu_id(d, r.queues[i].agent->gpu_id, &partition) == l->device) {
			*ret_there = true;
			*ret = r.queues[i].slot;
			return NULL;
		}
	}
	return NULL;
}

/** The same of a client of the driver, whose queues KFD does not know. false: the process is none. */
static bool find_client_queue(struct looked *l, int64_t pid, int64_t number, bool *ret_there, struct queue_slot *ret)
{
	_cleanup_(client_queues_free) struct client_queues user = { 0 };
	client_queues_look(l->at.know, &l->live.found.devices, &user);
	const struct client_queue *u = list_find(
		user.list, user.n, it, it->pid == pid && it->queue.id == number && it->device == l->device && it->mqd);
	*ret_there = u;
	if (u && u->type != USER_QUEUE_COPY)
		target_queue_slot(l->target, u->mqd, u->type == USER_QUEUE_GFX, ret);
	return list_find(user.list, user.n, it, it->pid == pid) != NULL;
}

/** The place of a program's queue on the GPU is its copy of the registers. The driver reads registers to tell it, which needs the gate. */
static struct uh_error *choose_queue(struct looked *l, const char *asked)
{
	struct uh_bank *b = &l->at.options.bank;
	struct str id = str_z(asked), pid = str_split(&id, ':');
	struct queue_slot s = { 0 };
	bool there = false;
	int64_t of, number;
	if (!str_number(pid, &of) || of <= 0 || !str_number(id, &number) || number < 0)
		return uh_error_new("--queue needs PID:ID, such as 4242:1, not '%s'; unhang queues shows both", asked);
	_cleanup_error_ struct uh_error *err = find_process_queue(l, of, number, &there, &s);
	const bool client = !there && find_client_queue(l, of, number, &there, &s);
	if (!there)
		return err && !client ? take_ptr(err) :
					uh_error_new("there is no queue %s on " STR_FMT "; unhang queues lists them", asked,
						     STR_ARG(l->device->pci));
	if (!s.known)
		return uh_error_new("queue %s is not on the GPU now, or its place cannot be read; unhang queues tells more",
				    asked);
	b->me = (int)s.me;
	b->pipe = (int)s.pipe;
	b->queue = (int)s.queue;
	b->vmid = (int)s.vmid;
	b->xcc = b->xcc < 0 ? (int)s.xcc : b->xcc;
	return NULL;
}

static struct uh_error *open_device(struct looked *l, struct regs *g)
{
	struct uh_error *err = live_find(&l->at, "regs", true, &l->live);
	if (err)
		return err;
	l->device = l->live.list[0];
	l->target = target_device(l->at.know, l->device);
	g->target = l->device->pci;
	g->gfx = l->device->gfx;
	g->title = live_title(&g->arena, l->device);
	return l->at.options.queue ? choose_queue(l, l->at.options.queue) : NULL;
}

static struct uh_error *open_dump(struct looked *l, struct regs *g)
{
	struct uh_error *err = look_open_dump(&l->at, &l->target, &g->gfx);
	if (err)
		return err;
	g->target = l->target->name;
	g->title = arena_printf(&g->arena, STR_FMT ", " STR_FMT, STR_ARG(g->target), STR_ARG(g->gfx));
	part_tables_of_device(&g->arena, devcoredump_device(l->target), &l->tables);
	return l->tables.len ? NULL : part_tables_of(l->at.know, g->gfx, &l->tables);
}

static const char *const spaces[] = { [REGISTER_MMIO] = "mmio", [REGISTER_BUS] = "pcie", [REGISTER_DIDT] = "didt" };

/** Where addresses are looked for; REGISTER_INDEX: nothing was said, so in the register space and on the bus. */
static struct uh_error *space_named(const char *name, enum register_kind *ret)
{
	*ret = REGISTER_INDEX;
	for (size_t i = 0; name && i < ARRAY_SIZE(spaces); i++)
		if (spaces[i] && !strcmp(name, spaces[i]))
			*ret = (enum register_kind)i;
	if (name && *ret == REGISTER_INDEX)
		return uh_error_new("'%s' is none of mmio, pcie, didt", name);
	return NULL;
}

/** Those at an address in bytes, which is where a message of the driver or a table of somebody else has them. One that no table names is
 * read only where its space was named, and never behind the current limiter's index: not every part has that. */
static size_t registers_at(struct looked *l, struct arena *a, uint64_t address, struct named_registers *to)
{
	_cleanup_vec_ struct named_registers all = { 0 };
	size_t n = 0;
	named_device_registers(a, l->device, S("*"), &all);
	for (size_t i = 0; i < all.len; i++) {
		const struct named_register *r = &all.data[i];
		const bool here = l->space == REGISTER_INDEX ? r->reg.kind != REGISTER_DIDT : r->reg.kind == l->space;
		if (r->addressed && here && r->address == address) {
			vec_push(to, *r);
			n++;
		}
	}
	if (n || l->space == REGISTER_INDEX || l->space == REGISTER_DIDT || address % 4 || address > UINT32_MAX)
		return n;
	const struct str block = str_z(spaces[l->space]);
	const struct reg r = { .name = arena_printf(a, "0x%llx", (unsigned long long)address),
			       .kind = l->space,
			       .base = REGISTER_ABSOLUTE,
			       .offset = (uint32_t)address / 4 };
	vec_push(to, ((struct named_register){ { block, block, 0 }, r, true, (uint32_t)address }));
	return 1;
}

/** Of a GPU only those that it can be asked for; of a core, all that its part has. */
static size_t find_registers(struct looked *l, struct arena *a, struct str name, struct named_registers *to)
{
	uint64_t address;
	if (l->device && str_starts(name, S("0x")) && str_hex(str_from(name, 2), &address))
		return registers_at(l, a, address, to);
	return l->device ? named_device_registers(a, l->device, name, to) : part_registers(&l->tables, name, to);
}

/** Why a name means no register that can be read. */
static void tell_unknown(struct looked *l, struct regs *g, struct str name)
{
	_cleanup_vec_ struct named_registers found = { 0 }, all = { 0 };
	_cleanup_vec_ struct part_tables tables = { 0 };
	struct str why = S("its base address is not known");
	if (l->device)
		part_tables_of_device(&g->arena, l->device, &tables);
	if (l->device && !l->device->nips) {
		why = S("the blocks of this GPU are not known: ip_discovery could not be read");
	} else if (l->space != REGISTER_INDEX && str_starts(name, S("0x"))) {
		why = l->space == REGISTER_DIDT ? S("no register of the current limiter is known there") :
						  S("an address is a multiple of 4 below 0x100000000");
	} else if (!part_registers(&tables, name, &found)) {
		find_registers(l, &g->arena, S("*"), &all);
		why = arena_printf(&g->arena, STR_FMT " has no such register" STR_FMT, STR_ARG(g->gfx),
				   STR_ARG(near_names(&g->arena, &all, name)));
	} else if (found.data[0].reg.kind == REGISTER_INDEX) {
		why = S("it is behind an index register that no file of the driver offers; unhang waves --registers has those "
			"of waves");
	}
	look_tell(&l->at.teller, arena_printf(&g->arena, STR_FMT ": " STR_FMT, STR_ARG(name), STR_ARG(why)));
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

static struct row row_of_answer(struct looked *l, struct regs *g, const struct named_register *r, const struct request *q)
{
	static const enum row_state states[] = { [ANSWER_GIVEN] = ROW_READ,
						 [ANSWER_ABSENT] = ROW_ABSENT,
						 [ANSWER_REFUSED] = ROW_REFUSED,
						 [ANSWER_TIMED_OUT] = ROW_TIMED_OUT };
	struct str *why_not = &l->why_not[q->answer];
	if (q->answer != ANSWER_GIVEN && !why_not->n)
		*why_not = l->device ? live_why_not(&g->arena, l->target, q->answer) : S("it is not in the device core");
	return (struct row){ .r = *r, .state = states[q->answer], .value = q->value, .why_not = *why_not };
}

/** Asks for all of them in one batch; *@ret_read are those that gave a value. */
static void ask_named_registers(struct looked *l, struct regs *g, const struct named_registers *found, unsigned *ret_read)
{
	_cleanup_free_ struct request *requests = mem_alloc(found->len * sizeof(*requests) + 1);
	size_t n = 0, at = 0;
	for (size_t i = 0; i < found->len; i++)
		if (!l->device || !register_unread(&found->data[i].reg).n)
			requests[n++] = request_of(l, &g->options->bank, &found->data[i]);
	l->target->ask(l->target, requests, n);
	for (size_t i = 0; i < found->len; i++) {
		const struct named_register *r = &found->data[i];
		struct row row = { .r = *r, .state = ROW_REFUSED, .why_not = register_unread(&r->reg) };
		if (at < n && requests[at].reg == &r->reg)
			row = row_of_answer(l, g, r, &requests[at++]);
		*ret_read += row.state == ROW_READ;
		vec_push(&g->rows, row);
	}
}

/** A pattern may mean thousands, and each is a read of a GPU that may hang: so --all is needed for many. */
static struct uh_error *read_regs(struct looked *l, struct regs *g, const char *const *names, size_t n, unsigned *ret_read)
{
	_cleanup_vec_ struct named_registers found = { 0 };
	bool pattern = false;
	if (!n) // what every look reads
		for (size_t i = 0; i < l->at.know->watches.len; i++) {
			const struct know_watch *w = l->at.know->watches.data[i];
			const struct know_list *lists[] = { w->render, w->deep };
			for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
				for (const struct know_list *r = lists[k]; r; r = r->next)
					find_registers(l, &g->arena, r->text, &found);
		}
	for (size_t i = 0; i < n; i++) {
		pattern |= str_is_pattern(str_z(names[i]));
		if (!find_registers(l, &g->arena, str_z(names[i]), &found))
			tell_unknown(l, g, str_z(names[i]));
	}
	keep_xcc(&g->options->bank, &found);
	if (l->device && pattern && found.len > MANY && !g->options->all)
		return uh_error_new("this matches %zu registers of a GPU; add --all to read them all", found.len);
	if (l->device)
		live_progress(&l->live, g->options, 0);
	ask_named_registers(l, g, &found, ret_read);
	if (l->device)
		live_progress(&l->live, g->options, l->live.n);
	size_t kept = 0;
	for (size_t i = 0; i < g->rows.len; i++) // what matches a pattern but is not in the device core is not worth a line
		if (!pattern || l->device || g->rows.data[i].state != ROW_ABSENT)
			g->rows.data[kept++] = g->rows.data[i];
	g->rows.len = kept;
	if (n || g->options->json || g->options->all)
		report_regs(g);
	else
		report_status(g, l->at.know);
	look_tell(&l->at.teller, l->target->problems(l->target));
	return NULL;
}

struct uh_error *uh_look_regs(const struct uh_look_options *o, const char *const *names, size_t n, FILE *out,
			      uh_problem_fn *problem, void *ctx, unsigned *ret_read)
{
	_cleanup_(looked_close) struct looked l = { 0 };
	_cleanup_(regs_free) struct regs g = { .options = &l.at.options, .out = out };
	*ret_read = 0;
	struct uh_error *err = looking_begin(&l.at, o, out, (struct teller){ problem, ctx });
	if (!err)
		err = space_named(l.at.options.space, &l.space);
	if (!err)
		err = l.at.options.ntargets ? open_dump(&l, &g) : open_device(&l, &g);
	if (err)
		return err;
	err = read_regs(&l, &g, names, n, ret_read);
	if (l.device)
		live_tell_root(&l.live, &l.at.teller);
	return err;
}

// --- values and names without a GPU ---

/** Values of several fields of one register are one row. */
static struct row *row_of_register(struct regs *g, const struct named_register *r)
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

/** A value that does not fit its field would change its neighbours. */
static struct uh_error *give_value(struct regs *g, struct named_register *r, struct str field, uint64_t value)
{
	struct reg_field f = { .bits = 32 };
	if (field.n && !register_field_find(&r->reg, field, &f))
		return uh_error_new(STR_FMT " has no field '" STR_FMT "'", STR_ARG(r->reg.name), STR_ARG(field));
	if (f.bits < 64 && value >> f.bits)
		return uh_error_new("0x%llx is more than the %u bits of " STR_FMT, (unsigned long long)value, f.bits,
				    STR_ARG(field.n ? field : r->reg.name));
	struct row *row = row_of_register(g, r);
	row->value = field_put(&f, row->value, (uint32_t)value);
	return NULL;
}

static struct uh_error *no_register(struct regs *g, const struct part_tables *tables, struct str name)
{
	_cleanup_vec_ struct named_registers all = { 0 };
	part_registers(tables, S("*"), &all);
	return uh_error_new(STR_FMT " has no register '" STR_FMT "'" STR_FMT, STR_ARG(g->title), STR_ARG(name),
			    STR_ARG(near_names(&g->arena, &all, name)));
}

/** One NAME=VALUE. */
static struct uh_error *decode_register(struct regs *g, const struct part_tables *tables, struct str text)
{
	_cleanup_vec_ struct named_registers found = { 0 };
	struct str value = text, name = str_split(&value, '='), whole = name, field = { 0 };
	int64_t number;
	if (!value.n || !str_number(value, &number) || number < 0)
		return uh_error_new("'" STR_FMT "': give NAME=VALUE, such as GRBM_STATUS=0xa0003028", STR_ARG(text));
	struct uh_error *err = NULL;
	if (!part_registers(tables, name, &found) && split_field(&name, &field))
		part_registers(tables, name, &found);
	for (size_t i = 0; i < found.len && !err; i++)
		err = give_value(g, &found.data[i], field, (uint64_t)number);
	return found.len ? err : no_register(g, tables, whole);
}

static struct uh_error *list_registers(struct regs *g, const struct part_tables *tables, struct str pattern)
{
	_cleanup_vec_ struct named_registers found = { 0 };
	if (!part_registers(tables, pattern, &found))
		return no_register(g, tables, pattern);
	for (size_t i = 0; i < found.len; i++)
		vec_push(&g->rows, ((struct row){ .r = found.data[i] }));
	return NULL;
}

typedef struct uh_error *each_fn(struct regs *g, const struct part_tables *tables, struct str text);

/** What is wrong with one text does not keep the others from being shown. */
static struct uh_error *without_gpu(struct regs g, const char *const *texts, size_t n, struct teller teller, each_fn *each)
{
	_cleanup_know_ struct know *k = look_knowledge(teller);
	_cleanup_vec_ struct part_tables tables = { 0 };
	struct uh_error *err = part_tables_of(k, g.title, &tables);
	const bool has_tables = !err;
	g.gfx = str_starts(g.title, S("gfx")) ? g.title : (struct str){ 0 };
	for (size_t i = 0; i < n && has_tables; i++) {
		struct uh_error *one = each(&g, &tables, str_z(texts[i]));
		if (one && err)
			live_could(err, &teller, 1); // told, so that the new one takes its place
		err = one ? one : err;
	}
	err = live_could(err, &teller, g.rows.len);
	if (!err)
		report_regs(&g);
	regs_free(&g);
	return err;
}

struct uh_error *uh_decode_regs(const struct uh_look_options *o, const char *part, const char *const *values, size_t n,
				FILE *out, uh_problem_fn *problem, void *ctx)
{
	const struct regs g = { .options = o, .out = out, .title = str_z(part) };
	return without_gpu(g, values, n, (struct teller){ problem, ctx }, decode_register);
}

struct uh_error *uh_list_regs(const struct uh_look_options *o, const char *part, const char *const *patterns, size_t n,
			      FILE *out, uh_problem_fn *problem, void *ctx)
{
	static const char *const any[] = { "*" };
	const struct regs g = { .options = o, .out = out, .title = str_z(part) };
	return without_gpu(g, n ? patterns : any, n ? n : 1, (struct teller){ problem, ctx }, list_registers);
}

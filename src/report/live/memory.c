// Bytes behind an address of a GPU, the walk through its page tables, and instructions.
#include "report/live/memory.h"

#include <ctype.h>

enum { LINE_BYTES = 16, WORD_BYTES = 4 };

static const char *const memory_sources[] = {
	[FROM_NOWHERE] = NULL, [FROM_VRAM] = "vram", [FROM_SYSTEM] = "system", [FROM_PEER] = "peer", [FROM_PROCESS] = "process"
};

// --- bytes ---

static void say_bytes(struct sheet *s, uint64_t address, const unsigned char *p, size_t n)
{
	char shown[LINE_BYTES + 1] = "";
	sheet_say(s, "0x%012llx ", (unsigned long long)address);
	for (size_t i = 0; i < LINE_BYTES; i += WORD_BYTES) {
		sheet_say(s, " ");
		for (size_t k = WORD_BYTES; k-- > 0;) // as the GPU has a word: its last byte is the first of the number
			i + k < n ? sheet_say(s, "%02x", p[i + k]) : sheet_say(s, "  ");
	}
	for (size_t i = 0; i < n; i++)
		shown[i] = (char)(isprint(p[i]) ? p[i] : '.');
	sheet_say(s, "  %s\n", shown);
}

/** Lines that are like the one before are left out, as hexdump does it. */
static void say_piece(struct sheet *s, const struct memory_piece *p, bool all)
{
	bool left = false;
	for (size_t at = 0; at < p->n; at += LINE_BYTES) {
		const size_t n = p->n - at < LINE_BYTES ? p->n - at : LINE_BYTES;
		const bool same = at && n == LINE_BYTES && at + n < p->n && !all &&
				  !memcmp(p->bytes + at, p->bytes + at - LINE_BYTES, LINE_BYTES);
		if (same && !left)
			sheet_say(s, "*\n");
		if (!same)
			say_bytes(s, p->address + at, (const unsigned char *)p->bytes + at, n);
		left = same;
	}
}

/** What is said before bytes of another origin than those before. */
static void say_origin(struct sheet *s, const struct memory_piece *p, const struct memory_piece *before)
{
	if (before && before->source == p->source && str_eq(before->peer, p->peer))
		return;
	if (p->source == FROM_PEER)
		sheet_say_safe(s, "in the VRAM of ", p->peer, ":\n");
	else if (p->source == FROM_PROCESS)
		sheet_say(s, "memory of the process, which the driver does not show, read through it:\n");
}

static void walk_pieces(struct sheet *s, const struct memory_seen *m, bool all)
{
	const struct memory_piece *shown = NULL;
	sheet_each (i, s, "pages", m->npieces) {
		const struct memory_piece *p = &m->pieces[i];
		const bool there = p->source != FROM_NOWHERE;
		_cleanup_text_ struct text hex = { 0 };
		for (size_t k = 0; s->as_json && there && k < p->n; k++)
			text_printf(&hex, "%02x", (unsigned char)p->bytes[k]);
		sheet_fields(s, { "address", v_hex(p->address) }, { "length", v_number(p->n) },
			     { "source", v_word(memory_sources[p->source]) },
			     { "place", v_if(there && p->source != FROM_PROCESS, v_hex(p->place)) },
			     { "gpu", v_known(p->peer) }, { "why_not", v_known(p->why_not) },
			     { "bytes", v_if(there, v_text(text_str(&hex))) });
		if (!there) {
			sheet_say(s, "0x%012llx  ", (unsigned long long)p->address);
			sheet_say_safe(s, "", p->why_not, "\n");
		} else if (!m->code || !m->disassembly) {
			say_origin(s, p, shown);
			say_piece(s, p, all);
		}
		shown = p;
	}
}

// --- page tables ---

static const char *memory_place_name(const struct vm_place *p) { return p->system ? "system" : "VRAM"; }

/** `valid readable writeable mtype=3` */
static void entry_flags(const struct memory_seen *m, const struct vm_walk *w, size_t step, struct text *to)
{
	const struct vm_format *f = &m->format;
	const uint64_t entry = w->steps[step].entry;
	const bool page = step + 1 == w->read && vm_bits_get(f->valid, entry);
	const struct {
		const char *name;
		struct vm_bits bits;
		bool shown;
	} rows[] = { { "valid", f->valid, true },       { "system", f->system, true },
		     { "unbacked", f->unbacked, true }, { "leaf", f->leaf, true },
		     { "further", f->further, !page },  { "block", f->block, !page && step + 1 < w->read } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].shown && vm_bits_get(rows[i].bits, entry)) {
			text_printf(to, "%s%s", to->n ? " " : "", rows[i].name);
			if (rows[i].bits.n > 1)
				text_printf(to, "=%llu", (unsigned long long)vm_bits_get(rows[i].bits, entry));
		}
	for (size_t i = 0; page && i < m->nbits; i++) {
		const struct vm_named_bits *b = &m->bits[i];
		const unsigned long long value = vm_bits_get(b->bits, entry);
		if (value)
			text_printf(to, b->bits.n > 1 ? "%s" STR_FMT "=%llu" : "%s" STR_FMT, to->n ? " " : "", STR_ARG(b->name),
				    value);
	}
}

static void walk_steps(struct sheet *s, const struct memory_seen *m, const struct vm_walk *w)
{
	static const char *const levels[] = { "PTB", "PDB0", "PDB1", "PDB2" };
	sheet_each (i, s, "steps", w->read) {
		const struct vm_step *e = &w->steps[i];
		const uint64_t covers = UINT64_C(1) << (e->shift & 63); // counted from the first address of the space
		const uint64_t begin = m->address - w->address + (w->address & ~(covers - 1));
		_cleanup_text_ struct text flags = { 0 };
		entry_flags(m, w, i, &flags);
		sheet_fields(s, { "table", v_word(levels[e->level & 3]) }, { "at", v_word(memory_place_name(&e->at)) },
			     { "offset", v_hex(e->at.address) }, { "entry", v_hex(e->entry) }, { "begin", v_hex(begin) },
			     { "bytes", v_number(covers) }, { "flags", v_text(flags.n ? text_str(&flags) : S("")) });
		sheet_say(s, "  %-4s  %-6s 0x%012llx  0x%016llx  ", levels[e->level & 3], memory_place_name(&e->at),
			  (unsigned long long)e->at.address, (unsigned long long)e->entry);
		sheet_say_safe(s, "", flags.n ? text_str(&flags) : S("nothing"), "\n");
	}
}

static void memory_walk_end(struct sheet *s, const struct memory_seen *m, const struct vm_walk *w)
{
	const bool there = w->state == VM_FOUND || w->elsewhere || (w->at.system && w->physical);
	sheet_fields(s, { "mapped", v_bool(there) },
		     { "to", v_if(there, v_word(w->elsewhere ? "another GPU" : memory_place_name(&w->at))) },
		     { "place", v_if(there, v_hex(w->elsewhere ? w->physical : w->at.address)) },
		     { "why_not", v_if(!there, v_word(w->why_not)) });
	if (there)
		sheet_say(s, "  0x%llx is at 0x%llx of %s\n", (unsigned long long)m->address,
			  (unsigned long long)(w->elsewhere ? w->physical : w->at.address),
			  w->elsewhere ? "the hive's memory: of another GPU, or nowhere" :
			  w->at.system ? "the machine's memory" :
					 "its VRAM");
	else
		sheet_say(s, "  0x%llx: %s\n", (unsigned long long)m->address,
			  w->why_not ? w->why_not : "it was not found out");
}

static void walk_neighbours(struct sheet *s, const struct memory_seen *m)
{
	if (m->nruns)
		sheet_say(s, "around it\n");
	sheet_each (i, s, "neighbours", m->nruns) {
		const struct memory_run *r = &m->runs[i];
		const struct vm_walk *w = &r->walk;
		const bool there = w->state == VM_FOUND || w->elsewhere;
		_cleanup_text_ struct text flags = { 0 };
		if (there && w->read)
			entry_flags(m, w, w->read - 1, &flags);
		sheet_fields(s, { "begin", v_hex(r->begin) }, { "end", v_hex(r->end) }, { "mapped", v_bool(there) },
			     { "to", v_if(there, v_word(w->elsewhere ? "another GPU" : memory_place_name(&w->at))) },
			     { "flags", v_if(there, v_text(text_str(&flags))) },
			     { "why_not", v_if(!there, v_word(w->why_not)) });
		sheet_say(s, "  0x%012llx to 0x%012llx  ", (unsigned long long)r->begin, (unsigned long long)r->end);
		if (there)
			sheet_say(s, "%s, ", w->elsewhere ? "another GPU" : memory_place_name(&w->at));
		sheet_say_safe(s, "", there ? text_str(&flags) : str_z(w->why_not ? w->why_not : "unknown"), "\n");
	}
}

static void walk_tables(struct sheet *s, const struct memory_seen *m)
{
	if (!sheet_object(s, "walk", m->walk))
		return;
	sheet_say(s, "page tables\n");
	memory_walk_end(s, m, m->walk);
	walk_steps(s, m, m->walk);
	walk_neighbours(s, m);
	sheet_close(s, '}');
}

// --- a fault of the log ---

static const char *const fault_spaces[] = {
	[FAULT_NONE] = NULL, [FAULT_SAME] = "same", [FAULT_GONE] = "gone", [FAULT_AWAY] = "away"
};

/** How far an edge is from the page of the address: `24 KiB before it`, `directly behind it`. */
static struct str distance_text(struct arena *a, const struct memory_seen *m, const struct memory_edge *e)
{
	const uint64_t page = m->address & ~(uint64_t)(VM_PAGE - 1);
	const bool below = e->at < page;
	const uint64_t bytes = below ? page - 1 - e->at : e->at - page - VM_PAGE;
	return arena_printf(a, STR_FMT " %s it", STR_ARG(bytes ? map_size_say(a, bytes) : S("directly")), below ? "before" : "behind");
}

static void walk_edge(struct sheet *s, const struct memory_seen *m, const char *key, const struct memory_edge *e)
{
	_cleanup_arena_ struct arena a = { 0 };
	_cleanup_text_ struct text flags = { 0 };
	const char *to = e->walk.elsewhere ? "another GPU" : memory_place_name(&e->walk.at);
	struct str line = e->known ? S("nothing is mapped") : S("nothing was found nearby");
	if (e->there && e->walk.read)
		entry_flags(m, &e->walk, e->walk.read - 1, &flags);
	if (e->there)
		line = arena_printf(&a, "mapped memory %s 0x%llx, " STR_FMT " (%s: " STR_FMT ")", e == &m->below ? "ends at" : "begins at",
				    (unsigned long long)e->at, STR_ARG(distance_text(&a, m, e)), to, STR_ARG(text_str(&flags)));
	if (sheet_object(s, key, e->there)) {
		sheet_fields(s, { "address", v_hex(e->at) }, { "to", v_word(to) }, { "flags", v_text(flags.n ? text_str(&flags) : S("")) });
		sheet_close(s, '}');
	}
	if (!s->as_json && m->fault.space == FAULT_SAME)
		wrap_row(s->json.out, &(struct row_style){ 2, 7, 0 }, key, line, 0);
}

/** `train (4242) wrote to 0x7f0000012000` */
static struct str fault_says(struct arena *a, const struct memory_fault *f)
{
	_cleanup_text_ struct text t = { 0 };
	char room[DATE_ROOM];
	text_printf(&t, STR_FMT, STR_ARG(f->process.n ? f->process : S("a program")));
	if (f->pid)
		text_printf(&t, " (%lld)", (long long)f->pid);
	text_printf(&t, " %s 0x%llx; VMID %u", str_is(f->rw, "write") ? "wrote to" : str_is(f->rw, "read") ? "read" : "used",
		    (unsigned long long)f->address, f->vmid);
	if (f->pasid)
		text_printf(&t, ", PASID %u", f->pasid);
	if (f->when)
		text_printf(&t, "; " STR_FMT, STR_ARG(date_text(f->when, room)));
	return arena_str(a, text_str(&t));
}

/** What became of its address space, and whether the address is mapped. */
static struct str fault_now(struct arena *a, const struct memory_seen *m)
{
	const struct memory_fault *f = &m->fault;
	_cleanup_text_ struct text t = { 0 };
	const bool there = m->walk && (m->walk->state == VM_FOUND || m->walk->elsewhere);
	if (f->space == FAULT_SAME)
		return there ? S("its address space is there, and the address is mapped: it was not then, or not for this access") :
			       S("its address space is there, and the address is not mapped");
	text_printf(&t, f->space == FAULT_GONE ?
				"its address space is gone: the process has ended, or the number is another process's by now" :
				"its process lives, but has no work on the GPU, so that its page tables cannot be found");
	if (f->now_pasid && f->now_pasid != f->pasid) {
		text_printf(&t, "; VMID %u now has PASID %u", f->vmid, f->now_pasid);
		if (f->now_pid)
			text_printf(&t, ", " STR_FMT " (%lld)", STR_ARG(f->now_process), (long long)f->now_pid);
	}
	return arena_str(a, text_str(&t));
}

static void memory_walk_fault(struct sheet *s, const struct memory_seen *m)
{
	const struct memory_fault *f = &m->fault;
	if (!sheet_object(s, "fault", f->space != FAULT_NONE))
		return;
	sheet_fields(s, { "incident", v_known(f->incident) }, { "time", v_date(f->when) }, { "process", v_known(f->process) },
		     { "pid", v_if(f->pid, v_int(f->pid)) }, { "vmid", v_number(f->vmid) }, { "pasid", v_if(f->pasid, v_number(f->pasid)) },
		     { "access", v_known(f->rw) }, { "client", v_known(f->client) }, { "space", v_word(fault_spaces[f->space]) },
		     { "vmid_has_now", v_if(f->now_pasid, v_number(f->now_pasid)) },
		     { "pid_has_now", v_if(f->now_pid, v_int(f->now_pid)) });
	if (!s->as_json) {
		_cleanup_arena_ struct arena a = { 0 };
		wrap_row(s->json.out, &(struct row_style){ 2, 7, 0 }, "fault", fault_says(&a, f), 0);
		wrap_row(s->json.out, &(struct row_style){ 2, 7, 0 }, "now", fault_now(&a, m), 0);
	}
	walk_edge(s, m, "below", &m->below);
	walk_edge(s, m, "above", &m->above);
	sheet_close(s, '}');
}

// --- instructions ---

static void memory_walk_instructions(struct sheet *s, const struct memory_seen *m)
{
	const struct disassembly *d = m->disassembly;
	sheet_fields(s, { "disassembler", v_if(d, v_word(d ? d->by : NULL)) }, { "no_code", v_known(m->no_code) });
	if (m->code && m->no_code.n)
		sheet_say_safe(s, "no instructions: ", m->no_code, "\n");
	sheet_open(s, "instructions", '[');
	for (size_t i = 0; d && i < d->n; i++) {
		const struct instruction *at = &d->instructions[i];
		sheet_open(s, NULL, '{');
		sheet_fields(s, { "address", v_hex(at->address) }, { "size", v_number(at->size) }, { "text", v_text(at->text) },
			     { "target", v_if(at->target, v_hex(at->target)) });
		sheet_say(s, "0x%012llx  ", (unsigned long long)at->address);
		sheet_say_safe(s, "", at->text, "");
		if (at->target)
			sheet_say(s, "  (to 0x%llx)", (unsigned long long)at->target);
		sheet_say(s, "\n");
		sheet_close(s, '}');
	}
}

void report_memory(const struct memory_seen *m, const struct uh_look_options *o, FILE *out)
{
	struct sheet s = sheet_on(o->json, out);
	const struct memory_space *of = &m->space;
	const bool found = m->fault.space == FAULT_NONE || m->fault.space == FAULT_SAME;
	sheet_begin(&s, "unhang/memory/1", NULL);
	sheet_fields(&s, { "target", v_text(of->target) }, { "gfx", v_known(of->gfx) }, { "vmid", v_if(found, v_number(of->vmid)) },
		     { "xcc", v_if(found, v_number(of->xcc)) }, { "pasid", v_if(of->pasid_known, v_number(of->pasid)) });
	if (sheet_object(&s, "process", of->pid)) {
		sheet_fields(&s, { "pid", v_int(of->pid) }, { "name", v_known(of->process) });
		sheet_close(&s, '}');
	}
	sheet_fields(&s, { "address", v_hex(m->address) }, { "length", v_number(m->length) });
	sheet_say_safe(&s, "", of->title, found ? ": " : "");
	if (found)
		sheet_say(&s, "VMID %u", of->vmid);
	if (of->several && found)
		sheet_say(&s, " on XCC %u", of->xcc);
	if (of->pasid_known && of->pasid)
		sheet_say(&s, ", PASID %u", of->pasid);
	if (of->pid)
		sheet_say(&s, ", process %lld", (long long)of->pid);
	if (of->pid && of->process.n)
		sheet_say_safe(&s, " (", of->process, ")");
	sheet_say(&s, "\n");
	memory_walk_fault(&s, m);
	walk_tables(&s, m);
	walk_pieces(&s, m, o->all);
	memory_walk_instructions(&s, m);
	sheet_end(&s);
}

// The waves of a target: groups of those that are at the same place, then each of them.
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "evidence/waves/wave_code.h"
#include "gpu/wave_groups.h"
#include "report/live/waves.h"

enum { WAVES_SHOWN = 64, GROUPS_SHOWN = 40, PER_LINE = 8 };

/** Of a wave that was saved the state of the GPU says no more than whether it was halted. */
struct str wave_state(const struct wave *w)
{
	bool live = w->slot.known;
	if (w->stopped || (!live && w->stop_reasons))
		return S("stopped");
	return w->halted || w->fatal_halt ? S("halted") :
	       live && w->in_trap         ? S("trapped") :
	       live && w->in_barrier      ? S("barrier") :
	       live && w->idle            ? S("idle") :
					    S("running");
}

static struct str state_of(struct arena *a, const struct wave *w)
{
	if (w->stop_reasons)
		return stop_reasons_text(a, w->stop_reasons);
	return w->fatal_halt && !w->stopped ? S("FATAL_HALT") : wave_state(w);
}

const uint32_t *wave_trap_status(const struct wave *w)
{
	static const char *const names[] = { "trapsts", "excp_flag_priv" };
	for (size_t i = 0; w->layout && i < w->layout->nregisters; i++)
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
			if (str_is(w->layout->registers[i], names[k]))
				return &w->hwregs[i];
	return NULL;
}

struct str wave_waits(struct arena *a, const struct know *k, const struct wave *w, const struct where *at)
{
	struct wave_barrier b = wave_barrier_of(w);
	struct str polls;
	return w->stop_reasons ? (struct str){ 0 } : wave_waits_for(a, k, at, &b, &polls);
}

// --- text ---

static void put(struct listing *l, struct str s) { print_safe(l->look->out, s); }

static void text_group(struct listing *l, const struct wave_group *g)
{
	FILE *out = l->look->out;
	const struct wave *w = &l->waves[g->first];
	const struct where *at = l->where[g->first];
	struct str kernel = l->kernels[g->first];
	bool called = at->function && !str_eq(at->name, kernel);
	fprintf(out, "%6zu  %-18.*s  ", g->count, STR_ARG(state_of(&l->arena, w)));
	put(l, kernel.n ? kernel : at->name.n ? at->name : S("code of no known object"));
	if (called && kernel.n) {
		fprintf(out, ", in ");
		put(l, at->name);
	}
	if (at->function)
		fprintf(out, " +0x%llx\n", (unsigned long long)at->offset);
	else
		fprintf(out, "  pc 0x%llx\n", (unsigned long long)w->pc);
	for (size_t i = 0; i < at->nframes; i++) {
		fprintf(out, "%28s", "");
		put(l, at->frames[i].file);
		fprintf(out, ":%u", at->frames[i].line);
		if (at->nframes > 1) {
			fprintf(out, "  %s ", at->frames[i].inlined ? "inlined:" : "in");
			put(l, at->frames[i].function);
		}
		fputc('\n', out);
	}
	if (at->here >= at->ninstructions)
		return;
	fprintf(out, "%28s=> ", "");
	put(l, at->instructions[at->here].text);
	struct str wait = wave_waits(&l->arena, l->look->know, w, at);
	struct meaning m;
	if (wait.n) {
		fprintf(out, "   waits for ");
		put(l, wait);
	} else if (meaning_of(l->look->know, at->instructions[at->here].text, &m)) {
		fprintf(out, "   ");
		put(l, meaning_say(&l->arena, l->look->know, &m));
	}
	fputc('\n', out);
}

static void text_row_end(struct listing *l, const struct wave *w, const struct where *at)
{
	FILE *out = l->look->out;
	fprintf(out, "  %2d/%-2u  0x%012llx", __builtin_popcountll(w->exec), w->lanes, (unsigned long long)w->pc);
	if (at->function)
		fprintf(out, " +0x%-6llx", (unsigned long long)at->offset);
	fprintf(out, "  %.*s", STR_ARG(state_of(&l->arena, w)));
}

static void text_row(struct listing *l, const struct wave *w, const struct where *at)
{
	FILE *out = l->look->out;
	char place[48], packet[24] = "?", in_group[12] = "?";
	if (w->placed) {
		snprintf(place, sizeof(place), "%u,%u,%u", w->workgroup[0], w->workgroup[1], w->workgroup[2]);
		if (w->dispatched)
			snprintf(packet, sizeof(packet), "%llu", (unsigned long long)w->packet);
		snprintf(in_group, sizeof(in_group), "%u", w->wave_in_group);
	} else {
		str_copy(place, sizeof(place), S("?"));
	}
	fprintf(out, "%6zu %6u %4u %8s  %-14s %8s", w->id, w->queue->id, w->xcc, packet, place, in_group);
	text_row_end(l, w, at);
	fputc('\n', out);
}

/** A wave on the GPU. */
static void text_slot_row(struct listing *l, size_t i)
{
	FILE *out = l->look->out;
	const struct wave *w = &l->waves[i];
	const struct wave_slot *s = &w->slot;
	const uint32_t *trap = wave_trap_status(w);
	fprintf(out, "%6zu %4u %3u %3u %3u %5u %5u %5u  %u.%u.%u", w->id, s->xcc, s->se, s->sh, s->cu, s->simd, s->slot,
		s->vmid, s->me, s->pipe, s->queue);
	text_row_end(l, w, l->where[i]);
	if (l->seen->moved)
		fputs(l->seen->moved[i] ? ", moving" : ", same pc", out);
	if (trap && *trap)
		fprintf(out, ", trap status 0x%x", *trap);
	fputc('\n', out);
}

static void text_words(struct listing *l, const char *name, const uint32_t *values, size_t n, size_t step)
{
	FILE *out = l->look->out;
	for (size_t i = 0; i < n; i++) {
		if (i % PER_LINE == 0)
			fprintf(out, "%s%8s%s%03zu:", i ? "\n" : "", "", name, i * step);
		fprintf(out, " %08x", values[i]);
	}
	if (n)
		fputc('\n', out);
}

static void text_block(struct listing *l, const char *name, const struct wave_block *b, unsigned lanes, size_t step)
{
	size_t n = (size_t)b->count * lanes;
	_cleanup_free_ uint32_t *values = mem_alloc(n * sizeof(*values) + 1);
	if (!b->count)
		return;
	if (!wave_registers(l->look->target, b, lanes, values)) {
		fprintf(l->look->out, "%8s%s: not at hand\n", "", name);
		return;
	}
	for (unsigned r = 0; lanes > 1 && r < b->count; r++) {
		char lane[24];
		snprintf(lane, sizeof(lane), "%s%u lane ", name, r);
		text_words(l, lane, values + (size_t)r * lanes, lanes, 1);
	}
	if (lanes == 1)
		text_words(l, name, values, n, step);
}

static void text_registers(struct listing *l, const struct wave *w)
{
	FILE *out = l->look->out;
	struct wave_block words = { .address = w->lds.address, .count = w->lds.count / 4 };
	for (size_t i = 0; w->layout && i < w->layout->nregisters; i++)
		fprintf(out, "%s%16.*s: %08x", i % 4 ? "" : i ? "\n" : "", STR_ARG(w->layout->registers[i]), w->hwregs[i]);
	fputc('\n', out);
	text_block(l, "s", &w->sgprs, 1, 1);
	if (w->no_vgprs)
		fprintf(out, "%8sthe wave had given its vector registers back\n", "");
	else
		text_block(l, "v", &w->vgprs, w->lanes, 1);
	text_block(l, "shared v", &w->shared_vgprs, SHARED_LANES, 1);
	text_block(l, "a", &w->acc_vgprs, w->lanes, 1);
	text_block(l, "lds 0x", &words, 1, 4);
}

/** How many waves are as @is says. */
static size_t count_waves(const struct listing *l, bool (*is)(const struct waves_seen *s, size_t i))
{
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++)
		n += is(l->seen, i);
	return n;
}

static bool is_stopped(const struct waves_seen *s, size_t i) { return s->waves[i].stop_reasons; }
static bool is_moving(const struct waves_seen *s, size_t i) { return s->moved[i]; }

static void text_core_head(struct listing *l)
{
	FILE *out = l->look->out;
	const struct target *t = l->look->target;
	const struct waves_seen *s = l->seen;
	print_safe(out, t->name);
	fputs(": ", out);
	if (t->process.n) {
		print_safe(out, t->process);
		fprintf(out, " (%lld), ", (long long)t->pid);
	}
	for (size_t i = 0; i < s->nagents; i++)
		fprintf(out, "%.*s%s", STR_ARG(s->agents[i].gfx), i + 1 < s->nagents ? ", " : "; ");
	fprintf(out, "%zu wave%s in %zu queue%s, %zu of them stopped by an error\n", l->n, l->n == 1 ? "" : "s", s->nqueues,
		s->nqueues == 1 ? "" : "s", count_waves(l, is_stopped));
}

static void text_gpu_head(struct listing *l)
{
	FILE *out = l->look->out;
	print_safe(out, l->seen->title);
	fprintf(out, ": %zu wave%s, %zu of them stopped by an error", l->n, l->n == 1 ? "" : "s", count_waves(l, is_stopped));
	if (l->seen->moved)
		fprintf(out, ", %zu moving", count_waves(l, is_moving));
	fputc('\n', out);
}

static void text_rows(struct listing *l)
{
	FILE *out = l->look->out;
	const bool live = l->seen->pci.n;
	fputs(live ? "\n  wave  xcc  se  sh  cu  simd  slot  vmid  queue  lanes  pc\n" :
		     "\n  wave  queue  xcc   packet  workgroup      in group  lanes  pc\n",
	      out);
	for (size_t i = 0; i < l->n; i++) {
		live ? text_slot_row(l, i) : text_row(l, &l->waves[i], l->where[i]);
		if (l->look->options->registers)
			text_registers(l, &l->waves[i]);
	}
}

static void waves_text(struct listing *l)
{
	FILE *out = l->look->out;
	_cleanup_free_ struct wave_group *groups = mem_alloc(l->n * sizeof(*groups) + 1);
	size_t n = wave_groups(l->waves, l->kernels, l->n, groups);
	l->seen->pci.n ? text_gpu_head(l) : text_core_head(l);
	if (!l->n)
		return;
	fprintf(out, "\n waves  state               kernel, source line, instruction\n");
	for (size_t i = 0; i < n && (i < GROUPS_SHOWN || l->look->options->all); i++)
		text_group(l, &groups[i]);
	if (n > GROUPS_SHOWN && !l->look->options->all)
		fprintf(out, "        and %zu more places (--all shows them)\n", n - GROUPS_SHOWN);
	for (size_t i = 0; i < l->n; i++)
		if (l->where[i]->no_instructions.n) {
			fprintf(out, "\nNo instructions: ");
			put(l, l->where[i]->no_instructions);
			fputc('\n', out);
			break;
		}
	if (l->n > WAVES_SHOWN && !l->look->options->all && !l->look->options->registers)
		fprintf(out, "\n--all lists each of the %zu waves.\n", l->n);
	else
		text_rows(l);
}

void report_waves(const struct waves_seen *seen, size_t n, const struct uh_look_options *o, FILE *out)
{
	_cleanup_free_ struct listing *l = mem_alloc(n * sizeof(*l));
	size_t first = 0;
	for (size_t i = 0; i < n; i++) {
		l[i] =
			(struct listing){ &seen[i],      seen[i].look,  first,          seen[i].n,
					  seen[i].waves, seen[i].where, seen[i].kernels };
		first += seen[i].n;
	}
	if (o->json)
		waves_json(l, n, out);
	for (size_t i = 0, shown = 0; i < n && !o->json; i++) {
		if (seen[i].why_not.n)
			continue; // this is told
		if (shown++)
			fputc('\n', out);
		waves_text(&l[i]);
	}
	for (size_t i = 0; i < n; i++)
		arena_free(&l[i].arena);
}

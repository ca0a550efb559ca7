// The waves of a target: groups of those that are at the same place, then each of them.
#include "base/cleanup.h"
#include "evidence/waves/wave_code.h"
#include "gpu/wave_groups.h"
#include "report/live/waves.h"

enum { WAVES_SHOWN = 64, GROUPS_SHOWN = 40, GROUP_INDENT = 28 };

/** The source lines, innermost first, and the instruction. */
static void text_place(struct listing *l, const struct wave *w, const struct where *at)
{
	struct sheet *s = l->sheet;
	struct meaning m;
	for (size_t i = 0; i < at->nframes; i++) {
		sheet_say(s, "%*s", GROUP_INDENT, "");
		sheet_say_safe(s, "", at->frames[i].file, "");
		sheet_say(s, ":%u", at->frames[i].line);
		if (at->nframes > 1)
			sheet_say_safe(s, at->frames[i].inlined ? "  inlined: " : "  in ", at->frames[i].function, "");
		sheet_say(s, "\n");
	}
	if (at->here >= at->ninstructions)
		return;
	sheet_say(s, "%*s", GROUP_INDENT, "");
	sheet_say_safe(s, "=> ", at->instructions[at->here].text, "");
	struct str wait = wave_waits(&l->arena, l->look->know, w, at);
	if (wait.n)
		sheet_say_safe(s, "   waits for ", wait, "");
	else if (meaning_of(l->look->know, at->instructions[at->here].text, &m))
		sheet_say_safe(s, "   ", meaning_say(&l->arena, l->look->know, &m), "");
	sheet_say(s, "\n");
}

static void text_group(struct listing *l, const struct wave_group *g)
{
	static const struct column line[] = { { "count", .width = 6 }, { "state", "  ", -18 }, { "kernel", "  " },
					      { "name", "  " },        { "called", ", in " },  { "offset", " +" },
					      { "pc", "  pc " } };
	struct sheet *s = l->sheet;
	const struct wave *w = &l->waves[g->first];
	const struct where *at = l->where[g->first];
	const struct str kernel = l->kernels[g->first];
	sheet_open(s, NULL, '{');
	sheet_note(s, "count", v_number(g->count));
	sheet_note(s, "state", v_text(wave_state(&l->arena, w)));
	sheet_note(s, "kernel", v_known(kernel));
	sheet_note(s, "name", v_if(!kernel.n, v_text(at->name.n ? at->name : S("unknown code"))));
	sheet_note(s, "called", v_if(at->function && kernel.n && !str_eq(at->name, kernel), v_text(at->name)));
	sheet_note(s, "offset", v_if(at->function, v_hex(at->offset)));
	sheet_note(s, "pc", v_if(!at->function, v_hex(w->pc)));
	sheet_line(s, 0, COLUMNS(line));
	text_place(l, w, at);
	sheet_close(s, '}');
}

static void text_groups(struct listing *l)
{
	struct sheet *s = l->sheet;
	_cleanup_free_ struct wave_group *groups = mem_alloc(l->n * sizeof(*groups) + 1);
	const size_t n = wave_groups(l->waves, l->kernels, l->n, groups);
	const size_t shown = n > GROUPS_SHOWN && !l->look->options->all ? GROUPS_SHOWN : n;
	sheet_say(s, "\n waves  state               kernel, source line, instruction\n");
	for (size_t i = 0; i < shown; i++)
		text_group(l, &groups[i]);
	if (n > shown)
		sheet_say(s, "        and %zu more places (--all shows them)\n", n - shown);
	for (size_t i = 0; i < l->n; i++)
		if (l->where[i]->no_instructions.n) {
			sheet_say_safe(s, "\nNo instructions: ", l->where[i]->no_instructions, "\n");
			break;
		}
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

/** Of a core its process and GPUs, of a GPU its name. */
static void text_head(struct listing *l)
{
	static const struct column line[] = { { "waves", .after = " wave", .plural = true },
					      { "queues", " in ", .after = " queue", .plural = true },
					      { "stopped", ", ", .after = " of them stopped by an error" },
					      { "moving", ", ", .after = " moving" } };
	struct sheet *s = l->sheet;
	const struct target *t = l->look->target;
	const struct waves_seen *seen = l->seen;
	const bool core = !seen->pci.n;
	sheet_say_safe(s, "", core ? t->name : seen->title, ": ");
	if (core && t->process.n) {
		sheet_say_safe(s, "", t->process, "");
		sheet_say(s, " (%lld), ", (long long)t->pid);
	}
	for (size_t i = 0; core && i < seen->nagents; i++)
		sheet_say_safe(s, "", seen->agents[i].gfx, i + 1 < seen->nagents ? ", " : "; ");
	sheet_open(s, NULL, '{');
	sheet_note(s, "waves", v_number(l->n));
	sheet_note(s, "queues", v_if(core, v_number(seen->nqueues)));
	sheet_note(s, "stopped", v_number(count_waves(l, is_stopped)));
	sheet_note(s, "moving", !core && seen->moved ? v_number(count_waves(l, is_moving)) : v_null());
	sheet_line(s, 0, COLUMNS(line));
	sheet_close(s, '}');
}

/** A text shows first where the waves are, and where they are many, no more. */
static void walk_waves(struct listing *l)
{
	struct sheet *s = l->sheet;
	const struct uh_look_options *o = l->look->options;
	if (!s->as_json) {
		text_head(l);
		if (!l->n)
			return;
		text_groups(l);
		if (l->n > WAVES_SHOWN && !o->all && !o->registers) {
			sheet_say(s, "\n--all lists each of the %zu waves.\n", l->n);
			return;
		}
	}
	sheet_say(s, "%s",
		  l->seen->pci.n ? "\n  wave  xcc  se  sh  cu  simd  slot  vmid  queue  lanes  pc\n" :
				   "\n  wave  queue  xcc   packet  workgroup      in group  lanes  pc\n");
	for (size_t i = 0; i < l->n; i++)
		walk_wave(l, i);
}

static void walk_gpu(struct sheet *s, const struct waves_seen *seen)
{
	sheet_open(s, NULL, '{');
	sheet_put(s, "pci", v_text(seen->pci));
	sheet_put(s, "gfx", v_known(seen->gfx));
	sheet_put(s, "waves", v_number(seen->n));
	sheet_put(s, "why_not", v_known(seen->why_not));
	sheet_close(s, '}');
}

void report_waves(const struct waves_seen *seen, size_t n, const struct uh_look_options *o, FILE *out)
{
	struct sheet s = sheet_on(o->json, out);
	sheet_begin(&s, "unhang/waves/1", NULL);
	sheet_put(&s, "target", v_text(n == 1 ? seen->look->target->name : S("this machine")));
	sheet_open(&s, "gpus", '[');
	for (size_t i = 0; i < n; i++)
		if (seen[i].pci.n)
			walk_gpu(&s, &seen[i]);
	sheet_close(&s, ']');
	sheet_open(&s, "waves", '[');
	for (size_t i = 0, first = 0, shown = 0; i < n; first += seen[i++].n) {
		struct listing l = {
			&s, &seen[i], seen[i].look, first, seen[i].n, seen[i].waves, seen[i].where, seen[i].kernels
		};
		if (seen[i].why_not.n && !o->json)
			continue; // this is told
		if (shown++)
			sheet_say(&s, "\n");
		walk_waves(&l);
		arena_free(&l.arena);
	}
	sheet_end(&s);
}

// Plain answers of the machine and of its GPUs.
#include "emulator/machine.h"

struct str emu_name(const struct emu_machine *m) { return m->name; }
struct str emu_title(const struct emu_machine *m) { return m->title; }
struct str emu_kernel(const struct emu_machine *m) { return m->kernel.n ? m->kernel : S("6.12.0"); }
bool emu_lockdown(const struct emu_machine *m) { return m->lockdown; }
bool emu_user(const struct emu_machine *m) { return m->user; }
bool emu_no_debugfs(const struct emu_machine *m) { return m->no_debugfs; }

size_t emu_gpus(const struct emu_machine *m) { return m->gpus.len; }
const struct emu_gpu *emu_gpu(const struct emu_machine *m, size_t index) { return m->gpus.data[index]; }
const struct emu_facts *emu_facts(const struct emu_gpu *g) { return &g->facts; }

struct emu_gpu *emu_gpu_named(const struct emu_machine *m, struct str pci)
{
	for (size_t i = 0; i < m->gpus.len; i++)
		if (str_eq(m->gpus.data[i]->facts.pci, pci))
			return m->gpus.data[i];
	return NULL;
}

bool emu_gpu_word(struct cursor *c, struct emu_gpu **ret)
{
	struct str word = cursor_word(c);
	*ret = emu_gpu_named(c->r->m, word);
	return *ret || emu_wrong(c, "there is no GPU at '" STR_FMT "'", STR_ARG(str_cut(word, 80)));
}

enum emu_state emu_state(const struct emu_gpu *g, double t) { return (enum emu_state)value_at(g->state, t); }
uint64_t emu_number(const struct emu_gpu *g, enum emu_number n, double t) { return value_at(g->numbers[n], t); }

size_t emu_firmwares(const struct emu_gpu *g) { return g->firmware.len; }
struct emu_firmware emu_firmware(const struct emu_gpu *g, size_t index) { return g->firmware.data[index]; }

// --- files ---

size_t emu_files(const struct emu_gpu *g, enum emu_tree tree) { return g->files[tree].len; }
struct str emu_file_path(const struct emu_gpu *g, enum emu_tree tree, size_t index) { return g->files[tree].data[index].path; }

void emu_file_text(const struct emu_gpu *g, enum emu_tree tree, size_t index, double t, struct text *ret)
{
	const struct emu_content *best = NULL;
	for (const struct emu_content *f = g->files[tree].data[index].content; f; f = f->older)
		if (f->from <= t && (!best || f->from > best->from))
			best = f;
	if (best)
		emu_expand(g->machine, best->text, ret);
}

/** A file that is absent does not fail either. */
static bool applies(const struct emu_behaviour *now, const struct emu_behaviour *next)
{
	return now->does != EMU_ABSENT || next->does == EMU_ANSWERS || next->does == EMU_ABSENT;
}

static void apply_rules(const struct emu_gpu *g, struct str path, double t, struct emu_behaviour *ret)
{
	double from = 0;
	for (size_t i = 0; i < g->rules.len; i++) {
		const struct emu_rule *r = &g->rules.data[i];
		if (str_glob(r->path, path) && r->from <= t && r->from >= from && applies(ret, &r->behaviour)) {
			*ret = r->behaviour;
			from = r->from;
		}
	}
}

struct emu_behaviour emu_behaviour(const struct emu_machine *m, const struct emu_gpu *g, struct str path, double t)
{
	struct emu_behaviour b = { EMU_ANSWERS };
	for (size_t i = 0; i < m->gpus.len; i++)
		if (!g || m->gpus.data[i] == g)
			apply_rules(m->gpus.data[i], path, t, &b);
	return b;
}

struct str emu_devcoredump(const struct emu_gpu *g) { return text_str(&g->devcoredump); }

size_t emu_messages(const struct emu_machine *m) { return m->messages.len; }
size_t emu_overwritten(const struct emu_machine *m) { return m->overwritten; }
struct emu_message emu_message(const struct emu_machine *m, size_t index) { return m->messages.data[index]; }

// What the arbiter decides, and what it remembers: no clock, no file and no Slurm in it, so that every rule can be tried.
#include <limits.h>
#include <stdlib.h>

#include "evidence/documents/document.h"
#include "report/sheet.h"
#include "session/fleet/fleet.h"

enum { HOUR = 3600, DAY = 24 * HOUR };

const char *const fleet_moves[] = { "none", "drain", "resume", "reboot", "power", "keep", NULL };
static const char *const fleet_steps[] = { "would", "held", "will", "done", "failed", NULL };

// --- decisions ---

/** Whether all words of a state are among these. */
static bool state_within(struct str state, const char *these)
{
	while (state.n) {
		struct str word = str_split(&state, '+');
		while (word.n && char_among(word.p[word.n - 1], "*~#!%$@^-"))
			word.n--;
		if (word.n && !str_among(word, STR_EQUALS, these).n)
			return false;
	}
	return true;
}

static bool state_has(struct str state, const char *word)
{
	while (state.n)
		if (str_starts(str_split(&state, '+'), str_z(word)))
			return true;
	return false;
}

/** Whether the drain is ours: by our prefix, who set it and when. A reboot appends to the reason, at a time that Slurm chooses. */
static bool is_ours(const struct slurm_node *n, const struct node_memory *m)
{
	if (!m || !m->holds || !m->drained || !str_starts(n->reason, S(FLEET_PREFIX)) || !str_eq(n->user, m->user))
		return false;
	return str_eq(n->set, m->set) || (m->rebooted && str_starts(n->reason, m->reason));
}

static enum fleet_move decide_ours(const struct slurm_node *n, const struct node_word *w, const struct node_memory *m,
				   const struct fleet_rules *r, int64_t now, struct str *ret_why)
{
	const bool rebooted = w->boot_id.n && m->boot_id.n && !str_eq(w->boot_id, m->boot_id);
	const bool fresh = node_word_fresh(w, r->stale_s, now);
	const bool well = fresh && (w->status == NODE_HEALTHY || w->status == NODE_DEGRADED);
	if (m->rebooted && !rebooted && !m->powered && now - m->rebooted > r->reboot_s) {
		*ret_why = S("it did not come back from the reboot: switch its power off and on");
		return MOVE_POWER;
	}
	if (fresh && str_is(w->worst.action, "replace") && !str_is(m->action, "replace")) {
		*ret_why = S("a part must be replaced: resume it by hand");
		return MOVE_KEEP;
	}
	if (str_is(m->action, "replace")) {
		*ret_why = S("a part must be replaced: resume it by hand");
		return MOVE_NONE;
	}
	if (well && rebooted && str_is(w->smoke, "passed") &&
	    state_within(n->state, "idle|mixed|allocated|drain|drained|draining|dynamic_norm|cloud|not_responding|")) {
		if (m->resumes >= r->resumes) {
			*ret_why = S("it was resumed too often: look at it");
			return MOVE_NONE;
		}
		*ret_why = S("it rebooted, and passed the smoke test");
		return MOVE_RESUME;
	}
	if (r->reboots && !m->rebooted && !rebooted && str_among(m->action, STR_EQUALS, "reboot|reset|").n &&
	    state_within(n->state, "idle|drain|drained|dynamic_norm|cloud|not_responding|")) {
		*ret_why = S("its jobs have ended");
		return MOVE_REBOOT;
	}
	*ret_why = rebooted ? S("it waits for the smoke test") : S("it waits for a reboot");
	return MOVE_NONE;
}

enum fleet_move fleet_decide(const struct slurm_node *n, const struct node_word *w, const struct node_memory *m,
			     const struct fleet_rules *r, int64_t now, struct str *ret_why)
{
	*ret_why = (struct str){ 0 };
	if (is_ours(n, m))
		return decide_ours(n, w, m, r, now, ret_why);
	if (state_has(n->state, "drain") || n->reason.n)
		return MOVE_NONE; // somebody else's
	if (w->status != NODE_FAILED || !node_word_fresh(w, r->stale_s, now))
		return MOVE_NONE;
	// Any other state is somebody's plan.
	if (!state_within(n->state, "idle|mixed|allocated|completing|dynamic_norm|cloud|not_responding|"))
		return MOVE_NONE;
	*ret_why = S("it is not fit for the next job");
	return MOVE_DRAIN;
}

bool fleet_drained(const struct slurm_node *n)
{
	return state_has(n->state, "drain") && str_starts(n->reason, S(FLEET_PREFIX));
}

/** So many nodes, or so many of a hundred, whichever is less; a share is one at least. */
static size_t limit_of(unsigned most, unsigned percent, size_t gpu_nodes)
{
	const size_t share = gpu_nodes * percent / 100, limit = most ? most : SIZE_MAX;
	return !percent || share >= limit ? limit : share ? share : 1;
}

unsigned fleet_budget(const struct fleet_memory *m, const struct fleet_rules *r, size_t gpu_nodes, size_t drained, int64_t now)
{
	size_t used = 0;
	const size_t hour = limit_of(r->most, r->percent, gpu_nodes), ever = limit_of(r->held_most, r->held_percent, gpu_nodes);
	for (size_t n = 0; n < m->drains.len; n++) // one of the future counts: the clock was set back
		used += now - m->drains.data[n].when < HOUR;
	const size_t left = hour > used ? hour - used : 0, room = ever > drained ? ever - drained : 0;
	const size_t least = left < room ? left : room;
	return least < UINT_MAX ? (unsigned)least : UINT_MAX;
}

// --- memory ---

struct node_memory *fleet_remember(struct fleet_memory *m, struct str name, bool make)
{
	struct node_memory *one = list_find(m->list.data, m->list.len, it, str_eq(it->name, name));
	if (one || !make)
		return one;
	vec_push(&m->list, ((struct node_memory){ .name = arena_str(&m->arena, name) }));
	return &m->list.data[m->list.len - 1];
}

void fleet_count_drain(struct fleet_memory *m, struct str name, int64_t when)
{
	struct fleet_drain *known = list_find(m->drains.data, m->drains.len, it, str_eq(it->name, name));
	if (known)
		known->when = when;
	else
		vec_push(&m->drains, ((struct fleet_drain){ arena_str(&m->arena, name), when }));
}

static struct fleet_entry entry_copy(struct arena *a, const struct fleet_entry *e)
{
	struct fleet_entry r = *e;
	struct str *const texts[] = { &r.node, &r.boot_id, &r.user, &r.set, &r.action, &r.incident, &r.reason };
	for (size_t n = 0; n < ARRAY_SIZE(texts); n++)
		*texts[n] = arena_str(a, *texts[n]);
	return r;
}

void fleet_memory_take(struct fleet_memory *m, const struct fleet_entry *e, int64_t now)
{
	struct node_memory *n = fleet_remember(m, e->node, true);
	if (e->step == STEP_WOULD || e->step == STEP_HELD) {
		n->told = e->move;
		n->told_step = e->step;
		n->told_of = arena_str(&m->arena, e->incident);
		return;
	}
	if (e->move == MOVE_DRAIN)
		n->begun = e->step == STEP_WILL ? entry_copy(&m->arena, e) : (struct fleet_entry){ 0 };
	if (e->move == MOVE_DRAIN && e->step == STEP_WILL)
		fleet_count_drain(m, e->node, e->when);
	if (e->step != STEP_DONE)
		return;
	switch (e->move) {
	case MOVE_DRAIN:
		*n = (struct node_memory){ .name = n->name,
					   .drained = e->when,
					   .holds = true,
					   .boot_id = arena_str(&m->arena, e->boot_id),
					   .user = arena_str(&m->arena, e->user),
					   .set = arena_str(&m->arena, e->set),
					   .action = arena_str(&m->arena, e->action),
					   .incident = arena_str(&m->arena, e->incident),
					   .reason = arena_str(&m->arena, e->reason),
					   .resumes = n->resumes };
		break;
	case MOVE_RESUME:
		n->holds = false;
		n->resumes += now - e->when < DAY;
		break;
	case MOVE_REBOOT: // which changes the reason, and when it was set
		n->rebooted = e->when;
		n->user = arena_str(&m->arena, e->user);
		n->set = arena_str(&m->arena, e->set);
		break;
	case MOVE_POWER:
		n->powered = true;
		break;
	case MOVE_KEEP:
		n->action = S("replace");
		break;
	case MOVE_NONE:
	case MOVES:
		break;
	}
}

void fleet_memory_free(struct fleet_memory *m)
{
	vec_free(&m->list);
	vec_free(&m->drains);
	arena_free(&m->arena);
}

// --- the journal: fields with tabs between them, none of which has one in it ---

static void decision_add(struct text *to, struct str s, bool last)
{
	for (size_t n = 0; n < s.n; n++)
		text_add(to, (unsigned char)s.p[n] < ' ' ? S(" ") :
			     (unsigned char)s.p[n] > '~' ? S("?") :
							   (struct str){ &s.p[n], 1 });
	if (!s.n)
		text_add(to, S("-"));
	text_add(to, last ? S("\n") : S("\t"));
}

void fleet_entry_write(struct text *to, const struct fleet_entry *e)
{
	char when[DATE_ROOM];
	const struct str fields[] = { date_text(e->when, when),
				      str_z(fleet_moves[e->move]),
				      str_z(fleet_steps[e->step]),
				      e->node,
				      e->boot_id,
				      e->user,
				      e->set,
				      e->action,
				      e->incident,
				      e->reason };
	for (size_t n = 0; n < ARRAY_SIZE(fields); n++)
		decision_add(to, fields[n], n + 1 == ARRAY_SIZE(fields));
}

static bool word_number(struct str word, const char *const *words, size_t n, size_t *ret)
{
	for (size_t i = 0; i < n; i++)
		if (str_is(word, words[i])) {
			*ret = i;
			return true;
		}
	return false;
}

bool fleet_entry_read(struct str line, struct fleet_entry *ret)
{
	size_t move, step;
	struct str *const texts[] = { &ret->node,   &ret->boot_id,  &ret->user,  &ret->set,
				      &ret->action, &ret->incident, &ret->reason };
	*ret = (struct fleet_entry){ 0 };
	ret->when = document_date(str_split(&line, '\t'));
	if (!ret->when || !word_number(str_split(&line, '\t'), fleet_moves, MOVES, &move) ||
	    !word_number(str_split(&line, '\t'), fleet_steps, STEPS, &step))
		return false;
	ret->move = (enum fleet_move)move;
	ret->step = (enum fleet_step)step;
	for (size_t n = 0; n < ARRAY_SIZE(texts); n++) {
		*texts[n] = str_split(&line, '\t');
		if (str_is(*texts[n], "-"))
			*texts[n] = (struct str){ 0 };
	}
	return ret->node.n;
}

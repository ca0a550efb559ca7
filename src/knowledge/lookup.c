// Questions to what is known: blocks by their id, parts by their device, packets by their opcode, and the messages that a line holds.
#include "knowledge/kinds/kinds.h"
#include "knowledge/know_opening.h"

const struct know_event *know_event(const struct know *k, struct str id) { return KNOW_BY_ID(k->events, id); }
const struct know_class *know_class(const struct know *k, struct str id) { return KNOW_BY_ID(k->classes, id); }
const struct know_signature *know_signature(const struct know *k, struct str id) { return KNOW_BY_ID(k->signatures, id); }
const struct know_register *know_register(const struct know *k, struct str id) { return KNOW_BY_ID(k->registers, id); }
const struct know_remedy *know_remedy(const struct know *k, struct str id) { return KNOW_BY_ID(k->remedies, id); }
const struct know_unit *know_unit(const struct know *k, struct str name) { return KNOW_BY_ID(k->units, name); }

const struct know_part *know_part(const struct know *k, unsigned device, int revision)
{
	const struct know_part *any = NULL;
	for (size_t i = 0; i < k->parts.len; i++) {
		const struct know_part *p = k->parts.data[i];
		if (p->device != device)
			continue;
		if (p->revision >= 0 && p->revision == revision)
			return p;
		if (p->revision < 0)
			any = p;
	}
	return any;
}

const struct know_part *know_part_with_name(const struct know *k, struct str name)
{
	for (size_t i = 0; i < k->parts.len; i++)
		if (str_eq(k->parts.data[i]->name, name))
			return k->parts.data[i];
	return NULL;
}

bool know_gfx_is_apu(const struct know *k, struct str gfx)
{
	bool apu = false;
	for (size_t i = 0; i < k->parts.len; i++) {
		if (str_eq(k->parts.data[i]->gfx, gfx) && !k->parts.data[i]->apu)
			return false;
		apu |= str_eq(k->parts.data[i]->gfx, gfx);
	}
	return apu;
}

static bool packet_is_for(const struct know_packet *p, struct str gfx)
{
	const struct know_list *part = p->parts;
	while (part && !str_glob(part->text, gfx))
		part = part->next;
	return part || !p->parts || !gfx.n;
}

const struct know_packet *know_packet(const struct know *k, enum packet_language l, struct str gfx, int type, int opcode,
				      int sub)
{
	const struct know_packet *p = k->packets_of[l][opcode < 0 ? type : opcode];
	while (p && (p->type != type || p->opcode != opcode || (p->sub >= 0 && p->sub != sub) || !packet_is_for(p, gfx)))
		p = p->same;
	return p;
}

struct str know_name(const struct know *k, struct str id, int64_t number)
{
	int64_t n;
	for (size_t i = 0; i < k->names.len; i++) {
		if (!str_eq(k->names.data[i]->head.id, id))
			continue;
		for (struct know_pair *p = k->names.data[i]->names; p; p = p->next)
			if (str_number(p->name, &n) && n == number)
				return p->value;
	}
	return (struct str){ 0 };
}

int know_month(const struct know *k, struct str name)
{
	int64_t n;
	if (name.n && (name.p[name.n - 1] == '.' || name.p[name.n - 1] == ','))
		name.n--;
	size_t low = 0, high = k->months.len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		int c = str_cmp(k->months.data[middle]->head.id, name);
		if (!c)
			return str_number(k->months.data[middle]->value, &n) ? (int)n : 0;
		if (c < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

bool know_is_bridge(const struct know *k, struct str vendor_device) { return KNOW_BY_ID(k->bridges, vendor_device); }

struct str know_program_role(const struct know *k, struct str name)
{
	for (size_t c = 0; c < k->contexts.len; c++)
		for (const struct know_list *p = k->contexts.data[c]->processes; p; p = p->next)
			for (const struct know_pair *s = str_glob(p->text, name) ? k->contexts.data[c]->says : NULL; s;
			     s = s->next)
				if (str_is(s->name, "role"))
					return s->value;
	return (struct str){ 0 };
}

bool know_is_desktop(const struct know *k, struct str process)
{
	const struct str role = know_program_role(k, process);
	return role.n && KNOW_BY_ID(k->desktop, role);
}

bool know_work_fits(const struct know_list *work, struct str kind)
{
	bool fits = !kind.n || !work; // a user's own block need not say
	for (; work && !fits; work = work->next)
		fits = str_eq(work->text, kind) || str_is(work->text, "any");
	return fits;
}

struct str know_switch(const struct know *k, struct str program)
{
	for (size_t i = k->switches.len; i-- > 0;)
		if (str_glob(k->switches.data[i]->head.id, program))
			return k->switches.data[i]->value;
	return (struct str){ 0 };
}

const struct know_row *know_variable(const struct know *k, struct str name)
{
	for (size_t i = k->variables.len; i-- > 0;)
		if (str_glob(k->variables.data[i]->head.id, name))
			return k->variables.data[i];
	return NULL;
}

bool know_runs(const struct know *k, struct str part, struct str code)
{
	for (size_t i = 0; i < k->overrides.len; i++) {
		struct str parts = k->overrides.data[i]->value;
		if (!str_glob(k->overrides.data[i]->head.id, code))
			continue;
		for (struct str one = str_word(&parts); one.n; one = str_word(&parts))
			if (str_glob(one, part))
				return true;
	}
	return false;
}

struct str know_usual_code(const struct know *k, struct str part)
{
	for (size_t i = 0; i < k->overrides.len; i++) {
		struct str parts = k->overrides.data[i]->value;
		for (struct str one = str_word(&parts); one.n; one = str_word(&parts))
			if (str_eq(one, part) && str_find(k->overrides.data[i]->head.id, S("*")) < 0)
				return k->overrides.data[i]->head.id;
	}
	return (struct str){ 0 };
}

static bool captured(const void *ctx, struct str name, size_t index, struct str *ret)
{
	const struct match *m = ctx;
	for (size_t i = 0; i < m->ncaptures && !index; i++) {
		*ret = m->captures[i].text;
		if (ret->n && str_eq(m->captures[i].piece->name, name))
			return true;
	}
	return false;
}

bool match_is_meant(const struct match *m)
{
	return condition_eval(match_signature(m)->when, &(struct fact_view){ captured, m }) == TRUTH_YES;
}

static bool whole(const struct match *m) { return m->weight >= m->template->weight; }

static bool tells_context(const struct know_signature *s) { return s->event && s->event->opens == OPENS_CONTEXT; }

static bool better_match(const struct match *now, const struct match *new)
{
	enum { MORE = 8 }; // characters that a message of which something is left out must have more than one that is whole
	const struct know_signature *a = match_signature(now), *b = match_signature(new);
	if (match_is_meant(now) != match_is_meant(new))
		return match_is_meant(new);
	if (a->vague != b->vague)
		return a->vague;
	if (a->message != b->message && whole(now) == whole(new))
		return a->message;
	// Where several lines were joined into one, what happened counts, and not the longer text that only tells of the machine.
	if (tells_context(a) != tells_context(b) && (now->end <= new->begin || new->end <= now->begin))
		return tells_context(a);
	size_t have = now->weight + (whole(now) && !whole(new) ? MORE : 0),
	       can = new->weight + (whole(new) && !whole(now) ? MORE : 0);
	if (have != can)
		return can > have;
	return new->begin < now->begin;
}

bool know_match(const struct know *k, struct str line, struct match *ret) { return know_match_by(k, line, NULL, ret); }

bool know_match_by(const struct know *k, struct str line, const struct match_rule *rule, struct match *ret)
{
	return matcher_find(k->matcher, line, rule, better_match, ret) && !ret->doubtful;
}

/** How much of a message the line has, less what is mistyped in it. */
static long typed_worth(const struct match *m)
{
	enum { SLIP = 8 };
	return (long)m->weight - SLIP * (long)m->slips;
}

/** The best of what may begin at @at. */
static void match_typed_at(const struct know *k, struct str line, size_t at, struct match *best, bool *found)
{
	struct match trial;
	unsigned letter = know_letter(line.p[at]);
	for (size_t i = 0; i < k->typed[letter].len; i++) {
		if (!template_match_typed(k->typed[letter].data[i], line, at, &trial))
			continue;
		bool better = !*found || typed_worth(&trial) > typed_worth(best);
		bool rival =
			*found && typed_worth(&trial) == typed_worth(best) && match_signature(best) != match_signature(&trial);
		if (better)
			*best = trial;
		best->doubtful |= rival;
		*found = true;
	}
}

bool know_match_typed(const struct know *k, struct str line, struct match *ret)
{
	enum { WORDS = 16 }; // at which a message may begin
	bool found = false;
	unsigned words = 0;
	for (size_t at = 0; at < line.n && words < WORDS; at++) {
		if (!char_word(line.p[at]) || (at && char_word(line.p[at - 1])))
			continue;
		words++;
		match_typed_at(k, line, at, ret, &found);
	}
	return found && !ret->doubtful;
}

const struct know_instruction *know_instruction(const struct know *k, struct str mnemonic)
{
	const struct know_instruction *best = NULL;
	size_t most = 0;
	for (size_t i = 0; i < k->instructions.len; i++) {
		for (const struct know_list *name = k->instructions.data[i]->names; name; name = name->next) {
			if (name->text.n <= most || !str_glob(name->text, mnemonic))
				continue;
			best = k->instructions.data[i];
			most = name->text.n;
		}
	}
	return best;
}

/** Hundreds of patterns are asked for thousands of names: most differ in their first letter. */
bool know_lists(const struct know_list *patterns, struct str name)
{
	const char first = name.n ? char_lower(name.p[0]) : 0;
	for (; patterns; patterns = patterns->next) {
		const char begins = char_lower(patterns->text.p[0]);
		if ((begins == first || begins == '*' || begins == '?') && str_like(patterns->text, name))
			return true;
	}
	return false;
}

const struct know_package *know_package(const struct know *k, struct str name)
{
	return list_find_of(k->packages.data, k->packages.len, p, know_lists(p->names, name) && !know_lists(p->not, name));
}

bool know_package_by(const struct know_package *p, struct str manager, struct str name)
{
	for (const struct know_list *one = p->managers; one; one = one->next) {
		struct str exact = one->text;
		if (str_eq(str_split(&exact, ':'), manager) && (!exact.n || str_eq(exact, name)))
			return true;
	}
	return false;
}

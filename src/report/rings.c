#include "report/rings.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/print.h"
#include "report/live.h"
#include "report/wrap.h"
#include "source/file.h"

enum { BETWEEN_LOOKS_MS = 100, RINGS_SHOWN = 16, RAW_MOST = 64, PACKETS = 8, NAME_COLUMNS = 16 };

/** What is written about one GPU or device core. */
struct rings {
	const struct uh_look_options *options;
	FILE *out;
	struct str target, gfx, title, why_not;
	struct request first; // look, where there are two
	bool twice;           // it was answered
	struct ring_reading reading;
	VEC(struct ring_view) views;
};

// --- JSON ---

static void jw_ib(struct json *j, const struct ring_packet *row)
{
	const struct packet *p = row->packet;
	jw_key(j, "ib");
	if (!p->ib_address) {
		jw_null(j);
		return;
	}
	jw_open(j, '{');
	jw_key(j, "address");
	jw_hex(j, p->ib_address);
	jw_number(j, "words", p->ib_words);
	jw_number(j, "vmid", row->depth ? row->vmid : p->ib_vmid);
	jw_key(j, "chain");
	jw_bool(j, p->ib_chain);
	jw_key(j, "read");
	jw_bool(j, row->ib_read);
	jw_field(j, "why_not", row->ib_why_not ? str_z(row->ib_why_not) : (struct str){ 0 });
	jw_close(j, '}');
}

void jw_packet_fields(struct json *j, const struct packet *p)
{
	jw_key(j, "fields");
	jw_open(j, '[');
	for (size_t i = 0; i < p->nfields; i++) {
		jw_open(j, '{');
		jw_field(j, "name", p->fields[i].name);
		jw_key(j, "value");
		jw_hex(j, p->fields[i].value);
		jw_field(j, "text", p->fields[i].text.n ? p->fields[i].text : (struct str){ 0 });
		jw_close(j, '}');
	}
	jw_close(j, ']');
}

static void jw_packet(struct json *j, const struct ring_packet *row)
{
	const struct packet *p = row->packet;
	jw_open(j, '{');
	jw_number(j, "at", row->at);
	jw_key(j, "address");
	row->address ? jw_hex(j, row->address) : jw_null(j);
	jw_number(j, "depth", row->depth);
	jw_key(j, "here");
	jw_bool(j, row->here);
	jw_field(j, "language", str_z(packet_language_name(p->language)));
	jw_field(j, "name", p->name);
	jw_number(j, "opcode", p->opcode);
	jw_key(j, "known");
	jw_bool(j, p->known);
	jw_key(j, "cut");
	jw_bool(j, p->cut);
	jw_number(j, "words", p->words);
	jw_number(j, "repeat", row->repeat);
	jw_field(j, "waits_for", p->waits_for.n ? p->waits_for : (struct str){ 0 });
	jw_ib(j, row);
	jw_packet_fields(j, p);
	jw_key(j, "raw");
	jw_open(j, '[');
	for (size_t i = 0; i < p->words && i < RAW_MOST; i++)
		jw_hex(j, row->raw[i]);
	jw_close(j, ']');
	jw_close(j, '}');
}

static void jw_ring(struct json *j, const struct ring_view *v)
{
	jw_open(j, '{');
	jw_field(j, "name", v->ring->name);
	jw_field(j, "language", str_z(packet_language_name(v->language)));
	jw_number(j, "words", v->ring->n);
	jw_number(j, "rptr", v->rptr);
	jw_number(j, "wptr", v->wptr);
	jw_number(j, "driver_wptr", v->driver_wptr);
	jw_number(j, "pending_words", v->pending);
	jw_field(j, "state", str_z(ring_state_name(v->state)));
	jw_key(j, "fences");
	if (v->fence) {
		jw_open(j, '{');
		jw_number(j, "signaled", v->fence->signaled);
		jw_number(j, "emitted", v->fence->emitted);
		jw_close(j, '}');
	} else {
		jw_null(j);
	}
	jw_key(j, "packets");
	jw_open(j, '[');
	for (size_t i = 0; i < v->packets.len; i++)
		jw_packet(j, &v->packets.data[i]);
	jw_close(j, ']');
	jw_close(j, '}');
}

static void rings_json(struct json *j, const struct rings *g)
{
	jw_open(j, '{');
	jw_field(j, "target", g->target);
	jw_field(j, "gfx", g->gfx.n ? g->gfx : (struct str){ 0 });
	jw_field(j, "why_not", g->why_not.n ? g->why_not : (struct str){ 0 });
	jw_key(j, "between_looks_ms");
	g->twice ? jw_int(j, BETWEEN_LOOKS_MS) : jw_null(j);
	jw_key(j, "rings");
	jw_open(j, '[');
	for (size_t i = 0; i < g->views.len; i++)
		jw_ring(j, &g->views.data[i]);
	jw_close(j, ']');
	jw_close(j, '}');
}

// --- text ---

static void text_packet_field(struct wrapping *w, const struct packet_field *f)
{
	struct text word = { 0 };
	text_printf(&word, f->digits ? STR_FMT "=0x%llx" : STR_FMT "=%llu", STR_ARG(f->name), (unsigned long long)f->value);
	if (f->text.n)
		text_printf(&word, "(" STR_FMT ")", STR_ARG(f->text));
	wrap_word(w, text_str(&word));
	text_free(&word);
}

static void text_packet(const struct rings *g, const struct ring_packet *row)
{
	const struct packet *p = row->packet;
	const int indent = 2 * (int)row->depth;
	struct wrapping w = { .out = g->out, .width = g->options->width };
	w.column =
		(unsigned)fprintf(g->out, " %c %*s0x%04zx  %.*s", row->here ? '>' : ' ', indent, "", row->at, STR_ARG(p->name));
	w.margin = (unsigned)indent + 13;
	if (row->repeat > 1)
		w.column += (unsigned)fprintf(g->out, " (%zu times)", row->repeat);
	if (p->cut)
		w.column += (unsigned)fprintf(g->out, " (its end is missing)");
	for (size_t i = 0; i < p->nfields; i++)
		text_packet_field(&w, &p->fields[i]);
	fputc('\n', g->out);
	if (p->waits_for.n) {
		fprintf(g->out, "%*swaits for ", indent + 13, "");
		print_safe(g->out, p->waits_for);
		fputc('\n', g->out);
	}
	if (p->ib_address && p->ib_words && !row->ib_read && (row->here || row->ib_why_not))
		fprintf(g->out, "%*swhat it runs cannot be read%s%s\n", indent + 13, "", row->ib_why_not ? ": " : " from here",
			row->ib_why_not ? row->ib_why_not : "");
}

static void text_packets(const struct rings *g, const struct ring_view *v)
{
	FILE *out = g->out;
	fputc('\n', out);
	print_safe(out, v->ring->name);
	if (!v->packets.len) {
		fprintf(out, ": its packets (%s) are not known\n", packet_language_name(v->language));
		return;
	}
	fprintf(out, ": packets (%s)%s\n", packet_language_name(v->language),
		v->state == RING_STILL ? "; it does not get past >" : "");
	for (size_t i = 0; i < v->packets.len; i++)
		text_packet(g, &v->packets.data[i]);
	if (!v->pending)
		fprintf(out, "   0x%04x  everything up to here was done\n", v->wptr);
}

static void text_ring(const struct rings *g, const struct ring_view *v)
{
	const size_t columns = print_columns(v->ring->name);
	print_safe(g->out, v->ring->name);
	fprintf(g->out, "%*s  0x%05x  0x%05x  0x%05x  %7u  ", columns < NAME_COLUMNS ? (int)(NAME_COLUMNS - columns) : 0, "",
		v->rptr, v->wptr, v->driver_wptr, v->pending);
	if (v->fence)
		fprintf(g->out, "%8u  %7u  ", v->fence->signaled, v->fence->emitted);
	else if (g->options->fences)
		fprintf(g->out, "%8s  %7s  ", "-", "-");
	if (v->state == RING_UNSEEN)
		fputs("unseen: the driver wrote packets that the GPU does not know of", g->out);
	else
		fputs(ring_state_name(v->state), g->out);
	fputc('\n', g->out);
}

static void rings_text(const struct rings *g, bool named)
{
	FILE *out = g->out;
	size_t count[RING_UNSEEN + 1] = { 0 }, left = 0;
	if (g->why_not.n)
		return; // this is told
	for (size_t i = 0; i < g->views.len; i++)
		count[g->views.data[i].state]++;
	print_safe(out, g->title);
	fprintf(out, ": %zu ring%s, %zu of them idle", g->views.len, g->views.len == 1 ? "" : "s", count[RING_IDLE]);
	if (count[RING_STILL])
		fprintf(out, ", %zu not moving in %d ms", count[RING_STILL], BETWEEN_LOOKS_MS);
	fputc('\n', out);
	const bool every = named || g->options->all || g->views.len <= RINGS_SHOWN;
	if (every || count[RING_IDLE] < g->views.len)
		fprintf(out, "\n%-*s     rptr     wptr   driver  waiting  %sstate\n", NAME_COLUMNS, "ring",
			g->options->fences ? "signaled  emitted  " : "");
	for (size_t i = 0; i < g->views.len; i++) {
		const bool shown = every || g->views.data[i].state != RING_IDLE;
		left += !shown;
		if (shown)
			text_ring(g, &g->views.data[i]);
	}
	if (left && left < g->views.len)
		fprintf(out, "and %zu that are idle (--all shows them)\n", left);
	for (size_t i = 0; i < g->views.len; i++)
		if (named || g->options->all || g->views.data[i].state != RING_IDLE)
			text_packets(g, &g->views.data[i]);
}

// --- reading ---

static bool wanted(const char *const *names, size_t n, struct str ring)
{
	for (size_t i = 0; i < n; i++)
		if (str_like(str_z(names[i]), ring))
			return true;
	return !n;
}

static const struct ring *ring_named(const struct request *r, struct str name)
{
	for (size_t i = 0; i < r->n; i++)
		if (str_eq(r->rings[i].name, name))
			return &r->rings[i];
	return NULL;
}

static const struct ring_fence *fence_of(const struct request *r, struct str ring)
{
	for (size_t i = 0; i < r->n; i++)
		if (str_eq(r->fences[i].ring, ring))
			return &r->fences[i];
	return NULL;
}

/** The first of two looks at a GPU. */
static void look_first(struct rings *g, struct target *t)
{
	g->first = (struct request){ .kind = REQUEST_RINGS };
	g->twice = target_ask(t, &g->first) == ANSWER_GIVEN;
}

static enum answer look_again(struct rings *g, struct target *t, struct request *ret)
{
	*ret = (struct request){ .kind = REQUEST_RINGS };
	if (g->first.kind == REQUEST_RINGS && !g->twice)
		return g->first.answer;
	return target_ask(t, ret);
}

/** Looks at the rings of a target, for the second time where there was a first. Fences come last: reading them changes them. */
static enum answer read_rings(struct rings *g, struct target *t, const char *const *names, size_t n)
{
	const struct uh_look_options *o = g->options;
	struct request rings, fences = { .kind = REQUEST_FENCES };
	const enum answer answer = look_again(g, t, &rings);
	if (answer != ANSWER_GIVEN)
		return answer;
	g->reading.target = t;
	g->reading.gfx = g->gfx;
	g->reading.packets = o->packets ? o->packets : PACKETS;
	g->reading.all = o->all;
	for (size_t i = 0; i < rings.n; i++) {
		struct ring_view v;
		if (!wanted(names, n, rings.rings[i].name))
			continue;
		ring_look(&v, &rings.rings[i], g->twice ? ring_named(&g->first, rings.rings[i].name) : NULL);
		v.language = packet_language_of(g->reading.know, v.ring->name);
		if (n || o->all || v.state != RING_IDLE)
			ring_read_packets(&g->reading, &v);
		vec_push(&g->views, v);
	}
	if (o->fences)
		target_ask(t, &fences);
	for (size_t i = 0; i < g->views.len && fences.n; i++)
		g->views.data[i].fence = fence_of(&fences, g->views.data[i].ring->name);
	return answer;
}

static void rings_free(struct rings *g)
{
	for (size_t i = 0; i < g->views.len; i++)
		vec_free(&g->views.data[i].packets);
	vec_free(&g->views);
	arena_free(&g->reading.arena);
}

/** A look that is being written. */
struct writing {
	const struct know *know;
	const struct uh_look_options *options;
	const char *const *names;
	size_t n;
	FILE *out;
	const struct teller *teller;
	struct json json;
	struct uh_error *failed; // NULL where all targets answered
	size_t answered;         // targets
	size_t rings;            // that names meant
	struct arena arena;
};

static void write_target(struct writing *w, struct rings *g, struct target *t, const struct device *d)
{
	enum answer answer = read_rings(g, t, w->names, w->n);
	if (answer != ANSWER_GIVEN) {
		g->why_not = d ? live_why_not(&g->reading.arena, t, answer) : S("there are none in it");
		live_cannot(&w->failed, w->teller, g->target, "rings", g->why_not);
	}
	w->answered += answer == ANSWER_GIVEN;
	w->rings += g->views.len;
	if (w->options->json)
		rings_json(&w->json, g);
	else if (g->views.len)
		rings_text(g, w->n);
	look_tell(w->teller, t->problems(t));
}

static struct uh_error *write_dump(struct writing *w)
{
	struct file f;
	struct target *t = NULL;
	struct request agents = { .kind = REQUEST_AGENTS };
	if (w->options->ntargets > 1)
		return uh_error_new("one device core at a time");
	struct uh_error *err = file_open(w->options->targets[0], &f);
	if (err)
		return err;
	err = target_devcoredump(w->know, &f, &t);
	file_close(&f);
	if (err)
		return err;
	struct rings g = { .options = w->options, .out = w->out, .target = t->name, .reading = { .know = w->know } };
	target_ask(t, &agents);
	g.gfx = agents.n ? agents.agents[0].gfx : (struct str){ 0 };
	g.title = arena_printf(&g.reading.arena, STR_FMT "%s" STR_FMT, STR_ARG(g.target), g.gfx.n ? ", " : "", STR_ARG(g.gfx));
	write_target(w, &g, t, NULL);
	rings_free(&g);
	target_close(t);
	return NULL;
}

/** Between the looks at all GPUs there is one pause. */
static void write_devices(struct writing *w, const struct live *live)
{
	const struct uh_look_options *o = w->options;
	_cleanup_free_ struct rings *gpus = mem_alloc(live->n * sizeof(*gpus));
	struct target **targets = arena_alloc(&w->arena, live->n * sizeof(*targets));
	for (size_t i = 0; i < live->n; i++) {
		const struct device *d = live->list[i];
		struct rings *g = &gpus[i];
		live_progress(live, o, i);
		targets[i] = target_device(w->know, d);
		*g = (struct rings){
			.options = o, .out = w->out, .target = d->pci, .gfx = d->gfx, .reading = { .know = w->know }
		};
		g->title = live_title(&g->reading.arena, d);
		if (o->looks != 1)
			look_first(g, targets[i]);
	}
	live_progress(live, o, live->n);
	if (o->looks != 1)
		usleep(BETWEEN_LOOKS_MS * 1000);
	for (size_t i = 0; i < live->n; i++) {
		if (i && !o->json)
			fputc('\n', w->out);
		write_target(w, &gpus[i], targets[i], live->list[i]);
		rings_free(&gpus[i]);
		target_close(targets[i]);
	}
	live_tell_root(live, w->teller);
}

static struct uh_error *written(struct writing *w)
{
	struct uh_error *err = live_could(w->failed, w->teller, w->answered);
	if (!err && w->n && !w->rings)
		err = uh_error_new("there is no ring '%s'%s", w->names[0], w->n > 1 ? ", nor the others" : "");
	return err;
}

struct uh_error *uh_look_rings(const struct uh_look_options *o, const char *const *names, size_t n, FILE *out,
			       uh_problem_fn *problem, void *ctx)
{
	struct teller teller = { problem, ctx };
	struct know *k = look_knowledge(&teller);
	struct live live = { 0 };
	struct writing w = { k, o, names, n, out, &teller, { .out = out } };
	struct uh_error *err = o->ntargets ? NULL : live_find(k, o->gpu, false, &live);
	const bool json = !err && o->json;
	if (json) {
		jw_open(&w.json, '{');
		jw_field(&w.json, "schema", S("unhang/rings/1"));
		jw_key(&w.json, "gpus");
		jw_open(&w.json, '[');
	}
	if (!err && o->ntargets)
		err = write_dump(&w);
	else if (!err)
		write_devices(&w, &live);
	if (json) {
		jw_close(&w.json, ']');
		jw_close(&w.json, '}');
	}
	if (!err)
		err = written(&w);
	arena_free(&w.arena);
	live_free(&live);
	know_free(k);
	return err;
}

#include "report/live/rings.h"

#include "base/print.h"
#include "report/text/wrap.h"

enum { RINGS_SHOWN = 16, RAW_MOST = 64, NAME_COLUMNS = 16 };

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

static void jw_rings(struct json *j, const struct rings_seen *g)
{
	jw_open(j, '{');
	jw_field(j, "target", g->target);
	jw_field(j, "gfx", g->gfx.n ? g->gfx : (struct str){ 0 });
	jw_field(j, "why_not", g->why_not.n ? g->why_not : (struct str){ 0 });
	jw_key(j, "between_looks_ms");
	g->watched_ms ? jw_int(j, g->watched_ms) : jw_null(j);
	jw_key(j, "rings");
	jw_open(j, '[');
	for (size_t i = 0; i < g->n; i++)
		jw_ring(j, &g->views[i]);
	jw_close(j, ']');
	jw_close(j, '}');
}

// --- text ---

struct rings_text {
	const struct uh_look_options *options;
	bool named; // rings were asked for by name
	FILE *out;
};

static void text_packet_field(struct wrapping *w, const struct packet_field *f)
{
	struct text word = { 0 };
	text_printf(&word, f->digits ? STR_FMT "=0x%llx" : STR_FMT "=%llu", STR_ARG(f->name), (unsigned long long)f->value);
	if (f->text.n)
		text_printf(&word, "(" STR_FMT ")", STR_ARG(f->text));
	wrap_word(w, text_str(&word));
	text_free(&word);
}

static void text_packet(const struct rings_text *t, const struct ring_packet *row)
{
	const struct packet *p = row->packet;
	const int indent = 2 * (int)row->depth;
	struct wrapping w = { .out = t->out, .width = t->options->width };
	w.column =
		(unsigned)fprintf(t->out, " %c %*s0x%04zx  %.*s", row->here ? '>' : ' ', indent, "", row->at, STR_ARG(p->name));
	w.margin = (unsigned)indent + 13;
	if (row->repeat > 1)
		w.column += (unsigned)fprintf(t->out, " (%zu times)", row->repeat);
	if (p->cut)
		w.column += (unsigned)fprintf(t->out, " (its end is missing)");
	for (size_t i = 0; i < p->nfields; i++)
		text_packet_field(&w, &p->fields[i]);
	fputc('\n', t->out);
	if (p->waits_for.n) {
		fprintf(t->out, "%*swaits for ", indent + 13, "");
		print_safe(t->out, p->waits_for);
		fputc('\n', t->out);
	}
	if (p->ib_address && p->ib_words && !row->ib_read && (row->here || row->ib_why_not))
		fprintf(t->out, "%*swhat it runs cannot be read%s%s\n", indent + 13, "", row->ib_why_not ? ": " : " from here",
			row->ib_why_not ? row->ib_why_not : "");
}

static void text_packets(const struct rings_text *t, const struct ring_view *v)
{
	FILE *out = t->out;
	fputc('\n', out);
	print_safe(out, v->ring->name);
	if (!v->packets.len) {
		fprintf(out, ": its packets (%s) are not known\n", packet_language_name(v->language));
		return;
	}
	fprintf(out, ": packets (%s)%s\n", packet_language_name(v->language),
		v->state == RING_STILL ? "; it does not get past >" : "");
	for (size_t i = 0; i < v->packets.len; i++)
		text_packet(t, &v->packets.data[i]);
	if (!v->pending)
		fprintf(out, "   0x%04x  everything up to here was done\n", v->wptr);
}

static void text_ring(const struct rings_text *t, const struct ring_view *v)
{
	const size_t columns = print_columns(v->ring->name);
	print_safe(t->out, v->ring->name);
	fprintf(t->out, "%*s  0x%05x  0x%05x  0x%05x  %7u  ", columns < NAME_COLUMNS ? (int)(NAME_COLUMNS - columns) : 0, "",
		v->rptr, v->wptr, v->driver_wptr, v->pending);
	if (v->fence)
		fprintf(t->out, "%8u  %7u  ", v->fence->signaled, v->fence->emitted);
	else if (t->options->fences)
		fprintf(t->out, "%8s  %7s  ", "-", "-");
	if (v->state == RING_UNSEEN)
		fputs("unseen: the driver wrote packets that the GPU does not know of", t->out);
	else
		fputs(ring_state_name(v->state), t->out);
	fputc('\n', t->out);
}

static void text_rings(const struct rings_text *t, const struct rings_seen *g)
{
	FILE *out = t->out;
	size_t count[RING_UNSEEN + 1] = { 0 }, left = 0;
	for (size_t i = 0; i < g->n; i++)
		count[g->views[i].state]++;
	print_safe(out, g->title);
	fprintf(out, ": %zu ring%s, %zu of them idle", g->n, g->n == 1 ? "" : "s", count[RING_IDLE]);
	if (count[RING_STILL])
		fprintf(out, ", %zu not moving in %u ms", count[RING_STILL], g->watched_ms);
	fputc('\n', out);
	const bool every = t->named || t->options->all || g->n <= RINGS_SHOWN;
	if (every || count[RING_IDLE] < g->n)
		fprintf(out, "\n%-*s     rptr     wptr   driver  waiting  %sstate\n", NAME_COLUMNS, "ring",
			t->options->fences ? "signaled  emitted  " : "");
	for (size_t i = 0; i < g->n; i++) {
		const bool shown = every || g->views[i].state != RING_IDLE;
		left += !shown;
		if (shown)
			text_ring(t, &g->views[i]);
	}
	if (left && left < g->n)
		fprintf(out, "and %zu that are idle (--all shows them)\n", left);
	for (size_t i = 0; i < g->n; i++)
		if (t->named || t->options->all || g->views[i].state != RING_IDLE)
			text_packets(t, &g->views[i]);
}

void report_rings(const struct rings_seen *seen, size_t n, bool named, const struct uh_look_options *o, FILE *out)
{
	const struct rings_text text = { o, named, out };
	struct json j = { .out = out };
	if (o->json) {
		jw_open(&j, '{');
		jw_field(&j, "schema", S("unhang/rings/1"));
		jw_key(&j, "gpus");
		jw_open(&j, '[');
	}
	for (size_t i = 0; i < n; i++) {
		if (i && !o->json)
			fputc('\n', out);
		if (o->json)
			jw_rings(&j, &seen[i]);
		else if (seen[i].n)
			text_rings(&text, &seen[i]);
	}
	if (o->json) {
		jw_close(&j, ']');
		jw_close(&j, '}');
	}
}

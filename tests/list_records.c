// Reads files of hardware error records, for tests/hardware.py and tools/compare-afids. Each event is a line, its facts between tabs.
// --hostile: each file is cut at every byte, and every byte of it is changed; nothing is printed but how many events there were.
// --advise: each record alone goes the whole way of `explain`; a line has its file's place, the action and what its service is.
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "evidence/hardware/cper.h"
#include "explain.h"
#include "feed.h"

struct listing {
	bool quiet;
	uint64_t events;
};

static void list_event(void *ctx, const struct event *e)
{
	struct listing *l = ctx;
	const char *complaint = feed_complaint(e);
	l->events++;
	if (complaint) {
		printf("not ok: %s\n", complaint);
		exit(1);
	}
	if (l->quiet)
		return;
	printf(STR_FMT "\t%llu", STR_ARG(e->signature->head.id), (unsigned long long)e->at.line);
	for (size_t i = 0; i < e->nfacts; i++)
		printf("\t" STR_FMT "=" STR_FMT, STR_ARG(e->facts[i].name), STR_ARG(e->facts[i].value));
	putchar('\n');
}

static struct str read_whole(const char *path)
{
	FILE *f = fopen(path, "re");
	struct text t = { 0 };
	char room[65536];
	for (size_t n; f && (n = fread(room, 1, sizeof(room), f)) > 0;)
		text_add(&t, (struct str){ room, n });
	if (f)
		fclose(f);
	return text_str(&t);
}

/** In memory of just this size, so that AddressSanitizer sees what is read behind it. */
static void read_exactly(const struct artefact_output *out, struct str bytes)
{
	char *copy = malloc(bytes.n ? bytes.n : 1);
	memcpy(copy, bytes.p, bytes.n);
	if (cper_begins((struct str){ copy, bytes.n }))
		cper_read(out, (struct str){ copy, bytes.n });
	free(copy);
}

static void hostile(const struct artefact_output *out, struct str bytes)
{
	static const unsigned char flips[] = { 0x01, 0x80, 0xff };
	for (size_t n = 0; n <= bytes.n; n++)
		read_exactly(out, str_cut(bytes, n));
	char *changed = (char *)bytes.p;
	for (size_t n = 0; n < bytes.n; n++)
		for (size_t f = 0; f < sizeof(flips); f++) {
			changed[n] ^= (char)flips[f];
			read_exactly(out, bytes);
			changed[n] ^= (char)flips[f];
		}
}

/** One record after the other, by the lengths that stand in them. */
static void advise(const struct know *k, struct str bytes)
{
	for (uint64_t number = 1; bytes.n >= 24; number++) {
		const uint32_t length = get_u32(bytes.p + 20);
		struct explained x;
		explain_begin(&x, k);
		const struct artefact_output out = { .know = k, .sink = { on_event, &x } };
		cper_read(&out, str_cut(bytes, length));
		engine_end(x.engine);
		for (size_t i = 0; i < x.ledger.incidents.len; i++) {
			struct incident *one = x.ledger.incidents.data[i];
			incident_advise(one, k, NULL);
			printf("%llu\t" STR_FMT "\t" STR_FMT "\n", (unsigned long long)number,
			       STR_ARG(one->action ? one->action->action : S("-")),
			       STR_ARG(one->action ? one->action->service : S("-")));
		}
		engine_free(x.engine);
		ledger_free(&x.ledger);
		machine_clear(&x.machine);
		evidence_reader_free(x.reader);
		if (length < 128 || length > bytes.n)
			return;
		bytes = str_from(bytes, length);
	}
}

int main(int argc, char **argv)
{
	struct know_problems problems = { 0 };
	struct know *k = know_load_update(NULL, &problems);
	struct listing l = { 0 };
	const struct artefact_output out = { .know = k, .sink = { list_event, &l } };
	const bool cut = argc > 1 && !strcmp(argv[1], "--hostile"), whole = argc > 1 && !strcmp(argv[1], "--advise");
	l.quiet = cut;
	for (int i = 1 + (cut || whole); i < argc; i++) {
		struct str bytes = read_whole(argv[i]);
		if (whole)
			advise(k, bytes);
		else if (cut)
			hostile(&out, bytes);
		else if (cper_begins(bytes))
			cper_read(&out, bytes);
		free((char *)bytes.p);
	}
	if (cut)
		printf("%llu events\n", (unsigned long long)l.events);
	know_free(k);
	return 0;
}

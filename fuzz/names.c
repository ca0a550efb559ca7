// Fuzzes what people write: texts that name a part, times on a command line, names of files with a rank. A text that is read again tells
// the same, and what it tells is a part that is known.
#include "diagnose/told/told.h"
#include "evidence/log/words.h"
#include "evidence/log/prefix.h"
#include "know.h"

static void count(void *ctx, const struct event *e)
{
	const struct fact *named = event_fact(e, "named_part");
	if (named && !know_part_with_name(know, named->value))
		abort();
	++*(size_t *)ctx;
}

static size_t find(struct str text)
{
	size_t found = 0;
	const struct event_sink sink = { count, &found };
	struct log_words *words = log_words_new(know);
	struct part_finder *f = part_finder_new(know, words, 0);
	part_find(f, text, 1, &sink);
	part_finder_free(f);
	log_words_free(words);
	return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { SHORT = 128 };
	const struct str text = { (const char *)data, size }, word = str_cut(text, SHORT);
	double since = 0;
	bool several;
	if (find(text) != find(text))
		abort();
	uh_error_free(since_parse(know, word, 1787000000, &since));
	const struct know_part *part = know_part_called(know, word, &several);
	if (part && several)
		abort();
	const struct str rank = prefix_rank_of_name(word);
	if (rank.n && (rank.p < word.p || rank.p + rank.n > word.p + word.n))
		abort();
	return 0;
}

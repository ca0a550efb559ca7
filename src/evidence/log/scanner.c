// Chooses the fingerprints of anchors, and the buckets that they lie in.
#include "evidence/log/scanner.h"

#include <stdlib.h>

enum { ASCII = 128 };

/** How common a character is in logs: letters by their frequency, a space most of all. */
static unsigned commonness(char c)
{
	static const char by_frequency[] = "jqzxvkwybfgmpuhdclnrisoate ";
	const char *at = c ? strchr(by_frequency, c) : NULL;
	return at ? (unsigned)(at - by_frequency) + 4 : char_alpha(c) ? 5 : 14;
}

/** What stands in every log, so that a fingerprint from it would agree all the time. */
static const char common_words[] =
	"kernel: from device network active collective connection session service started process running error warning "
	"message "
	"version memory request response user time info debug level source server client container module status value name "
	"detected received failed loaded found after before between through while system driver Starting Stopped Finished "
	"INFO 02-24 02:40:51 [engine.py:123] Avg prompt throughput: 0.0 tokens/s, Running: 12 reqs, Waiting: 3 reqs, cache "
	"usage: "
	"Jul 24 12:28:27 host systemd[1]: Started Session of User root. sshd[812]: Accepted publickey for port ssh2: SHA256: "
	"audit: "
	"type=1400 apparmor=\"DENIED\" operation=\"open\" GET /api/v1/items HTTP/1.1\" 200 512 POST 127.0.0.1 mounted "
	"filesystem with "
	"ordered data mode. state change: new full-speed USB number using dhcp lease interface eth0 link becomes ready (queue "
	"active) "
	"level=info msg=\"ignoring event\" CMD (command -v > /dev/null && ) step loss lr grad norm epoch train iter batch "
	"it/s] (EngineCore_DP0 pid=4281) (Worker_TP2 pid=4283) GPU KV cache usage: Scheduled scheduler prefill batch Capturing "
	"CUDA "
	"graphs [aiter] type hints torch.Tensor dropout_p: float NCCL INFO Channel via P2P/direct pointer";

static size_t rarest_print(struct str text)
{
	const struct str words = str_z(common_words);
	size_t best = 0;
	unsigned least = UINT32_MAX;
	for (size_t at = 0; at + PRINT <= text.n; at++) {
		unsigned product = 1;
		for (size_t i = at; i < at + PRINT; i++)
			product *= commonness(text.p[i]);
		if (str_find(words, str_cut(str_from(text, at), PRINT)) >= 0)
			product *= 16;
		if (at + SIEVE > text.n) // nothing is left for the last sieve
			product *= 4;
		if (product < least) {
			least = product;
			best = at;
		}
	}
	return best;
}

static void add_anchor(struct scanner *s, struct str text)
{
	enum { SHORT_MAX = BUCKETS / 2 };
	text = str_cut(text, ANCHOR_MAX);
	s->nshort += text.n < PRINT;
	if (s->n < ANCHORS && text.n >= PRINT_MIN && s->nshort <= SHORT_MAX)
		s->anchors[s->n++] = (struct anchor){ text, rarest_print(text) };
	else
		s->incomplete = true;
}

static bool covered(const struct know *k, const struct template *t)
{
	for (size_t a = 0; a < k->anchors.len; a++)
		for (size_t i = 0; i < t->npieces; i++)
			if (str_find(t->pieces[i].literal, k->anchors.data[a]->head.id) >= 0)
				return true;
	return false;
}

static struct str longest_literal(const struct template *t)
{
	struct str best = { 0 };
	for (size_t i = 0; i < t->npieces; i++)
		if (t->pieces[i].literal.n > best.n)
			best = t->pieces[i].literal;
	return best;
}

/** The fingerprint and the character behind it, where the anchor has one: what the sieves look at. */
static struct str sieved(const struct anchor *a) { return str_cut(str_from(a->text, a->at), SIEVE); }

/** How often a character stands in a log, roughly. */
static double char_share(unsigned char c)
{
	if (c == ' ')
		return 0.12;
	if (char_digit((char)c))
		return 0.018;
	if (c >= 'a' && c <= 'z')
		return 0.6 * commonness((char)c) * commonness((char)c) / 8200;
	return c > ' ' && c < 0x7f ? char_alpha((char)c) ? 0.004 : 0.007 : 0.0002;
}

/** What a bucket agrees with: for each of the characters, which half bytes. */
struct sieve {
	uint16_t low[SIEVE], high[SIEVE];
};

static struct sieve sieve_with(struct sieve s, struct str print)
{
	for (size_t i = 0; i < SIEVE; i++) {
		unsigned char c = i < print.n ? (unsigned char)print.p[i] : 0;
		s.low[i] |= i < print.n ? (uint16_t)(1u << (c & 15)) : UINT16_MAX;
		s.high[i] |= i < print.n ? (uint16_t)(1u << (c >> 4)) : UINT16_MAX;
	}
	return s;
}

static bool sieve_takes(const struct sieve *s, const char *p)
{
	for (size_t i = 0; i < SIEVE; i++) {
		unsigned char c = (unsigned char)p[i];
		if (!(s->low[i] >> (c & 15) & 1) || !(s->high[i] >> (c >> 4) & 1))
			return false;
	}
	return true;
}

/** How much of a log agrees with it, as far as its characters tell. */
static double sieve_share(const struct sieve *s, const double of_char[static ASCII])
{
	double product = 1;
	for (size_t i = 0; i < SIEVE; i++) {
		double sum = 0;
		for (unsigned c = 0; c < ASCII; c++)
			if (s->low[i] >> (c & 15) & 1 && s->high[i] >> (c >> 4) & 1)
				sum += of_char[c];
		product *= sum;
	}
	return product;
}

/** How much of the common words does. */
static double sieve_common(const struct sieve *s)
{
	size_t agrees = 0;
	for (size_t at = 0; at + SIEVE < sizeof(common_words); at++)
		agrees += sieve_takes(s, common_words + at);
	return (double)agrees / (double)sizeof(common_words);
}

static void fill_bucket(struct scanner *s, size_t b, size_t n)
{
	struct str print = sieved(&s->anchors[n]);
	s->buckets[b].anchors[s->buckets[b].n++] = (uint16_t)n;
	for (size_t i = 0; i < SIEVE; i++) {
		bool any = i >= print.n; // behind the end of a short one anything may stand
		unsigned char c = any ? 0 : (unsigned char)print.p[i];
		for (unsigned half = 0; half < 16; half++) {
			s->low[b / 8][i][half] |= (uint8_t)((any || half == (c & 15u)) << b % 8);
			s->high[b / 8][i][half] |= (uint8_t)((any || half == c >> 4u) << b % 8);
		}
	}
	if (print.n < PRINT) {
		s->short_buckets |= 1u << b;
		return;
	}
	unsigned hash = hash_of(print.p);
	s->hashes[hash / 8] |= (uint8_t)(1u << hash % 8);
}

/** Each goes to the bucket that agrees with the least more for it. One that is shorter than a fingerprint agrees with much and
 * has no hash, so that it has a bucket of its own. */
static void fill_buckets(struct scanner *s)
{
	struct sieve sieves[BUCKETS] = { 0 };
	double shares[BUCKETS] = { 0 }, commons[BUCKETS] = { 0 }, of_char[ASCII];
	size_t own = 0;
	for (unsigned c = 0; c < ASCII; c++)
		of_char[c] = char_share((unsigned char)c);
	for (size_t n = 0; n < s->n; n++)
		if (str_cut(str_from(s->anchors[n].text, s->anchors[n].at), PRINT).n < PRINT)
			fill_bucket(s, own++, n);
	for (size_t n = 0; n < s->n; n++) {
		struct str print = sieved(&s->anchors[n]);
		size_t best = own;
		double least = 0, best_share = 0, best_common = 0;
		if (print.n < PRINT)
			continue;
		for (size_t b = own; b < BUCKETS; b++) {
			struct sieve with = sieve_with(sieves[b], print);
			double share = sieve_share(&with, of_char);
			// With more in it a bucket agrees with no less: what is too much without the words need not be tried on them.
			if (b != own && share - shares[b] >= least)
				continue;
			double common = sieve_common(&with), more = share - shares[b] + (common - commons[b]);
			if (b != own && more >= least)
				continue;
			least = more;
			best_share = share;
			best_common = common;
			best = b;
		}
		sieves[best] = sieve_with(sieves[best], print);
		shares[best] = best_share;
		commons[best] = best_common;
		fill_bucket(s, best, n);
	}
}

struct scanner *scanner_new(const struct know *k)
{
	struct scanner *s = mem_alloc(sizeof(*s));
	for (size_t i = 0; i < k->anchors.len; i++)
		add_anchor(s, k->anchors.data[i]->head.id);
	// All others stand behind the driver's own prefix, which is an anchor.
	for (size_t i = 0; i < k->signatures.len; i++) {
		const struct know_signature *sig = k->signatures.data[i];
		for (size_t t = 0; t < sig->ntemplates && sig->bare; t++)
			if (!covered(k, sig->templates[t]))
				add_anchor(s, longest_literal(sig->templates[t]));
	}
	fill_buckets(s);
	return s;
}

void scanner_free(struct scanner *s) { free(s); }

// The fast scan: it finds every anchor wherever it stands, and ordinary lines seldom pass its sieve.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "evidence/log/scanner.h"
#include "knowledge/know.h"

/** Lines of machines and programs that are well, with numbers that differ. */
static const char *const ordinary[] = {
	"Jul 24 12:28:%02u host systemd[1]: Started Session %u of User root.\n",
	"Jul 24 12:28:%02u host sshd[812]: Accepted publickey for root from 192.0.2.5 port %u ssh2: ED25519 SHA256:abc\n",
	"Jul 24 12:28:%02u host kernel: audit: type=1400 audit(1700000000.123:%u): apparmor=\"DENIED\" operation=\"open\"\n",
	"Jul 24 12:28:%02u host kernel: EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none. %u\n",
	"Jul 24 12:28:%02u host dockerd[812]: level=info msg=\"ignoring event\" container=%u module=libcontainerd\n",
	"Jul 24 12:28:%02u host nginx[99]: 192.0.2.9 - - \"GET /api/v1/items/%u HTTP/1.1\" 200 512 \"-\" \"curl/8.5.0\"\n",
	"INFO 02-24 02:40:%02u [loggers.py:127] Engine 000: Avg prompt throughput: %u.3 tokens/s, Running: 12 reqs\n",
	"[2026-02-24 02:40:%02u TP0] Decode batch. #running-req: 3, #token: %u, token usage: 0.12, cuda graph: True\n",
	"Jul 24 12:28:%02u host kernel: usb 1-4: Device number %u at bus 1 is ready\n",
	"Jul 24 12:28:%02u host ollama[812]: time=2026-01-01T00:00:00Z level=INFO msg=\"llama runner started in %u seconds\"\n",
	"INFO:root:epoch 3, %02u: step %u: loss=1.5 grad_norm=0.25 lr=3e-4 mem=61.2GiB\n",
};

enum { LINES = 2000, LINE = 200 };

static struct str ordinary_text(void)
{
	char *text = mem_alloc((size_t)LINES * LINE);
	size_t n = 0;
	for (unsigned i = 0; i < LINES; i++)
		n += (size_t)snprintf(text + n, LINE, ordinary[i * 2654435761u / 1000 % ARRAY_SIZE(ordinary)], i % 60,
				      i * 2654435761u % 100000);
	return (struct str){ text, n };
}

static void all_that_is_known_fits_into_the_scan(void **state)
{
	struct scanner *s = scanner_new(*state, S(""));
	assert_false(s->incomplete);
	scanner_free(s);
}

/** When this fails, a new message has only words that every log has, or there are too many for the buckets. */
static void ordinary_lines_seldom_pass_the_sieve(void **state)
{
	enum { SELDOM = 60 };
	const struct str text = ordinary_text();
	struct scanner *s = scanner_new(*state, str_cut(text, text.n / 2));
	struct window w = { .bytes = text.p, .size = text.n, .to = text.n };
	size_t passed = 0;
	for (size_t at = text.n / 2; at + PRINT <= text.n; at++) {
		unsigned agree = UINT8_MAX;
		for (size_t i = 0; i < PRINT; i++)
			agree &= s->low[i][(unsigned char)text.p[at + i] & 15] & s->high[i][(unsigned char)text.p[at + i] >> 4];
		passed += agree != 0;
	}
	assert_true(passed < text.n / 2 / SELDOM);
	scan_window(s, &w);
	assert_int_equal(w.candidates.len, 0);
	assert_int_equal(w.newlines, LINES);
	vec_free(&w.candidates);
	scanner_free(s);
	free((char *)text.p);
}

/** How often a window finds a line in @text whose own part is from @from to @to. */
static size_t lines_found(const struct scanner *s, struct str text, size_t from, size_t to)
{
	struct window w = { .bytes = text.p, .size = text.n, .from = from, .to = to };
	scan_window(s, &w);
	const size_t found = w.candidates.len;
	assert_int_equal(w.newlines, 0);
	vec_free(&w.candidates);
	return found;
}

/** At any place of a vector, at the front and the end of a text, and once where windows meet. */
static void each_anchor_is_found_wherever_it_stands(void **state)
{
	enum { BEFORE_MAX = 140, STEP = 3, BEHIND = 80 };
	struct scanner *s = scanner_new(*state, S(""));
	for (size_t n = 0; n < s->anchors.len; n++) {
		const struct str anchor = s->anchors.data[n].text;
		for (size_t before = n % STEP + s->anchors.data[n].behind_number; before < BEFORE_MAX; before += STEP) {
			const size_t sizes[] = { before + anchor.n, before + anchor.n + BEHIND };
			for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
				char *bytes = malloc(sizes[i]); // of exactly this size, for AddressSanitizer
				const struct str text = { bytes, sizes[i] };
				memset(bytes, '0', text.n);
				memcpy(bytes + before, anchor.p, anchor.n);
				const size_t middle = before + anchor.n / 2;
				assert_int_equal(lines_found(s, text, 0, text.n), 1);
				const size_t halves = lines_found(s, text, 0, middle) + lines_found(s, text, middle, text.n);
				assert_in_range(halves, 1, 2); // one may hold another one
				free(bytes);
			}
		}
	}
	scanner_free(s);
}

static int set_up(void **state)
{
	*state = know_load_with("none.know", S(""), &(struct know_problems){ 0 });
	return 0;
}

static int tear_down(void **state)
{
	know_free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_is_known_fits_into_the_scan),
		cmocka_unit_test(ordinary_lines_seldom_pass_the_sieve),
		cmocka_unit_test(each_anchor_is_found_wherever_it_stands),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}

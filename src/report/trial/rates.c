#include "report/trial/rates.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "rates_style.h"

static const double shown_confidence = 0.95;

// --- what was asked for ---

enum { OPTIONS_MOST = 160 };

static size_t option_put(struct arena *a, const char **list, size_t n, const char *name, unsigned number)
{
	if (!number || n + 2 > OPTIONS_MOST)
		return n;
	list[n++] = name;
	list[n++] = arena_printf(a, "%u", number).p;
	return n;
}

static size_t env_put(const char **list, size_t n, const struct uh_trial_options *o)
{
	for (size_t i = 0; i < o->nenv && n + 2 <= OPTIONS_MOST; i++) {
		list[n++] = "--env";
		list[n++] = o->env[i];
	}
	return n;
}

/** All that decides what is run, but the experiments. @own: also what only this command has. */
static size_t asked_words(struct arena *a, const struct trial_asked *asked, bool own, const char *list[static OPTIONS_MOST])
{
	const struct uh_trial_options *o = asked->job;
	size_t n = 0;
	if (o->fails_if) {
		list[n++] = "--fails-if";
		list[n++] = o->fails_if;
	}
	n = option_put(a, list, n, "--hang-after", o->hang_after);
	n = option_put(a, list, n, "--jobs", o->jobs);
	n = option_put(a, list, n, "--low-rate", o->low_rate);
	if (own) {
		n = option_put(a, list, n, "--guard-align", asked->guard_align);
		n = option_put(a, list, n, "--repro", asked->repro);
	}
	return env_put(list, n, o);
}

static struct str words_say(struct arena *a, const char *const *list, size_t n)
{
	_cleanup_text_ struct text t = { 0 };
	for (size_t i = 0; i < n; i++) {
		text_add(&t, S(" "));
		shell_word(&t, str_z(list[i]));
	}
	return arena_str(a, text_str(&t));
}

struct job_words trial_job(struct arena *a, const struct trial_asked *asked)
{
	const struct uh_trial_options *o = asked->job;
	const char *list[OPTIONS_MOST];
	struct job_words job = { .words = o->command, .env = o->env, .nenv = o->nenv };
	job.trial = words_say(a, list, asked_words(a, asked, false, list));
	// As a studied run is made: what takes that long has hung, wherever it does.
	const size_t n = option_put(a, list, 0, "--deadline", o->hang_after);
	job.run = words_say(a, list, env_put(list, n, o));
	return job;
}

const struct command *trial_step(struct arena *a, const struct trial_asked *asked, struct str text)
{
	const struct job_words job = trial_job(a, asked);
	return command_of_job(a, &job, text);
}

void put_asked(struct sheet *s, const struct trial_asked *asked)
{
	_cleanup_arena_ struct arena a = { 0 };
	const char *list[OPTIONS_MOST];
	const size_t n = asked_words(&a, asked, true, list);
	sheet_open(s, "command", '[');
	for (size_t i = 0; asked->job->command[i]; i++)
		jw_str(&s->json, str_z(asked->job->command[i]));
	sheet_close(s, ']');
	sheet_open(s, "options", '[');
	for (size_t i = 0; i < n; i++)
		jw_str(&s->json, str_z(list[i]));
	sheet_close(s, ']');
}

// --- rates ---

struct str rate_say(struct arena *a, struct tally t)
{
	const struct tally_interval i = tally_limits(t, shown_confidence);
	return arena_printf(a, "%u of %u failed (%.0f to %.0f %%)", t.failed, t.runs, i.low * 100, i.high * 100);
}

struct str bare_say(struct arena *a, struct tally t)
{
	return t.runs ? arena_printf(a, STR_FMT ", without the recorder", STR_ARG(rate_say(a, t))) : (struct str){ 0 };
}

struct str rare_say(struct arena *a, struct tally control, struct tally bare, double low_rate)
{
	return control.failed ?
		       arena_printf(a, "Too rare to tell: it failed in %u of %u runs, which is below %.3g %%.", control.failed,
				    control.runs, low_rate * 100) :
		       arena_printf(a, "Too rare to tell: it failed in %u of %u runs, and only without the recorder, which may be chance.",
				    bare.failed, control.runs + bare.runs);
}

unsigned rare_runs(double low_rate, double error)
{
	enum { MOST = 400 }; // with so many a control ends anyway
	unsigned n = FAILURES_WANTED;
	while (n < MOST && !tally_too_rare((struct tally){ n, FAILURES_WANTED - 1 }, low_rate, error))
		n++;
	return n;
}

void put_tally(struct sheet *s, const char *key, struct tally t)
{
	const struct tally_interval i = tally_limits(t, shown_confidence);
	if (sheet_object(s, key, t.runs > 0)) {
		sheet_fields(s, { "runs", v_number(t.runs) }, { "failed", v_number(t.failed) },
			     { "rate", v_decimal(tally_rate(t), 4) }, { "low", v_decimal(i.low, 4) },
			     { "high", v_decimal(i.high, 4) });
		sheet_close(s, '}');
	}
}

// --- a page ---

/** Rows of the text as a list: what a terminal has in two columns goes below each other where there is little room. */
static void answer_put(struct html *p, struct str text, size_t label)
{
	enum { LEFT = 2 };
	page_element(p, "h1", "h1", str_split(&text, '\n'));
	page_put(p, "\n<dl class=\"answer\">\n");
	while (text.n) {
		const struct str line = str_from(str_split(&text, '\n'), LEFT);
		page_fill(p, "<div><dt>@</dt><dd>@</dd></div>\n", str_trim(str_cut(line, label)),
			  str_from(line, label < line.n ? label : line.n));
	}
	page_put(p, "</dl>\n");
}

static void command_put(struct html *p, const struct rates_page *of)
{
	_cleanup_arena_ struct arena a = { 0 };
	const struct trial_asked *asked = of->asked;
	const char *list[OPTIONS_MOST];
	_cleanup_text_ struct text command = { 0 };
	const size_t n = asked_words(&a, asked, true, list);
	text_add(&command, words_say(&a, list, n));
	text_add(&command, words_say(&a, asked->names, asked->nnames));
	text_add(&command, S(" -- "));
	shell_words(&command, asked->job->command);
	page_fill(p, "<p class=\"place\">@@</p>\n", of->name, text_str(&command));
}

void rates_page_begin(struct html *p, const struct rates_page *of)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);
	if (to) {
		of->write(of->told, to);
		fclose(to);
	}
	struct str said = { text, n }, rest = said;
	page_put(p, "<!DOCTYPE html>\n<html lang=\"en-GB\">\n<head>\n<meta charset=\"utf-8\">\n"
		    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '" HTML_STYLE_HASH
		    "'; base-uri 'none'; form-action 'none'\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		    "<meta name=\"referrer\" content=\"no-referrer\">\n");
	page_fill(p, "<meta name=\"generator\" content=\"@ " UNHANG_VERSION "\">\n<title>@</title>\n<style>", of->name,
		  str_split(&rest, '\n'));
	page_markup(p, str_z(html_style));
	page_put(p, "</style>\n</head>\n<body>\n<main>\n");
	answer_put(p, said, of->label);
	command_put(p, of);
	page_put(p, "<h2>How often it failed</h2>\n<p class=\"place\">The dot is the share of the runs that failed. "
		    "The bar is where the rate lies, with 95 % certainty.</p>\n"
		    "<div class=\"rate axis\"><span></span><span class=\"scale\">"
		    "<span>0 %</span><span>50 %</span><span>100 %</span></span></div>\n");
}

void rates_page_row(struct html *p, struct str what, struct tally t, struct str answer)
{
	const struct tally_interval i = tally_limits(t, shown_confidence);
	page_fill(p, "<div class=\"rate\"><span class=\"what\">@</span>", what);
	page_numbers(
		p,
		"<svg class=\"bar\" width=\"100%%\" height=\"20\" role=\"img\""
		" aria-label=\"%u of %u failed, between %.0f and %.0f per cent\">"
		"<line x1=\"0\" x2=\"100%%\" y1=\"10\" y2=\"10\"/><line x1=\"50%%\" x2=\"50%%\" y1=\"3\" y2=\"17\"/>"
		"<rect x=\"%.2f%%\" y=\"5\" width=\"%.2f%%\" height=\"10\"/><circle cx=\"%.2f%%\" cy=\"10\" r=\"4\"/></svg>",
		t.failed, t.runs, i.low * 100, i.high * 100, i.low * 100, (i.high - i.low) * 100, tally_rate(t) * 100);
	page_numbers(p, "<span class=\"count\">%u of %u</span>", t.failed, t.runs);
	page_fill(p, "<span>@</span></div>\n", answer);
}

void rates_page_end(struct html *p) { page_put(p, "</main>\n</body>\n</html>\n"); }

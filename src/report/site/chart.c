// Charts of the history: as wide as the screen, readable without colours (each has its table), and without a script.
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/print.h"
#include "report/html/tag.h"
#include "report/sheet.h"
#include "report/site/site.h"

enum { DAY = 86400, LAYERS = 6, HIGH = 160, AXIS = 20, DAYS_MOST = 400 };

/** What is in one bar: those names that are most frequent, and the others together. */
struct layers {
	struct str names[LAYERS];
	int64_t sums[LAYERS];
	size_t n;
};

static size_t layer_of(const struct layers *l, struct str name)
{
	size_t n = 0;
	while (n < l->n && !str_eq(l->names[n], name))
		n++;
	return n < l->n ? n : l->n - 1; // the last is for all others
}

static int count_by_sum(const void *a, const void *b)
{
	const struct history_count *x = a, *y = b;
	return x->count != y->count ? (x->count > y->count ? -1 : 1) : str_cmp(x->name, y->name);
}

static void layers_find(const struct history_count_list *list, struct layers *ret)
{
	struct history_count_list sums = { 0 };
	for (size_t n = 0; n < list->len; n++) {
		struct history_count *have = list_find(sums.data, sums.len, it, str_eq(it->name, list->data[n].name));
		const struct history_count one = { list->data[n].name, 0, list->data[n].count };
		if (have)
			have->count += one.count;
		else
			vec_push(&sums, one);
	}
	if (sums.len)
		qsort(sums.data, sums.len, sizeof(*sums.data), count_by_sum);
	*ret = (struct layers){ 0 };
	for (size_t n = 0; n < sums.len; n++) {
		const size_t at = n < LAYERS - 1 || sums.len == LAYERS ? n : LAYERS - 1;
		ret->names[at] = at == LAYERS - 1 && sums.len > LAYERS ? S("others") :
				 sums.data[n].name.n                   ? sums.data[n].name :
									 S("not explained");
		ret->sums[at] += sums.data[n].count;
		ret->n = at + 1;
	}
	vec_free(&sums);
}

/** A number that an axis can end with: 1, 2 or 5 times a power of ten. */
static int64_t round_up(int64_t most)
{
	static const int64_t steps[] = { 1, 2, 5, 10 };
	for (int64_t ten = 1;; ten *= 10)
		for (size_t n = 0; n < ARRAY_SIZE(steps); n++)
			if (steps[n] * ten >= most)
				return steps[n] * ten;
}

static void day_text(struct text *to, int64_t day)
{
	char room[DATE_ROOM];
	text_add(to, str_cut(date_text(day * DAY, room), 10));
}

static void put_bars(struct html *p, const struct history_count_list *list, const struct layers *l, int64_t first, int64_t days)
{
	int64_t(*grid)[LAYERS] = mem_alloc((size_t)days * sizeof(*grid)), most = 1;
	for (size_t n = 0; n < list->len; n++) {
		const int64_t day = list->data[n].day - first;
		if (day >= 0 && day < days)
			grid[day][layer_of(l, list->data[n].name.n ? list->data[n].name : S("not explained"))] +=
				list->data[n].count;
	}
	for (int64_t d = 0; d < days; d++) {
		int64_t sum = 0;
		for (size_t k = 0; k < l->n; k++)
			sum += grid[d][k];
		most = sum > most ? sum : most;
	}
	const int64_t top = round_up(most);
	const double left = 4, wide = (100 - left) / (double)days;
	for (int half = 0; half <= 2; half++) {
		const double y = 8 + HIGH * (1 - half / 2.0);
		page_numbers(p, "<line class=\"grid\" x1=\"%.1f%%\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>", left, y, y);
		if (half != 1 || top % 2 == 0)
			page_numbers(p,
				     "<text class=\"small\" x=\"%.1f%%\" dx=\"-4\" y=\"%.1f\" text-anchor=\"end\">%lld</text>",
				     left, y + 4, (long long)(top * half / 2));
	}
	for (int64_t d = 0; d < days; d++) {
		double y = 8 + HIGH;
		for (size_t k = 0; k < l->n; k++) {
			if (!grid[d][k])
				continue;
			const double high = (double)grid[d][k] * HIGH / (double)top;
			y -= high;
			page_numbers(p, "<rect class=\"c%zu\" x=\"%.3f%%\" width=\"%.3f%%\" y=\"%.1f\" height=\"%.1f\"><title>",
				     k, left + (double)d * wide, wide * 0.84, y, high);
			_cleanup_text_ struct text day = { 0 };
			day_text(&day, first + d);
			page_fill(p, "@: @, ", text_str(&day), l->names[k]);
			page_numbers(p, "%lld</title></rect>", (long long)grid[d][k]);
		}
	}
	_cleanup_free_ void *gone = grid;
}

/** The first day of weeks, as many as there is room for on a phone. */
static void put_days(struct html *p, int64_t first, int64_t days)
{
	const int64_t step = days / 4 > 0 ? days / 4 : 1;
	for (int64_t d = 0; d + step / 2 < days; d += step) {
		_cleanup_text_ struct text day = { 0 };
		day_text(&day, first + d);
		page_numbers(p, "<text class=\"small\" x=\"%.2f%%\" y=\"%d\">", 4 + 96.0 * (double)d / (double)days,
			     8 + HIGH + AXIS - 4);
		page_fill(p, "@</text>", str_from(text_str(&day), 5));
	}
}

static void put_sums(struct html *p, const struct layers *l)
{
	page_put(p, "<p class=\"legend\">");
	for (size_t k = 0; k < l->n; k++) {
		page_numbers(p,
			     "<span><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"c%zu\" width=\"12\" "
			     "height=\"12\"/></svg> ",
			     k);
		page_fill(p, "@ ", l->names[k]);
		page_numbers(p, "%lld</span> ", (long long)l->sums[k]);
	}
	page_put(p, "</p>\n");
}

void chart_days(struct html *p, const struct history_count_list *list, int64_t since, int64_t until)
{
	struct layers l;
	int64_t first = since / DAY, days = until / DAY - first + 1;
	days = days > DAYS_MOST ? DAYS_MOST : days < 1 ? 1 : days;
	layers_find(list, &l);
	if (!l.n)
		return;
	_cleanup_text_ struct text says = { 0 };
	int64_t all = 0;
	for (size_t k = 0; k < l.n; k++)
		all += l.sums[k];
	text_printf(&says, "%lld %s in %lld days", (long long)all, all == 1 ? "incident" : "incidents", (long long)days);
	page_put(p, "<figure><figcaption>Incidents of each day, by cause</figcaption>\n");
	page_fill(p, "<svg role=\"img\" width=\"100%\" aria-label=\"@\" ", text_str(&says));
	page_numbers(p, "height=\"%d\">", 8 + HIGH + AXIS);
	put_bars(p, list, &l, first, days);
	put_days(p, first, days);
	page_put(p, "</svg>\n");
	put_sums(p, &l);
	page_put(p, "<details><summary>as table</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
		    "aria-label=\"Incidents of each day, as a "
		    "table\"><table><thead><tr><th scope=\"col\">Day</th><th scope=\"col\">Cause</th><th scope=\"col\" "
		    "class=\"n\">Incidents</th></tr></thead><tbody>\n");
	for (size_t n = 0; n < list->len; n++) {
		_cleanup_text_ struct text day = { 0 };
		day_text(&day, list->data[n].day);
		page_fill(p, "<tr><td class=\"t\">@</td><td>@</td><td class=\"n\">", text_str(&day), list->data[n].name);
		page_numbers(p, "%lld</td></tr>\n", (long long)list->data[n].count);
	}
	page_put(p, "</tbody></table></div></details></figure>\n");
}

// --- panels ---

enum { PANEL = 90 };

struct panel {
	const char *title, *unit;
	size_t offset;
	double by; // what one unit of it is
};
static const struct panel panels[] = {
	{ "Load", "%", offsetof(struct history_sampled, busy), 1 },
	{ "Power", "W", offsetof(struct history_sampled, power), 1 },
	{ "Temperature",
	  "\xc2\xb0"
	  "C",
	  offsetof(struct history_sampled, temperature), 1 },
	{ "Memory in use", "GiB", offsetof(struct history_sampled, memory), 1024.0 * 1024 * 1024 },
};

static double panel_value(const struct panel *k, const struct history_sampled *s)
{
	double v;
	memcpy(&v, (const char *)s + k->offset, sizeof(v));
	return v / k->by;
}

static void put_panel(struct html *p, const struct panel *k, const struct history_sampled_list *list, const int64_t *moments,
		      size_t n)
{
	const int64_t begin = list->data[0].when, end = list->data[list->len - 1].when;
	double most = 0, last = NAN;
	for (size_t i = 0; i < list->len; i++) {
		const double v = panel_value(k, &list->data[i]);
		most = v > most ? v : most;
		last = isfinite(v) ? v : last;
	}
	if (!isfinite(last))
		return;
	const double top = most > 1 ? (double)round_up((int64_t)ceil(most)) : 1, span = end > begin ? (double)(end - begin) : 1;
	_cleanup_text_ struct text says = { 0 };
	text_printf(&says, "%s, at most %.0f %s, at the end %.0f", k->title, most, k->unit, last);
	page_fill(p, "<figure><figcaption>@</figcaption><svg role=\"img\" width=\"100%\" aria-label=\"@\" ", str_z(k->title),
		  text_str(&says));
	page_numbers(p, "height=\"%d\" viewBox=\"0 0 300 %d\" preserveAspectRatio=\"none\">", PANEL + 6, PANEL + 6);
	page_numbers(p,
		     "<line class=\"grid\" x1=\"0\" x2=\"300\" y1=\"%d\" y2=\"%d\"/><polyline class=\"line\" "
		     "vector-effect=\"non-scaling-stroke\" points=\"",
		     PANEL + 3, PANEL + 3);
	for (size_t i = 0; i < list->len; i++) {
		const double v = panel_value(k, &list->data[i]);
		if (isfinite(v))
			page_numbers(p, "%.1f,%.1f ", 300 * (double)(list->data[i].when - begin) / span,
				     3 + PANEL * (1 - v / top));
	}
	page_put(p, "\"/>");
	for (size_t i = 0; i < n; i++)
		if (moments[i] >= begin && moments[i] <= end)
			page_numbers(p,
				     "<line class=\"moment\" vector-effect=\"non-scaling-stroke\" x1=\"%.1f\" x2=\"%.1f\" "
				     "y1=\"0\" y2=\"%d\"/>",
				     300 * (double)(moments[i] - begin) / span, 300 * (double)(moments[i] - begin) / span,
				     PANEL + 3);
	page_fill(p, "</svg><p class=\"says\">@</p></figure>\n", text_str(&says));
}

void chart_samples(struct html *p, const struct history_sampled_list *list, const int64_t *moments, size_t n)
{
	if (!list->len)
		return;
	page_put(p, "<h2>The GPU around it</h2>\n<p class=\"quiet\">From ");
	site_when(p, list->data[0].when);
	page_put(p, " to ");
	site_when(p, list->data[list->len - 1].when);
	page_put(p, ". The dashed line is the failure.</p>\n<div class=\"panels\">\n");
	for (size_t k = 0; k < ARRAY_SIZE(panels); k++)
		put_panel(p, &panels[k], list, moments, n);
	page_put(p, "</div>\n");
}

#include "evidence/hardware/counts.h"

static const char *const count_names[ERROR_COUNTS] = {
	[COUNT_CORRECTED] = "CORRECTABLE", [COUNT_UNCORRECTED] = "UNCORRECTABLE", [COUNT_DEFERRED] = "DEFERRED"
};
static const char *const page_names[PAGE_LISTS] = {
	[PAGES_RETIRED] = "RETIRED:", [PAGES_PENDING] = "PENDING:", [PAGES_STUCK] = "UN_RES:"
};

/** `XGMI_WAFL:`, below `ECC_BLOCKS:` */
static bool counts_block(struct error_counts *c, struct str text)
{
	const struct str name = str_cut(text, text.n - (text.n > 0));
	struct block_counts *b = &c->blocks[c->n];
	if (!str_ends(text, S(":")) || !c->by_block || name.n >= sizeof(b->name) || str_run(name, char_word) != name.n ||
	    c->n == COUNT_BLOCKS)
		return false;
	*b = (struct block_counts){ 0 };
	for (size_t i = 0; i < name.n; i++)
		b->name[i] = char_lower(name.p[i]);
	c->n++;
	return true;
}

static bool counts_pages(struct error_counts *c, struct str text)
{
	for (size_t i = 0; i < PAGE_LISTS; i++)
		if (str_starts(text, str_z(page_names[i]))) {
			c->list = (enum page_list)i;
			return true;
		}
	c->pages[c->list] += str_starts(text, S("PAGE_ADDRESS: "));
	return str_starts(text, S("PAGE_ADDRESS: "));
}

/** `N/A`: nobody counts it. */
static int64_t counts_number(struct error_counts *c, struct str text)
{
	int64_t number = 0;
	const bool known = str_number(text, &number) && number >= 0;
	if (!known && !str_is(text, "N/A") && !c->odd[0])
		str_copy(c->odd, sizeof(c->odd), text.n ? text : S("nothing"));
	return known ? number : 0;
}

bool counts_cut(struct str text)
{
	struct str rest = text;
	str_behind(text, S("TOTAL_"), &rest);
	for (size_t i = 0; i < ERROR_COUNTS; i++)
		if (str_behind(rest, str_z(count_names[i]), &rest))
			return str_starts(rest, S("_COUNT: "));
	return false;
}

bool counts_line(struct error_counts *c, struct str text)
{
	struct str value = text;
	if (str_starts(text, S("ECC_BLOCKS:")) || str_starts(text, S("ECC:"))) {
		c->by_block = str_starts(text, S("ECC_BLOCKS:"));
		c->sums = !c->by_block;
		return true;
	}
	int64_t *to = str_behind(text, S("TOTAL_"), &value) || c->sums ? c->total :
		      c->by_block && c->n                              ? c->blocks[c->n - 1].count :
		      c->cut                                           ? c->total :
									 NULL;
	for (size_t i = 0; i < ERROR_COUNTS && to; i++) {
		struct str count;
		// Before ROCm 6.1 the names had no _COUNT, and in the first releases no TOTAL_.
		if (str_behind(value, str_z(count_names[i]), &count) &&
		    (str_behind(count, S("_COUNT: "), &count) || str_behind(count, S(": "), &count))) {
			const int64_t number = counts_number(c, str_trim(count));
			to[i] = c->cut && !c->by_block && to[i] < INT64_MAX / 2 && number < INT64_MAX / 2 ? to[i] + number : number;
			return true;
		}
	}
	return counts_pages(c, text) || counts_block(c, text);
}

struct counted_by {
	const struct artefact_output *out;
	struct place at;
	struct str pci;
	int64_t index;
};

static void counts_hand_on(const struct counted_by *by, struct event *e, struct arena *a)
{
	event_add_text(e, a, "pci", by->pci);
	e->device = by->pci;
	e->driver = by->pci.n ? S("amdgpu") : (struct str){ 0 };
	if (by->index >= 0)
		event_add_number(e, a, "gpu_index", by->index);
	artefact_tell(by->out, e);
}

static void counts_event(const struct counted_by *by, const char *signature, struct str block, int64_t count)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct event e;
	if (count <= 0 || !artefact_event(by->out, signature, by->at, &e))
		return;
	event_add_number(&e, &a, "ras_count", count);
	event_add_text(&e, &a, "ras_block", block);
	counts_hand_on(by, &e, &a);
}

static void counts_odd_event(const struct counted_by *by, struct str odd)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct event e;
	if (!odd.n || !artefact_event(by->out, "inventory-uncounted", by->at, &e))
		return;
	event_add_text(&e, &a, "ras_printed", odd);
	counts_hand_on(by, &e, &a);
}

void counts_tell(const struct error_counts *c, const struct artefact_output *out, struct place at, struct str pci,
		 int64_t index)
{
	static const char *const errors[ERROR_COUNTS] = { [COUNT_CORRECTED] = "inventory-corrected",
							  [COUNT_UNCORRECTED] = "inventory-ecc",
							  [COUNT_DEFERRED] = "inventory-deferred" };
	static const char *const pages[PAGE_LISTS] = {
		[PAGES_RETIRED] = "inventory-retired", [PAGES_PENDING] = "inventory-pending", [PAGES_STUCK] = "inventory-stuck"
	};
	const struct counted_by by = { out, at, pci, index };
	for (size_t i = 0; i < ERROR_COUNTS; i++) {
		bool named = false;
		for (size_t n = 0; n < c->n; n++) {
			counts_event(&by, errors[i], str_z(c->blocks[n].name), c->blocks[n].count[i]);
			named |= c->blocks[n].count[i] > 0;
		}
		if (!named)
			counts_event(&by, errors[i], (struct str){ 0 }, c->total[i]);
	}
	for (size_t i = 0; i < PAGE_LISTS; i++)
		counts_event(&by, pages[i], (struct str){ 0 }, c->pages[i]);
	counts_odd_event(&by, str_z(c->odd));
}

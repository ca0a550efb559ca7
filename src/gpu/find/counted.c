// What the driver has counted of a device, and how its link is told.
#include "gpu/find/device.h"

/** `Fatal Error: count:1, last_seqno:7`; older drivers write `Fault Error : count:1`. */
struct ras_events ras_events_parse(struct str text)
{
	struct ras_events r = { -1, -1, -1, 1, true, false };
	const struct {
		const char *begins;
		int64_t *to;
	} rows[] = { { "Fatal Error", &r.fatal },
		     { "Fault Error", &r.fatal },
		     { "Poison Creation", &r.poison_created },
		     { "Poison Consumption", &r.poison_consumed } };
	str_each (line, text, '\n')
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			struct str rest;
			int64_t count;
			if (!str_starts(line, str_z(rows[i].begins)) || !str_after(line, S("count:"), &rest))
				continue;
			if (str_number(str_trim(str_split(&rest, ',')), &count) && count >= 0)
				*rows[i].to = count;
			else
				r.odd = true;
		}
	r.odd |= str_trim(text).n && r.fatal < 0 && r.poison_created < 0 && r.poison_consumed < 0;
	return r;
}

int64_t link_speed(struct str text)
{
	int64_t whole, tenth = 0;
	struct str number = str_word(&text);
	if (!str_starts(str_trim(text), S("GT/s")) || !str_number(str_split(&number, '.'), &whole) ||
	    (number.n && !str_number(str_cut(number, 1), &tenth)) || whole < 1 || whole > 1000)
		return -1;
	return 10 * whole + tenth;
}

struct str link_text(const struct device *d, struct arena *a)
{
	enum { WIDTH_ONES = 63 }; // what the width reads as where nobody answers
	struct str speed = d->link.speed;
	if (!speed.n || str_starts(speed, S("Unknown")) || d->link.width <= 0 || d->link.width >= WIDTH_ONES)
		return (struct str){ 0 };
	if (str_ends(speed, S(" PCIe")))
		speed.n -= 5;
	return arena_printf(a, STR_FMT " x%lld", STR_ARG(speed), (long long)d->link.width);
}

// What several ranks come to together.
#include "report/last/last.h"
#include "report/sheet.h"

void walk_ranks(struct sheet *s, const struct last_seen *seen)
{
	const struct ranks_seen *k = &seen->ranks;
	if (!sheet_object(s, "ranks", k->known))
		return;
	const int32_t behind = seen->list[k->behind].recording->header.rank;
	sheet_put(s, "behind", v_if(k->ended < k->most, v_int(behind)));
	sheet_put(s, "ended", v_number(k->ended));
	sheet_put(s, "most", v_number(k->most));
	if (k->ended < k->most)
		sheet_say(s, "\nRank %d is behind: %llu packets ended, %llu on the rank that is ahead.\n", behind,
			  (unsigned long long)k->ended, (unsigned long long)k->most);
	if (sheet_object(s, "part", k->part.known)) {
		const int32_t one = seen->list[k->part.one].recording->header.rank,
			      other = seen->list[k->part.other].recording->header.rank;
		sheet_put(s, "packet", v_number(k->part.packet));
		sheet_put(s, "one", v_int(one));
		sheet_put(s, "one_kernel", v_known(k->part.one_kernel));
		sheet_put(s, "other", v_int(other));
		sheet_put(s, "other_kernel", v_known(k->part.other_kernel));
		sheet_say(s, "The ranks part at packet #%llu: rank %d launched ", (unsigned long long)k->part.packet, one);
		sheet_say_safe(s, "", k->part.one_kernel, "");
		sheet_say(s, ", rank %d ", other);
		sheet_say_safe(s, "", k->part.other_kernel, ".\n");
		sheet_close(s, '}');
	}
	sheet_close(s, '}');
}

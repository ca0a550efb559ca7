// Fuzzes the logs of package managers, as text and as databases, and what is made of them in a bundle. What is read is written, and then
// taken for the same.
#include <stdlib.h>
#include <time.h>

#include "host/changes/readers.h"
#include "know.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct changes *c, const struct know *k)
{
	_cleanup_changes_ struct changes again = { 0 };
	_cleanup_text_ struct text first = { 0 }, second = { 0 };
	changes_write(c, &first);
	if (!changes_parse(&again, k, text_str(&first)))
		abort();
	changes_write(&again, &second);
	if (!str_eq(text_str(&first), text_str(&second)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static change_parse_fn *const logs[] = { changes_of_dpkg, changes_of_apt,   changes_of_pacman, changes_of_zypper,
						 changes_of_nix,  changes_of_steam, changes_of_ostree };
	static change_parse_fn *const databases[] = { changes_of_dnf4, changes_of_dnf5 };
	const struct know *k = know;
	const struct str text = { (const char *)data, size };
	const bool database = str_starts(text, S("SQLite format 3"));
	// A log of writes follows its database behind a mark.
	struct str wal = { 0 };
	const bool has_wal = str_after(text, S("|WAL|"), &wal);
	struct change_log log = {
		.text = has_wal ? str_cut(text, text.n - wal.n - 5) : text, .wal = wal, .path = S("/log"), .changed = 1e9
	};
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	for (size_t i = 0; i < (database ? ARRAY_SIZE(databases) : ARRAY_SIZE(logs)); i++) {
		_cleanup_changes_ struct changes c = { 0 };
		(database ? databases : logs)[i](&c, k, &log);
		changes_order(&c);
		check(&c, k);
	}
	_cleanup_changes_ struct changes lines = { 0 }, taken = { 0 };
	str_each (line, text, '\n')
		changes_take_line(&lines, k, line, 1e9);
	check(&lines, k);
	if (changes_parse(&taken, k, text))
		check(&taken, k);
	for (size_t i = 0; i < text.n && i < 64; i++) {
		_cleanup_changes_ struct changes c = { 0 };
		static change_parse_fn *const names[] = { changes_of_file, changes_of_snap, changes_of_record,
							  changes_of_dkms };
		names[i % ARRAY_SIZE(names)](&c, k, &(struct change_log){ .path = str_cut(text, i), .changed = 1e9 });
	}
	return 0;
}

// libarchive, and what a file is by its first bytes.
#include <string.h>

#include "base/str.h"
#include "source/archive/archive.h"
#include "source/archive/library.h"
#include "source/source.h"
#include "source/tape/bundle.h"

const char *archive_load(struct archive_api *api)
{
	const char *lacks = LIBRARY_TAKE(api, ARCHIVE_CALLS, "libarchive.so.13");
	if (!api->library)
		return "an archive or a compressed file, and libarchive is not on this machine";
	return lacks ? "an archive, and this libarchive is too old" : NULL;
}

struct archive *archive_new_bundle(const struct archive_api *api)
{
	struct archive *a = api->archive_read_new();
	api->archive_read_support_filter_zstd(a);
	api->archive_read_support_format_tar(a);
	return a;
}

struct archive *archive_new(const struct archive_api *api, bool container)
{
	struct archive *a = api->archive_read_new();
	if (container) {
		api->archive_read_support_format_tar(a);
		api->archive_read_support_format_zip(a);
		return a;
	}
	api->archive_read_support_filter_xz(a);
	api->archive_read_support_filter_zstd(a);
	api->archive_read_support_filter_bzip2(a);
	api->archive_read_support_filter_lz4(a);
	api->archive_read_support_format_raw(a);
	return a;
}

// === What a file is, by its first bytes. ===

bool source_is_archive(struct str head)
{
	static const struct {
		const char *bytes;
		size_t size, at;
	} magics[] = {
		{ "\x1f\x8b", 2, 0 },
		{ "\xfd"
		  "7zXZ",
		  5, 0 },
		{ "\x28\xb5\x2f\xfd", 4, 0 },
		{ "\x2a\x4d\x18", 3, 1 }, // a frame of zstd or lz4 that is skipped; its first byte may be any of sixteen
		{ "BZh", 3, 0 },
		{ "\x04\x22\x4d\x18", 4, 0 },
		{ "PK\x03\x04", 4, 0 },
		{ "ustar", 5, 257 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		if (str_starts(str_from(head, magics[i].at), (struct str){ magics[i].bytes, magics[i].size }))
			return true;
	return false;
}

/** A tar of old has no magic, but a sum over its first block. One that begins with NULs is none: it would be its end. */
static bool is_tar(struct str head)
{
	enum { SUM_AT = 148, SUM_SIZE = 8 };
	uint64_t said = 0, sum = 0;
	if (head.n < ARCHIVE_HEAD || !head.p[0])
		return false;
	for (size_t i = 0; i < ARCHIVE_HEAD; i++)
		sum += i - SUM_AT < SUM_SIZE ? ' ' : (unsigned char)head.p[i];
	struct str digits = { head.p + SUM_AT, SUM_SIZE };
	while (digits.n && *digits.p == ' ')
		digits = str_from(digits, 1);
	for (; digits.n && *digits.p >= '0' && *digits.p <= '7'; digits = str_from(digits, 1))
		said = said * 8 + (uint64_t)(*digits.p - '0');
	return said == sum;
}

bool archive_is_container(struct str head) { return str_starts(head, S("PK\x03\x04")) || is_tar(head); }

bool archive_may_be_bundle(struct str head)
{
	return is_tar(head) && str_starts(head, (struct str){ BUNDLE_MANIFEST, sizeof(BUNDLE_MANIFEST) });
}

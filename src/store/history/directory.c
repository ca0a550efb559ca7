// The index of a state directory: in its file where nobody else can have prepared that, else in memory.
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/db/place.h"
#include "store/history/index.h"

/** Opens the file, or makes it; what belongs to others is left alone, and told. */
static struct uh_error *open_file(const char *file, struct text *ret_why, struct db **ret)
{
	struct uh_error *err = index_open(file, DB_MAKE, ret);
	if (!err || err->errnum != EPERM)
		return err;
	text_printf(ret_why, "%s. The history was put together in memory instead", uh_error_message(err));
	uh_error_free(err);
	return index_open(NULL, DB_MAKE, ret);
}

static struct uh_error *open_and_sync(const char *directory, const char *file, struct text *ret_why, struct db **ret)
{
	_cleanup_counts_ struct index_counts counts = { 0 };
	struct uh_error *err = file ? open_file(file, ret_why, ret) : index_open(NULL, DB_MAKE, ret);
	if (!err)
		err = index_sync(*ret, directory, &counts);
	if (counts.unread)
		text_printf(ret_why, "%s%s", ret_why->n ? "\n" : "", counts.why);
	return err;
}

struct uh_error *index_open_directory(const char *directory, struct text *ret_why, struct db **ret)
{
	_cleanup_arena_ struct arena a = { 0 };
	const char *file = access(directory, W_OK) ? NULL : arena_printf(&a, "%s/" INDEX_FILE, directory).p;
	*ret = NULL;
	struct uh_error *err = open_and_sync(directory, file, ret_why, ret);
	// An index that is damaged is made anew: all that it has is elsewhere.
	if (!err || !file || err->errnum != EUCLEAN)
		return err;
	uh_error_free(err);
	if (*ret)
		db_close(*ret);
	*ret = NULL;
	text_clear(ret_why);
	const char *aside = arena_printf(&a, "%s" INDEX_ASIDE, file).p;
	err = db_set_aside(file, aside);
	if (!err)
		err = open_and_sync(directory, file, ret_why, ret);
	if (!err)
		text_printf(ret_why, "%s%s was not as unhang makes it. It was made again from the lines; the old one is %s",
			    ret_why->n ? "\n" : "", file, aside);
	return err;
}

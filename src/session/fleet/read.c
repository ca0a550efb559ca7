// What unhang check reads, and the child that reads it.
#include <errno.h>
#include <limits.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "session/fleet/check.h"
#include "store/store.h"
#include "watch/node/state.h"

enum { SMOKE_MOST = 64 << 10, FOUND_MOST = 16 << 20, BUSY_MS = 10000, LASTING_MOST = 64 };

static const struct wire_field text_fields[] = { WIRE_TEXT(struct check_text, text) };
static const struct wire_kind text_kind = WIRE_KIND('t', struct check_text, text_fields);
static const struct wire_field found_fields[] = {
	WIRE_TEXT(struct check_found, state),   WIRE_NUMBER(struct check_found, errnum, INT_MAX),
	WIRE_TEXT(struct check_found, why),     WIRE_TEXT(struct check_found, smoke),
	WIRE_TEXT(struct check_found, machine), WIRE_LIST(struct check_found, records, nrecords, &text_kind, LASTING_MOST),
};
static const struct wire_kind found_kind = WIRE_KIND('f', struct check_found, found_fields);

static void read_run(const void *asked, struct arena *a, void *answer)
{
	const char *run_dir = asked;
	struct check_found *f = answer;
	child_quiet();
	door_here();
	_cleanup_error_ struct uh_error *err = state_load(run_dir, a, &f->state);
	if (err) {
		f->errnum = err->errnum;
		f->why = arena_str(a, str_z(err->errnum == ENOENT ? "No unhang watch runs." : uh_error_message(err)));
	}
	uh_error_free(believed_read(NULL, arena_printf(a, "%s/" SMOKE_FILE, run_dir).p, SMOKE_MOST, a, &f->smoke));
	uh_error_free(root_read(NULL, "/etc/machine-id", 64, a, &f->machine, NULL));
}

static void read_store(const void *asked, struct arena *a, void *answer)
{
	struct check_found *f = answer;
	_cleanup_(stored_list_free) struct stored_list all = { 0 };
	child_quiet();
	door_here();
	uh_error_free(store_list(asked, &all));
	f->records = arena_alloc(a, LASTING_MOST * sizeof(*f->records));
	for (size_t i = 0; i < all.list.len && f->nrecords < LASTING_MOST; i++) {
		const struct stored *one = all.list.data[i];
		_cleanup_text_ struct text record = { 0 };
		if (one->state == STORED_CLOSED || !str_among(one->action, STR_EQUALS, "replace|power-cycle|").n)
			continue;
		stored_text(one, &record);
		f->records[f->nrecords++].text = arena_str(a, text_str(&record));
	}
}

static enum child_end read_found(void (*work)(const void *, struct arena *, void *), const char *directory, int64_t deadline,
				 struct arena *a, struct check_found *ret)
{
	const struct child_task task = { .name = CHILD_CHECK_READ,
					 .work = work,
					 .kind = &found_kind,
					 .deadline = deadline,
					 .most = FOUND_MOST,
					 .busy_ms = BUSY_MS };
	return child_call(&task, directory, a, ret);
}

void check_read_run(const char *run_dir, int64_t deadline, struct arena *a, struct check_found *ret)
{
	const enum child_end end = read_found(read_run, run_dir, deadline, a, ret);
	if (end == CHILD_GOOD)
		return;
	ret->errnum = ETIMEDOUT;
	ret->why = arena_printf(a, end == CHILD_LATE ? "%s did not answer in time." : "%s could not be read.", run_dir);
}

bool check_read_store(const char *state_dir, int64_t deadline, struct arena *a, struct check_found *ret)
{
	struct check_found f;
	const enum child_end end = read_found(read_store, state_dir, deadline, a, &f);
	ret->records = f.records;
	ret->nrecords = f.nrecords;
	return end == CHILD_GOOD;
}

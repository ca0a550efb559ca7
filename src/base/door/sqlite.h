// What is called of SQLite: by who reads a package manager's history, and by the store of incidents.
#pragma once

#include <sqlite3.h>

#include "base/door/library.h"

// clang-format off
#define SQLITE_CALLS(call) \
	call(sqlite3_open_v2) call(sqlite3_close) call(sqlite3_deserialize) call(sqlite3_db_config) call(sqlite3_limit) \
	call(sqlite3_progress_handler) call(sqlite3_prepare_v2) call(sqlite3_step) call(sqlite3_reset) call(sqlite3_finalize) \
	call(sqlite3_column_count) call(sqlite3_column_type) call(sqlite3_column_int64) call(sqlite3_column_double) \
	call(sqlite3_column_text) call(sqlite3_column_bytes) call(sqlite3_bind_parameter_index) call(sqlite3_bind_null) \
	call(sqlite3_bind_int64) call(sqlite3_bind_double) call(sqlite3_bind_text) call(sqlite3_clear_bindings) \
	call(sqlite3_exec) call(sqlite3_errmsg) call(sqlite3_extended_errcode) call(sqlite3_busy_timeout) \
	call(sqlite3_changes) call(sqlite3_system_errno)
// clang-format on

struct sqlite_api {
	LIBRARY_API(SQLITE_CALLS)
};

/** NULL, or what is missing. */
static inline const char *sqlite_take(struct sqlite_api *api) { return LIBRARY_TAKE(api, SQLITE_CALLS, "libsqlite3.so.0"); }

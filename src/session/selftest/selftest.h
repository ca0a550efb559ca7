// What the parts of unhang selftest share.
#pragma once

#include "evidence/silicon/silicon.h"
#include "gpu/silicon/silicon.h"
#include "report/selftest.h"
#include "session/look.h"

/** One GPU. */
struct selftest_gpu {
	const struct device *device;
	const struct gpu_observation *seen; // by the look; NULL: it was not looked at
	struct target *target;
	struct witnesses witnesses;
};

struct selftest {
	struct arena arena;
	const struct uh_selftest_options *options;
	struct know *know;
	struct devices devices;
	struct uh_machine machine; // on which the looks are recorded
	struct uh_session *session;
	struct selftest_gpu *gpus;
	size_t ngpus;
	VEC(struct selftest_check) checks;
	VEC(struct selftest_file) files;
};

/** How a check came out. */
struct selftest_result {
	enum selftest_end end;
	struct str text;
};
#define PASSED(a, ...) ((struct selftest_result){ SELFTEST_PASSED, arena_printf((a), __VA_ARGS__) })
#define FAILED(a, ...) ((struct selftest_result){ SELFTEST_FAILED, arena_printf((a), __VA_ARGS__) })
#define NOT_ASKED(a, ...) ((struct selftest_result){ SELFTEST_NOT_ASKED, arena_printf((a), __VA_ARGS__) })
#define NOT_POSSIBLE(a, ...) ((struct selftest_result){ SELFTEST_NOT_POSSIBLE, arena_printf((a), __VA_ARGS__) })

/** A check of one GPU. */
typedef struct selftest_result check_fn(struct selftest *t, struct selftest_gpu *g, const char *id);
check_fn check_told, check_registers, check_banks, check_units, check_clocks, check_verdict, check_rings;
/** Of the machine: the files that looks read. */
struct selftest_result check_files(struct selftest *t);
/** Whether they woke a GPU that slept. Behind check_files(). */
struct selftest_result check_sleep(struct selftest *t);
/** As tape_filter.seen, with the selftest. */
void selftest_file_seen(void *ctx, const struct probe *p);

/** Adds the rows of --launch and --fault. */
void selftest_launch(struct selftest *t);
void selftest_add(struct selftest *t, const char *id, const char *what, const struct selftest_gpu *g, struct selftest_result r);

// What the doctor's commands share: the machine is looked at, and what unhang changed before is read.
#pragma once

#include "apply/plan.h"
#include "diagnose/doctor/doctor.h"
#include "unhang/unhang.h"

/** A machine, what is known of it, and what was changed before. */
struct visit {
	struct know *know;
	struct host host;
	struct applied_list have;
	bool have_unread;                 // the records of earlier changes did not answer
	struct uh_machine *bundle;        // that is looked at; NULL
	const struct uh_machine *machine; // that was asked about; NULL
	uh_problem_fn *problem;
	void *ctx;
};

/** Where there is an error, nothing is begun. Either way it is ended with visit_end(), if it was zeroed before. */
struct uh_error *visit_begin(struct visit *v, const struct uh_doctor_options *o, uh_problem_fn *problem, void *ctx);
void visit_end(struct visit *v);
void visit_tell(const struct visit *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** One line for each change that was cut short, and how to go on. */
void applied_tell_left(const struct applied_list *l, uh_problem_fn *problem, void *ctx);

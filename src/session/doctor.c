// unhang doctor: the machine is looked at and held against what is known.
#include "report/doctor.h"

#include "base/error.h"
#include "diagnose/doctor/verdict.h"
#include "session/visit.h"

enum { WIDTH = 100 };

struct uh_error *uh_doctor(const struct uh_doctor_options *o, FILE *out, uh_problem_fn *problem, void *ctx, unsigned *ret_wrong)
{
	struct visit v;
	struct findings f;
	struct uh_error *err = visit_begin(&v, o, problem, ctx);
	if (err)
		return err;
	doctor_find(v.know, &v.host, &f);
	*ret_wrong = 0;
	for (size_t n = 0; n < f.list.len; n++)
		*ret_wrong += finding_is_wrong(f.list.data[n]);
	const struct doctor_view view = { &v.host, &f, o, out, o->width ? o->width : WIDTH, doctor_verdict(&v.host, &f) };
	if (view.verdict == UH_UNKNOWN)
		err = doctor_why_unknown(&v.host);
	applied_tell_left(&v.have, problem, ctx);
	if (o->json || v.host.devices.n || *ret_wrong)
		report_doctor(&view);
	findings_free(&f);
	visit_end(&v);
	return err;
}

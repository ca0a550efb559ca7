// The GPUs that runs can be made on: which there are, and which of them the user left.
#include <stdlib.h>

#include "gpu/find/device.h"
#include "session/trial/journal.h"

/** By which of them a job may use. The first is the runtime's own, whose numbers count all GPUs; those behind it count what it leaves. */
static const char *const choosing[] = { "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
					"GPU_DEVICE_ORDINAL" };

/** The value of a variable as the job has it; NULL: it has none. */
static const char *job_variable(const struct uh_trial_options *o, const char *name)
{
	const char *value = getenv(name);
	for (size_t i = 0; i < o->nenv; i++)
		if (str_starts(str_z(o->env[i]), str_z(name)) && o->env[i][strlen(name)] == '=')
			value = o->env[i] + strlen(name) + 1;
	return value && *value ? value : NULL;
}

/** The place of another card that runs the same code as the first. 0: there is none. */
static unsigned gpu_alike(const struct devices *d)
{
	for (size_t i = 1; i < d->nkfd; i++) {
		const struct device *first = &d->list[d->kfd[0].device], *other = &d->list[d->kfd[i].device];
		if (other != first && first->gfx.n && str_eq(other->gfx, first->gfx))
			return (unsigned)i;
	}
	return 0;
}

void trial_gpus_find(const struct know *k, const struct uh_trial_options *o, struct trial_gpus *ret)
{
	_cleanup_devices_ struct devices found;
	*ret = (struct trial_gpus){ .visible = job_variable(o, choosing[0]) };
	bool chosen = false;
	for (size_t i = 0; i < ARRAY_SIZE(choosing); i++)
		chosen |= job_variable(o, choosing[i]) != NULL;
	devices_find(k, &found);
	ret->other = chosen ? 0 : gpu_alike(&found);
	ret->n = ret->visible ? 0 : (unsigned)found.nkfd;
	for (struct str rest = str_z(ret->visible ? ret->visible : ""); rest.n; ret->n++)
		str_split(&rest, ',');
}

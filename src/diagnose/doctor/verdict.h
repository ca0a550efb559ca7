// The doctor's verdict: what its findings amount to. Healthy only if all that is needed could be read.
#pragma once

#include "diagnose/doctor/doctor.h"
#include "unhang/unhang.h"

/** Whether a fact `unread` is about a file that answered too late. (One that was refused has a name for people; a late one only its
 * path.) */
bool unread_is_late(const struct host_fact *unread);
bool firmware_known(const struct host_item *gpu);
bool finding_is_wrong(const struct finding *f);
enum uh_verdict doctor_verdict(const struct host *h, const struct findings *f);
enum uh_verdict doctor_verdict_of_gpu(const struct findings *all, const struct host_item *gpu);
/** Why it is UH_UNKNOWN, as a line. */
struct uh_error *doctor_why_unknown(const struct host *h);

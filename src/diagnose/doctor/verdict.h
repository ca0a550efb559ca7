// What the doctor's findings come to: healthy only where all that is needed was read.
#pragma once

#include "diagnose/doctor/doctor.h"
#include "unhang/unhang.h"

/** Of a fact `unread`. One that was refused has a name for people; one that was late, only its path. */
bool unread_is_late(const struct host_fact *unread);
bool firmware_known(const struct host_item *gpu);
bool finding_is_wrong(const struct finding *f);
enum uh_verdict doctor_verdict(const struct host *h, const struct findings *f);
enum uh_verdict doctor_verdict_of_gpu(const struct findings *all, const struct host_item *gpu);
/** Why it is UH_UNKNOWN, as a line. */
struct uh_error *doctor_why_unknown(const struct host *h);

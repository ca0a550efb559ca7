// An incident is named by what everybody knows of it who meets it: boot, GPU, process and first event. Not by its cause or by how it is told,
// which change with what else is read; not by the host, if a boot is known, which implies it; and not by a GPU's unique id, which a log alone does not have.
#include "diagnose/identity.h"

#include <stdio.h>

/** /proc writes a boot id with dashes, and the journal without. */
static uint64_t hash_boot(uint64_t hash, struct str boot)
{
	char room[64];
	size_t n = 0;
	for (size_t i = 0; i < boot.n && n < sizeof(room); i++)
		if (boot.p[i] != '-')
			room[n++] = boot.p[i];
	return str_hash(hash, (struct str){ room, n });
}

struct identity identity_recorded(struct str boot, int64_t pid, uint64_t began, uint32_t hold)
{
	return (struct identity){ .boot = boot, .pid = began ? 0 : pid, .began = began, .first = FIRST_RECORDED, .us = hold };
}

struct str identity_name(const struct identity *i, struct arena *a)
{
	char process[64] = "-", first[64];
	if (i->pid || i->first == FIRST_RECORDED)
		snprintf(process, sizeof(process), "%lld %llu", (long long)i->pid, (unsigned long long)i->began);
	// What the driver signaled stands in a bundle as a line.
	snprintf(first, sizeof(first), "%d %lld", i->first == FIRST_SIGNALED ? FIRST_LOGGED : (int)i->first, (long long)i->us);
	uint64_t hash = str_hash(hash_boot(STR_HASH_BEGIN, i->boot), i->gpu);
	hash = str_hash(str_hash(hash, str_z(process)), str_z(first));
	// Where no boot is known, its time may be that of another machine's; and a program's words may have no time.
	if (!i->boot.n || i->first == FIRST_TOLD)
		hash = str_hash(hash, i->text);
	// Nodes of one kind have their GPUs at the same addresses, and fail in the same second when what they share does.
	if (!i->boot.n && i->host.n)
		hash = str_hash(hash, i->host);
	return arena_printf(a, "%016llx", (unsigned long long)hash);
}

static enum first_event identity_first_of(const struct diag_event *e)
{
	if (e->recorded)
		return FIRST_RECORDED;
	if (e->now)
		return FIRST_SEEN;
	if (e->program || e->time.clock != TIME_BOOT)
		return FIRST_TOLD;
	return e->at.line ? FIRST_LOGGED : FIRST_SIGNALED;
}

/** The name that it has by this event. */
static struct identity identity_by(const struct incident *i, const struct diag_event *e)
{
	// An error of a hive is announced by any of its GPUs, and known by that one before others tell of it.
	struct identity own = { .boot = i->boot_id.n ? i->boot_id : i->machine_boot,
				.gpu = e->numbered && e->device.n ? e->device : i->gpu.device,
				.began = e->began,
				.first = identity_first_of(e),
				.us = (int64_t)(e->time.seconds * 1e6 + 0.5),
				.text = e->text,
				.host = i->host };
	str_number(diag_value(e, "pid"), &own.pid);
	if (own.first == FIRST_RECORDED)
		return identity_recorded(own.boot, own.pid, e->began, e->hold);
	if (own.first == FIRST_SEEN)
		own.us = 0; // each look has a time of its own
	return own;
}

/** Less counts first. Of a recording, only a failure knows the hold that it began; what stands before it differs with what else was read. */
static unsigned identity_rank(const struct diag_event *e) { return 2 * identity_first_of(e) + (e->recorded && !e->hold); }

struct identity incident_identity(const struct incident *i)
{
	const struct diag_event *best = i->events.data[0];
	for (size_t n = 1; n < i->events.len; n++)
		if (identity_rank(i->events.data[n]) < identity_rank(best))
			best = i->events.data[n];
	return identity_by(i, best);
}

bool incident_is(const struct incident *i, struct str name)
{
	_cleanup_arena_ struct arena a = { 0 };
	for (size_t n = 0; n < i->events.len; n++) {
		const struct identity own = identity_by(i, i->events.data[n]);
		if (str_eq(i->events.data[n]->named, name) || str_eq(identity_name(&own, &a), name))
			return true;
	}
	return false;
}

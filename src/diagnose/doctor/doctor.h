// Findings: what knowledge says of this machine's facts. One body of knowledge serves this and `explain`.
#pragma once

#include "host/host.h"
#include "knowledge/steps.h"

struct finding {
	struct str id;
	enum know_severity severity;
	struct str title, seen, why, grade, source;
	struct steps steps;
	VEC(struct str) gpus;             // PCI addresses of those that it is about; none: the machine
	const struct know_change *change; // what --apply would do; NULL: nothing
	const struct know_remedy *remedy;
	const struct know_list *hides; // findings that are not told if this one is
	const struct host_item *item;  // the first item that it is about
};

struct findings {
	struct arena arena;
	VEC(struct finding *) list; // the worst first
};

/** Adds what the kernel's log of this boot says: `log`, its signatures, and facts that the files did not give. */
void doctor_read_log(struct host *h);
void doctor_find(const struct know *k, const struct host *h, struct findings *ret);
void findings_free(struct findings *f);
const char *severity_name(enum know_severity s);
/** The first finding with this id; NULL: there is none. */
const struct finding *findings_named(const struct findings *f, struct str id);

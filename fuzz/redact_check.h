// Redacts bytes as each kind of evidence, and says what must not be. For the fuzz target and the test.
#pragma once

#include "capture/redact/allow.h"

static inline const char *found_complaint(struct redactor *r, struct str bytes, struct text *found)
{
	redact_find(r, bytes, true);
	redact_find(r, bytes, false);
	redact_ready(r);
	redact_text(r, bytes, true, found);
	if (found->n != bytes.n)
		return "bytes whose places matter are elsewhere";
	text_clear(found);
	redact_kernel_text(r, bytes, true, found);
	if (found->n != bytes.n)
		return "bytes of the kernel whose places matter are elsewhere";
	redact_hold(r, str_cut(bytes, bytes.n / 2));
	redact_ready(r);
	text_clear(found);
	redact_text(r, bytes, false, found);
	return NULL;
}

static inline const char *kept_complaint(struct allowed *a, struct str bytes)
{
	struct text kept = { 0 };
	const char *complaint = NULL;
	for (enum allow_form form = ALLOW_ALL; form <= ALLOW_PROCESSES; form++) {
		text_clear(&kept);
		allow_text(a, form, bytes, form == ALLOW_COMMAND ? 0 : '\n', &kept);
		if (form == ALLOW_PATHS && kept.n != bytes.n)
			complaint = "a name has another length";
	}
	text_clear(&kept);
	allow_path(a, bytes, &kept);
	complaint = kept.n != bytes.n ? "a path has another length" : complaint;
	text_clear(&kept);
	allow_bytes(a, bytes, &kept);
	complaint = kept.n != bytes.n ? "bytes have another length" : complaint;
	text_free(&kept);
	return complaint;
}

/** @a: begun once, since it holds all words of knowledge. */
static inline const char *redact_complaint(struct allowed *a, const uint8_t *data, size_t size)
{
	struct redactor r = { .words = a };
	struct text found = { 0 };
	struct str bytes = { (const char *)data, size };
	a->redactor = &r;
	const char *complaint = found_complaint(&r, bytes, &found);
	if (!complaint)
		complaint = kept_complaint(a, bytes);
	if (!complaint)
		complaint = kept_complaint(a, text_str(&found));
	a->redactor = NULL;
	text_free(&found);
	redactor_free(&r);
	return complaint;
}

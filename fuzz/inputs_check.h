// Inputs that level 10 saved, taken apart, and what must hold of them whatever the bytes are.
#pragma once

#include "base/cleanup.h"
#include "evidence/recording/inputs.h"

/** NULL, or what does not hold. @metadata, @tensors: the two files; all of the second is at hand. */
static inline const char *inputs_complaint(struct str metadata, struct str tensors)
{
	_cleanup_arena_ struct arena a = { 0 };
	struct inputs_saved in = { 0 };
	struct uh_error *err = inputs_parse(&a, metadata, tensors, tensors.n, &in);
	if (err) {
		uh_error_free(err);
		return in.n ? "it was refused, and there are inputs" : NULL;
	}
	for (size_t i = 0; i < in.n; i++)
		if (in.list[i].at > tensors.n || in.list[i].bytes > tensors.n - in.list[i].at)
			return "an input lies behind the end of its file";
	return NULL;
}

// Reads bytes as a module's file, as modprobe.d and as the files of boot loaders, and says what must not be. For the fuzz target and the
// test.
#pragma once

#include <stdlib.h>

#include "host/settings/setting.h"
#include "source/probe_find.h"

static inline bool is_within(struct str part, struct str whole)
{
	return !part.n || (part.p >= whole.p && part.n <= whole.n && (size_t)(part.p - whole.p) <= whole.n - part.n);
}

static inline const char *module_complaint(struct arena *a, struct str bytes)
{
	struct str section = section_find(bytes, S(".modinfo"));
	struct modinfo m;
	if (!is_within(section, bytes))
		return "a section outside of its file";
	modinfo_read(a, section, &m);
	for (size_t i = 0; i < m.n; i++)
		if (!m.parameters[i].n || !is_within(m.parameters[i], section))
			return "a parameter outside of its section";
	modinfo_read(a, bytes, &m);
	return NULL;
}

static inline const char *modprobe_complaint(struct arena *a, struct str bytes)
{
	struct str rest = bytes, word, name, value;
	struct modprobe_line l;
	for (unsigned line = 0, last = 0; modprobe_next(a, &rest, &line, &l); last = l.line) {
		if (!l.module.n || l.line <= last || line < l.line || l.line > bytes.n + 1)
			return "lines do not go on";
		while (word_next(&l.rest, &word))
			word_split(word, &name, &value);
	}
	return NULL;
}

static inline const char *boot_complaint(struct arena *a, struct str bytes)
{
	struct grub g = { 0 };
	struct loader_entry e = { 0 };
	struct placed_words line = { 0 };
	const char *complaint = NULL;
	grub_read(a, bytes, "grub", &g);
	kernel_cmdline_read(a, bytes, "cmdline", &line);
	loader_entry_read(a, bytes, "entry", &e);
	for (size_t i = 0; i < line.len; i++)
		if (!line.data[i].text.n || !is_within(line.data[i].text, bytes))
			complaint = "a word that is not there";
	grub_free(&g);
	vec_free(&line);
	vec_free(&e.words);
	return complaint;
}

static inline const char *modinfo_complaint(const uint8_t *data, size_t size)
{
	struct arena a = { 0 };
	struct str bytes = { (const char *)data, size };
	const char *complaint = module_complaint(&a, bytes);
	complaint = complaint ? complaint : modprobe_complaint(&a, bytes);
	complaint = complaint ? complaint : boot_complaint(&a, bytes);
	arena_free(&a);
	return complaint;
}

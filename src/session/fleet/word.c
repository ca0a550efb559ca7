// What a node says of itself: the document of unhang check, from a shared directory or over ssh.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "evidence/documents/document.h"
#include "session/fleet/fleet.h"

enum { WORD_MOST = 1 << 20 };

bool node_word_same_host(struct str one, struct str other) { return str_eq(str_split(&one, '.'), str_split(&other, '.')); }

/** 01234567-89ab-cdef-0123-456789abcdef, as the kernel writes it. A node that says anything else could seem to have booted again. */
static bool is_boot_id(struct str id)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	for (size_t n = 0; n < id.n && n + 1 < sizeof(form); n++)
		if (form[n] == '-' ? id.p[n] != '-' : !char_digit(id.p[n]) && !(id.p[n] >= 'a' && id.p[n] <= 'f'))
			return false;
	return id.n == sizeof(form) - 1;
}

static bool read_status(struct str word, enum node_status *ret)
{
	for (size_t n = 0; node_statuses[n]; n++)
		if (str_is(word, node_statuses[n])) {
			*ret = (enum node_status)n;
			return true;
		}
	return false;
}

bool node_word_parse(struct str json, struct arena *a, struct node_word *ret)
{
	_cleanup_json_ json_t *root = json_loadb(json.p, json.n, JSON_REJECT_DUPLICATES, NULL);
	const json_t *watch = json_object_get(root, "watch");
	struct node_word w = { .host = arena_str(a, document_text(root, "host")),
			       .boot_id = arena_str(a, document_text(root, "boot_id")),
			       .smoke = arena_str(a, document_text(watch, "smoke_test")),
			       .asked = document_time(root, "asked"),
			       .worst = { .fault = arena_str(a, document_text(root, "fault")),
					  .class = arena_str(a, document_text(root, "class")),
					  .gpu = arena_str(a, document_text(root, "gpu")),
					  .action = arena_str(a, document_text(root, "action")),
					  .incident = arena_str(a, document_text(root, "incident")),
					  .says = arena_str(a, document_text(root, "says")) } };
	if (!str_is(document_text(root, "schema"), "unhang/check/1") ||
	    !read_status(document_text(root, "status"), &w.status) || !w.asked || !w.host.n || !is_boot_id(w.boot_id))
		return false;
	*ret = w;
	return true;
}

bool node_word_fresh(const struct node_word *w, int64_t seconds, int64_t now)
{
	enum { CLOCKS_DIFFER_S = 60 };
	return w->asked && now - w->asked <= seconds && w->asked <= now + CLOCKS_DIFFER_S;
}

bool node_word_owner(const struct stat *st, uid_t owner)
{
	return !st->st_uid || st->st_uid == geteuid() || st->st_uid == owner;
}

bool node_word_read(const char *directory, uid_t owner, struct str node, struct arena *a, struct node_word *ret)
{
	struct str text;
	struct stat st = { 0 };
	const char *path = arena_printf(a, "%s/" STR_FMT ".json", directory, STR_ARG(node)).p;
	_cleanup_error_ struct uh_error *err = named_read(&(struct named){ .path = path }, WORD_MOST, a, &text, &st);
	return !err && node_word_owner(&st, owner) && !(st.st_mode & (S_IWGRP | S_IWOTH)) && node_word_parse(text, a, ret) &&
	       node_word_same_host(ret->host, node);
}

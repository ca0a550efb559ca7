// What a node says of itself: the document of unhang check, which it wrote to a shared directory. A file speaks of the node that it is named after,
// and of no other.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door/door.h"
#include "evidence/documents/document.h"
#include "report/node/node.h"
#include "session/fleet/fleet.h"

enum { WORD_MOST = 1 << 20 };

/** node17 of node17.cluster.example: Slurm and the node may write it differently. */
static bool same_host(struct str one, struct str other) { return str_eq(str_split(&one, '.'), str_split(&other, '.')); }

bool node_word_read(const char *directory, uid_t owner, struct str node, struct arena *a, struct node_word *ret)
{
	struct str text;
	struct stat st = { 0 };
	const char *path = arena_printf(a, "%s/" STR_FMT ".json", directory, STR_ARG(node)).p;
	_cleanup_error_ struct uh_error *err = named_read(&(struct named){ .path = path }, WORD_MOST, a, &text, &st);
	_cleanup_json_ json_t *root = err ? NULL : json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
	const json_t *watch = json_object_get(root, "watch");
	*ret = (struct node_word){ .host = arena_str(a, document_text(root, "host")),
				   .status = arena_str(a, document_text(root, "status")),
				   .fault = arena_str(a, document_text(root, "fault")),
				   .class = arena_str(a, document_text(root, "class")),
				   .gpu = arena_str(a, document_text(root, "gpu")),
				   .action = arena_str(a, document_text(root, "action")),
				   .incident = arena_str(a, document_text(root, "incident")),
				   .boot_id = arena_str(a, document_text(root, "boot_id")),
				   .smoke = arena_str(a, document_text(watch, "smoke_test")),
				   .asked = document_time(root, "asked") };
	const bool own = (!st.st_uid || st.st_uid == geteuid() || st.st_uid == owner) && !(st.st_mode & (S_IWGRP | S_IWOTH));
	return own && str_is(document_text(root, "schema"), "unhang/check/1") && ret->asked && same_host(ret->host, node);
}

void node_word_reason(const struct node_word *w, struct text *to)
{
	node_reason(
		to,
		&(struct node_finding){
			.fault = w->fault, .class = w->class, .gpu = w->gpu, .action = w->action, .incident = w->incident });
}

// unhang fleet check: unhang check on each host of a list, over ssh, for those who have no scheduler to ask.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/print.h"
#include "evidence/documents/document.h"
#include "report/node/node.h"
#include "report/sheet.h"
#include "session/fleet/fleet.h"

enum { HOSTS_MOST = 65536, AT_ONCE = 32, HOST_MS = 15000, ANSWER_MOST = 1 << 20 };

struct remote_hosts {
	struct arena arena;
	VEC(const char *) list;
};

// --- host lists: node[01-16,20],login1 ---

static bool hosts_add_one(struct remote_hosts *h, struct str name)
{
	for (size_t n = 0; n < name.n; n++)
		if (!char_word(name.p[n]) && !char_among(name.p[n], "-.:@"))
			return false;
	if (!name.n || name.p[0] == '-' || h->list.len == HOSTS_MOST)
		return false;
	vec_push(&h->list, arena_z(&h->arena, name));
	return true;
}

static bool hosts_add_range(struct remote_hosts *h, struct str before, struct str range, struct str after)
{
	struct str last = range, first = str_split(&last, '-');
	int64_t from, to;
	if (!str_number(first, &from))
		return false;
	to = from;
	if (last.n && (!str_number(last, &to) || to < from || to - from >= HOSTS_MOST))
		return false;
	for (int64_t n = from; n <= to; n++)
		if (!hosts_add_one(h, arena_printf(&h->arena, STR_FMT "%0*lld" STR_FMT, STR_ARG(before), (int)first.n,
						   (long long)n, STR_ARG(after))))
			return false;
	return true;
}

static bool hosts_add(struct remote_hosts *h, struct str list)
{
	while (list.n) {
		const ptrdiff_t comma = str_find(list, S(",")), open = str_find(list, S("["));
		if (open < 0 || (comma >= 0 && comma < open)) {
			if (!hosts_add_one(h, str_trim(str_split(&list, ','))))
				return false;
			continue;
		}
		if (str_find(list, S("]")) < open)
			return false;
		const struct str before = str_cut(list, (size_t)open);
		struct str rest = str_from(list, (size_t)open + 1), ranges = str_split(&rest, ']'),
			   after = str_split(&rest, ',');
		while (ranges.n)
			if (!hosts_add_range(h, before, str_split(&ranges, ','), after))
				return false;
		list = rest;
	}
	return h->list.len;
}

// --- one host ---

struct remote_asked {
	const char *host, *ssh, *remote;
};

static void become_ssh(int fd, const void *ctx)
{
	const struct remote_asked *r = ctx;
	const int nothing = open("/dev/null", O_RDWR);
	const char *const words[] = { r->ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--", r->host, r->remote, NULL };
	dup2(nothing, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	dup2(nothing, STDERR_FILENO);
	close_from(STDERR_FILENO + 1);
	execvp(r->ssh, (char *const *)words);
	_exit(127);
}

struct remote_answer {
	struct str status, says, gpu, action, incident;
};

static struct remote_answer remote_read(enum child_end end, struct str text, struct arena *a)
{
	_cleanup_json_ json_t *root = json_loadb(text.p, text.n, 0, NULL);
	if (!str_is(document_text(root, "schema"), "unhang/check/1"))
		return (struct remote_answer){ S("unknown"), end == CHILD_LATE ? S("did not answer in time") :
										 S("no answer of unhang check") };
	return (struct remote_answer){ arena_str(a, document_text(root, "status")), arena_str(a, document_text(root, "says")),
				       arena_str(a, document_text(root, "gpu")), arena_str(a, document_text(root, "action")),
				       arena_str(a, document_text(root, "incident")) };
}

/** How bad it is, for the worst; and as its exit status. */
static enum node_status status_of(struct str word)
{
	for (size_t n = 0; node_statuses[n]; n++)
		if (str_is(word, node_statuses[n]))
			return (enum node_status)n;
	return NODE_UNKNOWN;
}

static void put_row(const struct uh_fleet_options *o, struct sheet *s, const char *host, const struct remote_answer *r,
		    FILE *out)
{
	if (o->json) {
		sheet_fields(s, { "host", v_word(host) }, { "status", v_text(r->status) }, { "says", v_known(r->says) },
			     { "gpu", v_known(r->gpu) }, { "action", v_known(r->action) },
			     { "incident", v_known(r->incident) });
		return;
	}
	fprintf(out, "%-20s  %-9s ", host, node_statuses[status_of(r->status)]);
	if (r->action.n) {
		print_safe(out, r->action);
		fputs(": ", out);
	}
	print_safe(out, str_cut(r->says, 100));
	fputc('\n', out);
}

struct uh_error *uh_fleet_check(const struct uh_fleet_options *o, FILE *out, int *ret_status)
{
	static const int statuses[] = { [NODE_HEALTHY] = 0, [NODE_DEGRADED] = 0, [NODE_UNKNOWN] = 2, [NODE_FAILED] = 1 };
	_cleanup_arena_ struct arena a = { 0 };
	struct remote_hosts hosts = { 0 };
	const unsigned wide = o->at_once ? o->at_once : AT_ONCE;
	unsigned counts[NODE_FAILED + 1] = { 0 };
	enum node_status worst = NODE_HEALTHY;
	bool good = true;
	const char *bad = "";
	for (size_t n = 0; n < o->nhosts && good; n++)
		good = hosts_add(&hosts, str_z(bad = o->hosts[n]));
	if (!good) {
		vec_free(&hosts.list);
		arena_free(&hosts.arena);
		return uh_error_new("'%s' is no list of hosts; write node1,node2 or node[01-16]", bad);
	}
	struct sheet s = sheet_on(o->json, out);
	if (o->json)
		sheet_begin(&s, "unhang/fleet-check/1", "nodes");
	struct child *children = mem_alloc(wide * sizeof(*children));
	for (size_t begin = 0; begin < hosts.list.len; begin += wide) {
		const size_t n = hosts.list.len - begin < wide ? hosts.list.len - begin : wide;
		const int64_t deadline = now_ms() + HOST_MS;
		for (size_t i = 0; i < n; i++) {
			const struct remote_asked r = { hosts.list.data[begin + i], o->ssh ? o->ssh : "ssh",
							o->remote ? o->remote : "unhang check --json" };
			children[i] = (struct child){ .fd = -1 };
			child_start(CHILD_FLEET_COMMAND, become_ssh, &r, &children[i]);
		}
		for (size_t i = 0; i < n; i++) {
			_cleanup_text_ struct text said = { 0 };
			const enum child_end end =
				children[i].fd < 0 ? CHILD_REFUSED : child_wait(&children[i], deadline, ANSWER_MOST, &said);
			const struct remote_answer r = remote_read(end, text_str(&said), &a);
			const enum node_status status = status_of(r.status);
			child_drop(&children[i]);
			worst = status > worst ? status : worst;
			counts[status]++;
			if (o->json)
				sheet_open(&s, NULL, '{');
			if (o->json || o->all || status != NODE_HEALTHY)
				put_row(o, &s, hosts.list.data[begin + i], &r, out);
			if (o->json)
				sheet_close(&s, '}');
		}
	}
	free(children);
	if (o->json)
		sheet_end(&s);
	else
		fprintf(out, "%zu node%s: %u healthy, %u degraded, %u unknown, %u failed\n", hosts.list.len,
			hosts.list.len == 1 ? "" : "s", counts[NODE_HEALTHY], counts[NODE_DEGRADED], counts[NODE_UNKNOWN],
			counts[NODE_FAILED]);
	*ret_status = statuses[worst];
	vec_free(&hosts.list);
	arena_free(&hosts.arena);
	return NULL;
}

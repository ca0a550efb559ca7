// Slurm, through its own commands: they know the protocol of their version, and are what an administrator would type.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "session/fleet/fleet.h"

enum { ANSWER_MS = 30000, ANSWER_MOST = 64 << 20, WORDS_MOST = 8 };

struct slurm_command {
	const char *words[WORDS_MOST];
};

static void become_slurm(int fd, const void *ctx)
{
	const struct slurm_command *c = ctx;
	const int nothing = open("/dev/null", O_RDONLY);
	setenv("LC_ALL", "C", 1);
	setenv("SLURM_TIME_FORMAT", "standard", 1);
	setenv("TZ", "UTC", 1);
	dup2(nothing, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	close_from(STDERR_FILENO + 1);
	execvp(c->words[0], (char *const *)c->words);
	dprintf(STDOUT_FILENO, "%s: %s\n", c->words[0], strerror(errno));
	_exit(127);
}

/** What it said. The error has its last words. */
static struct uh_error *slurm_run(const struct slurm_command *c, struct text *ret)
{
	_cleanup_child_ struct child child = { .fd = -1 };
	if (!child_start(CHILD_FLEET_COMMAND, become_slurm, c, &child))
		return uh_error_os(errno, "%s", c->words[0]);
	const enum child_end end = child_wait(&child, now_ms() + ANSWER_MS, ANSWER_MOST, ret);
	struct str said = str_trim(text_str(ret));
	if (end == CHILD_GOOD)
		return NULL;
	if (end == CHILD_LATE)
		return uh_error_new("%s did not answer in %d s", c->words[0], ANSWER_MS / 1000);
	return uh_error_new("%s: " STR_FMT, c->words[0], STR_ARG(str_cut(said, 300)));
}

void slurm_nodes_free(struct slurm_nodes *n)
{
	vec_free(&n->list);
	arena_free(&n->arena);
}

static struct str slurm_field(struct str *line, struct arena *a)
{
	const struct str value = str_trim(str_split(line, '|'));
	return str_among(value, STR_EQUALS, "(null)|none|Unknown|").n ? (struct str){ 0 } : arena_str(a, value);
}

struct uh_error *slurm_list(const char *node, struct slurm_nodes *ret)
{
	static const char form[] = "NodeList:256|,StateComplete:256|,Gres:512|,User:64|,Timestamp:40|,Reason:1024|";
	const struct slurm_command c = { { "sinfo", "-h", "-N", "-O", form, node ? "-n" : NULL, node } };
	_cleanup_text_ struct text said = { 0 };
	struct uh_error *err = slurm_run(&c, &said);
	*ret = (struct slurm_nodes){ 0 };
	for (struct str rest = text_str(&said); !err && rest.n;) {
		struct str line = str_split(&rest, '\n');
		struct slurm_node n = { .name = slurm_field(&line, &ret->arena) };
		// One that is in several partitions comes several times, one behind the other.
		if (!n.name.n || (ret->list.len && str_eq(ret->list.data[ret->list.len - 1].name, n.name)))
			continue;
		n.state = slurm_field(&line, &ret->arena);
		n.gpu = str_find(slurm_field(&line, &ret->arena), S("gpu")) >= 0;
		n.user = slurm_field(&line, &ret->arena);
		n.set = slurm_field(&line, &ret->arena);
		n.reason = slurm_field(&line, &ret->arena);
		vec_push(&ret->list, n);
	}
	if (!err && node && ret->list.len != 1)
		err = uh_error_new("Slurm knows no node %s", node);
	return err;
}

static struct uh_error *slurm_tell(const struct slurm_command *c)
{
	_cleanup_text_ struct text said = { 0 };
	return slurm_run(c, &said);
}

struct uh_error *slurm_drain(const char *node, const char *reason)
{
	_cleanup_arena_ struct arena a = { 0 };
	return slurm_tell(&(struct slurm_command){ { "scontrol", "update", arena_printf(&a, "NodeName=%s", node).p,
						     "State=DRAIN", arena_printf(&a, "Reason=%s", reason).p } });
}

struct uh_error *slurm_resume(const char *node)
{
	_cleanup_arena_ struct arena a = { 0 };
	return slurm_tell(
		&(struct slurm_command){ { "scontrol", "update", arena_printf(&a, "NodeName=%s", node).p, "State=RESUME" } });
}

struct uh_error *slurm_reboot(const char *node, const char *reason)
{
	_cleanup_arena_ struct arena a = { 0 };
	return slurm_tell(&(struct slurm_command){ { "scontrol", "reboot", arena_printf(&a, "reason=%s", reason).p, node } });
}

bool slurm_can_reboot(void)
{
	_cleanup_text_ struct text said = { 0 };
	_cleanup_error_ struct uh_error *err = slurm_run(&(struct slurm_command){ { "scontrol", "show", "config" } }, &said);
	for (struct str rest = text_str(&said); !err && rest.n;) {
		struct str line = str_split(&rest, '\n'), key = str_word(&line);
		if (str_is(key, "RebootProgram"))
			return str_word(&line).n && str_word(&line).n && str_find(line, S("(null)")) < 0;
	}
	return false;
}

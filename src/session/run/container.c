// A container's processes are children of a daemon, in a control group of their own: only the daemon knows how it ended. It forgets one that
// was started with --rm.
#include "session/run/container.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/child.h"
#include "base/door/door.h"
#include "base/save.h"

enum { INSPECT_MS = 5000, INSPECT_MOST = 1 << 20, ID_MOST = 128 };

static bool is_engine(const char *program)
{
	const struct str name = str_base(str_z(program));
	return str_is(name, "docker") || str_is(name, "podman");
}

/** The value of `--name X` or `--name=X`, before the image's own arguments begin; nobody knows where that is, so the first counts. */
static struct str option_of(char *const *command, const char *option)
{
	for (size_t i = 1; command[0] && command[i]; i++) {
		struct str value;
		if (!strcmp(command[i], option) && command[i + 1])
			return str_z(command[i + 1]);
		if (str_behind(str_z(command[i]), str_z(option), &value) && value.n > 1 && value.p[0] == '=')
			return str_from(value, 1);
	}
	return (struct str){ 0 };
}

struct str container_named(char *const *command, struct arena *a)
{
	struct str name, file;
	if (!command || !command[0] || !is_engine(command[0]) || !command[1] || strcmp(command[1], "run"))
		return (struct str){ 0 };
	name = option_of(command, "--name");
	file = option_of(command, "--cidfile");
	if (!name.n && file.n)
		uh_error_free(named_read(&(struct named){ .path = arena_z(a, file) }, ID_MOST, a, &name, NULL));
	name = str_trim(name);
	return name.n && name.p[0] != '-' ? name : (struct str){ 0 };
}

struct inspect {
	const char *engine, *name;
};

static void inspect(int fd, const void *ctx)
{
	const struct inspect *i = ctx;
	char *const arguments[] = { (char *)i->engine, (char *)"inspect", (char *)i->name, NULL };
	if (dup2(fd, STDOUT_FILENO) >= 0)
		execvp(i->engine, arguments);
	_exit(1);
}

bool container_save(char *const *command, const char *path)
{
	struct arena a = { 0 };
	struct text said = { 0 };
	const struct str name = container_named(command, &a);
	const struct inspect i = { command[0], name.n ? arena_z(&a, name) : NULL };
	const bool known = i.name && child_run(inspect, &i, INSPECT_MS, INSPECT_MOST, &said) && said.n;
	struct uh_error *err = known ? save_soon(AT_FDCWD, path, text_str(&said), 0640) : NULL;
	const bool saved = known && !err;
	uh_error_free(err);
	text_free(&said);
	arena_free(&a);
	return saved;
}

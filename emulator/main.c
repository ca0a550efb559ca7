// unhang-emulator: what `unhang emulate` runs. A program of its own, so that unhang does not need FUSE.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/door/door.h"
#include "base/json.h"
#include "base/print.h"
#include "emulator/namespace.h"

enum { CANNOT = 2, SCENARIO_BYTES = 16 << 20 };

static int cannot(struct uh_error *err)
{
	print_said(uh_error_message(err));
	uh_error_free(err);
	return CANNOT;
}

static struct uh_error *read_text(const char *path, struct text *ret)
{
	struct arena room = { 0 };
	struct str text;
	struct uh_error *err = root_read(NULL, path, SCENARIO_BYTES, &room, &text, NULL);
	door_end(); // the child that read it is of the machine outside
	if (!err)
		text_add(ret, text);
	arena_free(&room);
	return err;
}

static const struct emu_builtin *builtin(const char *name)
{
	for (const struct emu_builtin *b = emu_builtins; b->name; b++)
		if (!strcmp(b->name, name))
			return b;
	return NULL;
}

static struct uh_error *read_builtin(const struct know *k, const struct emu_builtin *b, struct emu_machine **ret)
{
	return emu_read(k, b->name, (struct str){ b->begin, (size_t)(b->end - b->begin) }, ret);
}

static struct uh_error *read_scenario(const struct know *k, const char *name, struct emu_machine **ret)
{
	const struct emu_builtin *b = builtin(name);
	if (b)
		return read_builtin(k, b, ret);
	struct opened what;
	_cleanup_error_ struct uh_error *none = strchr(name, '/') ? NULL : door_look(&(struct named){ .path = name }, &what);
	if (none && none->errnum == ENOENT)
		return uh_error_new("there is no scenario '%s'; unhang emulate --list lists those that are built in", name);
	struct text text = { 0 };
	struct uh_error *err = read_text(name, &text);
	if (!err)
		err = emu_read(k, name, text_str(&text), ret);
	text_free(&text);
	return err;
}

static int list(const struct know *k, bool as_json)
{
	struct json json = { .out = stdout };
	int widest = 0;
	for (const struct emu_builtin *b = emu_builtins; b->name; b++)
		widest = (int)strlen(b->name) > widest ? (int)strlen(b->name) : widest;
	if (as_json)
		jw_open(&json, '[');
	for (const struct emu_builtin *b = emu_builtins; b->name; b++) {
		struct emu_machine *m = NULL;
		struct uh_error *err = read_builtin(k, b, &m);
		if (err)
			return cannot(err);
		if (as_json) {
			jw_open(&json, '{');
			jw_field(&json, "name", str_z(b->name));
			jw_field(&json, "title", emu_title(m));
			jw_close(&json, '}');
		} else {
			printf("%-*s  " STR_FMT "\n", widest, b->name, STR_ARG(emu_title(m)));
		}
		emu_free(m);
	}
	if (as_json)
		jw_close(&json, ']');
	return print_arrived(stdout) ? 0 : cannot(uh_error_new("standard output could not be written"));
}

static int check(const struct know *k, const char *path)
{
	struct emu_machine *m = NULL;
	struct text text = { 0 };
	struct uh_error *err = read_text(path, &text);
	if (!err)
		err = emu_read(k, path, text_str(&text), &m);
	text_free(&text);
	if (err)
		return cannot(err);
	emu_free(m);
	return 0;
}

static void say_what_was_done(const struct server *s)
{
	if (s->writes)
		fprintf(stderr, "unhang: %zu write%s reached the emulated GPU\n", s->writes, s->writes == 1 ? "" : "s");
	if (s->acts)
		fprintf(stderr, "unhang: %zu read%s of files that act on the GPU\n", s->acts, s->acts == 1 ? "" : "s");
}

static int emulate(struct know *k, const char *scenario, const char *record, char **command, struct str arguments)
{
	struct server s = { .know = k };
	struct uh_error *err = read_scenario(k, scenario, &s.machine);
	if (err)
		return cannot(err);
	if (record) {
		s.record = fopen(record, "we");
		if (!s.record)
			err = uh_error_os(errno, "%s", record);
		else
			setvbuf(s.record, NULL, _IOLBF, 0);
	}
	s.nseats = emu_gpus(s.machine);
	s.seats = mem_alloc((s.nseats + 1) * sizeof(*s.seats));
	for (size_t i = 0; i < s.nseats; i++) {
		s.seats[i].gpu = emu_gpu(s.machine, i);
		s.seats[i].facts = emu_facts(s.seats[i].gpu);
	}
	int status = 0;
	if (!err)
		err = run_command(&s, command, arguments, &status);
	if (err)
		status = cannot(err);
	else
		say_what_was_done(&s);
	if (s.record && fclose(s.record))
		status = cannot(uh_error_os(errno, "%s", record));
	tree_free(&s);
	free(s.seats);
	emu_free(s.machine);
	return status;
}

static int misused(const char *what) { return cannot(uh_error_new("%s; see unhang emulate --help", what)); }

int main(int argc, char **argv)
{
	const char *scenario = NULL, *record = NULL, *to_check = NULL;
	bool listing = false, json = false;
	int i = 1;
	hold_descriptors();
	for (; i < argc; i++) {
		if (!strcmp(argv[i], "--list"))
			listing = true;
		else if (!strcmp(argv[i], "--json"))
			json = true;
		else if ((!strcmp(argv[i], "--record") || !strcmp(argv[i], "--check")) && i + 1 >= argc)
			return cannot(uh_error_new("%s needs a file", argv[i]));
		else if (!strcmp(argv[i], "--record"))
			record = argv[++i];
		else if (!strcmp(argv[i], "--check"))
			to_check = argv[++i];
		else if (!strcmp(argv[i], "--"))
			break;
		else if (argv[i][0] == '-')
			return cannot(uh_error_new("there is no option '%s'; see unhang emulate --help", argv[i]));
		else if (!scenario)
			scenario = argv[i];
		else
			return misused("the command stands behind --");
	}
	if (!listing && !to_check && !scenario)
		return misused("which scenario?");
	if (scenario && (listing || to_check))
		return misused("either a list, a check or a scenario");
	if (scenario && i + 1 >= argc)
		return misused("which command? SCENARIO -- COMMAND");
	struct know *k = know_load(&(struct know_problems){ 0 });
	door_end(); // the child that read it is of the machine outside
	const char *end = argv[argc - 1] + strlen(argv[argc - 1]);
	int status = listing  ? list(k, json) :
		     to_check ? check(k, to_check) :
				emulate(k, scenario, record, argv + i + 1, (struct str){ argv[0], (size_t)(end - argv[0]) });
	know_free(k);
	return status;
}

// unhang knowledge update, version, key and export: signed knowledge.
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/knowledge.h"
#include "unhang/unhang.h"

int knowledge_update(int argc, char **argv)
{
	static const struct option options[] = {
		{ "root", required_argument, NULL, 'r' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "remove", no_argument, NULL, 'd' },
		{ 0 },
	};
	const char *root = NULL;
	bool dry_run = false, take_away = false;
	opterr = 0;
	for (int c; (c = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
		switch (c) {
		case 'r':
			root = other_root(optarg);
			break;
		case 'n':
			dry_run = true;
			break;
		case 'd':
			take_away = true;
			break;
		default:
			complain_option(argv, c, "knowledge");
			return EXIT_CANNOT;
		}
	}
	if (argc - optind != !take_away || (take_away && dry_run)) {
		complain("unhang knowledge update FILE, or unhang knowledge update --remove");
		return EXIT_CANNOT;
	}
	struct uh_error *err =
		take_away ? uh_knowledge_remove(root, stdout) : uh_knowledge_update(root, argv[optind], dry_run, stdout);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}

int knowledge_version(int argc, char **argv)
{
	static const struct option options[] = {
		{ "root", required_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'J' },
		{ 0 },
	};
	const char *root = NULL;
	bool json = false;
	opterr = 0;
	for (int c; (c = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
		if (c != 'r' && c != 'J') {
			complain_option(argv, c, "knowledge");
			return EXIT_CANNOT;
		}
		if (c == 'r')
			root = other_root(optarg);
		json |= c == 'J';
	}
	if (optind < argc) {
		complain("unhang knowledge version takes no '%s'; see unhang knowledge --help", argv[optind]);
		return EXIT_CANNOT;
	}
	uh_knowledge_version(root, json, stdout);
	return EXIT_NOTHING_WRONG;
}

int knowledge_key(int argc, char **argv)
{
	if (argc != 2 || argv[1][0] == '-') {
		complain("unhang knowledge key FILE: makes the key FILE and FILE.pub; see unhang knowledge --help");
		return EXIT_CANNOT;
	}
	struct uh_error *err = uh_knowledge_key(argv[1], stdout);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}

/** A whole number above 0. */
static bool parse_version(const char *text, unsigned long long *ret)
{
	int64_t v;
	if (!char_digit(text[0]) || strlen(text) > 18 || !str_number(str_z(text), &v) || v <= 0) {
		complain("--version needs a whole number, such as 2026111501 (YYYYMMDDNN), not '%s'", text);
		return false;
	}
	*ret = (unsigned long long)v;
	return true;
}

int knowledge_export(int argc, char **argv)
{
	static const struct option options[] = {
		{ "key", required_argument, NULL, 'k' },
		{ "version", required_argument, NULL, 'v' },
		{ "note", required_argument, NULL, 'n' },
		{ 0 },
	};
	struct uh_export_options o = { 0 };
	opterr = 0;
	for (int c; (c = getopt_long(argc, argv, ":o:", options, NULL)) != -1;) {
		switch (c) {
		case 'k':
			o.key = optarg;
			break;
		case 'v':
			if (!parse_version(optarg, &o.version))
				return EXIT_CANNOT;
			break;
		case 'n':
			o.note = optarg;
			break;
		case 'o':
			o.file = optarg;
			break;
		default:
			complain_option(argv, c, "knowledge");
			return EXIT_CANNOT;
		}
	}
	if (!o.key || !o.version) {
		complain("unhang knowledge export needs --key FILE and --version N");
		return EXIT_CANNOT;
	}
	struct uh_error *err = uh_knowledge_export(&o, (const char *const *)argv + optind, (size_t)(argc - optind), stdout);
	return err ? cannot(err) : EXIT_NOTHING_WRONG;
}

#!/usr/bin/env python3
"""The tools that judge tests and changes: where tools/mutants breaks code, and what tools/compare-builds calls a difference."""
import re
import subprocess
import sys

import tap

TOOLS = tap.HERE / ".." / "tools"
sys.dont_write_bytecode = True
sys.path.insert(0, str(TOOLS))
import breakages  # noqa: E402

SOURCE = """// if (a < b) in a comment
#define MOST(a) ((a) < 5 ? \\
	(a) : 7)
enum colour { RED, GREEN = 4, BLUE };
struct pair { int a[3]; };
static const int table[] = { 10, BLUE };

static bool is_red(struct str s, int n)
{
	const char *text = "a < b && c; 12";
	if (n < 12 && str_is(s, "light-red"))
		return false;
	note(text,
	     n + 1);
	n++;
	return n == RED;
}
"""
WANTED = {
    4: {("constant", "GREEN = 3"), ("constant", "GREEN = 5")},
    6: {("constant", "9, BLUE"), ("constant", "11, BLUE"), ("member", "10, GREEN")},
    11: {("condition", "n <= 12 &&"), ("condition", "12 || str_is"), ("constant", "n < 11"), ("constant", "n < 13"), ("id", '"light-rex"'), ("negated", 'if (!(n < 12 && str_is(s, "light-red")))')},
    12: {("constant", "return true;")},
    13: {("left out", "\t\n;\n")},
    14: {("operator", "n - 1"), ("constant", "n + 0"), ("constant", "n + 2")},
    15: {("left out", "\t;\n"), ("operator", "n--;")},
    16: {("condition", "n != RED"), ("member", "== GREEN"), ("returned", "return 0;")},
}


def test_breakages(t):
    found = breakages.breakages_of(SOURCE, breakages.enums_of([SOURCE]))
    t.same(sorted(found), sorted(WANTED), "the lines that can be broken: no comment, macro, declaration or text")
    for line, wanted in WANTED.items():
        made = [(kind, one.apply(SOURCE)) for kind, all_of in found[line].items() for one in all_of]
        missing = [f"{kind}: {text}" for kind, text in wanted if not any(kind == k and text in broken and text not in SOURCE for k, broken in made)]
        t.ok(not missing and len(made) == len(wanted), f"the breakages of line {line}", "\n".join(missing + [broken for _, broken in made]))
        moved = [broken for _, broken in made if broken.count("\n") != SOURCE.count("\n")]
        t.same(moved, [], f"the lines behind line {line} keep their numbers")


def list_mutants(*options):
    return subprocess.run([TOOLS / "mutants", "--list", *options], capture_output=True, text=True, check=True).stdout


def test_draw(t):
    room = ("--count", "9", "--room", "apply")
    first = list_mutants("--seed", "7", *room)
    places = [line for line in first.splitlines() if not line.startswith(" ")]
    t.ok(len(places) == 9 and all(line.startswith("src/apply/") for line in places), "as many as are asked for, of the room that is asked for", first)
    t.same(list_mutants("--seed", "7", *room), first, "a seed breaks the same lines again")
    t.ok(list_mutants("--seed", "8", *room) != first, "another seed others", first)


def compare(old, new):
    run = subprocess.run([TOOLS / "compare-builds", old, new, "--only", "docs/sample-dmesg"], capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def test_compare(t, unhang):
    status, said = compare(unhang.binary, unhang.binary)
    t.ok(status == 0 and "3 outputs compared, 0 differ" in said, "a build is the same as itself", said)
    for name, script in (("output", f'"{unhang.binary}" "$@" | sed "s/page/PAGE/g"; exit 1'), ("error output", f'echo hello >&2; exec "{unhang.binary}" "$@"'),
                         ("exit status", f'"{unhang.binary}" "$@"; exit 3')):
        other = unhang.write(f"{name}/unhang", f"#!/bin/sh\n{script}\n")
        other.chmod(0o755)
        status, said = compare(unhang.binary, other)
        t.ok(status == 1 and "3 differ" in said and "sample-dmesg.txt" in said, f"another {name} is a difference", said)
    t.ok(compare(unhang.binary, "/nonexistent")[0] == tap.CANNOT, "a program that is not there is none")


def commit_of(folder):
    return subprocess.run([folder / "tools" / "commit"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}).stdout.strip()


def test_commit(t, unhang):
    """What --version says, of a tree in git, of what git archive made of it, and of neither."""
    said = unhang.run("--version").stdout.decode()
    t.ok(re.fullmatch(r"unhang \d+\.\d+\.\d+\ncommit ([0-9a-f]{12} \d{4}-\d\d-\d\d(, changed since)?|unknown: it was built outside of git)\n"
                      r"knowledge of 20\d\d-[01]\d-[0-3]\d \(20\d{8}\)\n", said), "--version names version, commit and date of the knowledge", said)
    stamp = (TOOLS / "commit").read_text()
    for name, text, wanted in (("outside", stamp, ""), ("archive", stamp.replace("$Format:%H %cs$", "%040x 2026-11-17" % 0x1234), "000000000000 2026-11-17")):
        unhang.write(f"{name}/tools/commit", text).chmod(0o755)
        t.same(commit_of(unhang.directory / name), wanted, f"the commit of sources from: {name}")
    repository = unhang.directory / "outside"
    for arguments in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True)
    t.ok(re.fullmatch(r"[0-9a-f]{12} \d{4}-\d\d-\d\d", commit_of(repository)), "the commit of a tree in git", commit_of(repository))
    (repository / "tools" / "commit").write_text(stamp + "# changed\n")
    t.ok(commit_of(repository).endswith(", changed since"), "a tree that was changed since", commit_of(repository))
    unhang.write("outside/inner/tools/commit", stamp).chmod(0o755)
    t.same(commit_of(repository / "inner"), "", "sources that lie in another repository are not its commit")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_breakages(t)
    test_draw(t)
    test_compare(t, unhang)
    test_commit(t, unhang)
    t.end()


if __name__ == "__main__":
    main()

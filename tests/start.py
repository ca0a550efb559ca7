#!/usr/bin/env python3
"""How people begin: packages, what is installed, completions, the demo."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import tap

TOP = tap.HERE.parent
PACKAGES = TOP / "tools" / "install-packages"


def room_with(directory, stubs, tools=("sh", "cat", "cut", "id", "grep", "sleep")):
    """A directory of programs: some real ones, and shell scripts."""
    directory.mkdir()
    for tool in tools:
        (directory / tool).symlink_to(shutil.which(tool))
    for name, text in stubs.items():
        (directory / name).write_text("#!/bin/sh\n" + text)
        (directory / name).chmod(0o755)
    return directory


def install(room, *purposes, **more):
    return subprocess.run(["/bin/sh", PACKAGES, *purposes], env={"PATH": str(room), "UNHANG_APT_PAUSE": "0", **more}, capture_output=True, text=True, timeout=60)


APT = """echo "$@" >>{0}/asked
case $* in *update*)
	n=$(cat {0}/n 2>/dev/null || echo 0)
	[ "$n" -ge {1} ] && exit 0
	echo $((n + 1)) >{0}/n
	echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 812 (apt-get)' >&2
	exit 100 ;;
esac
"""


def test_packages(t, unhang):
    for busy, name in ((0, "free"), (3, "busy")):
        room = room_with(unhang.directory / name, {"sudo": 'exec "$@"\n', "apt-cache": "exit 1\n", "dpkg-query": 'echo "unknown ok not-installed"\n', "apt-get": APT.format(unhang.directory / name, busy)})
        run = install(room, "build")
        asked = (room / "asked").read_text().splitlines()
        t.ok(run.returncode == 0 and len(asked) == busy + 2 and "install" in asked[-1] and "meson" in asked[-1], f"apt's lists {name}: it waits, then installs", (run, asked))
        t.ok(all("DPkg::Lock::Timeout" in line for line in asked), f"apt's lists {name}: and has apt wait for dpkg", asked)
        t.same(run.stderr.count("another apt is at work"), int(busy > 0), f"apt's lists {name}: the wait is told once")
    room = room_with(unhang.directory / "stuck", {"sudo": 'exec "$@"\n', "apt-cache": "exit 1\n", "dpkg-query": "exit 1\n", "apt-get": APT.format(unhang.directory / "stuck", 99)})
    run = install(room, "build", UNHANG_APT_TRIES="3")
    t.ok(run.returncode and "Could not get lock" in run.stderr, "a lock that nobody gives back is told", run)
    debian = set(re.search(r"^packages_build='(.*)'", PACKAGES.read_text(), re.M).group(1).split())
    for manager, wanted in (("dnf", {"gcc", "meson", "libarchive-devel", "elfutils-devel"}), ("pacman", {"meson", "elfutils", "fuse3"}), ("zypper", {"libdw-devel", "libjansson-devel"})):
        room = room_with(unhang.directory / manager, {name: "" for name in (manager, "gcc", "meson", "ninja", "pkg-config", "python3")})
        run = install(room, "build", "test")
        line = next((line for line in run.stderr.splitlines() if f"{manager} " in line), "")
        t.ok(run.returncode == 0 and wanted <= set(line.split()) and "libcmocka-dev" not in line.split(), f"{manager}: the packages are named, by its own names", run)
        t.ok(len(line.split()) >= len(debian), f"{manager}: all of them", line)
    room = room_with(unhang.directory / "other", {})
    run = install(room, "build")
    t.ok(run.returncode == 1 and "libarchive" in run.stderr and "missing: gcc meson" in run.stderr, "elsewhere: what is missing, and Debian's names", run)


def test_installed(t, unhang):
    build = pathlib.Path(sys.argv[1]).resolve().parent
    if not shutil.which("meson") or not (build / "build.ninja").exists():
        t.skip("what is installed", "there is no meson, or no build of it")
        return
    to = unhang.directory / "destination"
    run = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], env={**os.environ, "DESTDIR": str(to)}, capture_output=True, text=True)
    t.ok(run.returncode == 0, "DESTDIR: everything is installed", run.stdout + run.stderr)
    files = {str(p.relative_to(to)): p for p in to.rglob("*") if p.is_file()}
    schemas = sorted(p.name for p in (TOP / "docs").glob("*.schema.json"))
    t.same(sorted(p.name for name, p in files.items() if name.endswith(".schema.json")), schemas, "every schema is installed")
    for end in ("bin/unhang", "bash-completion/completions/unhang", "zsh/site-functions/_unhang", "fish/vendor_completions.d/unhang.fish", "man1/unhang.1"):
        t.ok(any(name.endswith(end) for name in files), f"and {end}", sorted(files))


def functions(text):
    """The functions of the zsh completion that ask the program: they are plain sh."""
    return "\n".join(re.findall(r"^_unhang_\w+\(\) \{\n.*?^\}\n", text, re.M | re.S))


def awk_of(text):
    return [re.sub(r"\s+", "", program) for program in re.findall(r"awk '(BEGIN.*?)'", text, re.S)]


BASH = r"""
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _unhang; printf '%s\n' "${COMPREPLY[@]}"
"""
# What bash offers behind these words: all of it, or some.
OFFERED = [(["explain", "--boot", ""], {"0", "-1", "-2", "-3"}), (["explain", "-b", ""], {"0", "-1", "-2", "-3"}), (["explain", "--fail-on", "n"], {"node"}),
           (["run", "--cores", ""], {"keep", "explain-and-drop", "off"}), (["run", "--level", "1"], {"1", "10"}), (["capture", "--user-data", ""], {"none", "registers", "all"}),
           (["level", "4711", ""], {"0", "1", "3", "5", "10"}), (["knowledge", ""], {"list", "show", "check", "match", "version", "update", "key", "export"}),
           (["knowledge", "list", "rem"], {"remedy"}), (["knowledge", "export", "--k"], {"--key"}), (["run", "--", "tru"], {"true", "truncate"}),
           (["explain", "--root", "do"], {"docs"}), (["explain", "REA"], {"README.md"}), (["watch", "--r"], {"--run-dir"}), (["emulate", "sdma-s"], {"sdma-stuck"}), (["expl"], {"explain"})]


def test_completions(t, unhang):
    """They ask the program, so what they offer is what its table has."""
    bash, zsh, fish = (TOP / "completion" / name for name in ("unhang", "_unhang", "unhang.fish"))
    bin_ = unhang.directory / "bin"
    bin_.mkdir()
    (bin_ / "unhang").symlink_to(pathlib.Path(unhang.binary).resolve())
    environment = {"PATH": f"{bin_}:{os.environ['PATH']}"}
    ask = lambda words: subprocess.run(["sh", "-c", functions(zsh.read_text()) + words], env=environment, capture_output=True, text=True).stdout.splitlines()
    offered = lambda *words: set(subprocess.run(["bash", "-c", BASH, "bash", bash, "unhang", *words], env=environment, cwd=TOP, capture_output=True, text=True).stdout.split())
    names = [line.partition(":")[0] for line in ask("_unhang_commands")]
    listed = [line.partition("\t")[0] for line in unhang.run("--list-commands").stdout.decode().splitlines()]
    t.ok(names == listed and "explain" in names, "each command is offered", (names, listed))
    t.ok(set(names) <= offered(""), "by bash, too", offered(""))
    for name in names:
        wanted = set(re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]*)", unhang.run(name, "--help").stdout.decode(), re.M)) or {"--help"}
        t.same(sorted(line.partition(":")[0] for line in ask(f"_unhang_options {name}")), sorted(wanted), f"{name}: each option is offered")
        t.same(sorted(offered(name, "--")), sorted(wanted), f"{name}: by bash, too")
    for words, wanted in OFFERED:
        t.same(sorted(offered(*words)), sorted(wanted), f"bash offers behind {' '.join(words)}")
    t.ok(dict(line.split(":", 1) for line in ask("_unhang_options explain"))["--journal"].count("this boot") == 1, "with what its help says", ask("_unhang_options explain"))
    t.same((ask("_unhang_values --boot explain"), ask("_unhang_values '' level"), ask("_unhang_values --html explain")), (["0 -1 -2 -3"], ["0 1 3 5 10"], ["FILE"]), "zsh knows values, too")
    t.ok(awk_of(zsh.read_text())[0] == awk_of(fish.read_text())[0].replace('$1"\\t"', '$1":"'), "fish reads the table as zsh does", (awk_of(fish.read_text()), awk_of(zsh.read_text())))
    for shell, arguments, path in (("zsh", ["-n"], zsh), ("fish", ["--no-execute"], fish)):
        if shutil.which(shell):
            run = subprocess.run([shell, *arguments, path], capture_output=True, text=True)
            t.same((run.returncode, run.stderr), (0, ""), f"{shell} can read it")
        else:
            t.skip(f"{shell} can read it", f"there is no {shell}")


def test_demo(t, unhang):
    """What the demo says to try next works."""
    lines = subprocess.run(["make", "--no-print-directory", "-n", "demo", "BUILD=build"], cwd=TOP, capture_output=True, text=True).stdout.splitlines()
    tries = [re.search(r"echo '  (.*)'", line).group(1) for line in lines if re.match(r"echo '  ", line)]
    t.ok(len(tries) > 4 and lines[-1].startswith("echo '  "), "it ends with what to try next", lines[-3:])
    wrong = []
    for words in tries:
        command = re.match(r"(build/unhang [^ ].*?)  ", words)
        if command and "--root" not in words and words.split()[1] == "explain":
            run = unhang.run(*[TOP / w if w.startswith("docs/") else w for w in command.group(1).split()[1:]])
            wrong += [f"{words}: {run.stderr}"] * (run.returncode != 1)
    t.no_complaints(wrong, "each sample that it names has its answer")


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_packages(t, unhang)
    test_installed(t, unhang)
    test_completions(t, unhang)
    test_demo(t, unhang)
    t.end()


main()

#!/usr/bin/env python3
"""The rules of the house: who may include whom, no mutable globals, every command documented, every knowledge file right."""
import re
import shutil
import subprocess
import sys

import tap

TOP = tap.HERE / ".."
# A folder under src/ includes only from folders above it in this list, and from itself.
FOLDERS = ["base", "knowledge", "source", "code", "gpu", "host", "apply", "evidence", "diagnose", "report", "capture", "store", "watch", "job", "serve", "fleet",
           "session", "cmd"]
# A folder that may not include all that stands above it. A report is handed what it writes about; the program is a user of the library.
REFUSED = {"report": {"source": "it reads nothing", "host": "it looks at no machine", "apply": "it changes nothing"}}
ONLY = {"cmd": {"base", "cmd", "unhang"}, "emulator": {"base", "knowledge", "gpu", "emulator"}}
# Functions of rooms that a folder may not include, which it may call: they look something up in a const struct that it was handed.
LOOKUPS = {"host_fact", "host_machine", "host_value"}
# Declarations in .c files of what another file has, which are allowed, with the reason.
ALLOWED_EXTERNS = {"emulator/process_memory.c": "a debugger finds the symbol by its name; nothing includes it"}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<](?:src/)?([a-z_]+)/([^">]+)[">]', re.M)
# Mutable data at file scope that is allowed, with the reason.
ALLOWED_GLOBALS = {"the_door": "the child that reads for the process (base/door/ask.c): there is one, whatever sessions there are",
                   "the_clerk": "the child that has rights and reads for a process that put its own down (source/clerk/ask.c)"}
INSTRUMENTED = ("__asan_", "__ubsan_", "__tsan_", "__sanitizer_cov", "__gcov_", "__llvm_prf")


def sources(suffix):
    for folder in ("src", "emulator"):
        yield from sorted((TOP / folder).rglob(suffix))


def room(path):
    """emulator/, or the folder under src/ that a file is in."""
    parts = path.resolve().relative_to(TOP.resolve()).parts
    return parts[1] if parts[0] == "src" else parts[0]


def test_corridors(t):
    """Who may not include what stands above it; and what a .c file uses of others it has from a header, so that the compiler compares."""
    wrong = []
    for path in sources("*.[ch]"):
        folder = room(path)
        for other, header in INCLUDE.findall(path.read_text()):
            if other in REFUSED.get(folder, ()):
                wrong.append(f"{path.name} of {folder}/ includes {other}/{header}: {REFUSED[folder][other]}")
            ours = other in FOLDERS or other in ("emulator", "unhang")
            if folder in ONLY and ours and other not in ONLY[folder]:
                wrong.append(f"{path.name} of {folder}/ includes {other}/{header}; it may include {', '.join(sorted(ONLY[folder]))}")
    t.no_complaints(wrong, "report/, cmd/ and emulator/ include what they may")
    own = {str(p.resolve().relative_to(TOP.resolve())) for p in sources("*.c") if re.search(r"^\s*extern\b", p.read_text(), re.M)}
    t.same(sorted(own - set(ALLOWED_EXTERNS)), [], "no .c file declares what another one has")


def test_includes(t):
    wrong = []
    for path in sorted((TOP / "src").rglob("*.[ch]")):
        folder = path.relative_to(TOP / "src").parts[0]
        if folder not in FOLDERS:
            wrong.append(f"src/{folder}: not a folder of DESIGN.md")
            continue
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            other = match.group(1)
            if other in FOLDERS and FOLDERS.index(other) > FOLDERS.index(folder):
                wrong.append(f"{path.relative_to(TOP)} includes {other}/{match.group(2)}, which stands below {folder}")
        if re.search(r'#\s*include\s*"\.\./', text):
            wrong.append(f"{path.relative_to(TOP)} includes by a path with ..")
    t.no_complaints(wrong, "a folder includes only from folders above it")
    headers = [p for p in sorted((TOP / "src").rglob("*.h")) if "#pragma once" not in p.read_text()]
    t.same([str(p.relative_to(TOP)) for p in headers], [], "every header can be included twice")


# Who may make commands of text that the compiler does not see to be a literal: tables of C, and texts of knowledge.
COMMAND_MAKERS = {"base/command.c", "base/command.h", "knowledge/steps.c", "host/settings/boot_loader.c", "host/settings/setting_change.c", "host/settings/setting_state.c", "host/processes.c",
                  "apply/plan.c", "apply/write.c", "diagnose/doctor/doctor.c"}
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
A_COMMAND = re.compile(r"\b(?:sudo|tac|chmod|journalctl|rpm-ostree|grubby|unhang (?:doctor|explain|waves|rings|queues|knowledge))\b[^;:,()]*[ =/]%(?!%)")


def test_command_type(t):
    """A command that holds a value is a struct command, which base/command.c alone can make."""
    wrong, makers = [], set()
    for path in sorted((TOP / "src").rglob("*.[ch]")):
        name, text = str(path.relative_to(TOP / "src")), path.read_text()
        text = re.sub(r"//.*", "", text)
        # Literals that follow one another are one; STR_FMT stands between them.
        joined = re.sub(r'"\s*(?:STR_FMT\s*)+"', "%.*s", re.sub(r'"\s*"', "", re.sub(r'"\s*STR_FMT(?=\s*[,)])', '%.*s"', text)))
        wrong += [f"src/{name}: {m.group(1)}" for m in LITERAL.finditer(joined) if A_COMMAND.search(m.group(1))]
        if re.search(r"\bcommand_(?:add_text|add_known|literal|of)\(", text):
            makers.add(name)
    t.no_complaints(wrong, "no text for printing is a command with a value in it")
    t.same(sorted(makers - COMMAND_MAKERS), [], "commands are made of literal text and typed values, but for a few")
    t.ok("struct command {" in (TOP / "src/base/command.c").read_text() and not any("struct command {" in p.read_text() for p in (TOP / "src").rglob("*.h")),
         "what a command is made of only base/command.c sees")


def archives(binary):
    """libunhang-inside.a beside the binary, or below its directory."""
    return sorted(binary.parent.glob("libunhang-inside.a")) or sorted(binary.parent.rglob("libunhang-inside.a"))


def test_globals(t, binary):
    libraries = archives(binary)
    if not libraries or not shutil.which("nm"):
        t.skip("no mutable globals", "no libunhang-inside.a beside the binary, or no nm")
        return
    out = subprocess.run(["nm", "--format=sysv", str(libraries[0])], capture_output=True, text=True).stdout
    wrong, seen = [], 0
    for line in out.splitlines():
        # A thin archive's members, their symbols: name|value|class|type|size|line|section
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 7 or fields[3] not in ("OBJECT", "TLS", "COMMON"):
            continue
        seen += 1
        name, section = fields[0], fields[6]
        # .data.rel.ro is written once by the dynamic linker, before the program runs.
        mutable = section.startswith((".bss", ".data", ".tbss", ".tdata", "*COM*")) and not section.startswith(".data.rel.ro")
        if mutable and name not in ALLOWED_GLOBALS:
            wrong.append(f"{name} in {section}")
    t.ok(seen, "nm shows the library's data", out[:500])
    if any(mark in out for mark in INSTRUMENTED):
        t.skip("no mutable globals", "a build with sanitisers has its own")
        return
    t.no_complaints(wrong, "no mutable globals")


def test_names(t):
    tags, long = {}, []
    for path in sorted(p for folder in ("src", "emulator") for p in (TOP / folder).rglob("*.[ch]")):
        text = path.read_text()
        for tag in re.findall(r"^\s*(?:typedef )?struct (?:__attribute__\S+ )?(\w+) \{", text, re.M):
            tags.setdefault(tag, set()).add(str(path.relative_to(TOP)))
        if len(text.splitlines()) > 500:
            long.append(f"{path.relative_to(TOP)}: {len(text.splitlines())} lines")
    t.no_complaints([f"struct {tag}: {', '.join(sorted(files))}" for tag, files in tags.items() if len(files) > 1], "a struct's tag stands once in the tree")
    t.no_complaints(long, "no file has more than 500 lines")
    full = {f: len([p for p in f.iterdir() if p.is_file()]) for f in (TOP / "src").rglob("*") if f.is_dir()}
    t.no_complaints([f"{f.relative_to(TOP)}: {n} files" for f, n in full.items() if n > 25], "no folder under src/ has more than 25 files")


def parameters(text):
    """Each function that is defined in a text, with the number of its parameters."""
    for match in re.finditer(r"^[A-Za-z_][\w \*]*?\b(\w+)\(((?:[^()]|\([^()]*\))*)\)\s*\{", re.sub(r"//.*", "", text), re.M):
        yield match.group(1), re.sub(r"\([^()]*\)", "", match.group(2)).count(",") + 1


def test_parameters(t):
    """More than six are a struct that has no name yet. The library's own functions may not change."""
    wrong = [f"{path.relative_to(TOP)}: {name}() has {n}" for path in sorted((TOP / "src").rglob("*.[ch]"))
             for name, n in parameters(path.read_text()) if n > 6 and not name.startswith("uh_")]
    t.no_complaints(wrong, "no function has more than six parameters")


def symbols(library):
    """Of each object file of an archive its room, and the names that it has and that it wants."""
    out = subprocess.run(["nm", "-A", "--format=posix", "--extern-only", str(library)], capture_output=True, text=True).stdout
    for line in out.splitlines():
        match = re.search(r"src_([a-z]+)_\w+\.c\.o\]?: (\w+) (\w)", line)
        if match:
            yield match.group(1), match.group(2), match.group(3) == "U"


def test_calls(t, binary):
    """A header may bring others with it: what counts is what is called."""
    libraries = archives(binary)
    if not libraries or not shutil.which("nm"):
        t.skip("report/ calls nothing of the rooms that it may not include", "no libunhang.a beside the binary, or no nm")
        return
    found = list(symbols(libraries[0]))
    has = {name: folder for folder, name, wanted in found if not wanted}
    t.ok(len(has) > 300, "nm shows which room has a function", len(has))
    wrong = {f"{folder}/ calls {name}() of {has[name]}/" for folder, name, wanted in found
             if wanted and name not in LOOKUPS and has.get(name) in REFUSED.get(folder, ())}
    t.no_complaints(sorted(wrong), "report/ calls nothing of the rooms that it may not include")


def commands(unhang):
    """The subcommands as `unhang --help` lists them."""
    text = unhang.run("--help").stdout.decode()
    listed = re.search(r"^commands:\n((?:  \S.*\n)+)", text, re.M)
    return re.findall(r"^  ([a-z]+) ", listed.group(1), re.M) if listed else []


def written_options(text):
    """A man page in mdoc writes --all as `Fl -all`, one in man as `\\-\\-all`."""
    text = text.replace("\\-", "-")
    return re.sub(r"^\..*\bFl\b.*$", lambda line: re.sub(r"(?<=\s)-(?=[a-z])", "--", line.group()), text, flags=re.M)


def test_commands(t, unhang):
    names = commands(unhang)
    t.ok("explain" in names and "knowledge" in names, "unhang --help lists the commands", names)
    man, completion = TOP / "man" / "unhang.1", TOP / "completion" / "unhang"
    if shutil.which("mandoc") and man.exists():
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", man], capture_output=True, text=True)
        t.same(lint.stdout, "", "the man page is well formed")
    for name in names:
        run = unhang.run(name, "--help")
        text = run.stdout.decode()
        t.ok(run.returncode == 0 and f"unhang {name}" in text and not run.stderr, f"{name} --help", f"status {run.returncode}: {text}{run.stderr}")
        options = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)))
        for what, path in (("man page", man), ("completion", completion)):
            if not path.exists():
                t.skip(f"{name} is in the {what}", f"there is no {path.name} yet")
                continue
            words = written_options(path.read_text())
            absent = [word for word in [name, *options] if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", words)]
            t.same(absent, [], f"{name} and its options are in the {what}")
    run = unhang.run("no-such-command")
    t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1, "a command that there is not: status 2 and one line", run.stderr)
    for name in names:
        run = unhang.run(name, "--no-such-option")
        t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1, f"{name}: an option that there is not: status 2 and one line", f"{run.returncode}: {run.stderr}")


def test_knowledge(t, unhang):
    files = sorted((TOP / "knowledge").glob("*.know"))
    t.ok(len(files) > 5, "there are knowledge files", files)
    for path in files:
        run = unhang.run("knowledge", "check", path)
        t.ok(run.returncode == 0 and not run.stderr, f"knowledge/{path.name} is right", run.stderr.decode())
    built = (TOP / "meson.build").read_text()
    t.same([p.name for p in files if f"knowledge/{p.name}" not in built], [], "every knowledge file is built in")
    version = (TOP / "knowledge" / "VERSION").read_text()
    t.ok(re.fullmatch(r"20\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])\d\d\n", version), "the version of knowledge is YYYYMMDDNN", version)
    run = unhang.run("knowledge", "version")
    t.ok(version.strip().encode() in run.stdout, "and is that of the program", run.stdout)
    run = unhang.run("knowledge", "list")
    t.ok(run.returncode == 0 and not run.stderr, "what is built in loads without a complaint", run.stderr.decode())


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    test_command_type(t)
    test_includes(t)
    test_names(t)
    test_parameters(t)
    test_corridors(t)
    test_calls(t, tap.pathlib.Path(unhang.binary))
    test_globals(t, tap.pathlib.Path(unhang.binary))
    test_commands(t, unhang)
    test_knowledge(t, unhang)
    t.end()


if __name__ == "__main__":
    main()

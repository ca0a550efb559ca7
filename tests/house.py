#!/usr/bin/env python3
"""The rules of the house: who may include whom, no mutable globals, every command documented, every knowledge file right."""
import re
import shutil
import subprocess
import sys

import tap

TOP = tap.HERE / ".."
# A folder under src/ includes only from folders above it in this list, and from itself.
FOLDERS = ["base", "knowledge", "source", "code", "gpu", "host", "apply", "evidence", "diagnose", "report", "capture", "store", "watch", "job",
           "session", "serve", "cmd"]
# A folder that may not include all that stands above it. A report is handed what it writes about; the program is a user of the library.
REFUSED = {"report": {"source": "it reads nothing", "host": "it looks at no machine", "apply": "it changes nothing"}}
ONLY = {"cmd": {"base", "cmd", "unhang"}, "emulator": {"base", "knowledge", "gpu", "emulator"}, "recorder": {"recorder", "unhang"},
        "preload": {"preload", "recorder"}}
# Functions of rooms that a folder may not include, which it may call: they look something up in a const struct that it was handed.
LOOKUPS = {"host_fact", "host_machine", "host_value"}
# Declarations in .c files of what another file has, which are allowed, with the reason.
ALLOWED_EXTERNS = {"emulator/process_memory.c": "a debugger finds the symbol by its name; nothing includes it"}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<](?:src/)?([a-z_]+)/([^">]+)[">]', re.M)
# Mutable data at file scope that is allowed, with the reason.
ALLOWED_GLOBALS = {"the_door": "the child that reads for the process (base/door/ask.c): there is one, whatever sessions there are",
                   "the_readers": "the children that read files of the driver for the process (source/probe.c)",
                   "the_privileged": "the child that has rights and reads for a process that put its own down (source/privileged/ask.c)"}
INSTRUMENTED = ("__asan_", "__ubsan_", "__tsan_", "__sanitizer_cov", "__gcov_", "__llvm_prf")


def sources(suffix, folders=("src", "emulator", "recorder", "preload")):
    for folder in folders:
        yield from sorted((TOP / folder).rglob(suffix))


def place(path):
    """A file's path from the top of the tree."""
    return str(path.resolve().relative_to(TOP.resolve()))


def room(path):
    """emulator/, recorder/, or the folder under src/ that a file is in."""
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
            ours = other in FOLDERS or other in ("emulator", "recorder", "preload", "unhang")
            if folder in ONLY and ours and other not in ONLY[folder]:
                wrong.append(f"{path.name} of {folder}/ includes {other}/{header}; it may include {', '.join(sorted(ONLY[folder]))}")
    t.no_complaints(wrong, "report/, cmd/, emulator/ and recorder/ include what they may")
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
    headers = [p for p in sources("*.h") if "#pragma once" not in p.read_text()]
    t.same([place(p) for p in headers], [], "every header can be included twice")


# Who may make commands of text that the compiler does not see to be a literal: tables of C, and texts of knowledge.
COMMAND_MAKERS = {"base/command.c", "base/command.h", "knowledge/steps.c", "host/settings/boot_loader.c", "host/settings/setting_state.c", "host/gpus_more.c",
                  "apply/plan.c", "apply/write.c", "diagnose/doctor/doctor.c", "evidence/documents/trial.c"}
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


def functions(text):
    """The functions that a file defines, in its order: name, where it begins, its parameters, and whether it is static."""
    for match in re.finditer(r"^(static )?(?:inline )?[A-Za-z_][\w \*]*?\b(\w+)\(((?:[^();]|\([^()]*\))*)\)\s*\{", text, re.M):
        yield match.group(2), match.start(), match.group(3), bool(match.group(1))



def test_names(t):
    tags, long, shared, silent = {}, [], {}, {}
    for path in sources("*.[ch]"):
        text, name = path.read_text(), place(path)
        # The recorder is a library of its own, in a stranger's process: its tags are its own, too.
        for tag in re.findall(r"^\s*(?:typedef )?struct (?:__attribute__\S+ )?(\w+) \{", text, re.M) if not name.startswith(("recorder", "preload")) else ():
            tags.setdefault(tag, set()).add(name)
        if len(text.splitlines()) > 500:
            long.append(f"{name}: {len(text.splitlines())} lines")
        for function in {f for f, _, _, is_static in functions(text) if is_static} if name.startswith("src/") else ():
            shared.setdefault(function, set()).add(name)
        # What its own header says need not be said again.
        header = path.with_suffix(".h")
        begins = text.splitlines()[:3] + (header.read_text().splitlines()[:3] if header.exists() else [])
        if not any(line.startswith(("//", "/*")) for line in begins):
            silent.setdefault(room(path), []).append(name)
    for path in sorted((TOP / "python").rglob("*.py")):
        text = path.read_text()
        long += [f"{place(path)}: {len(text.splitlines())} lines"] * (len(text.splitlines()) > 500)
        silent.setdefault("python", []).extend([place(path)] * (not text.startswith(('"""', "#"))))
    t.no_complaints([f"struct {tag}: {', '.join(sorted(files))}" for tag, files in tags.items() if len(files) > 1], "a struct's tag stands once in the tree")
    t.no_complaints(long, "no file has more than 500 lines")
    several = {f: files for f, files in shared.items() if len(files) > 1}
    t.same(sorted(several), [], "the name of a static function stands in one file: `break take` means one place")
    t.no_complaints([f"{where}: {files}" for where, files in silent.items() if files], "files begin with what they are for")
    full = {f: len([p for p in f.iterdir() if p.is_file()]) for f in (TOP / "src").rglob("*") if f.is_dir()}
    t.no_complaints([f"{f.relative_to(TOP)}: {n} files" for f, n in full.items() if n > 25], "no folder under src/ has more than 25 files")


# Where every close, free and munmap goes through a guard (base/cleanup.h, recorder/cleanup.h) or the named owner of what it releases: a
# function that ends so.
GUARDED = ("src/watch/", "src/job/", "src/session/run/", "src/capture/", "recorder/")
OWNER = re.compile(r"(?:^cleanup_\w+|(?:^|_)(?:free|close|end|release|drop))$")
RELEASE = re.compile(r"(?<![\w.>])(?:close|free|munmap)\(")
# Calls there that are neither, with the reason: file:function.
ALLOWED_RELEASES = {}
# In the other rooms such calls are allowed, and their number may only fall.
RELEASES = {"apply": 1, "base": 15, "code": 11, "diagnose": 2, "evidence": 15, "gpu": 6, "host": 1, "report": 4, "session": 8, "source": 12, "emulator": 36, "preload": 11}


def releases(text):
    """The functions of a file that release something by a bare call, once for each call."""
    text = re.sub(r"//.*", "", text)
    known = list(functions(text))
    for match in RELEASE.finditer(text):
        yield next((name for name, begin, _, _ in reversed(known) if begin < match.start()), "?")


def test_releases(t):
    wrong, number = [], {}
    for path in sources("*.[ch]"):
        name = place(path)
        bare = [function for function in releases(path.read_text()) if not OWNER.search(function)]
        if name.startswith(GUARDED):
            wrong += [f"{name}: {function}()" for function in bare if f"{name}:{function}" not in ALLOWED_RELEASES]
        else:
            number[room(path)] = number.get(room(path), 0) + len(bare)
    t.no_complaints(wrong, "where guards are the rule, nothing is closed, freed or unmapped without one or a named owner")
    t.no_complaints([f"{where}: {n}, at most {RELEASES.get(where, 0)}" for where, n in number.items() if n > RELEASES.get(where, 0)],
                    "in the other rooms, not more than there were")


# Functions with more than six parameters, by room and name, with the reason.
ALLOWED_PARAMETERS = {r"recorder:(?:lock_to_pool|interop_map|async_copy\w*|hook_\w+)": "they stand in the place of the runtime's own",
                      r"serve:on_request": "libmicrohttpd's", r"emulator:on_ioctl": "FUSE's", r"emulator:(?:record_ioctl|seat_slot)": "from before this rule looked at the emulator"}


def test_parameters(t):
    """More than six are a struct that has no name yet. The library's own functions may not change."""
    count = lambda parameters: re.sub(r"\([^()]*\)", "", parameters).count(",") + 1
    wrong = [f"{place(path)}: {name}() has {count(parameters)}" for path in sources("*.[ch]") for name, _, parameters, _ in functions(re.sub(r"//.*", "", path.read_text()))
             if count(parameters) > 6 and not name.startswith("uh_") and not any(re.fullmatch(rule, f"{room(path)}:{name}") for rule in ALLOWED_PARAMETERS)]
    t.no_complaints(wrong, "no function has more than six parameters")


def symbols(build):
    """Of each object file of a build its room, and the names that it has and that it wants."""
    known = {place(p).replace("/", "_") + ".o" for p in sources("*.c")}  # not those of files that are gone
    objects = sorted(o for o in build.glob("*.p/*.o") if o.name in known)
    for at in range(0, len(objects), 200):
        out = subprocess.run(["nm", "-A", "--format=posix", "--extern-only", *objects[at:at + 200]], capture_output=True, text=True).stdout
        for line in out.splitlines():
            match = re.search(r"/(?:src_)?([a-z]+)_\w+\.c\.o: (\w+) (\w)", line)
            if match and not re.search("emulator_preload_calls.c.o|preload_symbols.c.o", line):  # which has names of libc's: who calls these means libc
                yield match.group(1), match.group(2), match.group(3) == "U"


def refusal(user, name, owner):
    """Why a room may not call a function of another; None: it may."""
    if user == "recorder":
        return "it has nothing of src/"
    if user == "cmd" and owner not in ONLY["cmd"] and not name.startswith("uh_"):
        return "it may call unhang.h and base/"
    if user == "emulator":
        return None if owner in ONLY["emulator"] else "it may call base/, knowledge/ and gpu/"
    if name not in LOOKUPS and owner in REFUSED.get(user, ()):
        return REFUSED[user][owner]
    return f"{owner}/ stands below it" if owner in FOLDERS and FOLDERS.index(owner) > FOLDERS.index(user) else None


def test_calls(t, binary):
    """A plain prototype needs no header: what counts is what is called."""
    found = list(symbols(binary.parent)) if shutil.which("nm") else []
    if not found:
        t.skip("each room calls what it may", "no object files beside the binary, or no nm")
        return
    has = {}
    for folder, name, wanted in found:
        if not wanted:
            has.setdefault(name, set()).add(folder)
    t.ok(len(has) > 300 and {"cmd", "base", "session", "emulator", "recorder"} <= set().union(*has.values()), "nm shows which room has a function", len(has))
    wrong = set()
    for folder, name, wanted in found:
        owners = has.get(name, set()) if wanted else set()
        if owners and folder not in owners:
            why = [refusal(folder, name, owner) for owner in owners]
            wrong |= {f"{folder}/ calls {name}() of {'/'.join(sorted(owners))}/: {why[0]}"} if all(why) else set()
    t.no_complaints(sorted(wrong), "each room calls what it may")


def commands(unhang):
    """The subcommands as `unhang --help` lists them, in groups."""
    return re.findall(r"^  ([a-z]+)  +[a-z]", unhang.run("--help").stdout.decode().partition("\nAnswers:\n")[2], re.M)


def table(unhang, *words):
    """The options of a command, by its table: name or letter, and argument."""
    rows = [line.split("\t") for line in unhang.run(*words, "--list-options").stdout.decode().splitlines()]
    return {(row[0] or row[1], row[2].strip("'")) for row in rows if row[0] or row[1]}


def page_options(text, macros):
    """The options that a part of the man page names, in mdoc: `Fl -boot Ar N`; and their arguments."""
    found = set()
    for line in re.findall(rf"^\.(?:{macros})\b.*", text, re.M):
        for name, argument in re.findall(r"\bFl ((?:-?[a-zA-Z][a-z-]*)(?: , -?[a-z-]+)*)(?: Ar (\S+(?: Ns Op Ar \S+)?))?", line):
            found |= {("-" + one, re.sub(r" Ns Op Ar (\S+)", r"[\1]", argument)) for one in name.split(" , ")}
    return found


def test_man(t, unhang, names):
    """The man page says more than --help, so it is written by hand; its options are those of the table."""
    page = (TOP / "man" / "unhang.1").read_text()
    if shutil.which("mandoc"):
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", TOP / "man" / "unhang.1"], capture_output=True, text=True)
        t.same(lint.stdout, "", "the man page is well formed")
    parts = dict(re.findall(r"^\.Ss (\w+)\n(.*?)(?=^\.S[sh] )", page, re.M | re.S))
    t.same(sorted(parts), sorted(names), "it has a part for each command")
    synopsis = page.partition(".Sh SYNOPSIS\n")[2].partition("\n.Sh ")[0]
    for name in names:
        verbs = unhang.run(name, "--list-options").stdout.decode().splitlines()[-1].split("\t")[3].split() if name == "knowledge" else []
        wanted = set().union(*(table(unhang, name, verb) for verb in verbs)) if verbs else table(unhang, name)
        long = lambda options: {o for o in options if o[0].startswith("--") and o[0] != "--help"}
        t.same(sorted(long(page_options(parts.get(name, ""), "It"))), sorted(long(wanted)), f"{name}: its part has the options of the table")
        begin = "".join(re.findall(rf"^\.Nm\n\.(?:Op )?Cm {name}\b(?:.*\n)*?(?=\.Nm|\Z)", synopsis + "\n", re.M))
        letters = {line.split("\t")[0]: line.split("\t")[1] for line in unhang.run(name, "--list-options").stdout.decode().splitlines()}
        written = {o for o, _ in page_options(begin, "Op|Fl|Cm")}
        flags = "".join(w for w in written if not w.startswith("--"))  # `Fl av`
        missing = [o for o, _ in long(wanted) if o not in written and not (letters[o] and letters[o][1] in flags)] if not verbs else []
        t.same(sorted(missing), [], f"{name}: and so has the synopsis")


def test_commands(t, unhang):
    names = commands(unhang)
    t.ok("explain" in names and "knowledge" in names, "unhang --help lists the commands", names)
    listed = [line.split("\t")[0] for line in unhang.run("--list-commands").stdout.decode().splitlines()]
    t.same(names, listed, "in the order in which completions get them")
    test_man(t, unhang, names)
    for name in names:
        run = unhang.run(name, "--help")
        text = run.stdout.decode()
        t.ok(run.returncode == 0 and f"unhang {name}" in text and not run.stderr, f"{name} --help", f"status {run.returncode}: {text}{run.stderr}")
        t.no_complaints([line for line in text.splitlines() if len(line) > 80], f"{name} --help fits 80 columns")
    run = unhang.run("no-such-command")
    t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1, "a command that there is not: status 2 and one line", run.stderr)
    for name in names:
        run = unhang.run(name, "--no-such-option")
        t.ok(run.returncode == tap.CANNOT and run.stderr.count(b"\n") == 1, f"{name}: an option that there is not: status 2 and one line", f"{run.returncode}: {run.stderr}")


def test_knowledge(t, unhang):
    files = sorted((TOP / "knowledge").rglob("*.know"))
    t.ok(len(files) > 5, "there are knowledge files", files)
    for path in files:
        run = unhang.run("knowledge", "check", path)
        t.ok(run.returncode == 0 and not run.stderr, f"knowledge/{path.name} is right", run.stderr.decode())
    built = (TOP / "meson.build").read_text()
    t.same([p.name for p in files if f"/{p.name}'" not in built], [], "every knowledge file is built in")
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
    test_releases(t)
    test_parameters(t)
    test_corridors(t)
    test_calls(t, tap.pathlib.Path(unhang.binary))
    test_globals(t, tap.pathlib.Path(unhang.binary))
    test_commands(t, unhang)
    test_knowledge(t, unhang)
    t.end()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""As root: files that others could have written are named and not used, source files are read with the rights of the user who called, and a
change whose output is lost tells the truth."""
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys

import doctor_apply
import tap

NOBODY = 65534
BLOCK = "nonsense of-a-test\n"  # knowledge that is read is complained about
SECRET = "the password is swordfish"
KERNEL = 'kernel void peek(global float *x)\n{\n#line 1 "%s"\n  x[__builtin_amdgcn_workitem_id_x()] *= 3;\n}\n'
COMGR = """#include <stddef.h>
#include <fcntl.h>
__attribute__((constructor)) static void ran(void) { creat("%s", 0600); }
void amd_comgr_get_version(size_t *major, size_t *minor) { *major = 2; *minor = 9; }
"""


def chain(path, top):
    """Every directory from @top to @path, and @path."""
    return [p for p in reversed([path, *path.parents]) if p.is_relative_to(top)]


class Room:
    """Files of root, each of which a test gives to somebody else."""

    def __init__(self, unhang):
        self.unhang = unhang
        self.log = unhang.write("log.txt", "amdgpu 0000:01:00.0: amdgpu: hello\n")
        self.home = unhang.directory / "home"
        self.file = unhang.write("home/.config/unhang/knowledge.d/mine.know", BLOCK)
        unhang.directory.chmod(0o755)

    def run(self, *arguments, environment=None, **how):
        environment = {**self.unhang.environment, "HOME": str(self.home), **(environment or {})}
        if "XDG_CONFIG_HOME" in environment and "XDG_CONFIG_HOME" not in (how.get("keep") or ()):
            del environment["XDG_CONFIG_HOME"]
        how.pop("keep", None)
        return subprocess.run([self.unhang.binary, *map(str, arguments)], env=environment, stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=60, text=True, **how)

    def knowledge(self, **environment):
        """What explain says of the user's knowledge."""
        return self.run("explain", self.log, environment=environment, stdout=subprocess.DEVNULL).stderr


def is_read(said):
    return "unknown kind of block 'nonsense'" in said


def is_refused(said, named):
    return not is_read(said) and any("not used: " in line and str(named) in line for line in said.splitlines())


# --- knowledge ---

def test_owners(t, room):
    t.ok(is_read(room.knowledge()), "root's own knowledge is read")
    wrong = []
    for path in chain(room.file, room.home):
        os.chown(path, NOBODY, NOBODY)
        refused, called = room.knowledge(), room.knowledge(SUDO_UID=str(NOBODY))
        asked = [room.knowledge(PKEXEC_UID=str(NOBODY)), room.knowledge(DOAS_USER="nobody")]
        other = room.knowledge(SUDO_UID="1234")
        os.chown(path, 0, 0)
        if not is_refused(refused, path) or not is_refused(other, path):
            wrong.append(f"{path} of another user: {refused}")
        if not all(map(is_read, (called, *asked))):
            wrong.append(f"{path} of the user who called: {called}")
    t.no_complaints(wrong, "knowledge of another user, or below a directory of his: named and not used; of the user who called: used")
    place = room.file.parent
    place.rename(place.with_suffix(".off"))
    os.chown(room.home, NOBODY, NOBODY)
    t.same(room.knowledge(), "", "of knowledge that is not there nothing is said, whoever owns HOME")
    os.chown(room.home, 0, 0)
    place.with_suffix(".off").rename(place)


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)


def test_modes(t, room):
    wrong = []
    for path in chain(room.file, room.home):
        before = path.stat().st_mode & 0o7777
        for bits in (0o020, 0o002):
            path.chmod(before | bits)
            said = room.knowledge()
            if not is_refused(said, path) or "not only its owner may write" not in said:
                wrong.append(f"{path} with mode {before | bits:o}: {said}")
        path.chmod(before)
    t.no_complaints(wrong, "knowledge that the group or others may write: named and not used")
    room.home.chmod(0o1777)
    t.ok(is_read(room.knowledge()), "below a sticky directory: judged by its own owner")
    room.home.chmod(0o755)
    # u::rw-, u:65534:rw-, g::r--, m::rw-, o::r--
    entries = acl((1, 6, 0xffffffff), (2, 6, NOBODY), (4, 4, 0xffffffff), (16, 6, 0xffffffff), (32, 4, 0xffffffff))
    try:
        os.setxattr(room.file, "system.posix_acl_access", entries)
    except OSError as problem:
        t.skip("an access list that lets another user write", problem)
        return
    t.ok(is_refused(room.knowledge(), room.file), "an access list that lets another user write: not used")
    os.removexattr(room.file, "system.posix_acl_access")
    room.file.chmod(0o644)


def test_links(t, room):
    far = room.unhang.write("far/store/real.know", BLOCK)
    link = room.file.with_name("linked.know")
    room.file.unlink()
    link.symlink_to("../../../../far/store/real.know")
    t.ok(is_read(room.knowledge()), "a link of root's to a file of root's is followed")
    os.chown(far.parent, NOBODY, NOBODY)
    t.ok(is_refused(room.knowledge(), far.parent), "a link into a directory of another user: not used")
    os.chown(far.parent, 0, 0)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    t.ok(is_refused(room.knowledge(), link), "a link of another user: not used")
    link.unlink()
    link.symlink_to(link.name)
    t.ok("mine" not in room.knowledge() and not is_read(room.knowledge()), "a link to itself ends")
    link.unlink()
    room.file.write_text(BLOCK)


def as_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def test_user(t, room):
    """The same for a user who is not root: root's files and his own."""
    run = lambda **environment: room.run("explain", room.log, stdout=subprocess.DEVNULL, preexec_fn=as_nobody, environment=environment).stderr
    t.ok(is_read(run()), "a user: root's knowledge is used")
    os.chown(room.file, NOBODY, NOBODY)
    t.ok(is_read(run()), "a user: his own is used")
    os.chown(room.file, 1234, 1234)
    t.ok(is_refused(run(), room.file) and is_refused(run(SUDO_UID="1234"), room.file), "a user: another's is not, whatever SUDO_UID says")
    room.file.unlink()


# --- libraries and programs ---

def test_library(t, room, code):
    rocm, ran = room.unhang.directory / "rocm", room.unhang.directory / "ran"
    (rocm / "lib").mkdir(parents=True)
    source, library = room.unhang.write("comgr.c", COMGR % ran), rocm / "lib" / "libamd_comgr.so.3"
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)

    def loaded():
        ran.unlink(missing_ok=True)
        said = room.run("where", "--code", code, "peek", environment={"ROCM_PATH": str(rocm)}, stdout=subprocess.DEVNULL).stderr
        return ran.exists(), said

    t.ok(loaded()[0], "a library of root's in ROCM_PATH is loaded")
    wrong = []
    for path in (rocm, rocm / "lib", library):
        os.chown(path, NOBODY, NOBODY)
        ran_it, said = loaded()
        os.chown(path, 0, 0)
        if ran_it or not is_refused(said, path):
            wrong.append(f"{path} of another user: {ran_it} {said}")
    rocm.chmod(0o777)
    ran_it, said = loaded()
    if ran_it or not is_refused(said, rocm):
        wrong.append(f"{rocm} that everybody may write: {ran_it} {said}")
    t.no_complaints(wrong, "a library of another user in ROCM_PATH: named and not loaded")


def test_emulator(t, room):
    """In a directory that everybody may write, another user's program is not run in the emulator's place."""
    shared, ran = room.unhang.directory / "shared", room.unhang.directory / "emulated"
    shared.mkdir()
    shared.chmod(0o1777)
    shutil.copy2(room.unhang.binary, shared / "unhang")
    fake = shared / "unhang-emulator"
    fake.write_text(f"#!/bin/sh\n: > {ran}\n")
    fake.chmod(0o755)
    os.chown(fake, NOBODY, NOBODY)
    run = subprocess.run([shared / "unhang", "emulate", "--list"], capture_output=True, text=True, env=room.unhang.environment)
    t.ok(run.returncode == tap.CANNOT and not ran.exists() and is_refused(run.stderr, fake), "another user's unhang-emulator beside unhang is not run", run.stderr)
    os.chown(fake, 0, 0)
    subprocess.run([shared / "unhang", "emulate", "--list"], env=room.unhang.environment)
    t.ok(ran.exists(), "root's is")


# --- updates ---

def test_update(t, room):
    root, key = room.unhang.directory / "machine", room.unhang.directory / "fleet"
    run = lambda *arguments: room.run("knowledge", *arguments, stdout=subprocess.PIPE)
    made = run("key", key)
    (root / "etc/unhang/keys.d").mkdir(parents=True)
    public = pathlib.Path(f"{key}.pub")
    update = room.unhang.directory / "signed"
    files = room.unhang.write("signed-files/added.know", "# nothing\n")
    signed = run("export", "--version", "99991231235959", "--key", key, "-o", update, files)
    if not t.ok(public.exists() and update.exists(), "an update is signed", made.stderr + signed.stderr):
        return
    shutil.copy(public, root / "etc/unhang/keys.d/fleet.pub")
    wrong = []
    for path in (root, root / "etc", root / "etc/unhang/keys.d", root / "etc/unhang/keys.d/fleet.pub"):
        os.chown(path, NOBODY, NOBODY)
        done = run("update", "--root", root, update)
        os.chown(path, 0, 0)
        if done.returncode != tap.CANNOT or str(path) not in done.stderr:
            wrong.append(f"{path}: {done.stderr}")
    t.no_complaints(wrong, "a key of another user, or below a directory of his, signs nothing")
    shutil.rmtree(root / "var", ignore_errors=True)
    (root / "var/lib").mkdir(parents=True)
    (root / "var/lib").chmod(0o777)
    done = run("update", "--root", root, update)
    t.ok(done.returncode == tap.CANNOT and not list((root / "var/lib").rglob("update.know")), "an update is not installed where others may write", done.stderr)
    (root / "var/lib").chmod(0o755)
    done = run("update", "--root", root, update)
    t.ok(done.returncode == 0 and list((root / "var/lib").rglob("update.know")), "it is where they may not", done.stderr)
    os.chown(root / "var/lib/unhang", NOBODY, NOBODY)
    said = run("version", "--root", root).stdout
    t.ok("not used: " in said and "built in" in said, "one below a directory of another user is not used", said)


# --- source files ---

def compiled(room, name, source):
    """A code object whose debug information names @source."""
    text, out = room.unhang.write(f"{name}.cl", KERNEL % source), room.unhang.directory / name / "peek.co"
    out.parent.mkdir(exist_ok=True)
    subprocess.run(["clang-19", "-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1030", "-nogpulib", "-g", "-O1", text, "-o", out], check=True)
    text.unlink()
    return out


def shown(room, code, *arguments, **environment):
    """Whether the secret is shown; what is said."""
    addresses = [f"peek+{n:#x}" for n in range(0, 64, 4)]
    run = room.run("where", "--code", code, *arguments, *addresses, stdout=subprocess.PIPE, environment=environment)
    assert f"{code}" in run.stdout, run.stderr
    return SECRET in run.stdout, [line for line in run.stderr.splitlines() if line.startswith("unhang: source: ")]


def test_sources(t, room):
    secret = room.unhang.write("private/secret.txt", f"{SECRET}\n")
    code = compiled(room, "theirs", secret)
    said = shown(room, code)
    t.ok(not said[0] and len(said[1]) == 1 and str(secret) in said[1][0], "a file that debug information names is not shown, and that is said once", said)
    t.ok(shown(room, code, "--source", secret.parent) == (True, []), "below --source it is", shown(room, code, "--source", secret.parent))
    beside = code.parent / "secret.txt"
    shutil.copy(secret, beside)
    t.ok(shown(room, code)[0], "beside the code it is")
    beside.unlink()
    beside.symlink_to(secret)
    t.ok(not shown(room, code)[0], "not through a link that leads away from there")
    beside.unlink()
    up = compiled(room, "upwards", code.parent / ".." / "private" / "secret.txt")
    t.ok(not shown(room, up)[0], "not by the way of ..")
    hidden = compiled(room, "hidden", room.unhang.directory / ".keys" / "secret.txt")
    room.unhang.write("hidden/.keys/secret.txt", f"{SECRET}\n")
    t.ok(not shown(room, hidden)[0] and shown(room, hidden, "--source", hidden.parent)[0], "beside the code no hidden files; below --source those too")


def test_caller(t, room):
    """With sudo: what the user who called may read."""
    secret = room.unhang.write("project/secret.txt", f"{SECRET}\n")
    code = compiled(room, "project", secret)
    sudo = {"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)}
    t.ok(shown(room, code, **sudo)[0], "sudo: a file that the user may read is shown")
    secret.chmod(0o600)
    t.ok(shown(room, code)[0], "root reads its own")
    said = shown(room, code, **sudo)
    t.ok(not said[0] and len(said[1]) == 1 and "Permission denied" in said[1][0], "sudo: one that he may not read is not, and that is said", said)
    t.ok(not shown(room, code, "--source", secret.parent, **sudo)[0], "sudo: not below --source either")
    os.chown(secret, 0, NOBODY)
    secret.chmod(0o640)
    t.ok(shown(room, code, **sudo)[0], "sudo: his group counts")
    t.ok(not shown(room, code, SUDO_UID="4242424")[0], "sudo: a user whose group nobody knows sees nothing")
    secret.chmod(0o644)
    secret.parent.chmod(0o700)
    t.ok(not shown(room, code, **sudo)[0], "sudo: nor what lies in a directory of root's")


# --- the environment ---

def test_environment(t, room):
    """What libraries would load is taken out where root works for somebody else."""
    show = ["emulate", "idle", "--", "/bin/sh", "-c", "echo ${OPENSSL_CONF-none} ${HSA_TOOLS_LIB-none} ${PLAIN-none}"]
    given = {"OPENSSL_CONF": "/x", "HSA_TOOLS_LIB": "/y", "PLAIN": "z"}
    plain = room.run(*show, environment=given, stdout=subprocess.PIPE)
    if plain.returncode:
        t.skip("the environment of a command", plain.stderr)
        return
    called = room.run(*show, environment={**given, "SUDO_UID": str(NOBODY)}, stdout=subprocess.PIPE)
    t.same((plain.stdout, called.stdout), ("/x /y z\n", "none none z\n"), "variables that make libraries load code are not obeyed for another user")


# --- what could not be written ---

def close(*descriptors):
    return lambda: [os.close(fd) for fd in descriptors]


def plant(room):
    return doctor_apply.Machine(room.unhang, "grub-d", doctor_apply.GRUB_D)


def changed(machine):
    return doctor_apply.snapshot(machine.root) != machine.old


def doctor(room, machine, *arguments, **how):
    return room.run("doctor", "--root", machine.root, *arguments, "--yes", keep=["XDG_CONFIG_HOME"], **how)


def test_lost_output(t, room):
    room.unhang.know("t.know", doctor_apply.KNOWLEDGE)
    for what, how in (("closed", {"preexec_fn": close(1)}), ("closed as stdin is", {"preexec_fn": close(0, 1)}), ("full", {"stdout": "/dev/full"})):
        if "stdout" in how:
            how = {"stdout": open(how["stdout"], "wb")}
        machine = plant(room)
        run = doctor(room, machine, "--apply", "t-both", **how)
        t.ok(run.returncode == tap.CANNOT and "nothing was done" in run.stderr and not changed(machine), f"--apply, stdout {what}: status 2, and nothing was done", run.stderr)
        doctor(room, machine, "--apply", "t-both", stdout=subprocess.DEVNULL)
        run = doctor(room, machine, "--undo", "t-both", **how)
        t.ok(run.returncode == tap.CANNOT and "nothing was done" in run.stderr and changed(machine), f"--undo, stdout {what}: status 2, and nothing was done", run.stderr)


def test_lost_end(t, room):
    """The plan arrives, what follows the change does not."""
    machine = plant(room)
    plan = doctor(room, machine, "--apply", "t-both", "--dry-run", stdout=subprocess.PIPE).stdout
    most = 1 << 16
    out = room.unhang.write("output", b"x" * (most - len(plan) - 3))

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    with open(out, "ab") as f:
        run = doctor(room, machine, "--apply", "t-both", stdout=f, preexec_fn=limited)
    t.ok(run.returncode == tap.CANNOT and "done, but" in run.stderr and changed(machine), "--apply whose end is lost: status 2, and that it was done", run.stderr)


def test_closed_streams(t, room, code):
    whole = room.run("where", "--code", code, "peek", stdout=subprocess.PIPE).stdout
    for descriptors in ((0,), (2,), (0, 2)):
        run = room.run("where", "--code", code, "peek", stdout=subprocess.PIPE, preexec_fn=close(*descriptors))
        t.ok(run.returncode == 0 and run.stdout == whole and "=>" in whole, f"{' and '.join(map(str, descriptors))} closed: the same answer", run.stdout)
    for arguments in (["knowledge", "list"], ["doctor", "--root", plant(room).root, "--list-applied"], ["emulate", "--list"], ["where", "--code", code]):
        for what, how in (("closed", {"preexec_fn": close(1)}), ("full", {"stdout": open("/dev/full", "wb")})):
            run = room.run(*arguments, **how)
            t.ok(run.returncode == tap.CANNOT and "could not be written" in run.stderr, f"{arguments[0]} {arguments[1]}, stdout {what}: status 2", run.stderr)


def main():
    if os.geteuid():
        tap.skip_all("only root can give files to others")
    t = tap.Tap()
    room = Room(tap.Unhang(sys.argv[1]))
    for test in (test_owners, test_modes, test_links, test_user, test_update, test_emulator, test_environment, test_lost_output, test_lost_end):
        test(t, room)
    if shutil.which("clang-19"):
        code = compiled(room, "plain", room.unhang.directory / "gone.cl")
        test_library(t, room, code)
        test_sources(t, room)
        test_caller(t, room)
        test_closed_streams(t, room, code)
    else:
        t.skip("source files and libraries", "there is no clang-19 to compile with")
    t.end()


if __name__ == "__main__":
    main()

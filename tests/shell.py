#!/usr/bin/env python3
"""Every command that a remedy, a next step or a check can print, given to a shell that records instead of executing.

It has the files of a user: what only root may list is there for `sudo sh -c` alone. `--write` writes docs/COMMANDS.md, which lists the
commands and what rights each needs."""
import collections
import pathlib
import re
import shutil
import subprocess
import sys

import tap

TOP = tap.HERE.parent
LIST = TOP / "docs" / "COMMANDS.md"
# For all facts: one that fits its type (the empty one), and those of a stranger.
VALUES = ["", ";", "my app; touch PWNED", "$(touch PWNED)", "`touch PWNED`", "a'b\"c", "-rf", "*", "x y", "a\nb", "~", "#"]
HERE = r"sys|proc|dev|etc|var|tmp|opt|lib|boot|usr|scratch|big|swapfile|run|home|root"
PATH = re.compile(rf"(?<![\w.~$\}}/-])/(?=(?:{HERE})\b)")

# What a user may list. PCI and the like are blanks that a person has filled in.
USER = [*(f"sys/bus/pci/devices/{pci}/{file}" for pci in ("0000:03:00.0", "PCI") for file in ("hwmon/hwmon3/power1_cap", "power/control", "current_compute_partition")),
        *(f"sys/class/drm/card0/device/{file}" for file in ("mem_info_vram_used", "mem_info_gtt_total", "power/control", "power/runtime_status", "power_dpm_force_performance_level",
                                                          "pp_dpm_mclk", "pp_od_clk_voltage", "ras/gpu_vram_bad_pages")),
        *(f"lib/firmware/{name}.zst" for name in ("word", "FIRMWARE_MISSING", "x")), "dev/dri/renderD128", "dev/dri/card0", "opt/rocm/lib/librocdxg.so.1",
        "opt/rocm/lib/librocm-debug-agent.so.2", "tmp/nccl_trace_rank_0", "home/radv_dumps_1/x", "home/.cache/torch_extensions/py3/kernel_ext/x",
        *(f"var/cache/pacman/pkg/{name}" for name in ("linux-7.1.5.arch1-1.pkg.tar.zst", "linux-firmware-amdgpu-20260810-1.pkg.tar.zst", "ddcutil-2.2.7-1-x86_64.pkg.tar.zst", "kwin-6.7.4-1.1-x86_64.pkg.tar.zst")),
        *(f"var/cache/pacman/pkg/{name}{it}-1.pkg.tar.zst" for name in ("", "linux-", "linux-firmware-amdgpu-") for it in ("IT", "word", "x")),
        "sys/file", "sys/class/devcoredump/devcd1/data", "sys/class/kfd/kfd/proc/4711/queues/0", "proc/1/x", "proc/4711/cmdline", "var/tmp/x", "dev/shm/x"]
ROOT = [*USER, "sys/kernel/debug/dri/0/amdgpu_firmware_info", "proc/1/fdinfo/3", "proc/4711/task/4711/wchan", "proc/PID/task/1/wchan", "proc/4711/task/4711/stack", "proc/PID/task/1/stack"]

SHELL = r"""
shopt -s failglob
as=user
command_not_found_handle() {
	printf '%s\0' "$as" "$#" "$@" >&3
	if [ "$as $1 $2 $3" = 'user sudo sh -c' ]; then
		as=root
		eval "${4//$HERE\/user/$HERE\/root}"
	fi
	echo 1
}
"""

# What must be root's, wherever it is told without sudo.
ROOTS = re.compile(r"dmesg|modprobe (?!-c)|apt (?!list)|dnf |pacman -[SU]|zypper|update-|dracut|mkinitcpio|grubby|usermod|gpasswd|udevadm|mount -o|setpci|lspci .*-(v|x)|fuser|rtcwake|"
                   r"systemctl (?!cat|status|--)|amd-smi (reset|set)|rocm-smi --(gpureset|set)|tee /(sys|proc|etc)|unhang (waves|rings|queues|live)(?!.*--target)|\S+ .*/sys/kernel/debug/|"
                   r"mkswap|swapon /|swapoff|fallocate|chmod \d+ /|rm .*/(etc|var/l)|amd-ttm|dkms (install|remove|autoinstall)|mokutil --import|ausearch|setsebool")
NEEDS = [  # of what is not root's, the first that fits
    (r"docker ", "the group docker"),
    (r"journalctl ", "the group adm, wheel or systemd-journal"),
    (r"kill |py-spy |gdb |rocgdb .*-p|timeout \d+ rocgdb|\S+ .*/proc/(PID|4711)/(fd|task)", "the process's own user"),
    (r"rocminfo|rocm-smi|amd-smi|rocm_agent_enumerator|PROGRAM|COMMAND|python3? .*(torch|main\.py|sglang)|vllm |llama-server|rocgdb |ollama|mpirun|srun|rdci", "the groups render and video"),
    (r"rpm-ostree|flatpak", "an administrator who is logged in"),
    (r"pct ", "root of the Proxmox host"),
    (r"scontrol ", "an administrator of Slurm"),
    (r"powercfg ", "Windows"),
]


def made(helper, values, environment):
    """What can be run: for each command where it is told, in the order of the knowledge."""
    run = subprocess.run([helper, "runs"], input=b"".join(v.encode() + b"\0" for v in values), capture_output=True, env=environment)
    fields = run.stdout.decode(errors="surrogateescape").split("\0")[:-1]
    found = collections.OrderedDict()
    for kind, where, command in zip(fields[::3], fields[1::3], fields[2::3]):
        assert kind == "run", kind
        found.setdefault(command, [])
        found[command] += [where] * (where not in found[command])
    return run.returncode, found


def literals():
    """Commands that the C sources hold whole."""
    for path in sorted((TOP / "src").rglob("*.c")):
        for text in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', path.read_text()):
            joined = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)).replace('\\"', '"').replace("\\\\", "\\")
            for command in re.findall(r"``(.+?)``", joined):
                yield command, f"src/{path.relative_to(TOP / 'src')}"


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def plant(room):
    for tree, files in (("user", USER), ("root", ROOT)):
        for file in files:
            path = room / tree / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("1\n")
        for directory in ("etc", "scratch", "tmp", "home"):
            (room / tree / directory).mkdir(exist_ok=True)


def recorded(commands, room):
    """Of each command: what the shell complained of, and what it would have run: (as whom, words)."""
    plant(room)
    home, cases = room / "user" / "home", []
    for n, command in enumerate(commands):
        (room / "cwd" / str(n)).mkdir(parents=True)
        mapped = PATH.sub(f"{room}/user/", re.sub(r"\bPATH/", "/opt/rocm/", command))
        cases.append(f"( cd {room}/cwd/{n}; enable -n cd kill exec ulimit source . test wait; eval {quoted(mapped)} ) 2>{room}/{n}.err >/dev/null </dev/null 3>{room}/{n}.ran\n")
    run = subprocess.run([shutil.which("bash"), "--norc"], input=(SHELL + "".join(cases)).encode(errors="surrogateescape"), capture_output=True,
                         env={"PATH": "/nonexistent", "HOME": str(home), "USER": "me", "HERE": str(room), "SLURM_LOCALID": "0"})
    for n in range(len(commands)):
        fields = (room / f"{n}.ran").read_text(errors="surrogateescape").replace(f"{room}/user", "").replace(f"{room}/root", "").split("\0")[:-1]
        ran, at = [], 0
        while at < len(fields):
            count = int(fields[at + 1])
            ran.append((fields[at], fields[at + 2:at + 2 + count]))
            at += 2 + count
        yield (room / f"{n}.err").read_text(errors="replace").replace(str(room), ""), ran, run.stderr.decode(errors="replace")


def as_root(ran):
    """What is run, without sudo: (whether as root, words)."""
    for who, words in ran:
        if words[0] == "sudo":
            yield True, words[1:]
        else:
            yield who == "root", words


def wrong(command, errors, ran, whole):
    yield from (f"the shell says: {line}" for line in errors.splitlines() if not re.search(r"No such file or directory|Broken pipe", line))
    yield from (f"the script broke: {line}" for line in whole.splitlines())
    if re.search(r"\{[a-z][\w.@]*\}", re.sub(r"\{\{.*?\}\}|xargs -I\{\}", "", command)):
        yield "a placeholder is left"
    if "%command%" in command:
        yield "that is for Steam, not for a shell"
    if "``" in command or command != command.strip():
        yield "a mark or a space is left"
    for root, words in as_root(ran):
        line = " ".join(words)
        yield from (f"an empty word: {words}" for word in words if not word)
        yield from (f"{word}: write a blank in capitals" for word in words if word == "..." or re.fullmatch(r"<\w+>", word))
        if words[0] in ("touch", "PWNED", "curl${IFS}evil.sh"):
            yield f"a stranger's words are run: {words}"
        if words[0] == "sudo":
            yield "sudo under sudo"
        if not root and ROOTS.match(line):
            yield f"it needs sudo: {line}"


def needs(command, ran):
    if any(root for root, _ in as_root(ran)):
        return "root (sudo)"
    lines = [" ".join(words) for _, words in as_root(ran)] + [command]
    return next((who for pattern, who in NEEDS if any(re.search(rf"(?:^|[;|(] *|= ?|\S=\S+ ){pattern}", line) for line in lines)), "any user")


HEAD = """# Commands that unhang can print, and who may run them
For those who review what unhang tells people to run. Made by `tests/shell.py BUILD/unhang BUILD/fill_commands --write`, which also gives each to a
shell that records instead of executing. Words in capitals are blanks: facts of the incident fill them (`PCI`, `PID`), or a person does (`PROGRAM`).

| command | needs | told by |
|---|---|---|
"""


def document(rows):
    escape = lambda text: text.replace("|", "\\|")
    lines = [f"| `` {escape(command)} `` | {who} | {', '.join(sorted({w.split(':')[0].replace(' ', ' `', 1) + '`' if ' ' in w else f'`{w}`' for w in where})[:3])}"
             f"{', ...' if len({w.split(':')[0] for w in where}) > 3 else ''} |" for command, who, where in sorted(rows)]
    return HEAD + "\n".join(lines) + "\n"


def unmarked():
    """Commands in steps that stand outside of marks."""
    for path in sorted((TOP / "knowledge").glob("*.know")):
        block = None
        for n, line in enumerate(path.read_text().splitlines(), 1):
            if line and not line[0].isspace():
                block, key = line.split()[0], None
            elif block in ("remedy", "check", "way") and (m := re.match(r"    (\S+)|\s{5,}\S", line)):
                key, inside = (m.group(1), False) if m.group(1) else (key, inside)
                pieces = line.split("``")
                outside = " ".join(p for k, p in enumerate(pieces) if (k % 2 == 1) == inside)
                inside ^= len(pieces) % 2 == 0
                if key in ("do", "undo", "verify", "if", "cost", "risk", "run", "say") and re.search(r"\bsudo \S|\| (grep|sudo|tail|head)\b|/sys/kernel/debug/", outside):
                    yield f"{path.name}:{n}: {line.strip()}"


def main():
    t, unhang = tap.Tap(), tap.Unhang(sys.argv[1])
    helper = pathlib.Path(sys.argv[2]).resolve()
    status, plain = made(helper, [";"], unhang.environment)  # with blanks: what the list shows
    for command, where in literals():
        plain.setdefault(command, []).append(where)
    status_all, every = made(helper, VALUES, unhang.environment)
    t.ok(status == status_all == 0 and len(plain) > 300, f"{len(plain)} commands, {len(every)} with values in them", (status, status_all, len(plain)))
    commands = list(dict.fromkeys([*plain, *every]))
    results = dict(zip(commands, recorded(commands, unhang.directory / "shell")))
    t.no_complaints([f"{(every.get(c) or plain[c])[0]}: {c}\n    {w}" for c in commands for w in wrong(c, *results[c])][:40], "a shell takes each, and each word is what it should be")
    t.no_complaints(list(unmarked()), "every command in a step is marked")
    text = document([(c, needs(c, results[c][1]), where) for c, where in plain.items()])
    if "--write" in sys.argv:
        LIST.write_text(text)
    t.ok(LIST.exists() and LIST.read_text() == text, "docs/COMMANDS.md lists them: tests/shell.py UNHANG FILL_COMMANDS --write",
         sorted(set(text.splitlines()) ^ set(LIST.read_text().splitlines()))[:10] if LIST.exists() else "there is none")
    t.end()


main()

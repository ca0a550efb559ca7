"""Recorded machines: a text file `NAME.tree` becomes the proc, sys, etc, boot and usr that `unhang doctor --root DIR` looks at.

    === /proc/cmdline                      a file; its text are the lines up to the next ===
    === /sys/class/drm/card0 -> TARGET     a link
    === /sys/devices/x/config hex          a file of bytes, in hexadecimal digits
    === /usr/lib/modules/V/amdgpu.ko modinfo   an ELF file whose section .modinfo has these lines
    === /var/log/journal/                  an empty directory
    === without /etc/modprobe.d/x.conf     takes away what an included tree had
    === include healthy                    another tree first
    === each BUS 05 26 46                  up to `=== end` once for each word, with $BUS replaced
Lines before the first === are comments.
"""
import pathlib
import shutil
import struct
import sys

MACHINES = pathlib.Path(__file__).resolve().parent / "machines"


def modinfo_elf(text):
    """A relocatable object with nothing but .modinfo."""
    info = b"".join(line.encode() + b"\0" for line in text.splitlines())
    names = b"\0.modinfo\0.shstrtab\0"
    head = 64
    sections = head + len(info) + len(names)
    section = struct.Struct("<IIQQQQIIQQ")
    elf = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 1, 62, 1, 0, 0, sections, 0, 64, 0, 0, 64, 3, 2)
    table = section.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    table += section.pack(1, 1, 2, 0, head, len(info), 0, 0, 1, 0)
    table += section.pack(10, 3, 0, 0, head + len(info), len(names), 0, 0, 1, 0)
    return elf + info + names + table


def unroll(lines):
    """`=== each` blocks, repeated."""
    out, block, name, words = [], None, None, None
    for line in lines:
        if line.startswith("=== each "):
            _, _, name, *words = line.split()
            block = []
        elif line.strip() == "=== end":
            out += [one.replace("$" + name, word) for word in words for one in block]
            block = None
        elif block is not None:
            block.append(line)
        else:
            out.append(line)
    return out


def place(directory, path):
    target = directory / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or target.is_file():
        target.unlink()
    return target


def put(directory, head, body):
    words = head.split()
    text = "".join(line + "\n" for line in body)
    if words[0] == "include":
        plant(words[1], directory)
    elif words[0] == "without":
        gone = directory / words[1].lstrip("/")
        if gone.is_dir() and not gone.is_symlink():
            shutil.rmtree(gone)
        else:
            gone.unlink(missing_ok=True)
    elif " -> " in head:
        path, target = head.split(" -> ")
        place(directory, path.strip()).symlink_to(target.strip())
    elif words[0].endswith("/"):
        (directory / words[0].strip("/")).mkdir(parents=True, exist_ok=True)
    elif words[1:] == ["hex"]:
        place(directory, words[0]).write_bytes(bytes.fromhex(text))
    elif words[1:] == ["modinfo"]:
        place(directory, words[0]).write_bytes(modinfo_elf(text))
    else:
        place(directory, head.strip()).write_text(text)


def plant(name, directory):
    """Makes the tree of machines/NAME.tree, or of a path, in @directory."""
    path = pathlib.Path(name) if "/" in str(name) else MACHINES / f"{name}.tree"
    plant_text(path.read_text(), directory)
    return directory


def plant_text(text, directory):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    head, body = None, []
    for line in unroll(text.splitlines()) + ["=== "]:
        if line.startswith("=== "):
            if head:
                put(directory, head, body)
            head, body = line[4:].strip(), []
        else:
            body.append(line)
    return directory


if __name__ == "__main__":
    plant(sys.argv[1], sys.argv[2])

#!/usr/bin/env python3
"""The register tables and the words of queue descriptors are what the driver's headers give: knowledge/registers and queue-words.know against
the Linux sources. And the second way to addresses: driver-addresses-6.12.txt against the driver's code.

Needs Debian's linux-source-6.12.
"""
import pathlib
import subprocess
import tempfile

import tap

SOURCE = pathlib.Path("/usr/src/linux-source-6.12.tar.xz")
KEPT = tap.HERE / ".." / "knowledge" / "registers"


def main():
    if not SOURCE.exists():
        tap.skip_all(f"{SOURCE} is not installed")
    t = tap.Tap()
    tools, amd = tap.HERE / ".." / "tools", "*/drivers/gpu/drm/amd"
    with tempfile.TemporaryDirectory(prefix="registers-test-") as folder:
        # Unpacking takes longest: once for all.
        source, made_in = pathlib.Path(folder) / "linux", pathlib.Path(folder) / "made"
        source.mkdir()
        subprocess.run(["tar", "-xf", SOURCE, "-C", source, "--strip-components=1", "--wildcards", f"{amd}/amdgpu/*.c", f"{amd}/include/*_offset.h",
                        f"{amd}/include/*_sh_mask.h", f"{amd}/include/*_smn.h", f"{amd}/include/v*_structs.h"], check=True)
        subprocess.run([tools / "registers", "--output", made_in, source], check=True)
        made = {path.name: path.read_bytes() for path in made_in.glob("*.regs")}
        subprocess.run([tools / "queue-words", "--output", made_in / "words", source], check=True)
        words = (made_in / "words").read_text()
        subprocess.run([tools / "driver-addresses", "--output", made_in / "list", source], check=True)
        addresses = (made_in / "list").read_text()
    kept = {path.name: path.read_bytes() for path in KEPT.glob("*.regs")}
    t.ok(len(made) >= 100, "the sources have the registers of a hundred blocks", len(made))
    t.same(sorted(kept), sorted(made), "there is a table for each block of the sources, and no other")
    t.no_complaints([name for name in sorted(made) if kept.get(name, made[name]) != made[name]], "each is what the sources give")
    t.same(words, (KEPT / ".." / "queue-words.know").read_text(), "the words of queue descriptors are what the structs give")
    t.same(addresses, (tap.HERE / "driver-addresses-6.12.txt").read_text(), "the driver's addresses are what its code gives")
    t.end()


if __name__ == "__main__":
    main()

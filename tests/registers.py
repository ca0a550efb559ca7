#!/usr/bin/env python3
"""The register tables are what the driver's headers give: knowledge/registers against the Linux sources. And the second way to addresses:
driver-addresses-6.12.txt against the driver's code.

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
    with tempfile.TemporaryDirectory(prefix="registers-test-") as folder:
        subprocess.run([tap.HERE / ".." / "tools" / "registers", "--output", folder, SOURCE], check=True)
        made = {path.name: path.read_bytes() for path in pathlib.Path(folder).glob("*.regs")}
    kept = {path.name: path.read_bytes() for path in KEPT.glob("*.regs")}
    t.ok(len(made) >= 100, "the sources have the registers of a hundred blocks", len(made))
    t.same(sorted(kept), sorted(made), "there is a table for each block of the sources, and no other")
    t.no_complaints([name for name in sorted(made) if kept.get(name, made[name]) != made[name]], "each is what the sources give")
    with tempfile.TemporaryDirectory(prefix="addresses-test-") as folder:
        list_made = pathlib.Path(folder) / "list"
        subprocess.run([tap.HERE / ".." / "tools" / "driver-addresses", "--output", list_made, SOURCE], check=True)
        t.same(list_made.read_text(), (tap.HERE / "driver-addresses-6.12.txt").read_text(), "the driver's addresses are what its code gives")
    t.end()


if __name__ == "__main__":
    main()

"""An emulated machine on which unhang watch runs."""
import json
import pathlib
import shutil

import tap

SCENARIOS = tap.HERE / "watching"

# A machine whose log ends with a page fault.
FAULT = """gpu 0000:03:00.0
    part gfx1100
    shaders ses 1 cus 2

messages
    999.500 err   amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32770)
    999.501 err   amdgpu 0000:03:00.0: amdgpu:   in process python3 pid 4242 thread python3 pid 4242
    999.502 err   amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f5a00000000 from client 0x1b (UTCL2)
"""


class Machine:
    """An emulated machine, and where its watch keeps what it knows."""

    def __init__(self, unhang, name, scenario):
        self.unhang, self.top = unhang, pathlib.Path(unhang.directory) / name
        shutil.rmtree(self.top, ignore_errors=True)
        (self.top / "hooks").mkdir(parents=True)
        self.scenario = scenario
        if "\n" in scenario:
            self.scenario = self.top / "m.scenario"
            self.scenario.write_text(scenario)
        self.options = ["--state-dir", self.top / "state", "--run-dir", self.top / "run", "--hooks-dir", self.top / "hooks",
                        "--config", self.configure("quiet 1")]

    def configure(self, text):
        path = self.top / "watch.conf"
        path.write_text(text + "\n")
        return path

    def command(self, *more):
        return " ".join(f"'{a}'" for a in [self.unhang.binary, "watch", *self.options, *more])

    def run(self, script, timeout=300):
        return self.unhang.run("emulate", self.scenario, "--", "sh", "-c", script, timeout=timeout)

    def once(self):
        run = self.run(self.command("--once"))
        return run.stdout.decode().splitlines()

    def until(self, condition, first=":"):
        """Runs the watch until a condition of the shell holds; for two minutes and more only where something is broken."""
        script = (f"{first}; {self.command()} >>{self.top}/out 2>&1 & p=$!; n=0; "
                  f"until {condition} || [ $n -gt 1200 ]; do sleep 0.1; n=$((n+1)); done; kill -TERM $p; wait $p; echo status $?")
        run = self.run(script)
        told = (self.top / "out").read_text().splitlines() + run.stdout.decode().splitlines()
        return [line for line in told if not line.startswith("Watching ")]

    def incidents(self):
        run = self.unhang.run("incidents", "--json", "--state-dir", self.top / "state")
        return json.loads(run.stdout)["incidents"]

    def directory(self, incident):
        return self.top / "state" / "incidents" / incident["id"]

    def state(self):
        return json.loads((self.top / "run" / "state.json").read_text())


def words(lines):
    """What was told of incidents, without ids and titles."""
    return [line.split(":")[0].split()[2] for line in lines if line.startswith("incident ")]

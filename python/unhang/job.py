"""`unhang run` as a function."""
from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import tempfile
from typing import Any, Mapping, Optional, Sequence

from . import program


@dataclasses.dataclass(frozen=True)
class Result:
    """How a job ended."""
    status: int  # as `unhang run` returns it: the job's, 128 and more if a signal ended it
    report: Optional[dict[str, Any]]  # docs/run.schema.json; None where unhang refused to start it

    @property
    def ended(self) -> Optional[str]:
        """Of the last try: done, gpu-fault, gpu-hang and so on (docs/RUN.md)."""
        tries = self.report["tries"] if self.report else None
        return tries[-1]["ended"] if tries else None


def run(command: Sequence[str], settings: Mapping[str, object], options: Sequence[str], environment: Optional[Mapping[str, str]]) -> Result:
    with tempfile.TemporaryDirectory(prefix="unhang-") as place:
        status_file = os.path.join(place, "status.json")
        given = [word for option, value in settings.items() if value is not None for word in (option, str(value))]
        ran = subprocess.run([program.path(), "run", "--status-file", status_file, *given, *options, "--", *command], env=environment, check=False)
        try:
            with open(status_file, encoding="utf-8") as file:
                report = json.load(file)
        except FileNotFoundError:
            report = None
    return Result(ran.returncode, report)

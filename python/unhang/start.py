"""Has the recorder loaded into this process: by sitecustomize.py where the variables name it, by start_recorder() where they do not yet."""
from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Any, Optional

from . import _NAME, asked_for


def tell(problem: str) -> None:
    sys.stderr.write(f"unhang: recorder: {problem}\n")


class AfterTorch:
    """Has torch imported as ever, and its operators recorded from then on."""

    def __init__(self, library: str) -> None:
        self.library = library

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        loader: Any = spec and spec.loader
        run: Any = getattr(loader, "exec_module", None)
        if run:
            def exec_module(module: Any) -> None:
                run(module)
                self.ready()
            loader.exec_module = exec_module
        return spec

    def ready(self) -> None:
        from . import torch_operators
        try:
            self.name_again()
            torch_operators()
        except Exception as problem:  # whatever it is, the job has its torch
            tell(f"PyTorch's operators are not recorded: {type(problem).__name__}: {problem}")

    def name_again(self) -> None:
        """Some builds of PyTorch set HSA_TOOLS_LIB to their own: the recorder is named behind it."""
        import ctypes
        get = ctypes.CDLL(None).getenv
        get.restype = ctypes.c_char_p
        now = os.fsdecode(get(b"HSA_TOOLS_LIB") or b"")
        if self.library not in now.split():
            os.environ["HSA_TOOLS_LIB"] = f"{now} {self.library}".strip()


def follow(library: str) -> None:
    """What goes with a recorder that the variables name."""
    # AMD's builds of the runtime look at HSA_TOOLS_LIB only then, and PyTorch's rocprofiler says 0 where nothing is said.
    os.environ.setdefault("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1")
    if os.environ.get("UNHANG_TORCH", "") == "off" or any(isinstance(finder, AfterTorch) for finder in sys.meta_path):
        return
    after = AfterTorch(library)
    if "torch" in sys.modules:
        after.ready()
    else:
        sys.meta_path.insert(0, after)


def uses_gpu() -> bool:
    """Whether ROCm's runtime has the driver open: then it has looked for its tools."""
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}") == "/dev/kfd":
                return True
        except OSError:  # closed meanwhile
            continue
    return False


def recorder() -> Optional[str]:
    library = asked_for()
    if not library:
        if os.environ.get("UNHANG_LEVEL", "").strip() == "0" and os.environ.get("UNHANG_MAX_LEVEL", "0").strip() == "0":
            return None
        from . import program
        library = program.recorder(_NAME)
        os.environ["HSA_TOOLS_LIB"] = f"{os.environ.get('HSA_TOOLS_LIB', '')} {library}".strip()
        if uses_gpu():
            tell("this process used the GPU before start_recorder(): only processes that it starts are recorded")
    follow(library)
    return library

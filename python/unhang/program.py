"""Where the program unhang is, and where ROCm is: `python -m unhang`, and the command that a wheel installs."""
from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from typing import NoReturn, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
# In a wheel, and below PREFIX/share/unhang/python.
PLACES = (os.path.join(HERE, "bin"), os.path.join(HERE, *[os.pardir] * 4, "bin"))
# These start another's program, or judge the variables that they find: they see them as they are.
AS_IT_IS = {"run", "emulate", "core", "capture", "watch", "doctor", "bisect", "try"}


def path() -> str:
    """The program."""
    for place in PLACES:
        found = os.path.normpath(os.path.join(place, "unhang"))
        if os.access(found, os.X_OK):
            return found
    found_there = shutil.which("unhang")
    if not found_there:
        raise FileNotFoundError("the program unhang is neither beside this package nor in PATH")
    return found_there


def recorder(name: str) -> str:
    """The recorder: a path in a wheel, else the name, which the loader knows where it is installed."""
    beside = os.path.join(PLACES[0], name)
    return beside if os.path.exists(beside) else name


def _of_sdk() -> Optional[str]:
    """AMD's wheels: rocm_sdk tells where its libraries are."""
    here = [place for place in sys.path if place in ("", os.getcwd())]
    try:
        for place in here:  # what lies beside somebody's evidence is not imported
            sys.path.remove(place)
        import rocm_sdk  # type: ignore[import]
        return str(rocm_sdk.find_libraries("amdhip64")[0].parent.parent)
    except Exception:  # whatever a package of that name throws: there is none for us
        return None
    finally:
        sys.path[:0] = here


def _of_torch() -> Optional[str]:
    """PyTorch's wheels carry ROCm's libraries. torch itself is not imported: that takes seconds."""
    try:
        spec = find_spec("torch")
    except (ImportError, ValueError):
        return None
    for place in (spec and spec.submodule_search_locations) or ():
        if any(name.startswith("libamdhip64.so") for name in _names(os.path.join(place, "lib"))):
            return place
    return None


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def rocm() -> Optional[str]:
    """The directory above ROCm's lib/: ROCM_PATH, else that of the Python packages, else the machine's."""
    return os.environ.get("ROCM_PATH") or _of_sdk() or _of_torch() or ("/opt/rocm" if os.path.isdir("/opt/rocm") else None)


def main() -> NoReturn:
    """Becomes the program."""
    try:
        program = path()
    except FileNotFoundError as problem:
        sys.exit(f"unhang: {problem}")
    if sys.argv[1:2] and sys.argv[1] not in AS_IT_IS and "ROCM_PATH" not in os.environ:
        found = rocm()
        if found:
            os.environ["ROCM_PATH"] = found
    os.execv(program, [program, *sys.argv[1:]])

"""unhang for Python: which operation the kernels belong to that are launched now, and with which tensors; and jobs that explain themselves.

    import unhang

    @unhang.record                     # or @unhang.record("attention")
    def attention(q, k, v): ...

    with unhang.operation("prefill", hidden):
        model(hidden)

    unhang.start_recorder()            # in a process that no `unhang run` started, before it uses the GPU
    unhang.torch_operators()           # every operator of PyTorch (start_recorder and sitecustomize.py do it by themselves)
    unhang.run(["python", "train.py"]) # a job with a report

Where no recorder was asked for (HSA_TOOLS_LIB, LD_PRELOAD), record() hands back the function itself and nothing is imported.
docs/RECORDING.md tells the rest, docs/PYTHON.md what a wheel has."""
from __future__ import annotations

import os as _os

TYPE_CHECKING = False  # without typing, which would cost a job more than all the rest
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, Optional, Sequence, TypeVar, overload

    from . import job
    from .operations import Absent, Recorder
    Function = TypeVar("Function", bound=Callable[..., Any])
else:
    def overload(function):
        return function

_NAME = "libunhang-recorder.so"


def asked_for(environment: Mapping[str, str] = _os.environ) -> Optional[str]:
    """The recorder that this process was started with, as the variables name it; None: there is none, or it is off for good.

    UNHANG_LEVEL=0 alone means off. With UNHANG_MAX_LEVEL it means off until `unhang level PID N`."""
    if environment.get("UNHANG_LEVEL", "").strip() == "0" and environment.get("UNHANG_MAX_LEVEL", "0").strip() == "0":
        return None
    for variable in ("HSA_TOOLS_LIB", "LD_PRELOAD"):
        for path in environment.get(variable, "").replace(":", " ").split():
            if path.rsplit("/", 1)[-1] == _NAME:
                return path
    return None


@overload
def record(function: Function) -> Function: ...
@overload
def record(function: str) -> Callable[[Function], Function]: ...
@overload
def record(function: None = None, *, name: Optional[str] = None) -> Callable[[Function], Function]: ...


def record(function: Any = None, *, name: Optional[str] = None) -> Any:
    """A decorator: each call of the function is an operation. The level is read at each call: 0 costs a look at it, 1 records the name, 3 and
    above the tensors among the arguments, too."""
    if isinstance(function, str):
        named = function
        return lambda it: record(it, name=named)
    if function is None:
        return lambda it: record(it, name=name)
    if not asked_for():
        return function
    from . import operations
    return operations.wrapped(function, name)


class operation:
    """A context: what is launched inside belongs to this operation. Tensors are recorded at level 3 and above."""

    def __init__(self, name: str, *tensors: Any) -> None:
        self.name, self.tensors, self.number = name, tensors, 0
        self.recorder: Recorder | type[Absent] | None = None

    def __enter__(self) -> operation:
        if asked_for():
            from . import operations
            self.recorder = here = operations.recorder()
            self.number = here.begin(self.name, self.tensors)
        return self

    def __exit__(self, *problem: object) -> None:
        if self.number and self.recorder:
            self.recorder.end(self.number)


def level() -> int:
    """The level in force: 0 nothing, 1 launches, 3 arguments, 5 statistics, 10 inputs."""
    if not asked_for():
        return 0
    from . import operations
    return operations.recorder().level()


def torch_operators(way: Optional[str] = None) -> Optional[str]:
    """Each operator of PyTorch is an operation from now on. Returns how: "observer", "dispatch", or None where nothing is recorded.

    An observer in C sees the operators of all threads. Where it cannot work with this PyTorch, a dispatch mode sees those of this thread, at
    a cost of some microseconds each. @way, or UNHANG_TORCH, is one of "observer", "dispatch" and "off"."""
    way = way or _os.environ.get("UNHANG_TORCH", "").strip() or "any"
    if way == "off" or not asked_for():
        return None
    from . import torch
    return torch.start(way)


def start_recorder() -> Optional[str]:
    """Has ROCm's runtime load the recorder into this process and those that it starts, and PyTorch's operators recorded. Returns the recorder,
    or None where UNHANG_LEVEL says that none is wanted. To be called before the process uses its GPU; a line says where that is too late."""
    from . import start
    return start.recorder()


def run(command: Sequence[str], *, restart: Optional[int] = None, level: Optional[int] = None, hang_after: Optional[float] = None,
        deadline: Optional[float] = None, options: Sequence[str] = (), environment: Optional[Mapping[str, str]] = None) -> job.Result:
    """Runs a job under `unhang run` and waits for it: its status, and the report as docs/run.schema.json has it. @options are others of
    `unhang run --help`, as on its command line."""
    from . import job
    return job.run(command, {"--restart": restart, "--level": level, "--hang-after": hang_after, "--deadline": deadline}, options, environment)

"""unhang's flight recorder for Python: which operation the kernels belong to that are launched now, and with which tensors.

    import unhang

    @unhang.record                     # or @unhang.record("attention")
    def attention(q, k, v): ...

    with unhang.operation("prefill", hidden):
        model(hidden)

    unhang.torch_operators()           # every operator of PyTorch (sitecustomize.py does it by itself)

Where no recorder was asked for (HSA_TOOLS_LIB, LD_PRELOAD), record() hands back the function itself and nothing is imported.
docs/RECORDING.md tells the rest."""
import os as _os

_NAME = "libunhang-recorder.so"


def asked_for(environment=_os.environ):
    """The recorder that this process was started with, as the variables name it; None: there is none, or it is off for good.

    UNHANG_LEVEL=0 alone means off. With UNHANG_MAX_LEVEL it means off until `unhang level PID N`."""
    if environment.get("UNHANG_LEVEL", "").strip() == "0" and environment.get("UNHANG_MAX_LEVEL", "0").strip() == "0":
        return None
    for variable in ("HSA_TOOLS_LIB", "LD_PRELOAD"):
        for path in environment.get(variable, "").replace(":", " ").split():
            if path.rsplit("/", 1)[-1] == _NAME:
                return path
    return None


def record(function=None, *, name=None):
    """A decorator: each call of the function is an operation. The level is read at each call: 0 costs a look at it, 1 records the name, 3 and
    above the tensors among the arguments, too."""
    if isinstance(function, str):
        return lambda it: record(it, name=function)
    if function is None:
        return lambda it: record(it, name=name)
    if not asked_for():
        return function
    from . import operations
    return operations.wrapped(function, name)


class operation:
    """A context: what is launched inside belongs to this operation. Tensors are recorded at level 3 and above."""

    def __init__(self, name, *tensors):
        self.name, self.tensors, self.number, self.recorder = name, tensors, 0, None

    def __enter__(self):
        if asked_for():
            from . import operations
            self.recorder = operations.recorder()
            self.number = self.recorder.begin(self.name, self.tensors)
        return self

    def __exit__(self, *problem):
        if self.number:
            self.recorder.end(self.number)


def level():
    """The level in force: 0 nothing, 1 launches, 3 arguments, 5 statistics, 10 inputs."""
    if not asked_for():
        return 0
    from . import operations
    return operations.recorder().level()


def torch_operators(way=None):
    """Each operator of PyTorch is an operation from now on. Returns how: "observer", "dispatch", or None where nothing is recorded.

    An observer in C sees the operators of all threads. Where it cannot work with this PyTorch, a dispatch mode sees those of this thread, at
    a cost of some microseconds each. @way, or UNHANG_TORCH, is one of "observer", "dispatch" and "off"."""
    way = way or _os.environ.get("UNHANG_TORCH", "").strip() or "any"
    if way == "off" or not asked_for():
        return None
    from . import pytorch
    return pytorch.start(way)

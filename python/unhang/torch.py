"""PyTorch's operators as operations: by an observer in C, else by a dispatch mode."""
from __future__ import annotations

from typing import Optional

from . import operations
from .start import tell

started: list[str] = []  # how; once in a process


def start_dispatch(recorder):
    """Operators of this thread, one call of Python each."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            named = named or {}
            number = recorder.begin(str(function), (*arguments, *named.values()))
            try:
                return function(*arguments, **named)
            finally:
                recorder.end(number)

    mode = Operators()
    mode.__enter__()  # for good: whoever leaves it was not asked to


def start(way: str = "any") -> Optional[str]:
    """As unhang.torch_operators(), which asks first whether there is a recorder."""
    if started:
        return started[0]
    if way not in ("any", "observer", "dispatch"):
        tell(f"{way} is no way to record PyTorch's operators: observer, dispatch or off")
        return None
    recorder = operations.recorder()
    if not recorder.library:
        return None
    if way in ("any", "observer"):
        from . import observer
        try:
            observer.start(recorder, any_newer=way == "observer")
            started.append("observer")
            return "observer"
        except observer.Unknown as problem:
            tell(f"no observer for this PyTorch: {problem}" + ("; its operators are not recorded" if way == "observer" else ""))
    if way in ("any", "dispatch"):
        try:
            start_dispatch(recorder)
            started.append("dispatch")
            return "dispatch"
        except Exception as problem:  # of a PyTorch without such modes, or with others: the job goes on
            tell(f"no dispatch mode in this PyTorch: {problem}; its operators are not recorded")
    return None

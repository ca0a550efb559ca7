"""For containers where only variables can be set: PYTHONPATH=/usr/local/share/unhang/python has PyTorch's operators recorded, without a change to
the program. Where no recorder was asked for nothing is imported. Another sitecustomize that this one hides is run, as it would have been."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run_hidden():
    """The sitecustomize that Python would have taken without us."""
    from importlib.machinery import PathFinder
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != HERE])
    if spec and spec.loader:
        from importlib.util import module_from_spec
        spec.loader.exec_module(module_from_spec(spec))


class AfterTorch:
    """Has torch imported as ever, and its operators recorded from then on."""

    def __init__(self, library):
        self.library = library

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec
        spec = find_spec(name)
        run = getattr(spec and spec.loader, "exec_module", None)
        if run:
            def exec_module(module):
                run(module)
                self.ready()
            spec.loader.exec_module = exec_module
        return spec

    def ready(self):
        try:
            import unhang
            self.name_again()
            unhang.torch_operators()
        except Exception as problem:  # whatever it is, the job has its torch
            sys.stderr.write(f"unhang: recorder: PyTorch's operators are not recorded: {type(problem).__name__}: {problem}\n")

    def name_again(self):
        """Some builds of PyTorch set HSA_TOOLS_LIB to their own: the recorder is named behind it."""
        import ctypes
        get = ctypes.CDLL(None).getenv
        get.restype = ctypes.c_char_p
        now = os.fsdecode(get(b"HSA_TOOLS_LIB") or b"")
        if self.library not in now.split():
            os.environ["HSA_TOOLS_LIB"] = f"{now} {self.library}".strip()


def main():
    sys.path.insert(0, HERE)
    try:
        from unhang import asked_for
    except ImportError:
        return
    finally:
        sys.path.remove(HERE)
    library = asked_for()
    if library:  # AMD's builds of the runtime look at HSA_TOOLS_LIB only then, and PyTorch's rocprofiler says 0 where nothing is said
        os.environ.setdefault("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1")
    if library and os.environ.get("UNHANG_TORCH", "") != "off":
        sys.meta_path.insert(0, AfterTorch(library))


main()
run_hidden()

"""For containers where only variables can be set: PYTHONPATH=/usr/local/share/unhang/python has PyTorch's operators recorded, without a change to
the program. Where no recorder was asked for nothing is imported. Another sitecustomize that this one hides is run, as it would have been."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# The package is beside this file, or, in a wheel, around it: unhang/share/unhang/python.
ABOVE = HERE if os.path.isdir(os.path.join(HERE, "unhang")) else os.path.normpath(os.path.join(HERE, *[os.pardir] * 4))


def run_hidden():
    """The sitecustomize that Python would have taken without us."""
    from importlib.machinery import PathFinder
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != HERE])
    if spec and spec.loader:
        from importlib.util import module_from_spec
        spec.loader.exec_module(module_from_spec(spec))


def main():
    sys.path.insert(0, ABOVE)
    try:
        from unhang import asked_for
    except ImportError:
        return
    finally:
        sys.path.remove(ABOVE)
    library = asked_for()
    if library:
        from unhang.start import follow
        follow(library)


main()
run_hidden()

"""The recorder's C functions (include/unhang/recorder.h) by ctypes. Imported only where the recorder was asked for."""
import ctypes
import functools

from . import asked_for

TENSORS = 8  # more are not recorded
WITH_TENSORS = 3
DTYPES = {name: number for number, name in enumerate(
    "unknown float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz int64 int32 int16 int8 "
    "uint64 uint32 uint16 uint8 bool complex64 complex128".split())}


class Tensor(ctypes.Structure):
    """struct unhang_tensor"""
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_uint32), ("ndim", ctypes.c_uint32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))]


def tensor_fill(to, tensor):
    """What a tensor is, as far as it tells: those of a compiler at work have no memory."""
    shape = tuple(map(int, tensor.shape))
    to.ndim = len(shape)
    to.shape = (ctypes.c_int64 * len(shape))(*shape)
    to.dtype = DTYPES.get(str(tensor.dtype).rsplit(".", 1)[-1], 0)
    try:
        to.strides = (ctypes.c_int64 * len(shape))(*map(int, tensor.stride()))
        to.data = tensor.data_ptr()
    except Exception:  # whatever a tensor of a stranger's class throws: the job goes on
        to.data = None


def tensors_of(arguments):
    """The tensors among arguments, also those in lists and tuples."""
    for a in arguments:
        if hasattr(a, "data_ptr") and hasattr(a, "shape"):
            yield a
        elif isinstance(a, (list, tuple)):
            yield from (b for b in a if hasattr(b, "data_ptr") and hasattr(b, "shape"))


class Recorder:
    """The recorder in this process."""

    def __init__(self, library):
        self.library = library
        self.level = library.unhang_recorder_level
        self.end = library.unhang_recorder_end
        self._begin = library.unhang_recorder_begin
        self.level.argtypes, self.level.restype = (), ctypes.c_int
        self.end.argtypes, self.end.restype = (ctypes.c_uint32,), None
        self._begin.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
        self._begin.restype = ctypes.c_uint32

    def begin(self, name, arguments=(), level=None):
        """Returns the operation's number for end(); 0: nothing is recorded. @level: where it was just read."""
        level = self.level() if level is None else level
        if not level:
            return 0
        name = name if isinstance(name, bytes) else str(name).encode(errors="replace")
        if level < WITH_TENSORS or not arguments:
            return self._begin(name, None, 0)
        room, n = (Tensor * TENSORS)(), 0
        for tensor in tensors_of(arguments):
            try:
                tensor_fill(room[n], tensor)
            except Exception:  # as above
                continue
            n += 1
            if n == TENSORS:
                break
        return self._begin(name, ctypes.addressof(room), n)


class Absent:
    """In place of a recorder that cannot be loaded: nothing is recorded."""
    library = None

    @staticmethod
    def level():
        return 0

    @staticmethod
    def begin(name, arguments=(), level=None):
        return 0

    @staticmethod
    def end(number):
        pass


@functools.lru_cache(maxsize=1)
def recorder():
    """Loads the library that the variables name, as the runtime will: it is the same one then."""
    try:
        return Recorder(ctypes.CDLL(asked_for()))
    except (OSError, AttributeError, TypeError):
        return Absent


def wrapped(function, name=None):
    """The function as an operation."""
    name = (name or getattr(function, "__qualname__", None) or repr(function)).encode(errors="replace")
    here = recorder()
    level, begin, end = here.level, here.begin, here.end

    @functools.wraps(function)
    def call(*arguments, **named):
        now = level()
        if not now:
            return function(*arguments, **named)
        number = begin(name, (*arguments, *named.values()) if now >= WITH_TENSORS else (), now)
        try:
            return function(*arguments, **named)
        finally:
            end(number)

    return call

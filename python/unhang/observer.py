"""Finds out where this PyTorch keeps what the observer in C needs (recorder/torch.h), and starts it.

PyTorch has no interface of C for observers. Its functions for them have been the same since 1.13; where its objects have their members changes.
So operators are run here on tensors whose every number is known, and their objects are searched for these numbers. All memory is read
through the kernel, which returns an error where a stray pointer would end the job. What is not found exactly is not believed."""
import ctypes
import os
import re
import struct

from . import operations

SCOPES = (0, 1, 2, 7)  # operators, those of backward passes, TorchScript's functions, what users name
ALL_SCOPES = 10
INSIDE = 5  # dimensions whose sizes and strides lie in the tensor itself
OLDEST, NEWEST = (1, 13), (2, 9)  # whose interface for observers was read
# PyTorch's numbers of types. More are read from tensors.
NUMBERS = {"uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7, "bool": 11, "bfloat16": 15}


class Unknown(Exception):
    """Something is not as it should be."""


class Callback(ctypes.Structure):
    """struct torch_callback"""
    _fields_ = [("start", ctypes.c_void_p), ("end", ctypes.c_void_p), ("probability", ctypes.c_double), ("flags", ctypes.c_uint8 * 16)]


class Layout(ctypes.Structure):
    """struct unhang_torch"""
    _fields_ = [*((name, ctypes.c_uint32) for name in ("size", "inputs", "value", "tag", "tensor", "list", "elements", "dimensions", "inside", "storage", "data",
                                                       "offset", "dtype")),
                ("dtypes", ctypes.c_uint8 * 64), ("name", ctypes.c_void_p), ("add", ctypes.c_void_p), ("callback", Callback)]


class Piece(ctypes.Structure):
    """struct iovec"""
    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Memory:
    """This process's memory, read through the kernel."""

    def __init__(self):
        self.read_of = ctypes.CDLL(None, use_errno=True).process_vm_readv
        self.read_of.restype = ctypes.c_ssize_t
        self.read_of.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong)

    def read(self, at, size):
        """The bytes there, as many as can be read."""
        room = ctypes.create_string_buffer(size)
        got = 0
        while got < size:  # page by page: a piece that is partly gone is refused as a whole
            step = min(size - got, 4096 - (at + got) % 4096)
            here, there = Piece(ctypes.addressof(room) + got, step), Piece(at + got, step)
            if self.read_of(os.getpid(), ctypes.addressof(here), 1, ctypes.addressof(there), 1, 0) != step:
                break
            got += step
        return room.raw[:got]

    def words(self, at, n):
        raw = self.read(at, 8 * n) if 4096 < at < 1 << 47 else b""
        return struct.unpack(f"<{len(raw) // 8}Q", raw[:len(raw) // 8 * 8])


def only(found, what):
    found = list(found)
    if len(found) != 1:
        raise Unknown(f"{what} was found {len(found)} times")
    return found[0]


def callback(start=None, end=None):
    c = Callback(start, end, 1.0)
    for scope in SCOPES:
        c.flags[scope] = 1
    c.flags[ALL_SCOPES] = 1  # inputs are needed
    return c


class Functions:
    """Those of PyTorch's C++ that are called, by their names."""

    def __init__(self, torch, any_newer=False):
        version = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))
        if version < OLDEST or (version > NEWEST and not any_newer):
            raise Unknown(f"version {torch.__version__} is not known" + ("; UNHANG_TORCH=observer tries it" if version > NEWEST else ""))
        library = self.library(torch)
        try:
            by_value = ctypes.CFUNCTYPE(ctypes.c_uint64, Callback)
            self.add = library._ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE
            self.add_here = by_value(("_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE", library))
            self.remove = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(("_ZN2at14removeCallbackEm", library))
            self.name = library._ZNK2at14RecordFunction4nameEv
        except AttributeError as problem:
            raise Unknown(str(problem)) from None

    @staticmethod
    def library(torch):
        """The library with the operators, which is loaded already."""
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            paths = {line.split(None, 5)[5].rstrip("\n") for line in maps if "/libtorch_cpu.so" in line}
        try:
            return ctypes.CDLL(only(paths, "libtorch_cpu.so"), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError as problem:
            raise Unknown(str(problem)) from None


def observed(functions, memory, run, look):
    """What look() makes of the words of the RecordFunction of the operator that run() calls, while that begins: its inputs live no longer."""
    seen = []

    def start(ret, function):
        ctypes.c_uint64.from_address(ret).value = 0  # an empty std::unique_ptr
        try:
            if not seen:
                seen.append(look(memory.words(function, 96)))
        except Exception as problem:  # PyTorch goes on with what is returned: it has to be this
            seen.append(Unknown(f"{type(problem).__name__}: {problem}"))
        return ret

    held = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(start)
    handle = functions.add_here(callback(start=ctypes.cast(held, ctypes.c_void_p).value))
    try:
        run()
    finally:
        functions.remove(handle)
    if not seen:
        raise Unknown("its observers are not called")
    if isinstance(seen[0], Unknown):
        raise seen[0]
    return seen[0]


def find_inputs(layout, functions, memory, torch):
    """aten::add has three inputs: two tensors, and a number."""
    a, b = torch.ones(3), torch.ones(3)

    def look(words):
        return [(at, words_of, memory.read(words[at], 3 * 8 * words_of)) for at in range(len(words) - 1) if words[at + 1] == 3 for words_of in (2, 3, 4)
                if (memory.words(words[at], 1), memory.words(words[at] + 8 * words_of, 1)) == ((a._cdata,), (b._cdata,))]

    at, words_of, raw = only(observed(functions, memory, lambda: torch.add(a, b), look), "the place of an operator's inputs")
    tags = struct.unpack_from("<I", raw, 8), struct.unpack_from("<I", raw, 8 * words_of + 8), struct.unpack_from("<I", raw, 16 * words_of + 8)
    if tags[0] != tags[1] or tags[0] == tags[2]:
        raise Unknown("the kind of an input is not where it should be")
    layout.inputs, layout.value, layout.tag, layout.tensor = 8 * at, 8 * words_of, 8, tags[0][0]


def find_lists(layout, functions, memory, torch):
    """aten::cat has two inputs: a list of tensors, and a number. Where it is not found, lists are left out."""
    a, b = torch.ones(3), torch.ones(3)

    def look(words):
        at, n = words[layout.inputs // 8:layout.inputs // 8 + 2]
        first = memory.words(at, 2) if n == 2 else ()
        inner = memory.words(first[0], 16) if first else ()
        for i in range(len(inner) - 1):
            begin, end = inner[i:i + 2]
            if end - begin == 2 * layout.value and (memory.words(begin, 1), memory.words(begin + layout.value, 1)) == ((a._cdata,), (b._cdata,)):
                return first[1] & 0xffffffff, 8 * i
        return 0xffffffff, 0

    layout.list, layout.elements = observed(functions, memory, lambda: torch.cat([a, b]), look)


def find_sizes(layout, memory, torch, base):
    """Sizes, strides and offset are numbers that stand nowhere else."""
    tensor = base.as_strided((3, 5, 7), (211, 37, 2), 131)
    words = memory.words(tensor._cdata, 48)
    wanted, strides = (3, 3, 5, 7), (211, 37, 2)
    at = only((i for i in range(len(words)) if words[i:i + 4] == wanted and words[i + 1 + INSIDE:i + 4 + INSIDE] == strides), "the place of sizes")
    layout.dimensions, layout.inside = 8 * at, INSIDE
    layout.offset = 8 * only((i for i, word in enumerate(words) if word == 131), "the place of the offset")
    many = base.as_strided((1, 2, 1, 3, 1, 2), (9, 8, 7, 6, 5, 4), 0)
    words = memory.words(many._cdata, 48)
    if words[at] != 6 or memory.words(words[at + 1], 12) != (1, 2, 1, 3, 1, 2, 9, 8, 7, 6, 5, 4):
        raise Unknown("the sizes of six dimensions are not where they should be")


def find_storage(layout, memory, base):
    """The data is memory of ours, to which nothing else points."""
    words = memory.words(base._cdata, 48)
    found = [(8 * i, 8 * j) for i, word in enumerate(words) for j, inner in enumerate(memory.words(word, 24)) if inner == base.data_ptr()]
    layout.storage, layout.data = only(found, "the place of the data")


def find_dtypes(layout, memory, torch):
    raw = {name: memory.read(torch.zeros(1, dtype=getattr(torch, name))._cdata, 384) for name in NUMBERS}
    size = min(map(len, raw.values()))
    layout.dtype = only((at for at in range(0, size - 1, 2) if all(struct.unpack_from("<H", raw[name], at)[0] == NUMBERS[name] for name in NUMBERS)),
                        "the place of the type")
    for name, number in operations.DTYPES.items():
        if isinstance(getattr(torch, name, None), torch.dtype):
            held = torch.empty(1, dtype=getattr(torch, name))
            code = struct.unpack("<H", memory.read(held._cdata + layout.dtype, 2))[0]
            if code < len(layout.dtypes):
                layout.dtypes[code] = number


def find(torch, any_newer=False):
    """The layout of this PyTorch, and its functions."""
    functions, memory, layout = Functions(torch, any_newer), Memory(), Layout(size=ctypes.sizeof(Layout))
    room = bytearray(4 * 2048)
    base = torch.frombuffer(room, dtype=torch.float32)
    find_inputs(layout, functions, memory, torch)
    find_lists(layout, functions, memory, torch)
    find_sizes(layout, memory, torch, base)
    find_storage(layout, memory, base)
    find_dtypes(layout, memory, torch)
    layout.name = ctypes.cast(functions.name, ctypes.c_void_p).value
    layout.add = ctypes.cast(functions.add, ctypes.c_void_p).value
    layout.callback = callback()
    return layout


def start(recorder, any_newer=False):
    """Raises Unknown where PyTorch is not as it is known. @any_newer: also one that is newer than what was read."""
    import torch
    try:
        layout = find(torch, any_newer)
        begun = recorder.library.unhang_recorder_torch(ctypes.byref(layout))
    except Unknown:
        raise
    except Exception as problem:  # of a PyTorch that lacks what is used here
        raise Unknown(f"{type(problem).__name__}: {problem}") from None
    if begun:
        raise Unknown("the recorder does not take its layout")

"""Bundles of `unhang capture`, packed and unpacked without unhang."""
import ctypes
import io
import json
import tarfile


def zstd(data):
    library = ctypes.CDLL("libzstd.so.1")
    room = ctypes.create_string_buffer(len(data) + len(data) // 128 + 1024)
    library.ZSTD_compress.restype = ctypes.c_size_t
    n = library.ZSTD_compress(room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)), 3)
    return room.raw[:n]


def zstd_raw(data):
    """A frame whose blocks are not compressed: a byte that is changed in it is that byte of the data."""
    most = 1 << 17
    blocks = [data[i:i + most] for i in range(0, len(data), most)]
    heads = [(len(b) << 3 | (i == len(blocks) - 1)).to_bytes(3, "little") for i, b in enumerate(blocks)]
    return b"\x28\xb5\x2f\xfd\x00\x70" + b"".join(h + b for h, b in zip(heads, blocks))


class Buffer(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_void_p), ("size", ctypes.c_size_t), ("at", ctypes.c_size_t)]


def unzstd(path):
    """The tar of a bundle; b"" where it is not whole."""
    library, data, room = ctypes.CDLL("libzstd.so.1"), path.read_bytes(), ctypes.create_string_buffer(1 << 20)
    library.ZSTD_createDStream.restype, library.ZSTD_decompressStream.restype = ctypes.c_void_p, ctypes.c_size_t
    stream, source, out, left = ctypes.c_void_p(library.ZSTD_createDStream()), ctypes.create_string_buffer(data, len(data)), [], 1
    given = Buffer(ctypes.addressof(source), len(data), 0)
    while given.at < given.size or left:
        taken = Buffer(ctypes.addressof(room), len(room), 0)
        before = given.at
        left = library.ZSTD_decompressStream(stream, ctypes.byref(taken), ctypes.byref(given))
        out.append(room.raw[:taken.at])
        if left > 1 << 60 or (given.at == before and not taken.at):
            break
    library.ZSTD_freeDStream(stream)
    return b"" if left else b"".join(out)


def members(path):
    """The bytes of each member of a bundle, by name; {} where it is not whole."""
    data = unzstd(path) if path.exists() else b""
    if not data:
        return {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar}


def sizes(path):
    """How long each member is, with its holes."""
    with tarfile.open(fileobj=io.BytesIO(unzstd(path))) as tar:
        return {m.name: m.size for m in tar}


def manifest(path):
    data = unzstd(path) if path.exists() else b""
    if not data:
        return {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return json.load(tar.extractfile("manifest.json"))

"""A job in Python under the recorder, for frameworks.py: it launches through HIP by ctypes, and uses PyTorch where its mode says so."""
import ctypes
import signal
import sys
import threading

sys.path.pop(0)  # tests/ has a secrets.py; numpy wants Python's


class Gpu:
    """gather_rows of docs/sample-kernel.co on the first GPU."""

    class Arguments(ctypes.Structure):
        _fields_ = [("table", ctypes.c_void_p), ("rows", ctypes.c_void_p), ("out", ctypes.c_void_p), ("n", ctypes.c_int)]

    def __init__(self, code):
        self.hip = ctypes.CDLL("libamdhip64.so.5")
        module, self.kernel, self.buffer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("hipModuleLoad", ctypes.byref(module), code.encode())
        self.call("hipModuleGetFunction", ctypes.byref(self.kernel), module, b"_Z11gather_rowsPU3AS1KfPU3AS1KiPU3AS1fi")
        self.call("hipMalloc", ctypes.byref(self.buffer), ctypes.c_size_t(1 << 16))

    def call(self, name, *arguments):
        status = getattr(self.hip, name)(*arguments)
        if status:
            sys.exit(f"{name}: {status}")

    def launch(self, n=1):
        a = self.Arguments(self.buffer, self.buffer, self.buffer, n)
        size = ctypes.c_size_t(ctypes.sizeof(a))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(a), 2, ctypes.addressof(size), 3)
        self.call("hipModuleLaunchKernel", self.kernel, n, 1, 1, 64, 1, 1, 0, None, None, extra)

    def wait(self):
        self.call("hipDeviceSynchronize")


class Tensor:
    """What a tensor of any framework looks like to the recorder."""

    def __init__(self, address, shape, dtype):
        self.address, self.shape, self.dtype = address, shape, dtype

    def data_ptr(self):
        if not self.address:
            raise RuntimeError("a tensor of a compiler has no memory")
        return self.address

    def stride(self):
        return tuple(2 * s for s in self.shape)


def decorated(gpu, unhang):
    @unhang.record
    def attention(q, k=None, more=()):
        """It has a name."""
        gpu.launch(2)
        with unhang.operation("softmax", q):
            gpu.launch(3)
        return "returned"

    q, k = Tensor(gpu.buffer.value, (3, 4), "torch.float16"), Tensor(0, (5,), "torch.no_such_type")
    print(attention(q, k=k, more=[q] * 9), attention.__name__, attention.__doc__)

    @unhang.record("thrown")
    def thrown():
        raise KeyError("as it was")

    try:
        thrown()
    except KeyError as problem:
        print(problem.args[0])
    gpu.launch(4)
    gpu.wait()


def levels(gpu, unhang):
    """A launch for each line of input."""
    @unhang.record
    def step(n, tensor):
        gpu.launch(n)

    for n, _ in enumerate(sys.stdin, 10):
        step(n, Tensor(gpu.buffer.value, (n,), "torch.int8"))
        gpu.wait()
        print(unhang.level(), flush=True)


def fault(gpu, unhang):
    """A tensor in a segment, as PyTorch would have it; a kernel reads past its end."""
    if len(sys.argv) > 3:
        ctypes.CDLL(sys.argv[3])
        gpu = Gpu(sys.argv[2])
    segment = ctypes.c_void_p()
    gpu.call("hipMalloc", ctypes.byref(segment), ctypes.c_size_t(4 << 20))
    gpu.buffer = segment
    print(hex(segment.value), flush=True)
    with unhang.operation("gather", Tensor(segment.value + 0x1000, (4, 8), "torch.float32")):
        gpu.launch(9)
        gpu.wait()


def hang(gpu, unhang):
    gpu.launch(1)
    with unhang.operation("decode", Tensor(gpu.buffer.value, (8, 128), "torch.bfloat16")):
        gpu.launch(7)
        print("launched", flush=True)
        signal.pause()  # waiting for the GPU would keep a core busy


def pytorch(gpu, unhang):
    import torch
    way = unhang.torch_operators()  # sitecustomize.py has done it
    library = torch.library.Library("unhangtest", "DEF")
    library.define("launch(Tensor x, Tensor y) -> Tensor")
    library.impl("launch", lambda x, y: (gpu.launch(5), x.clone())[1], "CPU")
    x, six = torch.arange(48, dtype=torch.bfloat16).reshape(6, 8), torch.zeros(1, 2, 1, 3, 1, 2)
    view = x[2:, 1::2]
    with unhang.operation("layer"):
        torch.ops.unhangtest.launch(view, six)
        torch.cat([x, view.repeat(1, 2)])
    print(way, hex(view.data_ptr()), hex(six.data_ptr()), x.sum().item(), flush=True)
    other = threading.Thread(target=lambda: torch.ops.unhangtest.launch(x.long(), six))
    other.start()
    other.join()
    with torch.autograd.profiler.record_function("named"):
        gpu.launch(6)
    gpu.launch(7)
    w = torch.ones(3, requires_grad=True)
    (w * w).sum().backward()
    gpu.wait()
    print(w.grad.tolist())


def unknown(gpu, unhang):
    """A PyTorch that keeps its sizes elsewhere."""
    from unhang import observer
    observer.INSIDE = 6
    pytorch(gpu, unhang)


def main():
    if "unhang" in sys.modules and not sys.modules["unhang"].asked_for():
        sys.exit("imported though it is off")
    import unhang
    gpu = Gpu(sys.argv[2])
    globals()[sys.argv[1]](gpu, unhang)


if __name__ == "__main__":
    main()

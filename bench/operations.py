"""What operations of Python cost, for recorder.py: operations.py decorator|observer|dispatch prints the added nanoseconds, and those without. In time of
this thread, which a busy machine changes least."""
import sys
import time
import timeit

import unhang


def best(call, number=20000):
    return min(timeit.repeat(call, timer=time.thread_time, number=number, repeat=15)) / number * 1e9


def plain(x):
    return x


def main():
    if sys.argv[1] == 'decorator':
        recorded, without = unhang.record(plain), best(lambda: plain(1))
        return print(best(lambda: recorded(1)) - without, without)
    try:
        import torch
    except ImportError:
        return
    x = torch.ones(4)
    without = best(lambda: torch.add(x, x))
    if unhang.torch_operators(sys.argv[1]) == sys.argv[1]:
        print(best(lambda: torch.add(x, x)) - without, without)


if __name__ == '__main__':
    main()

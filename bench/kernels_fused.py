"""Softmax, layer norm and gelu(x + b) * y + r on [1024, 768] f32: the block interpreter beside inductor's own kernels.

python bench/kernels_fused.py build/release/bench_fused [threads]

Both run interleaved; the figure is the best of all calls, so that other work on the machine counts as little as possible.
"""

import subprocess
import sys
import time

import torch
import torch.nn.functional as F

threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
torch.set_num_threads(threads)
x, y, r = (torch.randn(1024, 768) for _ in range(3))
w, b = torch.randn(768), torch.randn(768)
cases = {
    "softmax": (lambda x: torch.softmax(x, -1), (x,)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (768,), w, b), (x, w, b)),
    "gelu": (lambda x, b, y, r: F.gelu(x + b) * y + r, (x, b, y, r)),
}
ours = subprocess.Popen([sys.argv[1], str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def time_ours(name, repeat):
    ours.stdin.write(f"{name} {repeat}\n")
    ours.stdin.flush()
    return float(ours.stdout.readline())


def time_call(f, arguments, repeat):
    best = 1e9
    for _ in range(repeat):
        start = time.perf_counter()
        f(*arguments)
        best = min(best, time.perf_counter() - start)
    return best * 1e6


with torch.no_grad():
    # What a compiled call costs before any kernel runs: taken off, so that kernels are compared with kernels.
    empty = torch.compile(lambda x: x + 1)
    small = torch.zeros(8)
    time_call(empty, (small,), 5)
    overhead = time_call(empty, (small,), 300)
    for name, (f, arguments) in cases.items():
        g = torch.compile(f)
        time_call(g, arguments, 5)
        mine, theirs = 1e9, 1e9
        for _ in range(12):
            mine = min(mine, time_ours(name, 20))
            theirs = min(theirs, time_call(g, arguments, 20))
        print(f"{name:12} ours {mine:7.1f} us   inductor {theirs - overhead:7.1f} us (call {overhead:.1f})   ratio {mine / (theirs - overhead):.2f}", flush=True)
print(f"{'one step':12} ours {time_ours('tiny', 2000):7.2f} us")
ours.stdin.close()

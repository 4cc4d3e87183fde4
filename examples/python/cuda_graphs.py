"""CUDA graphs: ingot records a call by itself when the same addresses come again, and its calls can be recorded into your graph. Needs an NVIDIA GPU; ends at once without one."""

import time

import torch

import ingot


def microseconds(call, runs=200):
    for _ in range(10):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(runs):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / runs * 1e6


@torch.no_grad()
def main():
    if not torch.cuda.is_available():
        print("no NVIDIA GPU here: nothing to record")
        return
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256))]
    model = torch.nn.Sequential(*layers).eval().cuda().half()
    x = torch.randn(8, 256, device="cuda", dtype=torch.half)

    # Recording by ingot: on by default, one graph for each set of sizes and addresses.
    recording = ingot.compile(model, inputs=[x])
    plain = ingot.compile(model, inputs=[x], cuda_graphs=False)
    torch.testing.assert_close(recording(x), plain(x))
    print(f"eager {microseconds(lambda: model(x)):.0f} us, steps one by one {microseconds(lambda: plain(x)):.0f} us, recorded {microseconds(lambda: recording(x)):.0f} us")

    # Recording into your own graph, together with torch's operators around the call.
    for _ in range(3):
        recording(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = torch.softmax(recording(x), -1)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.testing.assert_close(result, torch.softmax(plain(x), -1))
    print(f"in a graph with a softmax behind it: {microseconds(graph.replay):.0f} us")


if __name__ == "__main__":
    main()

"""The time that LoRA adapters take: milliseconds of a new choice of added adapters (its weights are merged), of adding one, of going back to a kept choice, and of a call.

    python bench/adapters.py [--device cpu|cuda] [--layers 16] [--width 4096] [--rank 16] [--dtype bfloat16] [--rounds 9] [--json FILE]

A chain of linear layers, each with an adapter. "copy" is what one copy of all touched weights takes: it reads and writes as many bytes as merging has to. Bars: going back 1 ms; a new choice 1.5 copies on
a GPU. "add" has float32 matrices on the host, which are copied to the device, and the merge with them. "by hand" is W + scale * B @ A in torch, in the weights' type, into new tensors, with factors that
are on the device. All but calls wait for the device. Medians; results are compared with those of float64.
"""

import argparse
import itertools
import json
import statistics
import time

import torch

import ingot


def timed(work, wait, rounds, before=lambda: None):
    found = []
    for _ in range(rounds):
        before()
        wait()
        start = time.perf_counter()
        work()
        wait()
        found.append(1e3 * (time.perf_counter() - start))
    return statistics.median(found)


def adapter(model, rank, seed):
    g = torch.Generator().manual_seed(seed)
    return {f"{n}.weight": (torch.randn(rank, m.in_features, generator=g) * 0.02, torch.randn(m.out_features, rank, generator=g) * 0.02, 0.5) for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", help="a file that the line is appended to")
    args = parser.parse_args()
    torch.manual_seed(0)
    dtype = getattr(torch, args.dtype)
    layers = [layer for _ in range(args.layers) for layer in (torch.nn.Linear(args.width, args.width, bias=False), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers).to(args.device, dtype).eval()
    x = torch.randn(1, args.width, device=args.device).to(dtype)
    wait = torch.cuda.synchronize if args.device.startswith("cuda") else lambda: None
    compiled = ingot.compile(model, inputs=[x])
    compiled(x)
    a, b = adapter(model, args.rank, 1), adapter(model, args.rank, 2)
    compiled.add_lora("a", a)
    compiled.add_lora("b", b)
    wide = x.double()
    for name, layer in model.named_children():
        w = layer.weight.double() + sum(scale * up.to(args.device).double() @ down.to(args.device).double() for down, up, scale in (a[f"{name}.weight"], b[f"{name}.weight"])) if isinstance(layer, torch.nn.Linear) else None
        wide = wide @ w.t() if w is not None else layer(wide)
    error = ((compiled(x).double() - wide).norm() / wide.norm()).item()
    compiled.use_lora()
    call = timed(lambda: compiled(x), wait, 50)
    compiled.use_lora("a")
    compiled(x)

    back = timed(lambda: compiled.use_lora("a"), wait, args.rounds * 5, compiled.use_lora)

    def back_and_call():
        compiled.use_lora("a")
        compiled(x)

    both = timed(back_and_call, wait, args.rounds * 5, compiled.use_lora)
    compiled.remove_lora("b")
    compiled.use_lora()
    added = []

    def without():
        while added:
            compiled.remove_lora(added.pop())

    def with_b():
        compiled.add_lora("b", b)
        added.append("b")

    add = timed(with_b, wait, args.rounds, without)
    names = ["a", "b", *"cdef"]  # more than are kept, one after another: each choice is a new one
    for seed, name in enumerate("cdef", 3):
        compiled.add_lora(name, adapter(model, args.rank, seed))
    turn = itertools.cycle(names)
    timed(lambda: compiled.use_lora(next(turn)), wait, len(names))
    new = timed(lambda: compiled.use_lora(next(turn)), wait, args.rounds * 3)

    def new_and_call():
        compiled.use_lora(next(turn))
        compiled(x)

    new_call = timed(new_and_call, wait, args.rounds * 3)
    pairs = itertools.cycle(zip(names, names[1:] + names[:1]))
    two = timed(lambda: compiled.use_lora(*next(pairs)), wait, args.rounds * 3)
    weights = [m.weight for m in model.modules() if isinstance(m, torch.nn.Linear)]
    others = [torch.empty_like(w) for w in weights]
    copy = timed(lambda: [o.copy_(w) for o, w in zip(others, weights)], wait, args.rounds)
    moved = [tuple(t.to(args.device, dtype) for t in b[f"{n}.weight"][:2]) for n, m in model.named_children() if isinstance(m, torch.nn.Linear)]
    by_hand = timed(lambda: [torch.addmm(w, up, down, alpha=0.5) for w, (down, up) in zip(weights, moved)], wait, args.rounds)
    line = {
        "row": "adapters", "device": torch.cuda.get_device_name() if args.device.startswith("cuda") else args.device, "dtype": args.dtype, "weights_mb": sum(w.nbytes for w in weights) / 1e6, "rank": args.rank,
        "call_ms": call, "back_ms": back, "back_and_call_ms": both, "choice_ms": new, "choice_and_call_ms": new_call, "choice_of_two_ms": two, "add_ms": add,
        "copy_ms": copy, "choice_copies": new / copy, "add_copies": add / copy,
        "by_hand_ms": by_hand, "error": error,
    }  # fmt: skip
    for name, value in line.items():
        print(f"{name:>17}: {value:.4g}" if isinstance(value, float) else f"{name:>17}: {value}")
    if args.json:
        with open(args.json, "a") as out:
            out.write(json.dumps({**line, "time": time.strftime("%Y-%m-%d"), "command": f"python bench/adapters.py --device {args.device} --layers {args.layers} --width {args.width} --rank {args.rank} --dtype {args.dtype}"}) + "\n")


if __name__ == "__main__":
    main()

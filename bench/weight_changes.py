"""The cost of a change of one weight and of all weights, in a chain of equal layers whose weights prepare packs. Prints the median seconds of each commit; the two alternate.

    python bench/weight_changes.py [--layers 200] [--width 512] [--device cpu] [--rounds 15]
"""

import argparse
import statistics
import time

import torch

import ingot
from ingot.engine import _library, _values


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=200)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(args.width, args.width, bias=False) for _ in range(args.layers))).eval().requires_grad_(False).to(args.device)
    engine = ingot.compile(model, inputs=[torch.randn(4, args.width, device=args.device)]).engine
    others = {name: torch.randn_like(tensor) for name, tensor in model.state_dict().items()}
    one = f"{args.layers // 2}.weight"

    def commit(names) -> float:
        for name in names:
            _library.check(_library.lib().ingot_weights_set(engine._weights.pointer, name.encode(), *_values.memory(others[name]), 0))
        start = time.perf_counter()
        _library.check(_library.lib().ingot_weights_commit(engine._weights.pointer))
        return time.perf_counter() - start

    seconds = {"all": [], "one": []}
    for _ in range(args.rounds):
        seconds["all"].append(commit(others))
        seconds["one"].append(commit([one]))
    all_, one_ = (statistics.median(seconds[kind]) for kind in ("all", "one"))
    print(f"{args.layers} weights of {args.width} x {args.width} on {args.device}: all {all_ * 1e3:.3f} ms, one {one_ * 1e3:.3f} ms, {one_ / all_:.2%} of it")


if __name__ == "__main__":
    main()

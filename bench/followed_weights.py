"""The cost per call of checking whether 200 weights have changed (docs/decisions/0021): `python bench/followed_weights.py`.

One module is called alternately with its weights watched and with none watched. A cold call follows a write to a buffer that is larger than the caches.
"""

import statistics
import time

import torch

import ingot
from ingot.engine.tensor_changes import Snapshot

ROUNDS, WEIGHTS = 300, 200


class Scales(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = torch.nn.ParameterList([torch.nn.Parameter(torch.rand(16)) for _ in range(WEIGHTS)])

    def forward(self, x):
        for scale in self.scales:
            x = x * scale
        return x


def main():
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    x, large = torch.rand(16), torch.zeros(32 << 20)
    compiled = ingot.compile(Scales().eval(), inputs=[x], threads=1)
    watch = compiled.engine.watch
    snapshots = {"watched": watch.snapshot, "not watched": Snapshot([], [])}
    found = {}

    def timed(call):
        begin = time.perf_counter_ns()
        call()
        return (time.perf_counter_ns() - begin) / 1e3

    for _ in range(ROUNDS):
        for name, snapshot in snapshots.items():
            watch.adopt(snapshot)
            for what, call in (("call", lambda: compiled(x)), ("comparison alone", watch.same)):
                for _ in range(10):
                    call()
                warm = statistics.median(timed(call) for _ in range(20))
                large.add_(1)
                found.setdefault((what, "warm", name), []).append(warm)
                found.setdefault((what, "cold", name), []).append(timed(call))
    for what in ("call", "comparison alone"):
        for caches in ("warm", "cold"):
            # The lower quartile, because other programs use the cores too.
            times = {name: statistics.quantiles(found[what, caches, name])[0] for name in snapshots}
            more = times["watched"] - times["not watched"]
            print(f"{what}, {caches} caches: " + ", ".join(f"{name} {t:.2f} us" for name, t in times.items()) + f"; {more:+.2f} us")


main()

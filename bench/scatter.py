"""Messages of graphs and other rows that are added up by an index, on an NVIDIA GPU: ingot compared with eager PyTorch and inductor with CUDA graphs, alternately in one process.

    python bench/scatter.py [--only "gcn|sage"] [--rounds 15] [--out FILE]

20,000 nodes, 200,000 edges, 128 features unless a row says otherwise. `ms` is the median of all rounds of a call from Python, five calls between two synchronisations. `error` is the norm of the difference from
eager in float64, relative. `ratio` is the fastest peer's time over ingot's. Lines are appended to bench/results/<machine>.jsonl.
"""

import argparse
import datetime
import json
import re
import statistics
import time
from pathlib import Path

import torch
from kernels_cpu import Call

import ingot

NODES, EDGES, FEATURES = 20_000, 200_000, 128


class GraphNet(torch.nn.Module):
    """Four layers of a linear map and sums of the neighbours' features."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(FEATURES, FEATURES) for _ in range(4))

    def forward(self, x, source, target):
        for layer in self.layers:
            h = layer(x)
            x = torch.relu(torch.zeros_like(h).index_add(0, target, h[source])) + x
        return x


class Gcn(GraphNet):
    """With the weights of the edges that degrees give."""

    def forward(self, x, source, target):
        degree = torch.zeros(x.shape[0], dtype=x.dtype, device=x.device).index_add(0, target, torch.ones_like(target, dtype=x.dtype)).clamp(min=1).rsqrt()
        weight = (degree[source] * degree[target]).unsqueeze(1)
        for layer in self.layers:
            h = layer(x)
            x = torch.relu(torch.zeros_like(h).index_add(0, target, h[source] * weight))
        return x


class Sage(GraphNet):
    """The mean of the neighbours."""

    def forward(self, x, source, target):
        count = torch.zeros(x.shape[0], dtype=x.dtype, device=x.device).index_add(0, target, torch.ones_like(target, dtype=x.dtype)).clamp(min=1).unsqueeze(1)
        for layer in self.layers:
            x = torch.relu(layer(torch.zeros_like(x).index_add(0, target, x[source]) / count) + x)
        return x


class Gat(torch.nn.Module):
    """Two layers of eight heads, whose weights are a softmax over each node's edges."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(FEATURES, FEATURES) for _ in range(2))
        self.of_source = torch.nn.Parameter(torch.randn(8, FEATURES // 8) / 4)
        self.of_target = torch.nn.Parameter(torch.randn(8, FEATURES // 8) / 4)

    def forward(self, x, source, target):
        nodes = x.shape[0]
        for layer in self.layers:
            h = layer(x).reshape(nodes, 8, -1)
            score = torch.nn.functional.leaky_relu((h * self.of_source).sum(-1)[source] + (h * self.of_target).sum(-1)[target], 0.2)
            row_max = torch.full((nodes, 8), float("-inf"), dtype=x.dtype, device=x.device).scatter_reduce(0, target.unsqueeze(1).expand(-1, 8), score, "amax")
            e = (score - row_max[target]).exp()
            total = torch.zeros_like(row_max).index_add(0, target, e)
            x = torch.relu(torch.zeros_like(h).index_add(0, target, h[source] * (e / total[target]).unsqueeze(-1)).reshape(nodes, -1))
        return x


def edges(skewed=False):
    source = torch.randint(0, NODES, (EDGES,), device="cuda")
    # A few nodes have most of the edges.
    target = (NODES * torch.rand(EDGES, device="cuda") ** 4).long().clamp(max=NODES - 1) if skewed else torch.randint(0, NODES, (EDGES,), device="cuda")
    return source, target


def messages(dtype, skewed=False):
    return torch.randn(NODES, FEATURES, device="cuda", dtype=dtype), torch.randn(EDGES, FEATURES, device="cuda", dtype=dtype), edges(skewed)[1]


def nodes(dtype, skewed=False):
    return torch.randn(NODES, FEATURES, device="cuda", dtype=dtype), *edges(skewed)


def add(x, rows, index):
    return x.index_add(0, index, rows)


ROWS = {
    "graph net": lambda: (GraphNet(), nodes(torch.float32)),
    "graph net, half": lambda: (GraphNet().half(), nodes(torch.float16)),
    "graph net, few nodes with most edges": lambda: (GraphNet(), nodes(torch.float32, True)),
    "gcn": lambda: (Gcn(), nodes(torch.float32)),
    "sage": lambda: (Sage(), nodes(torch.float32)),
    "gat": lambda: (Gat(), nodes(torch.float32)),
    "index_add": lambda: (Call(add), messages(torch.float32)),
    "index_add, half": lambda: (Call(add), messages(torch.float16)),
    "index_add, few nodes with most edges": lambda: (Call(add), messages(torch.float32, True)),
    "index_put": lambda: (Call(lambda x, rows, index: x.index_put((index,), rows, accumulate=True)), messages(torch.float32)),
    "scatter_reduce mean": lambda: (Call(lambda x, rows, index: x.scatter_reduce(0, index.unsqueeze(1).expand_as(rows), rows, "mean")), messages(torch.float32)),
    "scatter_reduce amax": lambda: (Call(lambda x, rows, index: x.scatter_reduce(0, index.unsqueeze(1).expand_as(rows), rows, "amax")), messages(torch.float32)),
}


@torch.no_grad()
def row(name, make, rounds):
    torch.manual_seed(0)
    model, inputs = make()
    model = model.eval().requires_grad_(False).to("cuda")
    wide = type(model)(model.function) if isinstance(model, Call) else type(model)().to("cuda")
    wide.load_state_dict(model.state_dict())
    exact = wide.double()(*(x.double() if x.is_floating_point() else x for x in inputs))
    peers = {"ingot": ingot.compile(model, inputs=list(inputs)), "eager": model, "inductor": torch.compile(model, mode="reduce-overhead")}
    times, errors = {p: [] for p in peers}, {}
    for p, call in peers.items():
        for _ in range(4):
            y = call(*inputs).double()
        errors[p] = float((y - exact).norm() / exact.norm())
    for _ in range(rounds):
        for p, call in peers.items():
            call(*inputs)
            torch.cuda.synchronize()
            begin, calls = time.perf_counter(), 5
            for _ in range(calls):
                call(*inputs)
            torch.cuda.synchronize()
            times[p].append((time.perf_counter() - begin) / calls * 1e3)
    return [{"row": f"scatter: {name}", "peer": p, "ms": round(statistics.median(times[p]), 4), "error": errors[p]} for p in peers]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=".", help="rows whose name has this pattern")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")  # TF32 for all
    machine = re.sub(r"[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()).strip("-")
    out = arguments.out or Path(__file__).resolve().parent / "results" / f"{machine}.jsonl"
    for name, make in ROWS.items():
        if not re.search(arguments.only, name):
            continue
        lines = row(name, make, arguments.rounds)
        ours, *peers = lines
        ratio = min(line["ms"] for line in peers) / ours["ms"]
        print(f"{name:40} ratio {ratio:5.2f}; " + ", ".join(f"{line['peer']} {line['ms']:.3f} ms ({line['error']:.1e})" for line in lines), flush=True)
        with out.open("a") as file:
            for line in lines:
                file.write(json.dumps({**line, "time": str(datetime.date.today()), "command": "python bench/scatter.py"}) + "\n")


if __name__ == "__main__":
    main()

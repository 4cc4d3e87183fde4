"""Compile times by the shape of the graph, its size and the stage.

    python bench/compile_time.py                          # every shape at 5,000 and 20,000 nodes
    python bench/compile_time.py --shapes chain,tree --nodes 1250,5000 --stages

Graphs are passed to ingot as `torch.export` would pass them; torch's own time is not included. Times are seconds of the compiling thread (time.thread_time), the best of --runs, each in its
own process.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import torch

aten = torch.ops.aten
# The lines of INGOT_LOG that are lower's. Those of compile's passes are part of the line "compile".
LOWER = {"expand", *re.findall(r"^(?:PASS|AGAIN)\((\w+),", (Path(__file__).resolve().parents[1] / "src/lower/passes.def").read_text(), re.M)}


class Graph:
    """A functional graph of ATen calls over real tensors. Each call is computed when it is added."""

    def __init__(self):
        self.graph, self.slots, self.parameters = torch.fx.Graph(), [], []

    def _leaf(self, name, value, kind):
        from ingot.capture.functional import Slot

        node = self.graph.placeholder(name)
        node.meta["val"] = value
        self.slots.append(Slot(node, kind, name, value if kind == "weight" else None))
        return node

    def input(self, name, value):
        return self._leaf(name, value, "input")

    def weight(self, name, value):
        return self._leaf(name, value, "weight")

    def call(self, target, *args):
        node = self.graph.call_function(target, args)
        node.meta["val"] = target(*torch.fx.map_arg(args, lambda n: n.meta["val"]))
        return node

    def functional(self, results):
        from ingot.capture.functional import Functional

        self.graph.output(tuple(results))
        return Functional(torch.fx.GraphModule(torch.nn.Module(), self.graph), self.slots, list(results), [])


def chain(g, n):
    """Each operator reads the one before it."""
    x = g.input("x", torch.rand(4, 4))
    for i in range(n):
        x = g.call(aten.tanh.default, x) if i % 2 else g.call(aten.mul.Tensor, x, 1.5)
    return [x]


def tree(g, n):
    """Sums of pairs, level by level."""
    level = [g.input("x", torch.rand(4, 4))]
    level = [g.call(aten.mul.Tensor, level[0], 1 + i / n) for i in range(n // 2)]
    while len(level) > 1:
        level = [g.call(aten.add.Tensor, *level[i : i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return level


def ladder(g, n):
    """A chain of diamonds: both sides of each read the one before."""
    x = g.input("x", torch.rand(4, 4))
    for _ in range(n // 3):
        x = g.call(aten.maximum.default, g.call(aten.mul.Tensor, x, 0.5), g.call(aten.tanh.default, x))
    return [x]


def squares(g, n):
    """A chain of squarings; two results read its end."""
    x = g.input("x", torch.rand(4, 4))
    for _ in range(n):
        x = g.call(aten.mul.Tensor, x, x)
    return [g.call(aten.add.Tensor, x, 1), g.call(aten.sub.Tensor, x, 1)]


def segments(g, n):
    """n / 4 engine segments, with one operator in torch between each two."""
    x = g.input("x", torch.rand(4, 4))
    for _ in range(n // 4):
        x = g.call(aten.mul.Tensor, g.call(aten.tanh.default, g.call(aten.mul.Tensor, x, 0.5)), 0.25)
        x = g.call(aten.special_i0e.default, x)
    return [x]


def linears(g, n):
    """n / 2 linear layers, each with its own weights."""
    layers = [(g.weight(f"w{i}", torch.rand(4, 4)), g.weight(f"b{i}", torch.rand(4))) for i in range(n // 2)]
    x = g.input("x", torch.rand(4, 4))
    for w, b in layers:
        x = g.call(aten.tanh.default, g.call(aten.linear.default, x, w, b))
    return [x]


def norms(g, n):
    """Reductions and pointwise operators that read them, alternately."""
    x = g.input("x", torch.rand(4, 4))
    for _ in range(n // 2):
        x = g.call(aten.sub.Tensor, x, g.call(aten.mean.dim, x, [-1], True))
    return [x]


def views(g, n):
    """Reshapes and transposes that do not compose to a single view."""
    x = g.input("x", torch.rand(4, 6))
    for _ in range(n // 2):
        x = g.call(aten.reshape.default, g.call(aten.transpose.int, x, 0, 1), [4, 6])
    return [x]


def users(g, n):
    """All nodes read one value."""
    x = g.call(aten.exp.default, g.input("x", torch.rand(4, 4)))
    return [g.call(aten.cat.default, [g.call(aten.mul.Tensor, x, 1 + i / n) for i in range(n - 2)])]


def inputs(g, n):
    """n / 10 inputs, and as many results."""
    given = [g.input(f"x{i}", torch.rand(4)) for i in range(n // 10)]
    for _ in range(9):
        given = [g.call(aten.add.Tensor, a, b) for a, b in zip(given, given[1:] + given[:1])]
    return given


def parts(g, n):
    """A chain of concatenations of n / 20 tensors; each part is a slice of the concatenation before."""
    x, k = g.input("x", torch.rand(n // 20, 4)), n // 20
    for _ in range(20):
        x = g.call(aten.cat.default, [g.call(aten.slice.Tensor, x, 0, i, i + 1) for i in reversed(range(k))])
    return [x]


def nest(g, n):
    """Nested where, and nested cat."""
    x = g.input("x", torch.rand(4, 4))
    y = x
    for i in range(n // 4):
        y = g.call(aten.where.self, g.call(aten.gt.Scalar, x, i / n), y, g.call(aten.mul.Tensor, x, 0.5))
        y = g.call(aten.slice.Tensor, g.call(aten.cat.default, [y, x]), 0, 1, 5) if i % 8 == 0 else g.call(aten.neg.default, y)
    return [y]


def ranks(g, n):
    """Tensors of twelve axes."""
    x = g.input("x", torch.rand([1, 2] * 6))
    for i in range(n // 2):
        x = g.call(aten.transpose.int, x, i % 11, i % 11 + 1)
        x = g.call(aten.mul.Tensor, x, 1.01)
    return [x]


SHAPES = {f.__name__: f for f in (chain, tree, ladder, squares, segments, linears, norms, views, users, inputs, parts, nest, ranks)}
ENOUGH = 60  # seconds: beyond this, no larger graph of the shape is compiled


def compile_graph(shape, nodes):
    """The compiled graph, and the seconds it took.

    Python's collector rests meanwhile, as in `timeit`: a collection takes as long as the process has objects, whoever made them."""
    from ingot.running.assemble import assemble

    g = Graph()
    f = g.functional(SHAPES[shape](g, nodes))
    collects = gc.isenabled()
    gc.disable()
    try:
        start = time.thread_time()
        compiled = assemble(f, {})
        return compiled, time.thread_time() - start
    finally:
        if collects:
            gc.enable()


def _timed(stages, owner, name, label):
    inner = getattr(owner, name)

    def call(*args, **kwargs):
        start = time.thread_time()
        try:
            return inner(*args, **kwargs)
        finally:
            stages[label] = stages.get(label, 0) + time.thread_time() - start

    setattr(owner, name, staticmethod(call) if isinstance(owner.__dict__.get(name), staticmethod) else call)


def one(shape, nodes):
    """Compiles one graph; prints the total seconds and those of each stage in Python as JSON. INGOT_LOG's lines go to stderr."""
    from ingot.capture import writer
    from ingot.engine import _engine, _library
    from ingot.running import assemble

    stages = {}
    _timed(stages, capture, "write", "capture")
    _timed(stages, _library.Model, "from_json", "import")
    _timed(stages, _library.Model, "explain", "partition")
    _timed(stages, _library.Model, "compile", "build")
    _timed(stages, _engine.Engine, "__init__", "engine")
    _timed(stages, assemble.Shell, "build", "torch graph")
    compiled, seconds = compile_graph(shape, nodes)
    print(json.dumps({"seconds": seconds, "stages": stages, "segments": len(compiled.report.segments)}))


def measured(shape, nodes, runs):
    best = None
    for _ in range(runs):
        run = subprocess.run([sys.executable, __file__, "--one", shape, str(nodes)], capture_output=True, text=True, env={**os.environ, "INGOT_LOG": "info"})
        if run.returncode:
            return {"failed": run.stderr.strip().splitlines()[-1] if run.stderr.strip() else f"exit {run.returncode}"}
        found = json.loads(run.stdout.splitlines()[-1])
        passes = {}
        for name, ms in re.findall(r"^ingot: (.*?)\s+([\d.]+) ms", run.stderr, re.M):
            passes[name] = passes.get(name, 0) + float(ms) / 1e3
        found["passes"] = passes
        if best is None or found["seconds"] < best["seconds"]:
            best = found
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(SHAPES), help="which, by name")
    parser.add_argument("--nodes", default="5000,20000")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--stages", action="store_true", help="each stage of the largest size too")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        return one(asked.one[0], int(asked.one[1]))
    sizes = [int(n) for n in asked.nodes.split(",")]
    print("shape     " + "".join(f"{n:>10,}" for n in sizes) + "     ratio   capture   import   partition   lower   compile   engine   torch graph   (the largest)", flush=True)
    for shape in asked.shapes.split(","):
        found = []
        for n in sizes:
            found.append(measured(shape, n, asked.runs))
            if "failed" in found[-1] or found[-1]["seconds"] > ENOUGH:
                break
        row = "".join(f"{f['seconds']:9.2f}s" if "seconds" in f else "    failed" for f in found)
        last = found[-1]
        if "failed" in last:
            print(f"{shape:10}{row}  {last['failed'][:150]}", flush=True)
            continue
        stage, passes = last["stages"], last["passes"]
        lower = sum(s for name, s in passes.items() if name in LOWER)
        told = [stage.get("capture", 0), stage.get("import", 0), stage.get("partition", 0) + passes.get("partition", 0), lower, passes.get("compile", 0), stage.get("engine", 0), stage.get("torch graph", 0)]
        print(f"{shape:10}{row}{found[-1]['seconds'] / found[0]['seconds']:9.1f}" + "".join(f"{t:9.2f}" for t in told), flush=True)
        if asked.stages:
            for name, s in sorted(passes.items(), key=lambda x: -x[1])[:8]:
                print(f"            {name:24}{s:8.2f}", flush=True)


if __name__ == "__main__":
    main()

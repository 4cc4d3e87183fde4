"""The figures by which fallback, mutation, options and saving are judged: `make acceptance-any-model`.

Prints one line each: PASS or FAIL, the figure, the bar. A figure that cannot be measured prints FAIL with the reason. `--only WORD` runs the lines
whose name contains the word, `--list` names them.
"""

from __future__ import annotations

import statistics
import sys
import time

from acceptance import ROOT, line, main, pytest


@line("cut")
def one_operator_in_torch():
    yield pytest("BERT and GPT-2, an operator in torch, slices written across the cut, a view of an input, channels_last: results, strides, buffers", "tests/models/test_cut.py")


@line("cuts")
def random_cuts():
    yield pytest("200 random cuts of MiniLM are as accurate as the uncut model", "tests/capture/test_partition.py", "-k", "random_cuts")


@line("segment")
def cost_of_a_segment():
    """The cost of one more segment, without the torch operator between the two. That operator is timed right after a whole run, with its code and data equally cold."""
    import torch
    from models import minilm

    import ingot

    torch.set_grad_enabled(False)
    model, x = minilm(), (torch.randint(0, 30000, (1, 16), generator=torch.Generator().manual_seed(0)), torch.ones(1, 16, dtype=torch.int64))
    program = torch.export.export(model, x)
    gelus = [n.name for n in program.graph.nodes if "gelu" in str(n.target)]
    modules = [ingot.compile(program, torch_executed_ops=gelus[:n]) if n else ingot.compile(program) for n in (0, 6)]
    hidden = torch.randn(1, 16, 1536)
    calls = [lambda: modules[0](*x), lambda: modules[1](*x), lambda: torch.nn.functional.gelu(hidden)]
    times = [[], [], []]
    for _ in range(300):
        for call, taken in zip(calls, times):
            start = time.perf_counter()
            call()
            taken.append((time.perf_counter() - start) * 1e6)
    whole, cut, operator = map(statistics.median, times)
    extra = (cut - whole) / 6 - operator
    said = statistics.mean(s["cost_us"] / 2 for s in modules[1].report.segments)
    yield "cost of one more segment, MiniLM 1x16", f"{extra:.0f} us, lost fusion included (a call with warm caches: {said:.0f} us by the report)", "150 us", extra <= 150


@line("mutation")
def mutation():
    yield pytest("programs for mutation, aliasing and side effects, both ways in, three calls", "tests/mutation")


@line("torch.compile")
def families():
    yield pytest("BERT, GPT-2, Llama, T5, Whisper, ViT, Mamba, Mixtral under torch.compile", "tests/models/test_torch_compile.py")
    yield pytest("guards, dynamic sizes, numbers, graph breaks, replaced parameters, regions of no_grad and autocast", "tests/capture/test_just_in_time.py", "tests/numerics/test_autocast.py")


@line("saving")
def saving():
    yield pytest("each format loads in a fresh process and gives the same bits; AOTInductor from C++", "tests/saving")


@line("options")
def options():
    yield pytest("each option's effect, each debug switch's, each error's text", "tests/capture/test_partition.py", "tests/modules/test_threads.py", "tests/numerics/test_deterministic.py", "tests/modules/test_arena.py",
                 "tests/weights/test_weights.py", "tests/builds/test_debug_switches.py", "tests/errors", "-k", "not random_cuts", everything=False)  # fmt: skip


@line("weights")
def weights():
    yield pytest("weights replaced, loaded, tied, moved, left out of files", "tests/weights/test_weights.py")


@line("command line")
def command_line():
    yield pytest("a mutating .pt2 in the raw dialect from the command line alone", "tests/state/test_state.py", "-k", "archive")


if __name__ == "__main__":
    assert (ROOT / "tests").is_dir()
    sys.exit(main(__doc__))

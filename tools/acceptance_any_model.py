"""What fallback, mutation, options and saving are judged by: `make acceptance-any-model`.

Prints one line each: PASS or FAIL, the figure, the bar. What cannot be measured prints FAIL with the reason. `--only WORD` runs the lines
whose name contains the word, `--list` names them.
"""

from __future__ import annotations

import copy
import statistics
import sys
import time

from acceptance import ROOT, line, main, pytest


def small(name):
    from models import SMALL

    return SMALL[name]()


def ids(batch=2, sequence=9, vocabulary=90):
    import torch

    return torch.randint(0, vocabulary, (batch, sequence), generator=torch.Generator().manual_seed(0))


@line("cut")
def one_operator_in_torch():
    """BERT and GPT-2 with an operator forced to torch, a slice written across the cut, a view of an input and a channels_last result."""
    import torch
    from accuracy import assert_accurate

    import ingot

    class Wrapped(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model
            self.register_buffer("seen", torch.zeros(4, 9, dtype=torch.int64))

        def forward(self, input_ids, attention_mask, scale):
            hidden = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
            self.seen[1:3, :] += input_ids
            scale[:, 0].mul_(2)
            image = hidden.reshape(2, 3, 3, -1).permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
            return hidden * scale[:, :, None], torch.nn.functional.gelu(image), input_ids[:, 1:]

    torch.set_grad_enabled(False)
    for name, operator in (("bert", "gelu"), ("gpt2", "layer_norm")):
        torch.manual_seed(0)
        eager = Wrapped(small(name))
        ours, exact = copy.deepcopy(eager), copy.deepcopy(eager).double()
        mask = torch.ones(2, 9, dtype=torch.int64)
        compiled = ingot.compile(ours, inputs=[ids(), mask, torch.ones(2, 9)], torch_executed_ops=[operator])
        equal = True
        for _ in range(3):
            a, b, c = torch.ones(2, 9), torch.ones(2, 9), torch.ones(2, 9, dtype=torch.float64)
            i = ids()
            got, want, true = compiled(i, mask, a), eager(i, mask, b), exact(i, mask, c)
            for x, y, z in zip(got, want, true):
                if y.is_floating_point():
                    assert_accurate(x, y, z, depth=4096)
                equal = equal and x.stride() == y.stride() and x.shape == y.shape and (y.is_floating_point() or torch.equal(x, y))
            equal = equal and got[2].data_ptr() == i[:, 1:].data_ptr() and torch.equal(a, b) and torch.equal(ours.seen, eager.seen)
        in_torch = {n["target"] for n in compiled.report.nodes if n["segment"] is None}
        yield f"{name}, {operator} in torch", f"{len(compiled.segments)} segments, in torch: {', '.join(sorted(in_torch))[:60]}", "results, strides and writes are eager's", equal


@line("cuts")
def random_cuts():
    yield pytest("200 random cuts of MiniLM equal the uncut model", "tests/python/test_partition.py", "-k", "random_cuts")


@line("segment")
def cost_of_a_segment():
    """What one more segment costs, without the operator of torch's between the two: that is timed right after a whole run, its code and data as cold."""
    import torch
    from models import minilm

    import ingot

    torch.set_grad_enabled(False)
    model, x = minilm(), (ids(1, 16, 30000), torch.ones(1, 16, dtype=torch.int64))
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


@line("saving")
def saving():
    yield pytest("each format loads in a fresh process and gives the same bits; AOTInductor from C++", "tests/saving")


@line("options")
def options():
    yield pytest("each option's effect, each error's text", "tests/python/test_partition.py", "tests/errors", "-k", "not random_cuts", everything=False)


@line("command line")
def command_line():
    yield pytest("a mutating .pt2 in the raw dialect from the command line alone", "tests/python/test_state.py", "-k", "archive")


if __name__ == "__main__":
    assert (ROOT / "tests").is_dir()
    sys.exit(main(__doc__))

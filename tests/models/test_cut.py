"""BERT and GPT-2 with one operator in torch, and the things that a cut may break: writes before it that are read after it, slices of a segment's result written in place, a view of an
input among the results, a result in channels_last, a written input."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "bench")]
from accuracy import assert_accurate
from models import SMALL

import ingot
from ingot.backend import ingot_backend


class Wrapped(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.register_buffer("kept", torch.zeros(3, 12, 64))
        self.register_buffer("seen", torch.zeros(4, 9, dtype=torch.int64))

    def forward(self, input_ids, attention_mask, scale):
        early = self.model.inner.get_input_embeddings()(input_ids)
        self.kept[1:, 2:7] = early[:, 2:7]                                   # before the cut
        hidden = self.model(input_ids, attention_mask)
        hidden[:, 1:3] += self.kept[1:, 2:4]                                 # after it: a slice of what a segment made
        self.kept[:2, 9:] *= hidden[:, :3, :].mean()
        self.seen[1:3, :] += input_ids
        scale[:, 0].mul_(2)
        image = hidden.reshape(2, 3, 3, -1).permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
        return hidden * scale[:, :, None], torch.nn.functional.gelu(image), input_ids[:, 1:]


def arguments(seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 6:] = 0
    return torch.randint(0, 90, (2, 9), generator=generator), mask, torch.rand(2, 9, generator=generator, dtype=torch.float32).to(dtype)


def ahead(model, operator):
    compiled = ingot.compile(model, inputs=list(arguments(0)), torch_executed_ops=[operator])
    return compiled, [compiled.report]


def just_in_time(model, operator):
    torch._dynamo.reset()
    reports = []

    def backend(graph, examples):
        made = ingot_backend(graph, examples, options={"torch_executed_ops": [operator]})
        reports.append(made.report)
        return made

    return torch.compile(model, backend=backend), reports


@pytest.mark.parametrize("way", [ahead, just_in_time], ids=["ahead of time", "just in time"])
@pytest.mark.parametrize("name, operator", [("bert", "gelu"), ("gpt2", "layer_norm")])
@pytest.mark.one_in(2)
def test_a_cut_changes_nothing(name, operator, way):
    torch.manual_seed(0)
    eager = Wrapped(SMALL[name]())
    ours, exact = copy.deepcopy(eager), copy.deepcopy(eager).double()
    with torch.no_grad():
        compiled, reports = way(ours, operator)
        for seed in range(3):
            (ids, mask, scale), (_, _, expected_scale), (_, _, wide) = arguments(seed), arguments(seed), arguments(seed, torch.float64)
            got, want, truth = compiled(ids, mask, scale), eager(ids, mask, expected_scale), exact(ids, mask, wide)
            for result, expected, true in zip(got, want, truth):
                assert_accurate(result, expected, true, depth=4096)
                assert result.stride() == expected.stride()
            assert got[1].is_contiguous(memory_format=torch.channels_last) and got[2].data_ptr() == ids[:, 1:].data_ptr()
            assert torch.equal(scale, expected_scale) and torch.equal(ours.seen, eager.seen)
            assert_accurate(ours.kept, eager.kept, exact.kept, depth=4096)
    for report in reports:
        in_torch = {n["target"] for n in report.nodes if n["segment"] is None and "torch_executed_ops" in n["reason"]}
        assert in_torch and all(operator in target for target in in_torch) and len(report.segments) > 1

"""nn.Transformer and its layers with masks: torch asks a mask's values whether it is causal, engines do not."""

import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot.backend import ingot_backend


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(16, 2, 32, batch_first=True), 1)

    def forward(self, x, mask):
        return self.layers(x, x * 2, tgt_mask=mask)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1)

    def forward(self, x, mask):
        return self.layers(x, mask=mask)


CAUSAL = torch.nn.Transformer.generate_square_subsequent_mask(6)


@pytest.mark.parametrize("kind", [Encoder, Decoder])
def test_masks_of_any_values(kind, no_gradients):
    model, reports = kind().eval(), []

    def backend(graph, examples):
        try:
            made = ingot_backend(graph, examples)
        except Exception as problem:  # Dynamo would run the graph in eager
            reports.append(problem)
            raise
        reports.append(made.report)
        return made

    backend.__wrapped__ = ingot_backend
    exact, x, asked = copy.deepcopy(model).double(), torch.randn(2, 6, 16), torch.nn.modules.transformer._detect_is_causal_mask.__code__
    compiled = ingot.compile(model, inputs=[x, CAUSAL], fallback="error"), torch.compile(model, backend=backend)
    for mask in (CAUSAL, torch.where(torch.eye(6).bool() | (torch.rand(6, 6) < 0.5), 0.0, -torch.inf)):  # eager's fast path takes other numbers for bools
        for call in compiled:
            assert_accurate(call(x, mask), model(x, mask), exact(x.double(), mask.double()), depth=256)
    assert [getattr(r, "whole", r) for r in reports] == [True]
    assert torch.nn.modules.transformer._detect_is_causal_mask.__code__ is asked
    assert torch.nn.modules.transformer._detect_is_causal_mask(CAUSAL) is True  # eager still asks


def test_the_switch_is_left_out(monkeypatch):
    monkeypatch.setenv("INGOT_DISABLE", "asked_masks")
    with pytest.raises(ingot.UnsupportedError, match="known only when it runs"):
        ingot.compile(Encoder().eval(), inputs=[torch.randn(2, 6, 16), CAUSAL])

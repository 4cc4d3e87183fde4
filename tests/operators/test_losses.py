"""Losses inside a model: a language model given labels, with fixed and open sizes, ahead of time and under torch.compile; sequences of labels (CTC)."""

import itertools
import sys
from pathlib import Path

import pytest
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate
from calls import Calls

import ingot

F = torch.nn.functional


def language_model():
    sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64, num_key_value_heads=2, vocab_size=50)
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).eval().requires_grad_(False)


def labelled(batch, length):
    ids = torch.randint(0, 50, (batch, length))
    return ids, torch.where(torch.rand(batch, length) < 0.3, -100, ids)


class Perplexity(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, labels):
        out = self.model(ids, labels=labels, use_cache=False)
        return out.loss, out.logits


@pytest.mark.parametrize("sizes", ["fixed", "open"])
@pytest.mark.one_in(2)
def test_labels_of_a_language_model(sizes):
    model = Perplexity(language_model())
    shapes = [(2, 9)] if sizes == "fixed" else [(2, 9), (3, 5), (1, 16)]
    example = labelled(2, 9)
    inputs = [ingot.Input(min_shape=(1, 4), opt_shape=(2, 9), max_shape=(4, 32), dtype=torch.int64) for _ in range(2)] if sizes == "open" else list(example)
    compiled = ingot.compile(model, inputs=inputs, fallback="error")
    for shape in shapes:
        given = labelled(*shape)
        for y, e, x in zip(compiled(*given), model(*given), language_model_in_double(model, *given), strict=True):
            assert_accurate(y, e, x, depth=50 * 32)


def language_model_in_double(model, *given):
    wide = Perplexity(language_model().double())
    return wide(*given)


def test_labels_under_torch_compile():
    model, given = Perplexity(language_model()), labelled(2, 9)
    compiled = torch.compile(model, backend="ingot")
    for y, e, x in zip(compiled(*given), model(*given), language_model_in_double(model, *given), strict=True):
        assert_accurate(y, e, x, depth=50 * 32)


FORMS = list(itertools.product(["none", "mean", "sum"], [False, True], [0.0, 0.2]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (4, 1), (3, 7, 4, 2), (7,), (0, 7)], ids=str)
@pytest.mark.one_in(8)
def test_cross_entropy(shape, dtype):
    """All reductions, with weights, smoothing, ignored classes and probabilities, in one engine."""
    torch.manual_seed(0)
    classes = shape[0] if len(shape) == 1 else shape[1]
    places = shape[:0] if len(shape) == 1 else (shape[0], *shape[2:])
    x, weight = torch.randn(shape).to(dtype), torch.rand(classes).to(dtype)
    target, soft = torch.randint(0, classes, places), torch.rand(shape).to(dtype)
    target = torch.where(torch.rand(places) < 0.3, -100, target)

    def losses(x, weight, target, soft):
        given = [dict(reduction=r, weight=weight if w else None, label_smoothing=s) for r, w, s in FORMS]
        return [F.cross_entropy(x, t, **kwargs) for kwargs in given for t in (target, soft)] + [F.nll_loss(x, target.clamp(min=0), ignore_index=1)]

    compiled = ingot.compile(Calls(losses), inputs=[x, weight, target, soft], fallback="error")
    exact = losses(x.double(), weight.double(), target, soft.double())
    for y, e, x64 in zip(compiled(x, weight, target, soft), losses(x, weight, target, soft), exact, strict=True):
        assert_accurate(y, e, x64, depth=x.numel() + 1)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_of_open_sizes(reduction):
    """Torch's own rule for open sizes takes the reduction for another argument."""
    loss = Calls(lambda x, target: F.cross_entropy(x * 2, target, reduction=reduction))
    reports = []
    compiled = torch.compile(loss, backend="ingot", dynamic=True, options={"dryrun": lambda report: reports.append(report.in_torch)})
    compiled(torch.randn(4, 7), torch.randint(0, 7, (4,)))
    assert reports == [0]
    rows = [ingot.Input(min_shape=(1, *rest), opt_shape=(4, *rest), max_shape=(9, *rest), dtype=dtype, shared_dims={0: "B"}) for rest, dtype in (((7,), "float32"), ((), "int64"))]
    ahead = ingot.compile(loss, inputs=rows, fallback="error")
    for count in (1, 4, 9):
        x, target = torch.randn(count, 7), torch.randint(0, 7, (count,))
        assert_accurate(ahead(x, target), loss(x, target), loss(x.double(), target), depth=x.numel() + 1)


class Ctc(torch.nn.Module):
    def forward(self, logs, targets, steps, lengths):
        return torch.nn.functional.ctc_loss(logs.log_softmax(-1), targets, steps, lengths, reduction="none")


@pytest.mark.parametrize("way", ["ahead of time", "just in time"])
def test_ctc_loss_of_lengths_in_tensors(way):
    torch.manual_seed(0)
    model, logs, targets = Ctc(), torch.randn(20, 3, 10), torch.randint(1, 10, (3, 5))
    given = logs, targets, torch.tensor([20, 18, 9]), torch.tensor([5, 4, 2])
    compiled = ingot.compile(model, inputs=given, fallback="error") if way == "ahead of time" else torch.compile(model, backend="ingot")
    with torch.no_grad():
        assert_accurate(compiled(*given), model(*given), model(logs.double(), *given[1:]), depth=20 * 11)

"""Every door leads to the same graph: by each way in, in each mode and type, a model becomes the same primitives and the same steps, and nothing stays in torch.

One factor at a time is changed from a base, `ingot.compile` in float32 under no_grad. A plain run tries torch.compile and one more factor of each model, `make test-all` all of them.
On a GPU: `pytest tests/models/test_doors.py -k cuda`. Findings that are known stand in KNOWN; one that is mended fails until it is taken off.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import io
import os
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from architectures import ARCHITECTURES
from by_door import Case, Made, enter

import ingot

ALL = bool(os.environ.get("INGOT_TEST_ALL"))
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
MODELS = """
    mlp convolutions-1d convolutions-2d convolutions-3d norms weight-norm lstm gru cells transformer-encoder transformer-decoder multihead-attention attention-weights causal-attention embeddings
    resizing grid-sample pixels activations losses bilinear unet sound-codec separator unet-3d
    bert-2-layers albert-2-layers electra-2-layers llama-2-layers mistral-2-layers qwen3-2-layers gemma2-2-layers phi-2-layers phi3-2-layers olmo2-2-layers cohere-2-layers gpt-neox-2-layers
    gpt2-2-layers gptj gpt-neo bloom opt falcon mpt squeezebert modernbert t5 bart whisper vit-2-layers dinov2-2-layers clip-vision clip-text swin resnet-2-stages regnet convnextv2 mobilenet-v1
    wav2vec2 patchtst fnet
""".split()  # fmt: skip


def exactly(primitives: Counter) -> Counter:
    return primitives


def without_casts(primitives: Counter) -> Counter:
    return Counter({primitive: count for primitive, count in primitives.items() if not primitive.startswith("cast ")})


def kinds(primitives: Counter) -> Counter:
    """How many of each kind, without views and the arithmetic of sizes: open sizes have other names, and a file's results are row-major."""
    found = Counter()
    for primitive, count in primitives.items():
        if (kind := primitive.split(" ")[0]) not in ("view", "reshape", "size", "cast", "index"):
            found[kind] += count
    return found


# name: (the cell, the cell that it must equal, what of the primitives is compared). None: only that nothing stays in torch, because torch has decomposed what arrives.
FACTORS = {
    "torch.compile": ({"door": "torch.compile"}, {}, exactly),
    "exported": ({"door": "exported"}, {}, exactly),
    "decomposed": ({"door": "decomposed"}, {}, None),
    "pt2": ({"door": "pt2"}, {}, kinds),
    "saved": ({"door": "saved"}, {}, kinds),
    "torchscript": ({"door": "torchscript"}, {}, None),
    "compile-open": ({"door": "compile-open"}, {}, kinds),
    "torch.compile-dynamic": ({"door": "torch.compile-dynamic"}, {}, kinds),
    "grad": ({"door": "torch.compile", "mode": "grad"}, {}, exactly),
    "inference_mode": ({"door": "torch.compile", "mode": "inference_mode"}, {}, exactly),
    "autocast": ({"door": "torch.compile", "mode": "autocast"}, {"mode": "autocast"}, without_casts),
    "float16": ({"door": "torch.compile", "dtype": "float16"}, {"dtype": "float16"}, exactly),
    "bfloat16": ({"door": "torch.compile", "dtype": "bfloat16"}, {"dtype": "bfloat16"}, exactly),
}
IN_TURN = [name for name in FACTORS if name not in ("torch.compile", "saved", "torchscript")]
CASES = [(model, factor) for i, model in enumerate(MODELS) for factor in (FACTORS if ALL else ["torch.compile", IN_TURN[i % len(IN_TURN)]])]

_OTHER_PATH = "nn.MultiheadAttention takes another path of its own Python while Dynamo traces it: parts of the weight one by one, other transposes"
_OTHER_MASK = "transformers makes the mask of attention in another way while Dynamo traces it"
# (model, factor) as patterns: the reason.
KNOWN = {
    **{("t5", factor): _OTHER_MASK for factor in ("torch.compile", "torch.compile-dynamic", "grad", "inference_mode", "autocast", "float16", "bfloat16")},
    **{("transformer-encoder", factor): _OTHER_PATH for factor in ("torch.compile", "torch.compile-dynamic", "inference_mode", "autocast", "float16", "bfloat16")},
    **{("fnet", dtype): "torch has no Fourier transforms of halves on the CPU" for dtype in ("float16", "bfloat16")},
    ("gpt2-2-layers", "decomposed"): "torch's own run_decompositions fails: its decomposition of attention on the CPU gives other strides, of which the model's view is none",
}
# Eager's own results have another layout in grad mode, and in torch.export's trace: another order of axes in views and products, and the same steps.
OTHER_LAYOUT = {("multihead-attention", "exported"), ("multihead-attention", "grad")}
# With dynamic=True these have an open number of steps, and become a loop. So they are compared with what ingot.compile makes of open batches and steps.
WITH_OPEN_STEPS = {("lstm", "torch.compile-dynamic"), ("gru", "torch.compile-dynamic")}
_FORMAT = "torch.export records another memory format of a result than cuDNN and attention's kernels give, which Dynamo records: one view more or less, the same steps"
KNOWN_ON_A_GPU = {(model, factor): _FORMAT for model in ("causal-attention", "convnextv2", "convnext") for factor in ("torch.compile", "grad", "inference_mode", "float16", "bfloat16")}


@functools.lru_cache(maxsize=2)
def base(model, device, mode="no_grad", dtype="float32") -> Made:
    return by("compile", model, device, mode, dtype)


def by(door, model, device, mode="no_grad", dtype="float32") -> Made:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # of reports
        warnings.simplefilter("ignore")
        return enter(Case(ARCHITECTURES[model], mode, dtype, device), door, build=True)


def with_open_steps(model, device) -> Made:
    case = Case(ARCHITECTURES[model], device=device)
    (x,) = case.inputs
    made, batch_and_steps = Made(), {0: "B", 1: "S"}
    with case.context():
        compiled = ingot.compile(case.module, inputs=[ingot.Input(min_shape=(1, 1, x.shape[2]), opt_shape=tuple(x.shape), max_shape=(64, 64, x.shape[2]), shared_dims=batch_and_steps)])
    made.add(compiled.report, compiled.engine)
    return made


def difference(a: Counter, b: Counter) -> str:
    return "\n".join([*(f"+ {n} {one}" for one, n in (a - b).items()), *(f"- {n} {one}" for one, n in (b - a).items())])


def check(model, factor, device):
    cell, other, compared = FACTORS[factor]
    made = by(model=model, device=device, **cell)
    expected = with_open_steps(model, device) if (model, factor) in WITH_OPEN_STEPS else base(model, device, **other)
    compared = kinds if (model, factor) in OTHER_LAYOUT else compared
    assert made.reports, f"torch.compile makes no graph of it: {dict(torch._dynamo.utils.counters['graph_break'])}"
    assert not made.in_torch, f"these stay in torch: {made.in_torch}"
    if compared is not None:
        found = difference(compared(made.primitives()), compared(expected.primitives()))
        assert not found, f"other primitives than those of {other or 'the base'}:\n{found}"
    if compared is exactly or (model, factor) in OTHER_LAYOUT | WITH_OPEN_STEPS:
        found = difference(made.steps(), expected.steps())
        assert not found, f"other steps than those of {other or 'the base'}:\n{found}"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model, factor", CASES, ids=[f"{model}-{factor}" for model, factor in CASES])
def test_same_graph(model, factor, device):
    torch._dynamo.reset()
    here = KNOWN | (KNOWN_ON_A_GPU if device == "cuda" else {})
    known = next((reason for (m, f), reason in here.items() if fnmatch.fnmatch(model, m) and fnmatch.fnmatch(factor, f)), None)
    try:
        check(model, factor, device)
    except Exception as problem:
        if known is None:
            raise
        pytest.xfail(f"{known}: {str(problem).splitlines()[0]}")
    assert known is None or device != "cpu", f"it is mended: take {model}, {factor} off KNOWN ({known})"


def test_every_factor_is_changed():
    assert len(MODELS) == 61 and set(MODELS) <= set(ARCHITECTURES)
    assert {factor for _, factor in CASES} >= set(IN_TURN)

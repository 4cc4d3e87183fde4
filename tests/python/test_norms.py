"""What norms add under the root, where that is what counts: rows of small values."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot


@pytest.mark.parametrize("eps", [None, 1e-6, 1e-3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rms_norm_of_small_values(dtype, eps):
    torch.manual_seed(0)
    model, x = torch.nn.RMSNorm(64, eps=eps, dtype=dtype), torch.randn(5, 64).to(dtype) * 1e-2
    used = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps if eps is None else eps
    with torch.no_grad():
        exact = torch.nn.functional.rms_norm(x.double(), (64,), eps=used)
        assert_accurate(ingot.compile(model, inputs=[x], fallback="error")(x), model(x), exact, depth=64)

"""The devices of tests of whole models: the CPU in float32, and a GPU if there is one."""

import pytest
import torch

ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
PLACES = pytest.mark.parametrize(
    "device, dtype",
    [
        pytest.param("cpu", torch.float32, id="cpu"),
        pytest.param("cuda", torch.float32, id="cuda-float32", marks=ON_GPU),
        pytest.param("cuda", torch.float16, id="cuda-float16", marks=ON_GPU),
    ],
)

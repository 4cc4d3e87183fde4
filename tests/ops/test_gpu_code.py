"""torch's OpInfo samples compile for GPUs wherever they compile for the CPU. This needs NVRTC, but no GPU.

A plain run draws a small sample of the combinations; INGOT_TEST_ALL=1 takes them all. (`pytest tests/ops --backend cuda` runs them on a GPU.)"""

from __future__ import annotations

import zlib
from collections import Counter

import pytest
import torch
from capture_sample import Call
from ingot.errors import DeviceError
from skips import NOT_ON_GPUS, reason
from test_ops import ALL, DTYPES, combinations, compile_or_skip

GPUS = "cuda:sm_80,cuda:sm_90"
SAMPLES = 1000 if ALL else 1
SHARE = 1 if ALL else 16  # share of the samples that test_ops draws

DRAWN = [p for p in combinations() if zlib.crc32(p.id[::-1].encode()) % SHARE == 0]


@pytest.mark.parametrize("op, dtype, mode", DRAWN)
def test_compiles_for_gpus(op, dtype, mode):
    why = reason(op.name, str(dtype).removeprefix("torch."), mode) or NOT_ON_GPUS.get(op.name)
    if why:
        pytest.skip(why)
    torch.manual_seed(0)
    for sample in list(op.sample_inputs("cpu", dtype))[:SAMPLES]:
        call = Call(op, sample)
        if any(t.dtype not in DTYPES and t.dtype not in (torch.uint8, torch.int8, torch.int16) for t in call.tensors):
            continue
        if compile_or_skip(call, mode == "dynamic", "cpu", Counter()) is None:
            continue
        try:
            call.compile(mode == "dynamic", GPUS)
        except DeviceError as error:
            if "NVRTC" in str(error):
                pytest.skip(str(error).splitlines()[0])
            raise

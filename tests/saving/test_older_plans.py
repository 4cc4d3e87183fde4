"""Plans of older formats are compiled anew from their graphs; the runtime alone refuses them."""

import subprocess
import sys
from pathlib import Path

import torch

import ingot

PLAN = Path(__file__).with_name("testdata") / "format_5.ingot"


def wanted(x):
    """The expected results of the plan's model: linear layers with increasing numbers as weights, and a counter in a buffer."""
    weight, bias = (torch.arange(n, dtype=torch.float32) / 8 for n in (24, 6))
    a = torch.nn.functional.linear(x, weight.reshape(6, 4), bias - 1)
    b = torch.nn.functional.linear(x, weight.reshape(6, 4) - 2, bias - 3)
    return torch.cat([x, a.relu() * b], 1)


def test_format_5(tmp_path):
    module = ingot.load(PLAN)
    for n, rows in enumerate((1, 3, 8), 1):
        x = torch.randn(rows, 4)
        y, count = module(x)
        torch.testing.assert_close(y, wanted(x))
        assert count.item() == 2 * n
    ingot.save(module, tmp_path / "now.ingot")
    x = torch.randn(2, 4)
    torch.testing.assert_close(ingot.load(tmp_path / "now.ingot")(x)[0], wanted(x))


ALONE = """
import ctypes, sys
class Problem(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char_p), ("origin", ctypes.c_char_p), ("remedy", ctypes.c_char_p)]
library = ctypes.CDLL(sys.argv[1])
library.ingot_last_error.restype = ctypes.POINTER(Problem)
plan = ctypes.c_void_p()
assert library.ingot_plan_load(sys.argv[2].encode(), ctypes.byref(plan)) != 0 and plan.value is None
problem = library.ingot_last_error().contents
print(problem.message.decode(), problem.remedy.decode(), sep="\\n")
"""


def test_the_runtime_alone_refuses_it():
    done = subprocess.run([sys.executable, "-c", ALONE, ingot.engine._library.find("libingot_runtime.so"), str(PLAN)], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "the plan is of an older format, whose programs this runtime does not run",
        "load it once with libingot, which compiles it anew, and save it; or compile the model again with this version",
    ], done.stderr

"""Plans whose programs are of another revision are compiled anew from their graphs; the runtime alone refuses them."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ingot

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "files"))
from crafted import seal  # noqa: E402


class Counts(torch.nn.Module):
    """Linear layers, and a counter in a buffer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(4, 6), torch.nn.Linear(4, 6)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.count.add_(2)
        return torch.cat([x, self.a(x).relu() * self.b(x)], 1), self.count


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A plan whose steps are of a revision that this build does not run, and have kernels that it does not know."""
    path = tmp_path_factory.mktemp("plans") / "other.ingot"
    ingot.save(ingot.compile(Counts().eval(), inputs=[ingot.Input(min_shape=(1, 4), opt_shape=(3, 4), max_shape=(8, 4))]), path)
    data = path.read_bytes()
    assert b"fused\0" in data
    data = data.replace(b"fused\0", b"fuzed\0")
    (revision,) = struct.unpack_from("<I", data, 12)
    path.write_bytes(seal(data[:12] + struct.pack("<I", revision + 1) + data[16:]))
    return path


def test_it_is_compiled_again(other, tmp_path):
    module, eager = ingot.load(other), Counts().eval()
    for rows in (1, 3, 8):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(module(x), eager(x))
    ingot.save(module, tmp_path / "now.ingot")
    x = torch.randn(2, 4)
    torch.testing.assert_close(ingot.load(tmp_path / "now.ingot")(x)[0], eager(x)[0])
    assert (tmp_path / "now.ingot").read_bytes()[12:16] != other.read_bytes()[12:16]


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


def test_the_runtime_alone_refuses_it(other):
    done = subprocess.run([sys.executable, "-c", ALONE, ingot.engine._library.find("libingot_runtime.so"), str(other)], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "the plan's programs are of another version of ingot, and this runtime does not run them",
        "load it once with libingot, which compiles it anew, and save it; or compile the model again with this version",
    ], done.stderr

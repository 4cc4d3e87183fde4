"""ModelOpt's two operators without ModelOpt: against torch's own float8, and in an engine."""

import pytest
import torch

import ingot
from ingot.capture import fake_quantisation

NUMBERS = torch.cat([torch.arange(-460, 460, 0.173), 2.0 ** torch.arange(-14, 9), torch.linspace(-0.03, 0.03, 999), torch.zeros(1)])


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def test_e4m3_is_torchs():
    """The grid, halves to even, subnormals and the largest number."""
    assert fake_quantisation._e4m3(NUMBERS).equal(NUMBERS.clamp(-448, 448).to(torch.float8_e4m3fn).float())
    amax = torch.tensor(3.7)
    x = NUMBERS / 100
    assert torch.ops.tensorrt.quantize_op(x, amax, 8, 4, False, False).equal((x * (448 / amax)).clamp(-448, 448).to(torch.float8_e4m3fn).float() / (448 / amax))


@pytest.mark.parametrize("bits, unsigned, narrow, bottom, top", [(8, False, True, -127, 127), (8, False, False, -128, 127), (8, True, False, 0, 255), (4, False, True, -7, 7)])
def test_integers(bits, unsigned, narrow, bottom, top):
    x, amax = torch.randn(64, 3) * 2, torch.tensor([[1.0, 3.0, 0.0]])
    found = torch.ops.tensorrt.quantize_op(x, amax, bits, 0, unsigned, narrow)
    torch.testing.assert_close(found[:, :2], (torch.clamp(torch.round(x * top / amax), bottom, top) * amax / top)[:, :2])
    assert found[:, 2].eq(0).all()


def test_blocks():
    x = torch.randn(4, 32)
    found = torch.ops.tensorrt.dynamic_block_quantize_op(x, 16, x.abs().max(), 4, 2, 8, 4).unflatten(-1, (-1, 16))
    whole = x.abs().max() / (6 * 448)
    scale = (x.unflatten(-1, (-1, 16)).abs().amax(-1, keepdim=True) / 6 / whole).to(torch.float8_e4m3fn).float() * whole
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    assert ((found / scale).abs()[..., None] - grid).abs().amin(-1).max() < 1e-6
    torch.testing.assert_close(found, x.unflatten(-1, (-1, 16)), atol=float(scale.max()) * 1.01, rtol=0)
    with pytest.raises(ingot.UnsupportedError, match="is not known"):
        torch.ops.tensorrt.dynamic_block_quantize_op(x, 32, x.abs().max(), 8, 4, 9, 8)


class Quantised(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(8, 16))
        self.register_buffer("amax_x", torch.tensor(2.5))
        self.register_buffer("amax_w", self.weight.detach().abs().amax(1, keepdim=True))

    def forward(self, x):
        x = torch.ops.tensorrt.quantize_op(x, self.amax_x, 8, 4, False, False)
        return torch.nn.functional.linear(x, torch.ops.tensorrt.quantize_op(self.weight, self.amax_w, 8, 0, False, False))


def test_a_model_of_them_is_one_engine(tmp_path):
    model, x = Quantised().eval(), torch.randn(5, 16)
    compiled = ingot.compile(model, inputs=[x], fallback="error")
    torch.testing.assert_close(compiled(x), model(x))
    torch.testing.assert_close(torch.compile(model, backend="ingot")(x), model(x))
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "q.pt2")
    torch.testing.assert_close(ingot.compile(tmp_path / "q.pt2")(x), model(x))

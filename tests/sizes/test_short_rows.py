"""Pointwise bodies with a short last axis: blocks have many lines, some operands repeat for all lines, others and results have gaps between lines."""

import pytest
import torch

import ingot


class Lines(torch.nn.Module):
    def forward(self, x, wide, row, column, image):
        """x [2, 77, n]; wide [2, 77, 2n]; row [n]; column [77, 1]; image [2, 1, n]."""
        n = x.shape[-1]
        part = wide[..., n:]  # lines with gaps
        y = torch.where(x > row, x * image + row, part - column)
        joined = torch.cat([y, x + part, y * row], -1)  # results with gaps
        return y, joined, (x < row) & (part > image), (x * 3).to(torch.int64) + row.to(torch.int64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("n", [2, 3, 16, 33, 100, 128, 129])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.one_in(4)
def test_lines(n, dtype, dynamic):
    torch.manual_seed(n)
    # Numbers that all types hold, also their products: every result is exact.
    inputs = [torch.randint(-8, 8, shape).to(dtype) for shape in ((2, 77, n), (2, 77, 2 * n), (n,), (77, 1), (2, 1, n))]
    wanted = inputs
    if dynamic:
        batch = {0: "B"}
        wanted = [
            ingot.Input(min_shape=(2, 77, n), opt_shape=(2, 77, n), max_shape=(9, 77, n), dtype=dtype, shared_dims=batch),
            ingot.Input(min_shape=(2, 77, 2 * n), opt_shape=(2, 77, 2 * n), max_shape=(9, 77, 2 * n), dtype=dtype, shared_dims=batch),
            *inputs[2:4],
            ingot.Input(min_shape=(2, 1, n), opt_shape=(2, 1, n), max_shape=(9, 1, n), dtype=dtype, shared_dims=batch),
        ]
    compiled = ingot.compile(Lines(), inputs=wanted, fallback="error")
    for result, expected in zip(compiled(*inputs), Lines()(*inputs), strict=True):
        assert result.dtype == expected.dtype and torch.equal(result, expected)


def test_lines_of_every_image():
    """A repeated operand has another line for each image: it is read again when the image changes."""
    torch.manual_seed(0)
    x, scale, shift = torch.randn(5, 3, 40, 16), torch.randn(5, 3, 1, 16), torch.randn(5, 1, 1, 16)

    def call(x, scale, shift):
        return torch.relu(x * scale + shift) - shift

    class Model(torch.nn.Module):
        def forward(self, x, scale, shift):
            return call(x, scale, shift)

    for threads in (1, 2):
        compiled = ingot.compile(Model(), inputs=[x, scale, shift], threads=threads, fallback="error")
        torch.testing.assert_close(compiled(x, scale, shift), call(x, scale, shift), atol=1e-6, rtol=1e-6)

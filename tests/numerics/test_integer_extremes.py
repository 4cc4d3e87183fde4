"""Integer operators have eager's values for all pairs of 8 bits, and for wider types at the ends of the range, at the width and at random."""

import pytest
import torch
from calls import Calls

import ingot

TYPES = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
PAIRS = {
    "mul": torch.mul,
    "sub": torch.sub,
    "gcd": torch.gcd,
    "left shift": torch.bitwise_left_shift,
    "right shift": torch.bitwise_right_shift,
    "pow": torch.pow,
    "floor_divide": torch.floor_divide,
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "maximum": torch.maximum,
}
DIVIDE = {"floor_divide", "div trunc", "remainder", "fmod"}
ONES = {
    "abs": torch.abs,
    "neg": torch.neg,
    "sign": torch.sign,
    "square": torch.square,
    "shift by the width": lambda a: (a << torch.iinfo(a.dtype).bits) + (a >> torch.iinfo(a.dtype).bits),
    "remainder of -3": lambda a: torch.remainder(a, -3) if a.dtype != torch.uint8 else torch.remainder(a, 3),
    "power of -1": lambda a: torch.pow(-1, a),
    "product": lambda a: a.prod(),
    "sum of its type": lambda a: a.sum(dtype=a.dtype),
}


def numbers(dtype):
    info = torch.iinfo(dtype)
    if info.bits == 8:
        return torch.arange(info.min, info.max + 1).to(dtype)
    ends = [info.min, info.min + 1, info.max, info.max - 1, info.min // 2, 0, 1, -1, 2, -2, 3, -3, 7, -7, info.bits, info.bits - 1, info.bits + 1, -info.bits]
    some = torch.randint(-(2 ** (info.bits - 1)), 2 ** (info.bits - 1) - 1, (60,), generator=torch.Generator().manual_seed(0))
    few = torch.randint(-100, 100, (20,), generator=torch.Generator().manual_seed(1))
    return torch.cat([torch.tensor(ends), some, few]).to(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.one_in(3)
def test_pairs(name, dtype):
    of = numbers(dtype)
    a, b = of[:, None].expand(-1, len(of)).contiguous(), of.expand(len(of), -1).contiguous()
    least = torch.iinfo(dtype).min
    if name in DIVIDE:  # eager refuses zero, and the least number by -1 stops the process on some processors
        b = torch.where((b == 0) | (least < 0) & (a == least) & (b == -1), 3, b).to(dtype)
    model = Calls(PAIRS[name])
    compiled = ingot.compile(model, inputs=[a, b], fallback="error", min_block_size=1)
    assert torch.equal(compiled(a, b), model(a, b))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ONES)
def test_one_operand(name, dtype):
    of, model = numbers(dtype), Calls(ONES[name])
    compiled = ingot.compile(model, inputs=[of], fallback="error", min_block_size=1)
    assert torch.equal(compiled(of), model(of))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", sorted(DIVIDE))
def test_division(name, dtype):
    """The least number by -1 is itself, without a remainder, as two's complement has it; by zero is eager's error, with the operator and the line."""
    a, b = numbers(dtype)[:20], torch.ones(20, dtype=dtype)
    model = Calls(PAIRS[name])
    compiled = ingot.compile(model, inputs=[a, b], fallback="error", min_block_size=1)
    if dtype != torch.uint8:
        least = torch.iinfo(dtype).min
        assert torch.equal(compiled(torch.full_like(a, least), -b), torch.full_like(a, 0 if name in ("remainder", "fmod") else least))
    b[7] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        model(a, b)
    with pytest.raises(ingot.InputError, match="divided by zero") as refused:
        compiled(a, b)
    assert "(aten." in refused.value.message and "calls.py:" in refused.value.origin

"""Writes beside reshapes that are views or copies depending on their operand's layout. A call whose input has another layout than the captured one is refused, or gives eager's results."""

import pytest
import torch

import ingot

ROWS, COLUMNS = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(3, 2).t()


def flattened(x):
    y = x.flatten()
    y.add_(1)
    return y


def reshaped_twice(x):
    y = x.reshape(-1)
    y.add_(1)
    return y * 1, x + x.reshape(2, 3)


def made_contiguous(x):
    y = x.contiguous()
    y.add_(1)
    return y * 1


def ravel_of_a_part_before_a_write(x):
    y = x[:, :2].ravel()
    x.mul_(2)
    return y * 1


def intermediate(x):
    y = x * 2
    z = y.reshape(-1)
    z.add_(1)
    return y, z


def along_the_strides(x):
    return (x * 2).as_strided((2, 2), (2, 1), 1) * 1


HANG = [flattened, reshaped_twice, made_contiguous, ravel_of_a_part_before_a_write, intermediate, along_the_strides]


def written_first(x):
    x.add_(1)
    return x.reshape(-1) * 1


def nobody_sees_the_operand(x):
    y = (x * 2).reshape(-1)
    y.add_(1)
    return y


def diagonals(x):
    y = x * 2
    y.fill_diagonal_(5)
    return x.fill_diagonal_(7) + 1, y


def cast_to_another_type(x):
    y = x.to(torch.bool)
    y.zero_()
    return x + 1, y


def cast_to_the_same_type(x):
    y = x.to(torch.float32)
    y.add_(1)
    return y * 1, x.float() + 1


def beside_the_largest(x):
    y = x.topk(2)[0]
    z = y.reshape(-1)
    y.mul_(2)
    return y, z


def beside_a_product(x):
    y = torch.mm(x, x.t())
    z = y.reshape(-1)
    z.add_(1)
    return y, z


FREE = [written_first, nobody_sees_the_operand, diagonals, cast_to_another_type, cast_to_the_same_type, beside_the_largest, beside_a_product]


def made(forward, example, way, path):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: forward(x)})()
    compiled = ingot.compile(model, inputs=[example])
    if way == "file":
        ingot.save(compiled, path)
        compiled = ingot.load(path)
    return compiled


def equals_eager(forward, call, given):
    mine, theirs = given.clone(), given.clone()
    assert mine.stride() == given.stride()
    results, expected = call(mine), forward(theirs)
    for result, eager in zip(*((r if isinstance(r, tuple) else (r,)) for r in (results, expected)), strict=True):
        assert torch.equal(result, eager)
    assert torch.equal(mine, theirs)


@pytest.mark.parametrize("way", ["compile", "file"])
@pytest.mark.parametrize("example, other", [(ROWS, COLUMNS), (COLUMNS, ROWS)], ids=["rows", "columns"])
@pytest.mark.parametrize("forward", HANG, ids=lambda f: f.__name__)
@pytest.mark.one_in(3)
def test_other_layout_is_refused(forward, example, other, way, tmp_path):
    call = made(forward, example.clone(), way, tmp_path / "model.ingot")
    equals_eager(forward, call, example)
    given = other.clone()
    with pytest.raises(ingot.InputError, match="input 'x' .* has another layout in memory") as caught:
        call(given)
    assert torch.equal(given, other) and "compile with an example of this layout" in caught.value.remedy


@pytest.mark.parametrize("way", ["compile", "file"])
@pytest.mark.parametrize("forward", FREE, ids=lambda f: f.__name__)
@pytest.mark.one_in(3)
def test_layouts_that_nobody_can_tell_apart(forward, way, tmp_path):
    call = made(forward, ROWS.clone(), way, tmp_path / "model.ingot")
    for given in (ROWS, COLUMNS):
        equals_eager(forward, call, given)


def test_open_sizes(tmp_path):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: flattened(x)})()
    call = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 3), opt_shape=(4, 3), max_shape=(8, 3))])
    for rows in (1, 4, 7):
        equals_eager(flattened, call, torch.randn(rows, 3))
        equals_eager(flattened, call, torch.randn(3, rows).t().contiguous())
    with pytest.raises(ingot.InputError, match="has another layout"):
        call(torch.randn(3, 4).t())


def turned(x):
    y = x.t().flatten()
    y.add_(1)
    return y


def test_sizes_of_one(tmp_path):
    """A transposed tensor is reshaped as a view if an axis has one element."""
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: turned(x)})()
    call = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 3), opt_shape=(4, 3), max_shape=(8, 3))])
    ingot.save(call, tmp_path / "model.ingot")
    for way in (call, ingot.load(tmp_path / "model.ingot")):
        equals_eager(turned, way, torch.randn(5, 3))
        with pytest.raises(ingot.InputError, match=r"sizes \[1, 3\]"):
            way(torch.randn(1, 3))

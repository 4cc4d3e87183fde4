"""Conditions on sizes of programs that the user exported: right where torch takes the sizes, and refused elsewhere, by every way to run them."""

import subprocess

import numpy as np
import pytest
import torch
from torch.fx.experimental.symbolic_shapes import sym_or

import ingot

AUTO = torch.export.Dim.AUTO
HERE = "test_exported_conditions.py"


class Branching(torch.nn.Module):
    def __init__(self, question):
        super().__init__()
        self.question = question

    def forward(self, x, y):
        if self.question(*x.shape, y.shape[0]):
            return torch.relu(x) + y.sum()
        return x - 100


QUESTIONS = {
    "product": lambda n, m, k: n * m >= 12,
    "least": lambda n, m, k: torch.sym_min(n, m - 1) >= 3,
    "remainder": lambda n, m, k: n % 2 == 0,
    "not one size": lambda n, m, k: n != 6,
    "division": lambda n, m, k: n * k // 4 == 3,
    "fraction": lambda n, m, k: k / n > 0.3,
    "either": lambda n, m, k: sym_or(n > k, m > k),
    "square": lambda n, m, k: n**2 > k,
    "check": lambda n, m, k: torch._check(n <= 2 * k) is None,
}
SIZES = [(4, 5, 3), (5, 4, 3), (2, 10, 2), (2, 2, 8), (6, 3, 2), (3, 3, 4), (2, 2, 40), (64, 64, 2), (10, 2, 3)]


def exported(question, strict=False, **option):
    shapes = {"x": {0: AUTO, 1: AUTO}, "y": {0: AUTO}}
    return torch.export.export(Branching(QUESTIONS[question]).eval(), (torch.ones(4, 5), torch.ones(3)), dynamic_shapes=shapes, strict=strict, **option)


def agrees(run, program, at=HERE):
    """`run` takes what torch's own module of the program takes, with its results, and refuses the rest. The number of refused sizes."""
    module, refused = program.module(), 0
    for n, m, k in SIZES:
        x, y = torch.randn(n, m), torch.randn(k)
        try:
            expected = module(x, y)
        except (AssertionError, RuntimeError):
            refused += 1
            with pytest.raises(ingot.InputError) as problem:
                run(x, y)
            assert at in str(problem.value) and problem.value.remedy
            continue
        torch.testing.assert_close(run(x, y), expected)
    assert 0 < refused < len(SIZES)


@pytest.mark.parametrize("torch_runs", [(), ("aten.relu.default",), ("aten.relu.default", "aten.add.Tensor", "aten.sum.default")], ids=["engine", "mixed", "torch"])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.one_in(2)
def test_exported(question, torch_runs):
    program = exported(question)
    agrees(ingot.compile(program, torch_executed_ops=list(torch_runs), min_block_size=1), program)


@pytest.mark.parametrize("question", ["product", "check", "square"])
@pytest.mark.parametrize("form", ["decomposed", "from a file", "asserts", "retraced", "module"])
@pytest.mark.one_in(3)
def test_forms(question, form, tmp_path):
    program = exported(question, prefer_deferred_runtime_asserts_over_guards=form == "asserts")
    if form == "decomposed":
        program = program.run_decompositions()
    if form == "from a file":
        torch.export.save(program, tmp_path / "m.pt2")
        program = torch.export.load(tmp_path / "m.pt2")
    if form == "retraced":
        inputs = torch.ones(4, 5), torch.ones(3)
        program = torch.export.export(program.module(), inputs, dynamic_shapes={"x": {0: AUTO, 1: AUTO}, "y": {0: AUTO}})
    asked = [ingot.Input(min_shape=(2, 2), opt_shape=(4, 5), max_shape=(64, 64)), ingot.Input(min_shape=(2,), opt_shape=(3,), max_shape=(64,))]
    compiled = ingot.compile(program.module(), asked) if form == "module" else ingot.compile(program)
    agrees(compiled, program, at="" if form in ("from a file", "retraced", "module") else HERE)


def test_a_module_of_a_program_has_its_guards():
    """A range of which one size does not fit, as `n != 6`, is taken but for that size."""
    compiled = ingot.compile(exported("not one size").module(), [ingot.Input(min_shape=(2, 2), opt_shape=(4, 5), max_shape=(64, 64)), torch.ones(3)])
    for n in (2, 5, 7):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x, torch.ones(3)), torch.relu(x) + 3)
    with pytest.raises(ingot.InputError, match="captured for x.shape.0. != 6"):
        compiled(torch.randn(6, 3), torch.ones(3))


def test_words():
    with pytest.raises(ingot.InputError) as problem:
        ingot.compile(exported("product"))(torch.ones(2, 2), torch.ones(3))
    assert problem.value.message == "these input sizes do not fit the model: it was captured for 12 <= x.shape[0]*x.shape[1] (12 is more than 4)"
    assert HERE in problem.value.origin and problem.value.remedy == "give sizes for which this holds, or compile the model for an example of these sizes"
    with pytest.raises(ingot.InputError) as problem:
        ingot.compile(exported("product"), torch_executed_ops=["aten.relu.default", "aten.add.Tensor", "aten.sum.default"])(torch.ones(2, 2), torch.ones(3))
    assert problem.value.message == "these input sizes do not fit the model: it was captured for x.shape[0]*x.shape[1] >= 12"
    assert HERE in problem.value.origin and problem.value.remedy == "give sizes for which this holds, or compile the model for an example of these sizes"


@pytest.mark.parametrize("question", ["product", "remainder", "division"])
def test_files(question, tmp_path):
    """A plan, and an archive of torch that no Python reads."""
    program = exported(question)
    torch.export.save(program, tmp_path / "m.pt2")
    ingot.save(ingot.compile(program, fallback="error"), tmp_path / "python.ingot")
    tool = ingot.engine._library.find("ingot")
    subprocess.run([tool, "compile", tmp_path / "m.pt2", "-o", tmp_path / "tool.ingot"], check=True, capture_output=True)
    agrees(ingot.load(tmp_path / "python.ingot"), program)
    agrees(ingot.load(tmp_path / "tool.ingot"), program, at="")
    agrees(ingot.compile(tmp_path / "m.pt2"), program, at="")
    np.save(tmp_path / "x.npy", np.ones((3, 3), np.float32))
    np.save(tmp_path / "y.npy", np.ones(3, np.float32))
    for name in ("python", "tool"):
        ran = subprocess.run([tool, "run", tmp_path / f"{name}.ingot", "-i", f"x={tmp_path}/x.npy", "-i", f"y={tmp_path}/y.npy"], capture_output=True, text=True)
        assert ran.returncode and "these input sizes do not fit the model: it was captured for" in ran.stderr


def test_what_the_tool_cannot_check(tmp_path):
    """A condition on a fraction: torch runs it, so the tool refuses the file and Python falls back."""
    program = exported("fraction")
    torch.export.save(program, tmp_path / "m.pt2")
    ran = subprocess.run([ingot.engine._library.find("ingot"), "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.ingot"], capture_output=True, text=True)
    assert ran.returncode and "a condition on sizes cannot be checked" in ran.stderr
    agrees(ingot.compile(tmp_path / "m.pt2"), program, at="")


def test_passes_keep_them():
    program = exported("product")
    agrees(ingot.compile(program, passes=[lambda module: None]), program)


def test_nested_inputs_and_numbers():
    class Nested(torch.nn.Module):
        def forward(self, x, batch, *more, scale, k=None):
            if batch["Ids"][0].shape[0] * more[0].shape[0] >= 12 and k * x.shape[0] > 8:
                return x * scale + batch["Ids"][0].sum() + more[0].sum()
            return x

    def call(n, m, p, k):
        return (torch.ones(n), {"Ids": [torch.ones(m)]}, torch.ones(p)), {"scale": torch.tensor(2.0), "k": k}

    shapes = {"x": {0: AUTO}, "batch": {"Ids": [{0: AUTO}]}, "more": ({0: AUTO},), "scale": None, "k": AUTO}
    for strict in (False, True):
        args, kwargs = call(4, 5, 3, 6)
        program = torch.export.export(Nested(), args, kwargs, dynamic_shapes=shapes, strict=strict)
        compiled, k = ingot.compile(program), 6 if strict else 3  # strict traces have a constant number
        for sizes in [(4, 5, 3, 6), (5, 6, 2, k)]:
            args, kwargs = call(*sizes)
            torch.testing.assert_close(compiled(*args, **kwargs), Nested()(*args, **kwargs))
        for sizes in [(4, 2, 3, 6), (2, 2, 2, k)] + [(2, 5, 3, 3)] * (not strict):
            args, kwargs = call(*sizes)
            with pytest.raises(ingot.InputError, match="these input sizes do not fit the model"):
                compiled(*args, **kwargs)


def test_a_single_size():
    """torch takes sizes that are not 0 or 1 in the example for others than these, without a guard."""

    class One(torch.nn.Module):
        def forward(self, x):
            return x * 0 if x.shape[0] == 1 else x + 1

    compiled = ingot.compile(One(), [ingot.Input(min_shape=(0, 3), opt_shape=(4, 3), max_shape=(64, 3), name="images")])
    for n in (0, 2, 64):
        x = torch.randn(n, 3)
        assert torch.equal(compiled(x), One()(x))
    with pytest.raises(ingot.InputError, match=r"it was captured for images.shape\[0\] != 1"):
        compiled(torch.ones(1, 3))


@pytest.mark.parametrize("question", [lambda n: n == 0, lambda n: not n > 0, lambda n: n < 1, lambda n: 0 >= 2 * n], ids=["equal", "more", "less", "twice"])
def test_no_elements(question):
    """torch's symbols are at least 1, so such a question is settled without a guard."""

    class Empty(torch.nn.Module):
        def forward(self, x):
            return x.sum(0) - 1 if question(x.shape[0]) else x.sum(0) + 1

    compiled = ingot.compile(Empty(), [ingot.Input(min_shape=(0, 3), opt_shape=(4, 3), max_shape=(64, 3))])
    for n in (1, 2, 64):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), Empty()(x))
    with pytest.raises(ingot.InputError, match=HERE):
        compiled(torch.ones(0, 3))


def test_a_single_size_in_a_library():
    """Libraries ask whether a size is 1 for speed: transformers makes no mask for one token. Their results are the same."""
    code = "def short_cut(x):\n    return x.cumsum(0) if x.shape[0] > 1 else x"
    names = {}
    exec(compile(code, "/somewhere/site-packages/library.py", "exec"), names)

    class Running(torch.nn.Module):
        def forward(self, x):
            return names["short_cut"](x) * 2

    compiled = ingot.compile(Running(), [ingot.Input(min_shape=(1, 3), opt_shape=(4, 3), max_shape=(64, 3))])
    for n in (1, 2, 64):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), Running()(x))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("check", [lambda ok: torch._check(ok), lambda ok: torch._assert(ok, "no"), lambda ok: None if ok else 1 / 0], ids=["check", "assert", "if"])
def test_checks_of_a_model_that_ingot_traces(check, strict):
    class Checking(torch.nn.Module):
        def forward(self, x, y):
            check(x.shape[0] * 2 <= y.shape[0] * 3)
            return x.sum() + y.sum()

    compiled = ingot.compile(Checking(), [ingot.Input(min_shape=(1,), opt_shape=(4,), max_shape=(64,)), ingot.Input(min_shape=(1,), opt_shape=(6,), max_shape=(64,))], strict=strict)
    assert compiled(torch.ones(6), torch.ones(4)) == 10
    with pytest.raises(ingot.InputError, match="it was captured for"):
        compiled(torch.ones(7), torch.ones(4))


def test_a_remainder_of_a_model_that_ingot_traces():
    class Even(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] % 2 == 0 else x * 0

    compiled = ingot.compile(Even(), [torch.ones(4, 3)], dynamic_shapes=[{0: AUTO}])
    assert torch.equal(compiled(torch.ones(6, 3)), torch.full((6, 3), 2.0))
    with pytest.raises(ingot.InputError, match=HERE):
        compiled(torch.ones(5, 3))


def test_dropin():
    torch_tensorrt = pytest.importorskip("ingot.torch_tensorrt")
    program = exported("product")
    inputs = [torch_tensorrt.Input(min_shape=(2, 2), opt_shape=(4, 5), max_shape=(64, 64)), torch_tensorrt.Input(min_shape=(2,), opt_shape=(3,), max_shape=(64,))]
    agrees(torch_tensorrt.dynamo.compile(program, inputs), program)

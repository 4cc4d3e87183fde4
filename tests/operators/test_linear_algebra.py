"""Linear algebra of small matrices, ahead of time and under torch.compile: values beside float64, errors beside eager's, sizes that stay in torch."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot

FUNCTIONS = {
    "inv": lambda a, b: torch.linalg.inv(a),
    "inverse": lambda a, b: torch.inverse(a),
    "inv_ex": lambda a, b: torch.linalg.inv_ex(a),
    "det": lambda a, b: torch.det(a),
    "logdet": lambda a, b: torch.logdet(a @ a.mT),
    "slogdet": lambda a, b: torch.linalg.slogdet(a),
    "solve": lambda a, b: torch.linalg.solve(a, b),
    "solve a vector": lambda a, b: torch.linalg.solve(a, b[..., 0]),
    "solve from the right": lambda a, b: torch.linalg.solve(a, b.mT, left=False),
    "solve_ex": lambda a, b: torch.linalg.solve_ex(a, b),
    "cholesky": lambda a, b: torch.linalg.cholesky(a @ a.mT),
    "cholesky_ex, upper": lambda a, b: torch.linalg.cholesky_ex(a @ a.mT, upper=True),
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, torch.tril(a)),
    "cholesky_solve, upper": lambda a, b: torch.cholesky_solve(b, torch.triu(a), upper=True),
    "cholesky of torch": lambda a, b: torch.cholesky(a @ a.mT),
    "cholesky of torch, upper": lambda a, b: torch.cholesky(a @ a.mT, upper=True),
    "cholesky_inverse": lambda a, b: torch.cholesky_inverse(torch.tril(a)),
    "cholesky_inverse, upper": lambda a, b: torch.cholesky_inverse(torch.triu(a), upper=True),
    "matrix_exp": lambda a, b: torch.linalg.matrix_exp(a / a.shape[-1]),
    "solve_triangular": lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
    "solve_triangular from the right": lambda a, b: torch.linalg.solve_triangular(a, b.mT, upper=False, left=False),
    "solve_triangular, unit": lambda a, b: torch.linalg.solve_triangular(a / 64, b, upper=False, unitriangular=True),
    "triangular_solve": lambda a, b: torch.triangular_solve(b, a, upper=False, transpose=True),
    "lu_factor": lambda a, b: torch.linalg.lu_factor(a),
    "lu_factor_ex, wide": lambda a, b: torch.linalg.lu_factor_ex(torch.cat([a, b], -1)),
    "lu_factor_ex, tall": lambda a, b: torch.linalg.lu_factor_ex(torch.cat([a, b], -1).mT),
    "lu": lambda a, b: torch.linalg.lu(a),
    "lu, wide": lambda a, b: torch.linalg.lu(torch.cat([a, b], -1)),
    "lu, tall": lambda a, b: torch.linalg.lu(torch.cat([a, b], -1).mT),
    "lu_unpack, tall": lambda a, b: torch.lu_unpack(*torch.linalg.lu_factor_ex(torch.cat([a, b], -1).mT)[:2]),
    "lu_unpack without pivots": lambda a, b: torch.lu_unpack(*torch.linalg.lu_factor_ex(a)[:2], unpack_pivots=False),
    "lu_solve": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor_ex(a)[:2], b),
    "lu_solve, adjoint": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor_ex(a)[:2], b, adjoint=True),
    "lu_solve from the right": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor_ex(a)[:2], b.mT, left=False),
    "lu_solve of torch": lambda a, b: torch.lu_solve(b, *torch.linalg.lu_factor_ex(a)[:2]),
    "householder_product": lambda a, b: torch.linalg.householder_product(a / 16, b[..., 0]),
    "orgqr, tall": lambda a, b: torch.orgqr(b / 16, b[..., 0, :]),
    "ormqr": lambda a, b: torch.ormqr(a / 16, b[..., 0], b),
    "ormqr, transposed": lambda a, b: torch.ormqr(a / 16, b[..., 0], b, transpose=True),
    "ormqr from the right": lambda a, b: torch.ormqr(a / 16, b[..., 0], b.mT, left=False),
    "ormqr from the right, transposed": lambda a, b: torch.ormqr(a / 16, b[..., 0], b.mT, left=False, transpose=True),
    "qr": lambda a, b: torch.linalg.qr(a),
    "qr, tall": lambda a, b: torch.linalg.qr(b),
    "qr, wide": lambda a, b: torch.linalg.qr(b.mT),
    "qr, complete": lambda a, b: torch.linalg.qr(b, mode="complete"),
    "qr, r": lambda a, b: torch.linalg.qr(a, mode="r"),
}
WAYS = ["ahead of time", "just in time"]


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, a, b):
        # Work of its own, so that a segment pays.
        return self.function(a * 1, b + 0)


def matrices(batch, n, dtype=torch.float32, columns=3):
    """Well conditioned, with rows in random order, so that pivots move."""
    torch.manual_seed(n)
    return torch.randn(*batch, n, n, dtype=dtype) + 4 * n**0.5 * torch.eye(n, dtype=dtype)[torch.randperm(n)], torch.randn(*batch, n, columns, dtype=dtype)


def triangles(name, a):
    """Triangular solutions need a diagonal that is not small."""
    return a + 4 * a.shape[-1] ** 0.5 * torch.eye(a.shape[-1], dtype=a.dtype) if "triangular" in name or "cholesky_solve" in name or "cholesky_inverse" in name else a


def run(function, way, a, b):
    """The results and, ahead of time, the operators that stay in torch."""
    torch._dynamo.reset()
    with torch.no_grad():
        if way == "just in time":
            return torch.compile(Model(function), backend="ingot")(a, b), set()
        module = ingot.compile(Model(function), inputs=[a, b])
        return module(a, b), {n["target"] for n in module.report.nodes if n["segment"] is None}


def compare(function, results, a, b):
    flat = lambda x: list(x) if isinstance(x, tuple) else [x]  # noqa: E731
    with torch.no_grad():
        eager, exact = flat(function(a, b)), flat(function(a.double(), b.double()))
    for result, theirs, right in zip(flat(results), eager, exact, strict=True):
        steps = [[s for s, n in zip(x.stride(), x.shape) if n > 1] for x in (result, theirs)]
        assert steps[0] == steps[1] or result.numel() == 0
        if theirs.dtype is torch.float64:
            torch.testing.assert_close(result, theirs, rtol=1e-11, atol=1e-11 * max(1, theirs.abs().max().item() if theirs.numel() else 1))
        else:
            assert_accurate(result, theirs, right, depth=max(a.shape[-1] ** 2, 16))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.one_in(10)
def test_beside_eager(name, way):
    for n, dtype in ((3, torch.float32), (4, torch.float64), (16, torch.float32)):
        a, b = matrices((2, 40), n, dtype)
        a = triangles(name, a)
        results, by_torch = run(FUNCTIONS[name], way, a, b)
        compare(FUNCTIONS[name], results, a, b)
        assert not by_torch


@pytest.mark.parametrize("name", ["inv_ex", "slogdet", "solve_ex", "cholesky", "solve_triangular", "lu", "lu_solve", "householder_product", "qr"])
@pytest.mark.one_in(3)
def test_sizes(name):
    for n in (1, 2, 5, 8, 9, 31, 32):
        a, b = matrices((9,), n)
        a = triangles(name, a)
        results, by_torch = run(FUNCTIONS[name], "ahead of time", a, b)
        compare(FUNCTIONS[name], results, a, b)
        assert not by_torch


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["inv", "det", "solve", "cholesky", "lu", "lu_solve", "ormqr", "qr"])
@pytest.mark.one_in(4)
def test_batches(name, way):
    """Batches of several sizes by one engine: none, one, and what does not fill a vector."""
    function = FUNCTIONS[name]
    a, b = matrices((6,), 4)
    torch._dynamo.reset()
    with torch.no_grad():
        if way == "just in time":
            module = torch.compile(Model(function), backend="ingot", dynamic=True)
        else:
            size = torch.export.Dim("size", min=0, max=5000)
            module = ingot.compile(Model(function), inputs=[a, b], dynamic_shapes=({0: size}, {0: size}))
        for count in (6, 1, 17, 0, 1000):
            a, b = matrices((count,), 4)
            compare(function, module(a, b), a, b)


@pytest.mark.parametrize("name", ["inv_ex", "det", "solve_ex", "solve_triangular", "lu_factor_ex, wide", "lu_solve", "ormqr", "qr"])
@pytest.mark.one_in(4)
def test_layouts(name):
    function = FUNCTIONS[name]
    a, b = (triangles(name, x) if x.shape[-1] == x.shape[-2] else x for x in matrices((3, 4), 5))
    both = {
        "transposed": (a.mT.contiguous().mT, b.mT.contiguous().mT),
        "batch inside": (a.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1), b.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0)),
        "with gaps": (torch.nn.functional.pad(a, (1, 2, 0, 1))[..., :5, 1:6], torch.nn.functional.pad(b, (0, 3))[..., :3]),
        "expanded": (a[:1].expand(3, 4, 5, 5), b[:, :1].expand(3, 4, 5, 3)),
    }
    for layout, (x, y) in both.items():
        for way in WAYS:
            assert layout == "expanded" or x.stride() != a.stride()
            compare(function, run(function, way, x, y)[0], x, y)


@pytest.mark.parametrize("way", WAYS)
def test_batches_that_broadcast(way):
    a, b = matrices((4,), 6)
    for function, x, y in (
        (torch.linalg.solve, a[0], b),
        (torch.linalg.solve, a, b[0]),
        (torch.linalg.solve, a[:1], b.expand(2, 4, 6, 3)),
        (torch.linalg.solve_ex, a, b.expand(2, 4, 6, 3)),
        (torch.cholesky_solve, a[0] @ a[0].mT, b.mT[:, :1].expand(4, 6, 6)),
    ):
        if function is torch.cholesky_solve:
            function, x, y = (lambda p, q: torch.cholesky_solve(q, torch.linalg.cholesky_ex(p)[0])), x, b
        compare(function, run(function, way, x, y)[0], x, y)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["inv", "solve", "cholesky", "cholesky of torch", "lu_factor"])
@pytest.mark.one_in(3)
def test_the_errors_are_eager_s(name, way):
    """The engine raises what eager raises, wherever the singular matrix is."""
    factors = {"cholesky": torch.linalg.cholesky, "cholesky of torch": torch.cholesky}
    function = (lambda a, b: factors[name](a)) if name in factors else FUNCTIONS[name]
    a, b = matrices((7,), 4)
    a = a @ a.mT
    a[5, 1] = a[5, :, 1] = 0
    for x, y in ((a, b), (a[5], b[0])):
        with pytest.raises(RuntimeError) as eager:
            function(x, y)
        with pytest.raises(ingot.SingularError) as ours:
            run(function, way, x, y)
        assert isinstance(ours.value, type(eager.value)) and ours.value.message == str(eager.value)
    a[5] = torch.eye(4)
    compare(function, run(function, way, a, b)[0], a, b)


@pytest.mark.parametrize("way", WAYS)
def test_exponentials_of_all_sizes(way):
    """Each matrix is squared as often as its own norm says."""
    a, b = matrices((5,), 4)
    a = a.double() * torch.tensor([0, 1e-9, 0.1, 1, -8]).double()[:, None, None]
    function = lambda a, b: (torch.linalg.matrix_exp(a), torch.matrix_exp(b @ b.mT / 100)[:0])  # noqa: E731
    for x in (a, a[:3], a[:1], a[:0]):
        compare(function, run(function, way, x, b[: len(x)].double())[0], x, b[: len(x)].double())


def test_beside_a_part_in_torch_torch_checks():
    a = torch.eye(4).repeat(3, 1, 1)
    with torch.no_grad():
        module = ingot.compile(Model(lambda a, b: torch.linalg.inv(a).relu()), inputs=[a, a], torch_executed_ops=["relu"])
        torch.testing.assert_close(module(a, a), a)
        a[2] = 0
        with pytest.raises(torch.linalg.LinAlgError, match=r"Batch element 2\): The diagonal element 1 is zero"):
            module(a, a)


@pytest.mark.parametrize("name", ["inv", "cholesky"])
def test_a_file_checks(name, tmp_path):
    a, b = matrices((3,), 4)
    with torch.no_grad():
        ingot.save(ingot.compile(Model(FUNCTIONS[name]), inputs=[a, b], fallback="error"), tmp_path / "model.ingot")
        module = ingot.load(tmp_path / "model.ingot")
        torch.testing.assert_close(module(a, b), FUNCTIONS[name](a, b), rtol=1e-3, atol=1e-4)
        with pytest.raises(ingot.SingularError, match=r"Batch element 0\)"):
            module(a * 0, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_singular_matrices_without_an_error(dtype):
    a, b = matrices((3,), 5, dtype)
    a[1] = 0
    a[2, 3] = a[2, 4] = 0
    for way in WAYS:
        results, _ = run(lambda a, b: (torch.det(a), *torch.linalg.slogdet(a), torch.linalg.inv_ex(a)[1], torch.linalg.cholesky_ex(a)[1]), way, a, b)
        eager = (torch.det(a), *torch.linalg.slogdet(a), torch.linalg.inv_ex(a)[1], torch.linalg.cholesky_ex(a)[1])
        for result, theirs in zip(results, eager):
            torch.testing.assert_close(result, theirs)


def test_numbers_that_are_not_finite():
    a, b = matrices((4,), 6)
    a[1, 2, 3] = float("nan")
    for way in WAYS:
        inverse, _ = run(lambda a, b: torch.linalg.inv_ex(a)[0], way, a, b)
        q, _ = run(lambda a, b: torch.linalg.qr(a)[0], way, a, b)
        for result, eager in ((inverse, torch.linalg.inv_ex(a)[0]), (q, torch.linalg.qr(a)[0])):
            assert result[1].isnan().any() and eager[1].isnan().any()
            torch.testing.assert_close(result[[0, 2, 3]], eager[[0, 2, 3]])


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_qr_of_tiny_and_huge_numbers(factor):
    a, b = matrices((4,), 6)
    for result, eager in zip(run(lambda a, b: torch.linalg.qr(a), "ahead of time", a * factor, b)[0], torch.linalg.qr(a * factor)):
        torch.testing.assert_close(result, eager, rtol=1e-5, atol=1e-5 * eager.abs().max().item())


@pytest.mark.parametrize("name", ["inv_ex", "det", "solve_ex", "cholesky_ex, upper", "solve_triangular", "qr"])
def test_larger_matrices_stay_in_torch(name):
    a, b = matrices((2,), 33)
    a = triangles(name, a)
    with torch.no_grad():
        module = ingot.compile(Model(FUNCTIONS[name]), inputs=[a, b])
        compare(FUNCTIONS[name], module(a, b), a, b)
    assert "matrices of 33 x 33: engines have sizes from 1 to 32" in str(module.report)


def test_an_open_size_stays_in_torch():
    a, b = matrices((2,), 5)
    with torch.no_grad():
        n = torch.export.Dim("n", min=2, max=30)
        module = ingot.compile(Model(FUNCTIONS["inv_ex"]), inputs=[a, b], dynamic_shapes=({1: n, 2: n}, {1: n}))
        for n in (5, 7):
            compare(FUNCTIONS["inv_ex"], module(*matrices((2,), n)), *matrices((2,), n))
    assert "whose size is open" in str(module.report)


@pytest.mark.parametrize("name", ["inv", "det", "qr", "cholesky"])
def test_halves_are_refused_as_by_eager(name):
    a, b = (x.half() for x in matrices((2,), 4))
    with pytest.raises(RuntimeError):
        FUNCTIONS[name](a, b)
    for way in WAYS:
        with pytest.raises(Exception, match="Half|half|Low precision|f16|float16"):
            run(FUNCTIONS[name], way, a, b)


def test_complex_numbers_stay_right():
    a = torch.randn(3, 4, 4, dtype=torch.complex64)
    with torch.no_grad():
        module = ingot.compile(Model(lambda a, b: torch.linalg.inv_ex(a)[0]), inputs=[a, a])
        torch.testing.assert_close(module(a, a), torch.linalg.inv_ex(a)[0])

"""`Session.run` on numpy arrays: a call like the last one takes its C structs, any other makes new ones."""

import gc
import sys
import weakref

import numpy as np
import pytest
import torch

import ingot


class Two(torch.nn.Module):
    def forward(self, x, y):
        return x + y, x * 2


@pytest.fixture(scope="module")
def engine():
    shapes = {"min_shape": (1, 3), "opt_shape": (2, 3), "max_shape": (8, 3), "shared_dims": {0: "n"}}
    return ingot.compile(Two(), [ingot.Input(**shapes, name="x"), ingot.Input(**shapes, name="y")]).engine


def arrays(rows, seed=0):
    made = np.random.default_rng(seed)
    return [made.standard_normal((rows, 3)).astype("float32") for _ in range(2)]


def check(results, x, y):
    assert [r.dtype for r in results] == [np.float32] * 2
    np.testing.assert_array_equal(results[0], x + y)
    np.testing.assert_array_equal(results[1], x * 2)


def calls(session, *given, **named):
    """The names of the library's functions and of Python's that a call reaches."""
    names = []

    def note(frame, event, function):
        if event == "call":
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        session.run(*given, **named)
    finally:
        sys.setprofile(None)
    return names


def test_sizes_that_change(engine):
    session = engine.session()
    for number, rows in enumerate((2, 2, 3, 3, 2, 8, 1, 1)):
        check(session.run(*arrays(rows, number)), *arrays(rows, number))


def test_a_call_like_the_last_one_is_short(engine):
    session, (x, y) = engine.session(), arrays(2)
    assert "fill" in calls(session, x, y)
    for given in ((x, y), tuple(arrays(2, 1))):
        assert "fill" not in calls(session, *given)
    assert "fill" not in calls(session, x=x, y=y) and "fill" not in calls(session, None, {"y": y, "x": x}) and "fill" not in calls(session, [x, y])
    assert "fill" in calls(session, *arrays(3))


@pytest.mark.parametrize("of", ["torch", "list", "columns", "backwards", "broadcast", "swapped bytes", "read-only", "a subclass"])
def test_other_values_after_plain_ones(engine, of):
    session, (x, y) = engine.session(), arrays(2)
    session.run(x, y)
    other = {
        "torch": torch.from_numpy(y), "list": list(y), "columns": np.asfortranarray(y), "backwards": y[::-1], "broadcast": np.broadcast_to(y[:1], y.shape),
        "swapped bytes": y.astype(">f4"), "read-only": y.copy(), "a subclass": y.view(np.matrix),
    }[of]  # fmt: skip
    if of == "read-only":
        other.flags.writeable = False
    for _ in range(2):
        check(session.run(x, other), x, np.asarray(other, "float32"))
        check(session.run(x, y), x, y)


def test_values_that_do_not_fit_after_plain_ones(engine):
    session, (x, y) = engine.session(), arrays(2)
    for _ in range(2):
        session.run(x, y)
        with pytest.raises(ingot.InputError, match="is float64"):
            session.run(x, y.astype("float64"))
        with pytest.raises(ingot.InputError):
            session.run(x, arrays(3)[0])
        with pytest.raises(ingot.InputError):
            session.run(x)


def test_results_in_the_callers_arrays(engine):
    session, (x, y) = engine.session(), arrays(2)
    session.run(x, y)
    out = [np.empty((2, 3), "float32") for _ in range(2)]
    for given in (out, [out[0], torch.empty(2, 3)], tuple(out)):
        made = session.run(x, y, out=given)
        assert all(a is b for a, b in zip(made, given))
        check([np.asarray(m) for m in made], x, y)
    fixed = np.empty((2, 3), "float32")
    fixed.flags.writeable = False
    for wrong in ([fixed, out[1]], [out[0]], [out[0], np.empty((2, 3))], [out[0], np.empty((3, 2), "float32").T]):
        with pytest.raises(ingot.InputError):
            session.run(x, y, out=wrong)


def test_results_are_new_each_time_and_nothing_is_kept(engine):
    session, (x, y) = engine.session(), arrays(2)
    first, second = session.run(x, y), session.run(y, x)
    assert not np.shares_memory(first[0], second[0])
    check(first, x, y)
    seen = [weakref.ref(a) for a in (x, y, *first)]
    del x, y, first, second
    gc.collect()
    assert not any(ref() is not None for ref in seen)


def test_inputs_in_one_list(engine):
    session, (x, y) = engine.session(), arrays(2)
    for given in ([x, y], (x, y)):
        check(session.run(given), x, y)
    one = ingot.compile(torch.nn.ReLU(), torch.randn(2, 3)).engine.session()
    for given in ([x], [torch.from_numpy(x)], list(x), x):
        np.testing.assert_array_equal(one.run(given)[0], np.maximum(x, 0))


def test_a_state_of_other_sizes_between(engine):
    class Cache(torch.nn.Module):
        def forward(self, x, cache):
            cache[: x.shape[0]] = x
            return cache.sum(0)

    made = ingot.compile(Cache(), [torch.randn(2, 3), torch.zeros(4, 3)]).engine
    session, x = made.session(), arrays(2)[0]
    for _ in range(3):
        cache = np.zeros((4, 3), "float32")
        np.testing.assert_allclose(session.run(x, cache)[0], x.sum(0), rtol=1e-6)
        assert (cache[:2] == x).all()
        state = made.new_state()
        np.testing.assert_allclose(session.run(x, state=state)[0], x.sum(0), rtol=1e-6)

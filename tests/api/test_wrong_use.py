"""Wrong use of the C interface gives a status with a message: never a crash, and never INGOT_INTERNAL."""

import ctypes
import re
from ctypes import byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path

import numpy as np
import pytest
import torch

import ingot
from ingot.engine import _library, _values

HEADER = (Path(__file__).resolve().parents[2] / "include/ingot/ingot.h").read_text()
FUNCTIONS = {name: parameters for name, parameters in re.findall(r"INGOT_API ingot_status (\w+)\(([^)]*)\)", HEADER)}
KINDS = {"int": c_int, "int32_t": c_int, "uint32_t": c_uint32, "size_t": c_size_t, "int64_t": c_int64, "double": c_double, "ingot_trust": c_int, "ingot_dtype": c_int, "ingot_progress": c_void_p, "ingot_output_memory": c_void_p}


def types_of(parameters):
    return [c_void_p if "*" in p else KINDS[p.split()[0]] for p in parameters.split(", ")]


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen += 1
        return self.linear(x) + self.seen


class Library:
    """The functions of ingot.h with the header's argument types, independent of the types that ingot's own Python has set."""

    def __init__(self):
        _library.lib()
        self.library = ctypes.CDLL(_library.find("libingot.so.0"))
        self.library.ingot_last_error.restype = ctypes.POINTER(_library.Error)

    def __call__(self, name, *arguments):
        function = ctypes.CFUNCTYPE(c_int, *types_of(FUNCTIONS[name]))((name, self.library))
        status = function(*(ctypes.cast(a, c_void_p) if isinstance(a, (ctypes.Array, bytes)) or hasattr(a, "contents") else a for a in arguments))
        return status, self.library.ingot_last_error().contents.message.decode() if status else ""

    def made(self, name, *arguments):
        out = c_void_p()
        assert self(name, *arguments, byref(out)) == (0, "")
        return out


@pytest.fixture(scope="module")
def library():
    return Library()


@pytest.fixture(scope="module")
def plan_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "m.ingot"
    ingot.save(ingot.compile(Counts().eval().requires_grad_(False), inputs=[ingot.Input(min_shape=(0, 8), opt_shape=(3, 8), max_shape=(2**50, 8), name="x")]), path)
    return path.read_bytes()


@pytest.fixture
def plan(library, plan_bytes):
    plan = library.made("ingot_plan_load_memory", plan_bytes, len(plan_bytes))
    yield plan
    library.library.ingot_plan_release(plan)


def tensor(array, dtype=8, **other):
    made = _values.Tensor()
    made.keep = (array, (c_int64 * 24)(*other.pop("dims", array.shape)), (c_int64 * 24)(*other.pop("strides", [s // array.itemsize for s in array.strides])))
    made.data, made.dtype, made.rank = array.ctypes.data, dtype, array.ndim
    made.dims, made.strides = (ctypes.cast(a, ctypes.POINTER(c_int64)) for a in made.keep[1:])
    for name, value in other.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("ingot_set_library_folders", "ingot_set_log", "ingot_set_step_watch")])  # which take none
def test_null(library, name):
    status, message = library(name, *(None if kind in (c_void_p, c_char_p) else kind(0) for kind in types_of(FUNCTIONS[name])))
    assert status == 3 and (message.startswith("argument ") or name in ("ingot_measure_machine", "ingot_measure_rates") and message.endswith("are possible"))


X, Y = np.ones((3, 8), np.float32), np.zeros((3, 8), np.float32)
TENSORS = {  # input, output, the messages of the session and of the reference; None: no error
    "good": (tensor(X), tensor(Y), None),
    "no data": (tensor(X, data=None), tensor(Y), "has no data: its pointer is NULL"),
    "no memory": (tensor(X), tensor(Y, data=None), "has no memory: its pointer is NULL"),
    "no sizes": (tensor(X, dims=[], rank=2), tensor(Y), ""),
    "dims is NULL": (tensor(X), tensor(Y), "tensor 0 has rank 2 and no sizes: dims is NULL"),
    "rank": (tensor(X, rank=-1), tensor(Y), "tensor 0 has rank -1: 0 to 24 are possible"),
    "large rank": (tensor(X, rank=2**31 - 1), tensor(Y), "tensor 0 has rank 2147483647: 0 to 24 are possible"),
    "another rank": (tensor(X, rank=1), tensor(Y), "has rank 1"),
    "dtype": (tensor(X, dtype=10), tensor(Y), "tensor 0 has the unknown dtype 10"),
    "another dtype": (tensor(X, dtype=9), tensor(Y), 'input "x" is '),
    "a negative size": (tensor(X, dims=[-3, 8]), tensor(Y), "tensor 0 has size -3 on axis 0"),
    "a size beyond the range": (tensor(X, dims=[2**63 - 1, 8]), tensor(Y), "9223372036854775807, outside"),
    "sizes beyond memory": (tensor(X, dims=[2**50, 8]), tensor(Y), ""),
    "another size": (tensor(X, dims=[3, 2**62]), tensor(Y), "has size 4611686018427387904"),
    "other strides of the output": (tensor(X), tensor(Y, strides=[1, 3]), "row-major strides of the result"),
    "another shape of the output": (tensor(X), tensor(Y, dims=[8, 3]), "row-major strides of the result"),
}
TENSORS["dims is NULL"][0].dims = ctypes.POINTER(c_int64)()


@pytest.mark.parametrize("case", TENSORS)
@pytest.mark.parametrize("by", ["session", "reference"])
def test_tensors(library, plan, case, by):
    given, result, said = TENSORS[case]
    inputs, outputs = (_values.Tensor * 1)(given), (_values.Tensor * 1)(result)
    if by == "reference":
        status, message = library("ingot_plan_reference", plan, 0, inputs, 1, outputs, 1)
    else:
        weights = library.made("ingot_weights_create", plan, None)
        session = library.made("ingot_session_create", plan, weights, 0, None)
        status, message = library("ingot_session_run_with", session, inputs, 1, outputs, 1)
        library.library.ingot_session_release(session)
        library.library.ingot_weights_release(weights)
    assert status == 0 if said is None else status in (3, 7) and said in message


def test_counts(library, plan):
    inputs, outputs = (_values.Tensor * 2)(tensor(X), tensor(X)), (_values.Tensor * 2)(tensor(Y), tensor(Y))
    assert library("ingot_plan_reference", plan, 0, inputs, 2, outputs, 1)[0] == 3
    assert library("ingot_plan_reference", plan, 0, inputs, 1, outputs, 2)[0] == 3
    assert library("ingot_plan_reference", plan, 0, None, 0, outputs, 1)[0] == 3
    assert library("ingot_plan_reference", plan, 7, inputs, 1, outputs, 1) == (3, "there is no function 7: the plan has 1, counted from 0")


def test_texts(library, tmp_path):
    source = (_values.WeightSource * 1)()
    assert library("ingot_model_from_memory", b"{}", 2, source, 1, byref(c_void_p())) == (3, "argument name is NULL")
    torch.export.save(torch.export.export(Counts(), (torch.ones(3, 8),)), tmp_path / "m.pt2")
    model = library.made("ingot_model_open", bytes(tmp_path / "m.pt2"))
    assert library("ingot_model_set_signature", model, b"a\xff") == (3, "the signature is not UTF-8 text at its byte 1, and files of plans hold UTF-8")
    library.library.ingot_model_release(model)


def test_no_name_is_no_weight(library, plan):
    """Weights that are not tied have an empty text for the other's name."""
    weights = library.made("ingot_weights_create", plan, None)
    state = library.made("ingot_state_create", plan, weights)
    values, source = np.zeros(64, np.float32), (_values.WeightSource * 1)()
    at = c_void_p(values.ctypes.data)
    source[0].name, source[0].data, source[0].bytes = b"", values.ctypes.data, 256
    assert library("ingot_weights_set", weights, b"", at, 256, None, 1) == (3, 'the plan has no weight ""')
    assert library("ingot_plan_with_weights", plan, source, 1, byref(c_void_p())) == (3, 'the plan has no weight ""')
    assert library("ingot_state_read", state, b"", at, 32) == (3, 'the state has no entry ""')
    library.library.ingot_state_release(state)
    library.library.ingot_weights_release(weights)


def test_a_limit_of_memory_is_a_number_of_bytes_on_the_cpu_too(library, plan):
    weights = library.made("ingot_weights_create", plan, None)
    assert [library("ingot_weights_set_memory", weights, limit)[0] for limit in (0, -1, -2, -(2**63), 1)] == [0, 0, 4, 4, 4]
    library.library.ingot_weights_release(weights)


def test_products_are_added_on_a_gpu(library, plan):
    weights, sizes, memory = library.made("ingot_weights_create", plan, None), (c_int64 * 3)(8, 8, 2), (c_void_p * 4)()
    for dtype, m, count, code, text in ((8, 8, 1, 2, "on the host"), (5, 8, 1, 3, "floating-point types, and type 5"), (99, 8, 1, 3, "type 99"), (8, -1, 1, 3, "sizes -1, 8 and 2")):
        sizes[0] = m
        status, message = library("ingot_weights_add_products", weights, dtype, sizes, memory, count, None)
        assert text in message and status == code
    library.library.ingot_weights_release(weights)


def test_measuring_has_limits(library):
    for threads, seconds in ((-1, 1.0), (2**31 - 1, 0.01), (1, float("nan")), (1, float("inf"))):
        for name in ("ingot_measure_machine", "ingot_measure_rates"):
            status, message = library(name, threads, seconds, byref(c_void_p()))
            assert status == 3 and message.endswith("0 to 1024 and up to 60 are possible")


def test_a_failure_leaves_the_results_alone(library, plan):
    weights = library.made("ingot_weights_create", plan, None)
    session = library.made("ingot_session_create", plan, weights, 0, None)
    assert library("ingot_session_resolve", session, (_values.Tensor * 1)(tensor(X)), 1)[0] == 0
    rank = ctypes.c_int32(77)
    assert library("ingot_session_output", session, 0, byref(rank), None) == (3, "argument dims is NULL") and rank.value == 77
    library.library.ingot_session_release(session)
    library.library.ingot_weights_release(weights)


def test_files_cut_off_anywhere_and_headers_with_a_bit_turned(library, plan_bytes):
    damaged = [plan_bytes[:n] for n in range(len(plan_bytes))]
    damaged += [plan_bytes[:n] + bytes([plan_bytes[n] ^ 1 << bit]) + plan_bytes[n + 1 :] for n in range(64) for bit in range(8)]
    for data in damaged:
        status, message = library("ingot_plan_load_memory", data, len(data), byref(c_void_p()))
        assert status in (5, 6) and message

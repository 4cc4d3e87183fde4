"""The exact text, code and class of each error that a user can meet, through Python and through the command line."""

import copy
import os
import pickle
import re
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import ingot
from ingot import errors
from ingot.capture import composites
from ingot.engine import _library

HERE = Path(__file__)
REPAIR = "give a plan that `ingot compile` or ingot.save wrote; copy or compile a damaged one again"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x, y):
        return self.linear(x) + y


class Unsupported(torch.nn.Module):
    def forward(self, x):
        a = torch.special.airy_ai(x)
        b = torch.linalg.eigvalsh(x)
        return a + b + torch.special.airy_ai(a)


class Branches(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Plus(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Viewed(torch.nn.Module):
    def forward(self, x):
        return x.t().view(6)


class Halved(torch.nn.Module):
    def forward(self, x):
        return x.to(torch.float32) / 2


def line(text):
    """`file:line: `code`` of the first line of this file that holds the text."""
    for number, code in enumerate(HERE.read_text().splitlines(), 1):
        if text in code:
            return f"{HERE}:{number}: `{code.strip()}`"


def ranged(*tail, high=8, **more):
    return ingot.Input(min_shape=(1, *tail), opt_shape=(2, *tail), max_shape=(high, *tail), **more)


@pytest.fixture(scope="module")
def model():
    return ingot.compile(Model().eval(), inputs=[ranged(4, shared_dims={0: "B"}), ranged(3, shared_dims={0: "B"})])


@pytest.fixture(scope="module")
def plan(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "model.ingot"
    ingot.save(model, path)
    return path


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "model.pt2"
    size = torch.export.Dim("batch", min=2, max=8)
    torch.export.save(torch.export.export(Model().eval(), (torch.zeros(2, 4), torch.zeros(2, 3)), dynamic_shapes=({0: size}, {0: size})), path)
    return path


def told(kind, call):
    """The (message, origin, remedy) of the error, which must be of exactly this class. Its text consists of these three only."""
    with pytest.raises(ingot.Error) as caught:
        call()
    error = caught.value
    assert type(error) is kind
    shown = error.message
    if error.origin and error.origin not in error.message:
        shown += f"\n  at {error.origin}"
    if error.remedy:
        shown += f"\n  remedy: {error.remedy}"
    assert str(error) == shown
    return error.message, error.origin, error.remedy


def cli(*arguments):
    binary = os.environ.get("INGOT_CLI", HERE.parents[2] / "build" / "release" / "ingot")
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    assert done.stdout == ""
    return done.returncode, done.stderr


def shown(message, origin="", remedy=""):
    return f"ingot: {message}\n" + (f"  at {origin}\n" if origin else "") + (f"  remedy: {remedy}\n" if remedy else "")


# ---- classes


def test_codes_are_those_of_the_c_header():
    header = (HERE.parents[2] / "include/ingot/ingot.h").read_text()
    names = {  # by the words of the header
        "INTERNAL": "InternalError", "UNSUPPORTED": "UnsupportedError", "INVALID_INPUT": "InputError", "INVALID_OPTION": "OptionError",
        "FORMAT": "FormatError", "VERSION": "VersionError", "OUT_OF_MEMORY": "MemoryError", "DEVICE": "DeviceError",
        "ACCURACY": "AccuracyError", "CANCELLED": "CancelledError", "IO": "IoError", "SINGULAR": "SingularError",
    }  # fmt: skip
    codes = re.findall(r"INGOT_([A-Z_]+) = (\d+),?\s*(?:/\*|\n)", header.split("} ingot_status;")[0])
    assert {name for name, _ in codes} == {"OK", *names}
    for name, code in codes:
        if name != "OK":
            assert type(errors.by_code(int(code), "text")) is getattr(ingot, names[name])


# ---- models


def test_every_missing_operator_with_its_lines():
    assert told(ingot.UnsupportedError, lambda: ingot.compile(Unsupported(), inputs=[ingot.Input((4, 4))], fallback="error")) == (
        "2 operators of the model are not supported:\n"
        "  aten.special_airy_ai.default: the operator table has no definition of it\n"
        f"    at {line('a = torch.special.airy_ai')}\n"
        f"    at {line('return a + b + torch')}\n"
        "  aten._linalg_eigh.default: the operator table has no definition of it\n"
        f"    at {line('b = torch.linalg')}",
        line("a = torch.special.airy_ai"),
        "Replace them in the model, or leave this part to PyTorch.",
    )


class ByVmap(torch.nn.Module):
    def forward(self, x):
        return torch.vmap(lambda row: row.softmax(-1).sum())(x)


class CastsInside(torch.nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x
        return y.float() + 1


@pytest.mark.parametrize("model, reason", [
    (ByVmap(), f"torch.vmap: its batches are not in the program\n    at {line('torch.vmap(lambda row')}"),
    (CastsInside(), "higher_order.wrap_with_autocast: a region of torch.autocast, whose casts are not in the program"),
])  # fmt: skip
def test_a_file_with_what_python_writes_out(tmp_path, model, reason):
    """One error, with what helps: both remedies make the plan."""
    x = torch.arange(16.0).reshape(4, 4) % 3  # bfloat16 holds its products exactly
    program = torch.export.export(model, (x,))
    torch.export.save(program, tmp_path / "m.pt2")
    code, text = cli("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.ingot")
    assert code != 0 and text.strip() == (
        f"ingot: 1 operator of the model is not supported:\n  {reason}\n"
        "  remedy: Save program.run_decompositions(), which writes it out; or ingot.compile(torch.export.load(file)) in Python, which takes it as it is."
    )
    torch.testing.assert_close(ingot.compile(torch.export.load(tmp_path / "m.pt2"), fallback="error")(x), model(x))
    torch.export.save(program.run_decompositions(), tmp_path / "m.pt2")
    assert cli("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.ingot")[0] == 0
    torch.testing.assert_close(ingot.load(tmp_path / "m.ingot")(x), model(x))


class AsManyGroups(torch.nn.Module):
    def forward(self, x, kernel):
        return torch.nn.functional.conv1d(x, kernel, groups=x.shape[1])


def test_a_number_that_follows_from_an_open_size():
    x, kernel = (ingot.Input(min_shape=low, opt_shape=opt, max_shape=high, shared_dims={axis: "C"}) for low, opt, high, axis in (((2, 2, 9), (2, 4, 9), (2, 8, 9), 1), ((2, 1, 3), (4, 1, 3), (8, 1, 3), 0)))
    assert told(ingot.UnsupportedError, lambda: ingot.compile(AsManyGroups(), inputs=[x, kernel], fallback="error"))[0] == (
        "1 operator of the model is not supported:\n"
        "  aten.conv1d.default: aten.conv1d.default: argument groups is not known at compile time: it follows from a size that is open. Give the axis that it follows from one size\n"
        f"    at {line('conv1d(x, kernel, groups')}"
    )
    fixed = ingot.compile(AsManyGroups(), inputs=[torch.rand(2, 4, 9), torch.rand(4, 1, 3)], fallback="error")
    x, kernel = torch.rand(2, 4, 9), torch.rand(4, 1, 3)
    torch.testing.assert_close(fixed(x, kernel), AsManyGroups()(x, kernel))


class Spectrum(torch.nn.Module):
    def forward(self, x):
        return torch.fft.fft(x).logcumsumexp(0).real


def test_a_file_with_complex_numbers(tmp_path):
    torch.export.save(torch.export.export(Spectrum(), (torch.randn(2, 8),)), tmp_path / "m.pt2")
    code, text = cli("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.ingot")
    assert code != 0 and text.splitlines()[1].strip() == "aten.logcumsumexp.default: the operator table has no definition of it for complex numbers"


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda z: torch.add(z, z, alpha=2j), "aten.add.Tensor: a complex alpha"),
        (lambda z: z.scatter(0, torch.zeros(1, 4, dtype=torch.int64), z[:1], reduce="multiply"), "aten.scatter.reduce: the operator table has no definition of it for complex numbers"),
    ],
    ids=["a factor", "a product of elements"],
)
def test_what_acts_on_no_part_alone(function, reason, tmp_path):
    class Model(torch.nn.Module):
        def forward(self, z):
            return function(z).abs()

    torch.export.save(torch.export.export(Model(), (torch.randn(3, 4, dtype=torch.complex64),)), tmp_path / "m.pt2")
    code, text = cli("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.ingot")
    assert code != 0 and text.splitlines()[1].strip() == reason


def test_the_same_through_torch_compile():
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(Unsupported(), backend="ingot", options={"fallback": "error"})(torch.zeros(4, 4))
    inner = caught.value.inner_exception
    assert type(inner) is ingot.UnsupportedError and inner.origin == line("a = torch.special.airy_ai")


@pytest.mark.parametrize("module, text", [(Branches(), "the model's code branches on a value that is known only when it runs")])
def test_data_dependent_branch(module, text):
    call = lambda: ingot.compile(module, inputs=[ingot.Input((4,))])  # noqa: E731
    assert told(ingot.UnsupportedError, call) == (
        text, line("return x if x.sum()"),
        'write it with tensor operations such as torch.where, or compile just in time: torch.compile(model, backend="ingot"), which leaves this line to Python',
    )  # fmt: skip


class Combinations(torch.nn.Module):
    def forward(self, x):
        return torch.combinations(x, 3)


def test_a_size_inside_an_operator_that_comes_from_data(monkeypatch):
    monkeypatch.delitem(composites._WRITTEN_HERE, torch.ops.aten.combinations.default)  # torch's own code selects by a mask
    text, where, remedy = told(ingot.UnsupportedError, lambda: ingot.compile(Combinations(), inputs=[torch.zeros(5)]))
    assert text == "torch.export does not take the model: a size inside one of its operators is known only when the model runs"
    assert where == line("return torch.combinations") and 'torch.compile(model, backend="ingot")' in remedy


class Packs(torch.nn.Module):
    """As Tacotron2 of torchaudio does."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        y = self.layer(packed)[0]
        return torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0]


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU])
def test_packed_sequences(layer):
    model = Packs(layer(4, 5, batch_first=True)).eval()
    text, where, remedy = told(ingot.UnsupportedError, lambda: ingot.compile(model, inputs=[torch.zeros(2, 3, 4), torch.tensor([3, 2])]))
    assert text == "the model packs sequences: how many of them each step has comes from their lengths, which are known only when it runs"
    assert where == line("y = self.layer(packed)[0]")
    assert remedy == (
        "give the recurrent layer the padded sequences instead of torch.nn.utils.rnn.pack_padded_sequence, or "
        'compile just in time: torch.compile(model, backend="ingot"), which leaves the layer to torch'
    )


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


class Boxed(torch.nn.Module):
    def forward(self, x):
        return Box(x + 1)


class Complains(torch.nn.Module):
    def forward(self, x):
        raise KeyError("a reason of the model's own")


def test_what_torch_export_does_not_take():
    """It has no form for a result of the model; the inputs are not at fault."""
    with pytest.raises(RuntimeError) as theirs:
        torch.export.export(Boxed(), (torch.zeros(2),))
    assert told(ingot.UnsupportedError, lambda: ingot.compile(Boxed(), inputs=[ingot.Input((2,))])) == (
        f"torch.export does not take the model: {str(theirs.value).strip()}",
        "",
        'leave out what it names (use_cache=False where it is a cache of transformers), or compile just in time: torch.compile(model, backend="ingot")',
    )
    assert (torch.compile(Boxed(), backend="ingot")(torch.zeros(2)).tensor == 1).all()  # the remedy holds


class RangeFromFalse(torch.nn.Module):
    def forward(self, x):
        return torch.arange(False, x.shape[0] * 2) + x.sum()


def test_sizes_that_torch_cannot_reckon_with():
    """A TypeError of torch's symbols is no exception of the model's."""
    said, where, remedy = told(ingot.UnsupportedError, lambda: ingot.compile(RangeFromFalse(), inputs=[ingot.Input(min_shape=(1,), opt_shape=(4,), max_shape=(8,))]))
    assert said.startswith("torch.export does not take the model: ") and where == line("torch.arange(False") and remedy


def test_the_models_own_exceptions_pass():
    with pytest.raises(KeyError, match="a reason of the model's own"):
        ingot.compile(Complains(), inputs=[ingot.Input((2,))])


@torch.enable_grad()
def test_a_call_that_needs_gradients():
    model = Model().eval()
    calls = [(torch.zeros(2, 4), torch.zeros(2, 3)), (torch.zeros(2, 4, requires_grad=True), torch.zeros(2, 3))]
    for frozen, (x, y) in zip((False, True), calls):
        torch._dynamo.reset()
        model.requires_grad_(not frozen)
        compiled = torch.compile(model, backend="ingot")
        result = compiled(x, y)
        assert result.requires_grad
        assert told(ingot.UnsupportedError, lambda: result.sum().backward()) == (
            'a gradient is asked for through a model that is compiled with backend="ingot", which is for inference alone',
            "",
            "train the model without torch.compile, or with another backend of it; under torch.no_grad() nothing asks for gradients",
        )
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                assert compiled(x, y).shape == (2, 3)


@torch.enable_grad()
def test_an_input_that_requires_gradients(model):
    x, y = torch.zeros(2, 4, requires_grad=True), torch.zeros(2, 3)
    assert told(ingot.InputError, lambda: model(x, y)) == (
        "an input requires gradients, but a compiled module computes none", "", "call it under torch.no_grad() or torch.inference_mode(), or give a detach()ed tensor")  # fmt: skip
    with torch.no_grad():
        assert torch.equal(model(x, y), model(x.detach(), y))


def test_an_input_of_torch_compile_has_the_users_name():
    from ingot.backend import ingot_backend

    made = []

    def backend(graph, examples):
        made.append(ingot_backend(graph, examples))
        return made[0]

    torch.compile(Plus(), backend=backend)(torch.zeros(2))
    assert made[0].engine.input_names == ["x"]


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fn])
def test_dtypes_outside_the_supported(dtype):
    inputs = [torch.zeros(2, dtype=torch.float32).to(dtype)]
    name = str(dtype).removeprefix("torch.")
    assert told(ingot.UnsupportedError, lambda: ingot.compile(Halved(), inputs=inputs, fallback="error")) == (
        f"1 operator of the model is not supported:\n  aten.to.dtype: x has dtype {name}, which is not supported\n    at {line('return x.to(torch.float32) / 2')}",
        line("return x.to(torch.float32) / 2"),
        "Replace them in the model, or leave this part to PyTorch.",
    )


def test_inputs_the_model_cannot_take():
    def compile(*inputs):
        return lambda: ingot.compile(Model(), inputs=inputs)

    assert told(ingot.InputError, compile(ingot.Input((2, 7)), ingot.Input((2, 3)))) == (
        "the model cannot be captured with these inputs: a and b must have same reduction dim, but got [2, 7] X [4, 3].",
        line("return self.linear(x) + y"),
        'give inputs that the model takes in eager PyTorch; if it takes these, compile just in time: torch.compile(model, backend="ingot")',
    )
    assert told(ingot.InputError, compile(ingot.Input((2, 4)))) == (
        "the inputs do not fit the model's forward: missing a required argument: 'y'",
        "",
        "give one input a parameter, in order or by name in kwarg_inputs",
    )


def test_shapes_that_eager_refuses_too():
    x = torch.randn(2, 3)
    with pytest.raises(RuntimeError):
        x.t().view(6)
    message, where, _ = told(ingot.InputError, lambda: ingot.compile(Viewed(), inputs=[x]))
    assert message.startswith("the model cannot be captured with these inputs: Cannot view a tensor with shape")
    assert where == line("return x.t().view(6)")


def test_contradicting_ranges():
    inputs = [ranged(4, shared_dims={0: "B"}, name="x"), ranged(3, high=9, shared_dims={0: "B"})]
    assert told(ingot.InputError, lambda: ingot.compile(Model(), inputs=inputs)) == (
        "dimension 'B' has two ranges: axis 0 of input 'x' is 1..2..8, axis 0 of inputs[1] is 1..2..9",
        "",
        "give both axes the same min, opt and max, or different names",
    )
    assert told(ingot.InputError, lambda: ingot.Input(min_shape=(3, 4), opt_shape=(2, 4), max_shape=(8, 4), name="x")) == (
        "input 'x': axis 0 has min 3, opt 2, max 8; min <= opt <= max must hold", "", "")  # fmt: skip


def test_ranges_beside_an_archive(archive):
    assert told(ingot.InputError, lambda: ingot.compile(archive, inputs=[ranged(4, high=9), ranged(3, high=9)])) == (
        "input x axis 0 was captured for sizes 1..8; 1..9 goes beyond", "", "Export with torch.export.Dim(..., min=1, max=9), or narrow the range.")  # fmt: skip
    assert told(ingot.InputError, lambda: ingot.compile(archive, inputs=[ranged(4)])) == (f"{archive} takes 2 tensors (x, y), but 1 is given", "", "")


# ---- calls


def arrays(*shapes, dtype=np.float32):
    return [np.zeros(s, dtype) for s in shapes]


WRONG_SIZES = [
    (((9, 4), (9, 3)), 'axis 0 of input "x" has size 9, outside the range 1..8 the plan was built for', "compile with a wider range for this axis"),
    (((0, 4), (0, 3)), 'axis 0 of input "x" has size 0, outside the range 1..8 the plan was built for', "compile with a wider range for this axis"),
    (((2, 5), (2, 3)), 'axis 1 of input "x" (shape [2, 5]) has size 5, but the plan was built for 4 there', "give this size, or compile with a range for this axis"),
    (((2, 4), (3, 3)), 'axis 0 of input "y" (shape [3, 3]) has size 3, but the sizes of the other inputs make it B = 2', "give inputs whose sizes agree"),
]


@pytest.mark.parametrize("shapes, message, remedy", WRONG_SIZES)
def test_sizes(model, shapes, message, remedy):
    assert told(ingot.InputError, lambda: model(*map(torch.zeros, shapes))) == (message, "", remedy)
    session = model.engine.session()
    assert told(ingot.InputError, lambda: session.run(*arrays(*shapes))) == (message, "", remedy)
    # The session is as good as new.
    assert session.run(*arrays((3, 4), (3, 3)))[0].shape == (3, 3)


def test_dtype(model):
    assert told(ingot.InputError, lambda: model(torch.zeros(2, 4, dtype=torch.float64), torch.zeros(2, 3))) == (
        "input 'x' is float64, but the engine takes float32", "", "convert it to float32")  # fmt: skip
    assert told(ingot.InputError, lambda: model(torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.complex64))) == (
        "input 'y' is complex64, but the engine takes float32", "", "convert it to float32")  # fmt: skip
    session = model.engine.session()
    assert told(ingot.InputError, lambda: session.run(*arrays((2, 4), (2, 3), dtype=np.float64))) == (
        'input "x" is float64, but the plan was built for float32', "", "convert it to float32")  # fmt: skip
    assert told(ingot.InputError, lambda: session.run(*arrays((2, 4), (2, 3), dtype=np.uint16))) == (
        "input 'x' is uint16, but the engine takes float32", "", "convert it to float32")  # fmt: skip


def test_rank(model):
    assert told(ingot.InputError, lambda: model(torch.zeros(4), torch.zeros(2, 3))) == ("input 'x' has rank 1, but the engine takes rank 2: [B, 4]", "", "")
    assert told(ingot.InputError, lambda: model.engine.session().run(*arrays((4,), (2, 3)))) == (
        'input "x" has rank 1 (shape [4]), but the plan was built for rank 2: [B, 4]', "", "")  # fmt: skip


def test_count(model):
    x, y = torch.zeros(2, 4), torch.zeros(2, 3)
    assert told(ingot.InputError, lambda: model(x)) == ("argument 'y' is missing; the model was compiled with the arguments x, y", "", "")
    assert told(ingot.InputError, lambda: model(x, y, y)) == ("the model takes 2 arguments, but 3 are given", "", "")
    assert told(ingot.InputError, lambda: model(x, z=y))[0].startswith("unexpected keyword argument 'z'")
    session = model.engine.session()
    assert told(ingot.InputError, lambda: session.run(x.numpy())) == ("the plan takes 2 inputs (x, y), but 1 is given", "", "")
    assert told(ingot.InputError, lambda: session.run(*[x.numpy()] * 3)) == ("the plan takes 2 inputs (x, y), but 3 are given", "", "")


def test_not_a_cpu_tensor(model):
    assert told(ingot.InputError, lambda: model(torch.zeros(2, 4), 3)) == ("input 'y' is of type int, but the engine takes a tensor there", "", "")
    assert told(ingot.InputError, lambda: model(torch.zeros(2, 4, device="meta"), torch.zeros(2, 3))) == (
        "input 'x' is on the meta device, which holds no values", "", "give one with values")  # fmt: skip
    assert told(ingot.InputError, lambda: model(torch.zeros(2, 4).to_sparse(), torch.zeros(2, 3))) == (
        "input 'x' has layout sparse_coo, but the engine takes strided tensors", "", "give x.to_dense()")  # fmt: skip


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_copies_of_a_compiled_module(model, copied):
    assert told(ingot.UnsupportedError, lambda: copied(model)) == (
        "a compiled module is neither copied nor pickled", "", "ingot.save it and ingot.load the file; for a copy with other weights compile the model again")  # fmt: skip


@pytest.mark.parametrize("out, message", [
    (arrays((2, 4)), 'the tensor given for output "add" (float32 [2, 4]) does not have the dtype, shape and row-major strides of the result'),
    (arrays((2, 3), dtype=np.float16), 'the tensor given for output "add" (float16 [2, 3]) does not have the dtype, shape and row-major strides of the result'),
    ([np.zeros((3, 2), np.float32).T], 'the tensor given for output "add" (float32 [2, 3]) does not have the dtype, shape and row-major strides of the result'),
    ([np.frombuffer(bytes(24), np.float32).reshape(2, 3)], "the array given for output 'add' is read-only or in another byte order"),
    (arrays((2, 3), (2, 3)), "the plan gives 1 output (add), but room for 2 are given"),
])  # fmt: skip
def test_room_for_outputs(model, out, message):
    before = [a.copy() for a in out]
    assert told(ingot.InputError, lambda: model.engine.session().run(*arrays((2, 4), (2, 3)), out=out)) == (message, "", "")
    assert all((a == b).all() for a, b in zip(out, before))


def test_byte_order_is_understood(model):
    x, y = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32), np.zeros((2, 3), np.float32)
    session = model.engine.session()
    assert (session.run(x.astype(">f4"), y)[0] == session.run(x, y)[0]).all()


def test_weights(model):
    assert told(ingot.InputError, lambda: model.update_weights({"nope": torch.zeros(3)})) == ("the engine has no weight 'nope'", "", "")
    assert told(ingot.InputError, lambda: model.update_weights({"linear.bias": torch.zeros(4)})) == (
        "weight 'linear.bias' is float32 [4], but the engine was built for float32 [3]", "", "")  # fmt: skip


def test_no_such_function(model):
    assert told(ingot.InputError, lambda: model.engine.session(3)) == ("there is no function 3: the plan has 1, counted from 0", "", "")


# ---- options


@pytest.mark.parametrize("option, message, remedy", [
    (dict(thread=2), 'there is no option "thread"', 'did you mean "threads"?'),
    (dict(zzzzz=2), 'there is no option "zzzzz"', "the options are " + ", ".join(o["name"] for o in ingot.options())),
    (dict(threads=-2), 'option threads is "-2"; an integer of 0 or more is needed', ""),
    (dict(threads="many"), 'option threads is "many"; an integer of 0 or more is needed', ""),
    (dict(threads=2**40), f'option threads is "{2**40}"; an integer of 0 or more is needed', ""),
    (dict(target="gpu"), 'option target is "gpu"; "cpu", a GPU\'s architecture such as "cuda:sm_90", "reference", several of them, or "auto" is needed', ""),
    (dict(target="cpu,cpu"), 'option target is "cpu,cpu"; "cpu", a GPU\'s architecture such as "cuda:sm_90", "reference", several of them, or "auto" is needed', ""),
    (dict(build_seconds="soon"), 'option build_seconds is "soon"; a number of 0 or more is needed', ""),
    (dict(build_seconds=-1), 'option build_seconds is "-1"; a number of 0 or more is needed', ""),
    (dict(build_seconds=float("inf")), 'option build_seconds is "inf"; a number of 0 or more is needed', ""),
    (dict(convolution_precision="fp32"), 'option convolution_precision is "fp32"; "torch", "ieee" or "tf32" is needed', ""),
    (dict(matmul_precision="fp32"), 'option matmul_precision is "fp32"; "torch", "ieee" or "tf32" is needed', ""),
    (dict(dryrunn=True), 'there is no option "dryrunn"', 'did you mean "dryrun"?'),
])  # fmt: skip
def test_options(plan, archive, option, message, remedy):
    assert told(ingot.OptionError, lambda: ingot.compile(Plus(), inputs=[ingot.Input((2,))], **option)) == (message, "", remedy)
    assert told(ingot.OptionError, lambda: ingot.load(plan, **option)) == (message, "", remedy)
    (name, value), = option.items()
    made = plan.parent / "refused.ingot"
    assert cli("compile", archive, "-o", made, "--set", f"{name}={value}") == (14, shown(message, "", remedy))
    assert not made.exists()


def test_options_of_another_time(plan):
    assert told(ingot.OptionError, lambda: ingot.load(plan, target="cpu")) == ("option 'target' is for compiling, not for running", "", "give it to ingot.compile")


# ---- saving


def test_saving_what_needs_torch_as_one_engine(tmp_path):
    """A .ingot file has no torch graph. Operators that only the user kept in torch run in its engine."""
    module = ingot.compile(Unsupported(), inputs=[ingot.Input((4, 4))])
    path = tmp_path / "model.ingot"
    path.write_bytes(b"old")
    message, origin, _ = told(ingot.UnsupportedError, lambda: ingot.save(module, path))
    assert (message, origin) == told(ingot.UnsupportedError, lambda: ingot.compile(Unsupported(), inputs=[ingot.Input((4, 4))], fallback="error"))[:2]
    assert message.startswith("2 operators of the model are not supported:\n") and path.read_bytes() == b"old"
    kept = ingot.compile(Model().eval(), inputs=[ranged(4, shared_dims={0: "B"}), ranged(3, shared_dims={0: "B"})], torch_executed_ops=["add"], min_block_size=1)
    ingot.save(kept, path)
    x, y = torch.randn(2, 4), torch.randn(2, 3)
    assert kept.report.in_torch == 1 and torch.allclose(ingot.load(path)(x, y), kept(x, y), atol=1e-6)


def test_saving_arguments(model, tmp_path):
    path = tmp_path / "model.ingot"
    assert told(ingot.InputError, lambda: ingot.save(Model(), path)) == (
        "only an ingot.Module can be saved, not a Model", "", "compile it first: ingot.compile(model, inputs=[...])")  # fmt: skip
    assert told(ingot.OptionError, lambda: ingot.save(model, path, format="onnx")) == ("format 'onnx' is not known", "", '"ingot", "exported_program", "aot_inductor"')
    assert told(ingot.OptionError, lambda: ingot.save(model, path, weights="none")) == ("weights 'none' is not known", "", '"embed", "strip"')
    assert not path.exists()


# ---- files


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGED = [
    (lambda b: b"", errors.FormatError, "this is not a plan: 0 bytes are too few", REPAIR),
    (lambda b: b"hello, world\n" * 20, errors.FormatError, "this is not a plan: it does not start as one", REPAIR),
    (lambda b: b[:100], errors.FormatError, "this is not a plan: 100 bytes are too few", REPAIR),
    (lambda b: b[:300], errors.FormatError, "the plan is cut off: its metadata would end at byte {metadata}, the file has 300", REPAIR),
    (lambda b: b[:-1], errors.FormatError, "the plan is cut off: its weights would end at byte {size}, the file has {less}", REPAIR),
    (lambda b: flipped(b, 20), errors.FormatError, "the plan is damaged: its header does not match its checksum", REPAIR),
    (lambda b: flipped(b, 200), errors.FormatError, "the plan is damaged: its metadata does not match its checksum", REPAIR),
    (lambda b: b[:8] + struct.pack("<HH", 2, 0) + b[12:], errors.VersionError, "the plan has format 2.0, this ingot reads formats 1.0 to 1.0",
     "update ingot, or compile the model again with this version"),
    (lambda b: b[:8] + struct.pack("<HH", 1, 7) + b[12:], errors.VersionError, "the plan has format 1.7, this ingot reads formats 1.0 to 1.0",
     "update ingot, or compile the model again with this version"),
    (lambda b: b"ingotpl\n" + struct.pack("<I", 15) + b[12:], errors.VersionError, "the plan has format 15, from before version 1.0 of the format, and is no longer read",
     "compile the model again with this version and save it"),
]  # fmt: skip


@pytest.mark.parametrize("damage, kind, message, remedy", DAMAGED)
def test_damaged_plans(plan, tmp_path, damage, kind, message, remedy):
    good = plan.read_bytes()
    (size,) = struct.unpack_from("<Q", good, 16)
    message = message.format(metadata=128 + size, size=len(good), less=len(good) - 1)
    path = tmp_path / "bad.ingot"
    path.write_bytes(damage(good))
    code = {errors.FormatError: 15, errors.VersionError: 16}[kind]
    assert told(kind, lambda: ingot.load(path)) == (f"{path}: {message}", "", remedy)
    assert told(kind, lambda: ingot.load_engine(path.read_bytes())) == (message, "", remedy)
    for verb in ("run", "verify", "inspect", "bench"):
        assert cli(verb, path) == (code, shown(f"{path}: {message}", "", remedy))


@pytest.mark.parametrize("seconds", ["0", "-1", "inf", "long"])
def test_seconds_of_a_bench(plan, seconds):
    code, shown = cli("bench", plan, f"--seconds={seconds}")
    assert code != 0 and shown.splitlines()[0] == f'ingot: --seconds: "{seconds}" is not a number above 0'


def test_damaged_weights_are_found_by_verify(plan, tmp_path):
    good = plan.read_bytes()
    weights = len(good) - struct.unpack_from("<Q", good, 24)[0]
    path = tmp_path / "bad.ingot"
    path.write_bytes(flipped(good, weights + 5))
    message = "the plan is damaged: its weights do not match their checksum"
    assert cli("verify", path) == (15, shown(f"{path}: {message}", "", REPAIR))
    for source in (path, path.read_bytes()):
        engine = ingot.load_engine(source)
        assert told(ingot.FormatError, lambda: _library.check(_library.lib().ingot_plan_verify(engine._plan.pointer))) == (message, "", REPAIR)


def test_no_file(tmp_path):
    for name, load in (("none.ingot", ingot.load), ("none.pt2", ingot.compile)):
        path = tmp_path / name
        assert told(ingot.IoError, lambda: load(path)) == (f"cannot open {path}: No such file or directory", "", "check the path")
    assert told(ingot.IoError, lambda: ingot.load(tmp_path)) == (f"cannot open {tmp_path}: Is a directory", "", "check the path")
    path = tmp_path / "none.ingot"
    assert cli("run", path) == (21, shown(f"cannot open {path}: No such file or directory", "", "check the path"))


def test_nowhere_to_write(model, archive, tmp_path):
    path = tmp_path / "no" / "such" / "folder.ingot"
    message = f"cannot write {path}: No such file or directory"
    assert told(ingot.IoError, lambda: ingot.save(model, path)) == (message, "", "check the path")
    assert cli("compile", archive, "-o", path) == (21, shown(message, "", "check the path"))
    folder = tmp_path / "folder"
    folder.mkdir()
    assert told(ingot.IoError, lambda: ingot.save(model, folder)) == (f"cannot write {folder}: Is a directory", "", "check the path")
    assert list(tmp_path.iterdir()) == [folder]  # no half-written file stays


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder(model, tmp_path):
    tmp_path.chmod(0o500)
    path = tmp_path / "model.ingot"
    assert told(ingot.IoError, lambda: ingot.save(model, path)) == (
        f"cannot write {path}: Permission denied", "", "check the permissions of the file and its folder")  # fmt: skip


def test_a_full_disk_leaves_the_old_file(model, tmp_path):
    """A file size limit stands for the full disk: the write fails in the middle."""
    import resource
    import signal

    path = tmp_path / "model.ingot"
    path.write_bytes(b"old")
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        said = told(ingot.IoError, lambda: ingot.save(model, path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert said == (f"cannot write {path}: File too large", "", "free some space and try again")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_archives(plan, archive, tmp_path):
    text = "is not a readable .pt2 archive: the zip directory is missing (the file may be truncated)"
    compiled = (f"{plan} is a plan: it is compiled already", "", "run it with `ingot run`, or compile the .pt2 archive that it was made of")
    assert told(ingot.FormatError, lambda: ingot.compile(plan)) == compiled
    cut = tmp_path / "cut.pt2"
    cut.write_bytes(archive.read_bytes()[:-2000])
    assert told(ingot.FormatError, lambda: ingot.compile(cut)) == (f"{cut} {text}", "", "Save the model again with torch.export.save.")
    other = tmp_path / "other.pt2"
    with zipfile.ZipFile(other, "w") as z:
        z.writestr("a.txt", "text")
    message, _, _ = told(ingot.FormatError, lambda: ingot.compile(other))
    assert message.startswith(str(other))


# ---- the command line's own


@pytest.mark.parametrize("arguments, code, text", [
    ([], 2, "ingot: a command is needed; ingot --help lists them\n"),
    (["frob"], 2, 'ingot: there is no command "frob"; ingot --help lists them\n'),
    (["comple"], 2, 'ingot: there is no command "comple"; did you mean "compile"?\n'),
    (["run"], 2, "ingot: plan is required\nRun with --help for more information.\n"),
    (["run", "PLAN", "--shape", "x=9,4", "--shape", "y=9,3"], 13, shown(WRONG_SIZES[0][1], "", WRONG_SIZES[0][2])),
    (["run", "PLAN", "--shape", "x=a,4"], 2, 'ingot: --shape takes NAME=2,16, not "a,4"\n'),
    (["run", "PLAN", "-i", "x=random:a"], 2, 'ingot: --input takes NAME=random:SEED, not "random:a"\n'),
    (["run", "PLAN", "-i", "z=random:1"], 2, 'ingot: the plan has no input "z"; it has x, y\n'),
    (["run", "PLAN", "-i", "x=TMP/none.npy"], 21, "ingot: cannot open TMP/none.npy: No such file or directory\n  remedy: check the path\n"),
    (["run", "PLAN", "-i", "x=PLAN"], 15, "ingot: PLAN is not a .npy file that can be read: it does not start as one\n  remedy: write it with numpy.save\n"),
    (["run", "PLAN", "-o", "PLAN"], 21, "ingot: cannot write PLAN/add.npy: Not a directory\n  remedy: check the path\n"),
    (["run", "PLAN", "--repeat", "0"], 2, "ingot: --repeat: Value 0 not in range 1 to 2147483647\nRun with --help for more information.\n"),
    (["compile", "ARCHIVE", "-o", "TMP/a", "--progress", "yaml"], 2, "ingot: --progress: yaml not in {json}\nRun with --help for more information.\n"),
    (["compile", "ARCHIVE", "-o", "TMP/a", "--set", "threads"], 2, 'ingot: --set takes NAME=VALUE, not "threads"\n'),
    (["compile", "ARCHIVE", "-o", "TMP/a", "--shape", "x"], 2, 'ingot: --shape takes INPUT:AXIS=MIN..OPT..MAX[,NAME], not "x"\n'),
    (["compile", "ARCHIVE", "-o", "TMP/a", "--shape", "z:0=1..2..3"], 13, 'ingot: the model has no input "z"\n  remedy: Did you mean "x"?\n'),
    (["compile", "ARCHIVE", "-o", "TMP/a", "--shape", "x:2=1..2..3"], 13, "ingot: input x has 2 axes; axis 2 does not exist\n  remedy: Count axes from 0.\n"),
    (["compile", "ARCHIVE", "-o", "TMP/a", "--shape", "x:0=3..2..3"], 13, "ingot: input x axis 0: the range 3..2..3 is not in order\n  remedy: Give sizes with min <= opt <= max.\n"),
    (["compile", "ARCHIVE", "-o", "TMP/a", "--shape", "x:0=2..2..3", "--shape", "y:0=2..2..4"], 13,
     "ingot: x axis 0 and y axis 0 are one size in the model, but were given the ranges 2..3 and 2..4\n  remedy: Give both the same range.\n"),
])  # fmt: skip
def test_command_line(plan, archive, tmp_path, arguments, code, text):
    def put(s):
        return s.replace("PLAN", str(plan)).replace("ARCHIVE", str(archive)).replace("TMP", str(tmp_path))

    assert cli(*map(put, arguments)) == (code, put(text))
    assert not any(tmp_path.iterdir())


def test_arrays_in_another_order(plan, tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for array, what, remedy in (
        (x.astype(">f4"), "it is big-endian", 'write x.astype(x.dtype.newbyteorder("<")) with numpy.save'),
        (np.asfortranarray(x), "it is in Fortran order", "write numpy.ascontiguousarray(x) with numpy.save"),
    ):
        path = tmp_path / "x.npy"
        np.save(path, array)
        assert cli("run", plan, "-i", f"x={path}") == (15, f"ingot: {path} is not a .npy file that can be read: {what}\n  remedy: {remedy}\n")


def test_unsupported_on_the_command_line(tmp_path):
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Unsupported(), (torch.zeros(4, 4),)), path)
    code, text = cli("compile", path, "-o", tmp_path / "model.ingot")
    assert code == 12 and text.startswith("ingot: 2 operators of the model are not supported:\n  aten.special_airy_ai.default: ")
    assert f"    at {line('return a + b + torch')}\n" in text and [p.name for p in tmp_path.iterdir()] == ["model.pt2"]

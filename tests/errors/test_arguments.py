"""The exact errors of ingot.compile, ingot.save, ingot.load and a module with parts in torch about their arguments."""

import collections
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import ingot
from ingot.engine import _values

Input = ingot.Input


class Add(torch.nn.Module):
    def forward(self, x, y):
        return x + y


class Scale(torch.nn.Module):
    def forward(self, x, n):
        return x * n


class Partly(torch.nn.Module):
    """The last operator is in torch."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, y):
        return torch.special.airy_ai(torch.nn.functional.gelu(self.linear(x)).softmax(-1) + y)


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.nn.Module()
        self.part.calls = 0

    def forward(self, x):
        self.part.calls += 1
        return x + self.part.calls


class Weight(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.w = torch.nn.Parameter(weight, requires_grad=False)

    def forward(self, x):
        return x @ self.w


class Unfolds(torch.nn.Module):
    """All of it runs in torch."""

    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.zeros(8))

    def forward(self, x):
        self.b.unfold(0, 3, 2)[1].mul_(2)
        return x + self.b


class Writes(torch.nn.Module):
    def forward(self, x, y):
        x.add_(1)
        return torch.special.airy_ai(y)


class Data(torch.nn.Module):
    def forward(self, x):
        return x.nonzero().shape[0] + 0, x * 2


Pair = collections.namedtuple("Pair", "a b")


class Named(torch.nn.Module):
    def forward(self, x):
        return Pair(x + 1, x * 2)


class Unrolled(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x[i : i + 1] for i in range(x.shape[0])])


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def told(kind, call):
    with pytest.raises(ingot.Error) as caught:
        call()
    assert type(caught.value) is kind
    return caught.value.message, caught.value.origin, caught.value.remedy


def program(module, *inputs):
    return torch.export.export(module, inputs)


X = (2, 4)
ADD = lambda: program(Add(), torch.zeros(X), torch.zeros(X))  # noqa: E731
COMPILE = {
    "both lists": (ingot.InputError, lambda: ingot.compile(Add(), inputs=[Input(X)], arg_inputs=[Input(X)]), "give either inputs or arg_inputs, not both: they are the same thing", ""),
    "no inputs": (ingot.InputError, lambda: ingot.compile(Add()), "inputs are needed to capture a module", "ingot.compile(model, inputs=[ingot.Input((1, 3, 224, 224))])"),
    "a script": (ingot.UnsupportedError, lambda: ingot.compile(torch.jit.script(torch.nn.Linear(2, 2)), inputs=[Input((2, 2))]), "a ScriptModule has no Python code that torch.export could trace",
        "compile the module that was scripted, or use ingot.torch_tensorrt.compile(module, inputs=...), which makes a program of it"),
    "no module": (ingot.InputError, lambda: ingot.compile(len, inputs=[]), "a module of type builtin_function_or_method cannot be compiled",
                  "pass an nn.Module, a torch.export.ExportedProgram or the path of a .pt2 file"),
    "option twice": (ingot.OptionError, lambda: ingot.compile(Add(), inputs=[], options={"min_block_size": 1}, min_block_size=2),
                     "option 'min_block_size' is given twice: 1 in options and 2 as a keyword", ""),
    "one name": (ingot.InputError, lambda: ingot.compile(Add(), inputs=[Input(X, name="a"), Input(X, name="a")]), "two inputs are named 'a'", "give them different names"),
    "a program's count": (ingot.InputError, lambda: ingot.compile(ADD(), inputs=[Input(X)]), "the exported program takes 2 inputs, but 1 is given", ""),
    "a program's rank": (ingot.InputError, lambda: ingot.compile(ADD(), inputs=[Input((2,)), Input(X)]), "inputs[0] has rank 1, but the exported program takes rank 2 there", ""),
    "a program's dtype": (ingot.InputError, lambda: ingot.compile(ADD(), inputs=[Input(X), Input(X, dtype="i64")]),
                          "inputs[1] has dtype int64, but the exported program takes torch.float32 there", ""),
    "a program's number": (ingot.InputError, lambda: ingot.compile(program(Scale(), torch.zeros(2), 3), inputs=[Input((2,)), Input((2,))]),
                           "inputs[1] is an Input, but the exported program takes 3 there", ""),
    "a number as state": (ingot.UnsupportedError, lambda: ingot.compile(Counts(), inputs=[Input((2,))]), "forward changes the number 'part.calls' with each call, which a captured graph cannot do",
                          'keep it in a buffer: self.register_buffer("calls", torch.tensor(0))'),
    "a weight elsewhere": (ingot.InputError, lambda: ingot.compile(Partly().to("meta"), inputs=[Input(X), Input(X)]), 'weight linear.weight is on meta; engines run on the CPU and on NVIDIA GPUs', "model.cpu() or model.cuda()"),
    "a subclass": (ingot.UnsupportedError, lambda: ingot.compile(Weight(TwoTensor(torch.ones(2, 2), torch.ones(2, 2))), inputs=[Input((2, 2))]), "weight w is of type TwoTensor, a tensor subclass",
                   "convert it to a plain tensor before compiling; of torchao's weights those of IntxWeightOnlyConfig and the Int8 configs need none"),
    "all in torch": (ingot.UnsupportedError, lambda: ingot.compile(Unfolds(), inputs=[Input((8,))], fallback="error"),
                     "it writes in place through unfold, which torch does not express as new values correctly", 'compile with fallback="torch"'),
    "no shape": (ingot.InputError, lambda: Input(), "an input: a shape is needed", "Input((1, 3, 224, 224)) or Input(min_shape=..., opt_shape=..., max_shape=...)"),
    "no identifier": (ingot.InputError, lambda: Input((2,), shared_dims={0: "a b"}), "an input: shared_dims[0] is 'a b'; a dimension's name must be an identifier such as \"B\"", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPILE)
def test_compile(name):
    kind, call, message, remedy = COMPILE[name]
    assert told(kind, call) == (message, "", remedy)


def test_a_size_that_the_code_fixes():
    """The message names the line that does: a loop over a size."""
    message, origin, remedy = told(ingot.InputError, lambda: ingot.compile(Unrolled(), inputs=[Input(min_shape=(1, 4), opt_shape=(3, 4), max_shape=(8, 4), name="x")]))
    assert message == "the model cannot be captured with these inputs: the model's code fixes axis 0 of input 'x' to 3"
    assert origin.startswith(__file__) and origin.endswith(": `return torch.cat([x[i : i + 1] for i in range(x.shape[0])])`")
    assert remedy == 'give that axis one size; or torch.compile(model, backend="ingot"), which compiles anew for another'


def test_sizes_that_the_model_does_not_take():
    given = [Input(min_shape=(1, 3, 1, 1), opt_shape=(1, 3, 14, 14), max_shape=(1, 3, 20, 20))]
    assert told(ingot.InputError, lambda: ingot.compile(torch.nn.AvgPool2d(7), inputs=given)) == (
        "the model cannot be captured with these inputs: axis 2 of inputs[0] takes 7 to 20, not all of 1 to 20; axis 3 of inputs[0] takes 7 to 20, not all of 1 to 20", "",
        "give the range that it takes; where its code branches on the size, one model for each branch")  # fmt: skip


def test_a_weight_without_strides_stays_with_torch():
    """Operators that read it run in torch, the rest in an engine."""

    class Sparse(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.eye(4).to_sparse(), requires_grad=False)
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.sparse.mm(self.w, torch.nn.functional.gelu(self.linear(x)).softmax(-1))

    model, x = Sparse().eval(), torch.randn(4, 4)
    compiled = ingot.compile(model, inputs=[x])
    assert torch.allclose(compiled(x), model(x), atol=1e-6)
    (kept,) = [n for n in compiled.report.nodes if n["segment"] is None]
    assert kept["reason"].endswith("has layout sparse_coo; engines take strided tensors") and compiled.report.in_engine == 4


# ---- calls of a module with parts in torch


@pytest.fixture(scope="module")
def partly():
    batch = dict(min_shape=(1, 4), opt_shape=(2, 4), max_shape=(8, 4), shared_dims={0: "B"})
    return ingot.compile(Partly().eval(), inputs=[Input(name="x", **batch), Input(name="y", **batch)])


@pytest.mark.parametrize("inputs, message, remedy", [
    ([torch.zeros(9, 4)] * 2, "axis 0 of input 'x' has size 9, outside the range 1..8 the plan was built for", "compile with a wider range for this axis"),
    ([torch.zeros(2, 5), torch.zeros(2, 4)], "axis 1 of input 'x' (shape [2, 5]) has size 5, but the plan was built for 4 there", "give this size, or compile with a range for this axis"),
    ([torch.zeros(2, 4), torch.zeros(3, 4)], "axis 0 of input 'y' (shape [3, 4]) has size 3, but the sizes of the other inputs make it 2", "give inputs whose sizes agree"),
    ([torch.zeros(2), torch.zeros(2, 4)], "input 'x' has rank 1, but the engine takes rank 2", ""),
    ([torch.zeros(2, 4), torch.zeros(2, 4, dtype=torch.float64)], "input 'y' is float64, but the engine takes float32", "convert it to float32"),
    ([torch.zeros(2, 4), 3], "input 'y' is of type int, but the engine takes a tensor there", ""),
    ([torch.zeros(2, 4, device="meta"), torch.zeros(2, 4)], "input 'x' is on meta, but the model was compiled for cpu", "give x.to('cpu')"),
    ([torch.zeros(2, 4)], "argument 'y' is missing; the model was compiled with the arguments x, y", ""),
])  # fmt: skip
def test_calls(partly, inputs, message, remedy):
    assert told(ingot.InputError, lambda: partly(*inputs)) == (message, "", remedy)
    assert partly(torch.zeros(2, 4), torch.zeros(2, 4)).shape == (2, 4)  # as good as new


def test_shared_memory():
    module, x = ingot.compile(Writes(), inputs=[Input((4,), name="x"), Input((4,), name="y")]), torch.ones(4)
    assert told(ingot.InputError, lambda: module(x, x)) == (
        "input 'x' and input 'y' share memory, and the model writes to one of them; it was captured with memory of their own for each", "",
        "give a clone() of one of them, or compile with inputs that share memory in the same way")  # fmt: skip
    assert torch.equal(x, torch.ones(4))


def test_keywords_and_structure():
    module, x = ingot.compile(Add(), inputs=[Input((2,))], kwarg_inputs={"y": Input((2,))}), torch.zeros(2)
    assert told(ingot.InputError, lambda: module(x)) == ("argument 'y' is missing; the model was compiled with the arguments x, y", "", "")
    assert told(ingot.InputError, lambda: module(x, y=x, z=1)) == ("unexpected keyword argument 'z'; the model was compiled with the arguments x, y", "", "a call has the names of the model's forward; ingot.Input(name=) is a name for messages and files")
    message, _, _ = told(ingot.InputError, lambda: module([x], y=x))
    assert message.startswith("the arguments have the structure TreeSpec(tuple, None, [TreeSpec(tuple, None, [TreeSpec(list, None, [*])]),") and "but the model was compiled for TreeSpec(" in message


# ---- files


def test_files_of_torch_programs(partly, tmp_path):
    path = tmp_path / "m.pt2"
    ingot.save(partly, path, format="exported_program")
    assert told(ingot.OptionError, lambda: ingot.load(path, threads=2)) == ("option 'threads' is for .ingot files", "", "torch.set_num_threads sets the threads of a torch program")
    assert told(ingot.OptionError, lambda: ingot.load(path, weights={})) == ("weights are for .ingot files", "", "Module.update_weights replaces those of a torch program")
    assert told(ingot.OptionError, lambda: ingot.load(path, device="cuda")) == ("device is for .ingot files", "", "a torch program runs where it was compiled; torch.export.passes.move_to_device_pass moves it")


def test_a_model_that_runs_in_torch_altogether(tmp_path):
    report = ingot.explain(Unfolds(), [Input((8,))], fallback="error")
    assert report.in_engine == 0 and str(report) == (
        "0 of 4 operators in 0 engine segments; the model runs in torch: it writes in place through unfold, which torch does not express as new values correctly\n")
    module = ingot.compile(Unfolds(), inputs=[Input((8,))])
    assert told(ingot.UnsupportedError, lambda: ingot.save(module, tmp_path / "m.ingot")) == (
        "all of the model runs in torch, which a .ingot file does not hold", "", "its report says why; torch.export.save keeps it")  # fmt: skip
    assert told(ingot.InputError, lambda: module.update_weights({"nothing": torch.zeros(1)})) == ("the model has no weight 'nothing'", "", "")
    ingot.save(module, tmp_path / "m.pt2", format="exported_program")
    assert told(ingot.InputError, lambda: ingot.load(tmp_path / "m.pt2")(torch.zeros(9))) == (
        "the inputs do not fit the saved program, which was compiled for x.size()[0] == 8", "", "give other sizes, or compile with wider ranges")  # fmt: skip


def test_a_graph_that_reads_a_value_runs_in_torch():
    """How many classes there are is in a tensor: the message says that, not something of writes."""
    graph = torch.fx.symbolic_trace(lambda x, n: (torch.nn.functional.one_hot(x, n) + 1,))
    x, n = torch.tensor([0, 2, 1]), torch.tensor(4)
    compiled = ingot.ingot_backend(graph, [x, n])
    assert "the model runs in torch: aten._local_scalar_dense.default reads a value that is known only when the model runs" in str(compiled.report)
    assert torch.equal(compiled(x, n)[0], torch.nn.functional.one_hot(x, 4) + 1)



def test_what_files_cannot_hold(tmp_path):
    module = ingot.compile(Data(), inputs=[Input((2,))])
    assert told(ingot.UnsupportedError, lambda: ingot.save(module, tmp_path / "m.ingot")) == (
        "the model returns a size that comes from the values of a tensor, which a .ingot file does not hold", "", "")
    message, _, remedy = told(ingot.UnsupportedError, lambda: ingot.save(ingot.compile(Named(), inputs=[Input((2,))]), tmp_path / "m.pt2", format="exported_program"))
    assert message.startswith("torch cannot save the structure of the model's inputs or results: Can't serialize TreeSpec of namedtuple class") and remedy == 'return a tuple, list or dict, or save with format="ingot"'
    torch.export.save(ADD(), tmp_path / "add.pt2")
    assert told(ingot.InputError, lambda: ingot.compile(tmp_path / "add.pt2", inputs=[Input(X)])) == (f"{tmp_path / 'add.pt2'} takes 2 tensors (x, y), but 1 is given", "", "")
    assert [p.name for p in tmp_path.iterdir()] == ["add.pt2"]


def test_libraries_that_are_missing(tmp_path):
    """A copy of the package, without its libraries."""
    import shutil
    from pathlib import Path

    shutil.copytree(Path(ingot.__file__).parent, tmp_path / "one" / "two" / "ingot", ignore=shutil.ignore_patterns("lib", "*.so", "__pycache__"))
    code = "import ingot\ntry: ingot.ops()\nexcept ingot.Error as e: print(type(e).__name__, e)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "one" / "two"), "INGOT_LIBRARY_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "IoError libingot.so.0 was not found\n  remedy: build it (`make build`), install the wheel, or set INGOT_LIBRARY_DIR to its folder\n", done.stderr


# ---- arguments of sessions and profiles


def test_profiles():
    linear, x = torch.nn.Linear(4, 4).eval(), torch.ones(2, 4)
    compiled = ingot.compile(torch.nn.Sequential(linear, torch.nn.GELU()), inputs=[Input(X)])
    assert compiled.profile(torch._neg_view(x)) and compiled.profile(torch.nn.Parameter(x))
    assert told(ingot.InputError, lambda: compiled.profile(x.numpy()))[0] == "input 'input' is of type ndarray, but the engine takes a tensor there"
    assert told(ingot.InputError, lambda: compiled.profile(x.to_sparse()))[0] == "input 'input' has layout sparse_coo, but the engine takes strided tensors"
    assert told(ingot.InputError, lambda: compiled.profile(x.to("meta")))[0] == "input 'input' is on the meta device, which holds no values"
    assert told(ingot.InputError, lambda: compiled.profile(torch.masked.masked_tensor(x, x > 0)))[0].startswith("input 'input' is of type MaskedTensor")
    said = ("parts of this module run in torch, but a profile measures one engine", "", "torch.profiler.profile shows the engines' calls among torch's operators")
    for op in ("gelu", "linear"):
        parts = ingot.compile(torch.nn.Sequential(linear, torch.nn.GELU()), inputs=[Input(X)], torch_executed_ops=[op], min_block_size=1)
        assert told(ingot.UnsupportedError, lambda: parts.profile(x)) == said


class Sums(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        self.seen += x.sum(0)
        return x + self.seen


def test_sessions(tmp_path):
    ingot.save(ingot.compile(Sums(), inputs=[Input(X)]), tmp_path / "m.ingot")
    engine = ingot.load_engine(tmp_path / "m.ingot")
    session, x = engine.session(), np.ones(X, np.float32)
    for number in (-1, 9, "x", None):
        assert told(ingot.InputError, lambda: engine.session(number))[0] == f"there is no function {number!r}: the plan has 1, counted from 0"
    for out in ([0.0], "x"):
        assert told(ingot.InputError, lambda: session.run(x, out=[out]))[0].endswith(f"is of type {type(out).__name__}, and has to be a numpy array or a tensor")
    for value in (np.zeros(9), "x", 3j):
        def give():
            session.state["seen"] = value
        assert told(ingot.InputError, give)[0].startswith("state 'seen' is float32 [4], but the given value cannot be converted to it: ")


def test_results_beyond_the_last_have_no_memory_to_give(tmp_path):
    ingot.save(ingot.compile(Sums(), inputs=[Input(X)]), tmp_path / "m.ingot")
    session, x = ingot.load_engine(tmp_path / "m.ingot").session(), np.ones(X, np.float32)
    assert told(ingot.InputError, lambda: session.run(x, out=[np.empty(X, np.float32), None]))[0] == "the plan gives 1 output (add_1), but room for 2 are given"


class OnGpu:
    """An array as CuPy and Numba describe theirs."""

    def __init__(self, **told):
        self.__cuda_array_interface__ = {"data": (4096, False), "shape": (3, 4), "typestr": "<f4", "version": 3, **told}


def test_arrays_on_a_gpu():
    binding = {"name": "x", "dtype": "float32"}
    described = lambda **more: _values._described(_values.plain(OnGpu(**more), "cuda:0", binding, "input"))  # noqa: E731
    assert described() == described(strides=(16, 4)) == (4096, "float32", (3, 4), (4, 1))
    assert described(strides=(-4, 12)) == (4096, "float32", (3, 4), (-1, 3))
    assert described(typestr="<f8", shape=(), stream=1) == (4096, "float64", (), ())
    for wrong in ({"typestr": ">f4"}, {"strides": (18, 4)}, {"strides": (16, 2)}, {"mask": OnGpu()}):
        assert told(ingot.InputError, lambda: described(**wrong))[0].startswith("an array on the GPU that has a mask, another byte order, or strides")
    assert told(ingot.InputError, lambda: _values.plain(OnGpu(), "cpu", binding, "input"))[0] == "input 'x' is on cuda, and the engine runs on cpu"


def test_an_array_that_is_still_computed_in_a_stream_of_its_own_is_waited_for(monkeypatch):
    """As version 3 of the interface asks of who reads it."""
    waited = []

    class Driver:
        def __init__(self, name):
            assert name == "libcuda.so.1"

        def cuStreamSynchronize(self, stream):  # noqa: N802 - the driver's name
            waited.append(stream.value)
            return 0 if stream.value == 77 else 400

    monkeypatch.setattr(_values.ctypes, "CDLL", Driver)
    for stream in (None, 1, 2, 77):
        _values._described(OnGpu(stream=stream))
    assert waited == [77]
    assert told(ingot.DeviceError, lambda: _values._described(OnGpu(stream=78)))[0] == "the stream of an array on the GPU cannot be waited for (the driver's error 400)"

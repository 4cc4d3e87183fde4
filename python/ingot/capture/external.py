"""Users' kernels: `ingot.register_kernel` gives a torch operator an implementation that runs inside engines (docs/own_kernels.md)."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy
import torch

from ..errors import InputError, UnsupportedError
from ..torch_internals.operators import OpOverload, OpOverloadPacket, of_custom_op, overload_of, schema_of
from ..torch_internals.sizes import GuardOnDataDependentSymNode, ShapeEnv
from . import triton_kernel
from .triton_kernel import TritonKernel

_TYPES = ("Tensor", "int", "SymInt", "float", "bool")
_FUNCTIONALISED = (torch.ops.higher_order.auto_functionalized, torch.ops.higher_order.auto_functionalized_v2)
_registered: dict[OpOverload, Kernel] = {}


@dataclass(frozen=True)
class Launch:
    """The launch of a GPU kernel: what `grid` returns.

    grid: blocks along x, y, z: one to three ints or expressions of sizes.
    block: threads along x, y, z: one to three ints.
    shared_bytes: bytes of dynamic shared memory.
    sizes: integers that the kernel takes after the operator's own numbers.
    number_bytes: 8 if the kernel takes numbers as long long and double, 4 if as int and float.
    """

    grid: object
    block: object = 256
    shared_bytes: object = 0
    sizes: tuple = ()
    number_bytes: int = 8


@dataclass(frozen=True)
class Call:
    """A call of an operator with a kernel. given: all of its arguments. results: the positions in the node's value of the new values of written arguments, and then
    of the results; None if the node's value is exactly the results."""

    kernel: Kernel
    given: list
    results: list[int] | None

    def made(self, value) -> list:
        """The results among the parts of the node's value, without the new values of written arguments."""
        parts = value if isinstance(value, (list, tuple)) else [value]
        return list(parts) if self.results is None else [parts[i] for i in self.results[len(self.kernel.in_place) :]]


class Shaped:
    """A tensor as `grid` sees it: shape (ints, and torch.SymInt where a size varies) and dtype."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), dtype
        self.ndim = len(self.shape)

    def dim(self):
        return self.ndim

    def size(self, axis=None):
        return self.shape if axis is None else self.shape[axis]

    def numel(self):
        count = 1
        for size in self.shape:
            count = count * size
        return count

    def element_size(self):
        return self.dtype.itemsize


@dataclass(frozen=True)
class Kernel:
    """A registered kernel. `remove()` takes it back: models compiled from then on run the operator in torch again."""

    op: OpOverload
    cpu: tuple[str, str, str] | None         # the library's path, the function, the file's SHA-256
    gpu: tuple[str, str, str] | None         # "cuda" or "ptx", the text, the kernel's name in it
    grid: Callable | None
    in_place: tuple[str, ...]
    triton: TritonKernel | None = None       # instead of `gpu`

    @property
    def name(self) -> str:
        return schema_of(self.op).name + (f".{overload_of(self.op)}" if overload_of(self.op) != "default" else "")

    def remove(self):
        if _registered.get(self.op) is self:
            del _registered[self.op]

    def launch(self, arguments: list) -> Launch | None:
        """The launch that `grid` returns for these arguments: Shaped, numbers, torch.SymInt for varying sizes. InputError if it is not valid."""
        if self.grid is None:
            return None
        try:
            made = self.grid(*arguments)
        except GuardOnDataDependentSymNode as problem:
            raise InputError(
                f"the grid of kernel {self.name} decides by a size that varies: {str(problem).splitlines()[0]}",
                remedy="compute it from sizes by + - * // %, torch.sym_min and torch.sym_max",
            ) from None
        except Exception as problem:  # the user's code
            raise InputError(f"the grid of kernel {self.name} failed: {type(problem).__name__}: {problem}", remedy="it gets the operator's arguments, all of them, in order") from problem
        if not isinstance(made, Launch):
            raise InputError(f"the grid of kernel {self.name} is {made!r}, and an ingot.Launch is needed")
        return _checked_launch(self.name, made)


def register_kernel(op, *, cuda=None, ptx=None, triton=None, cpu=None, grid=None, in_place=()) -> Kernel:
    """Gives a torch operator a kernel that engines call, instead of leaving the operator to torch.

    Arguments:
        op: the operator: "namespace::name", an OpOverload, or the object that torch.library.custom_op returned. It takes tensors, ints, floats and bools,
            returns tensors, and has a fake kernel, which gives the shapes and dtypes of its results.
        cpu: "library.so:function" or (library, function): a C function of the type in include/ingot/kernel.h. The plan keeps the library's path and SHA-256.
        cuda: CUDA C++, or (source, kernel); a pathlib.Path is read. It is compiled together with a model, for the model's target, and kept in the plan.
        ptx: PTX, or (text, kernel), as nvcc writes it.
        triton: a function of @triton.jit, or (function, {name: value}) with the values of its constexpr parameters, num_warps and num_stages. It is compiled for the
            model's GPU when the model is compiled, which needs the package triton but no GPU. Its Launch needs grid and sizes only.
        grid: for a GPU: a function of the operator's arguments that returns an `ingot.Launch`. Tensors are objects with shape, dtype and numel(). Sizes that
            vary are torch.SymInt: the function cannot branch on them.
        in_place: the arguments that the operator's schema says it writes (mutates_args). Default: those of the schema.

    Parameters of a GPU kernel: pointers to the tensors, the numbers (long long and double, or int and float: Launch.number_bytes; bool as one byte), Launch.sizes,
    pointers to the results. Tensors are row-major. Results are uninitialised. A kernel is a function of its arguments: equal calls may become one.

    A model compiled from now on runs the kernel in its engine, if there is an implementation for every target. A kernel that was registered before for the operator
    is replaced. Plans with such kernels are loaded with trust="code". Raises InputError, UnsupportedError.
    """
    overload = _overload_of(op)
    written = _check_schema(overload)
    if in_place and set(in_place) != set(written):
        raise InputError(
            f"in_place names {_named(in_place)}, and the schema of {overload} says that it writes {_named(written)}", remedy="name in mutates_args of torch.library.custom_op what the kernel writes"
        )
    given = [name for name, code in (("cuda", cuda), ("ptx", ptx), ("triton", triton)) if code is not None]
    if len(given) > 1:
        raise InputError(f"the kernel of {overload} is given as {' and as '.join(given)}", remedy="give one of them")
    if cpu is None and not given:
        raise InputError(f"the kernel of {overload} has no implementation", remedy="give cpu, cuda, ptx or triton")
    on_gpu = bool(given)
    if on_gpu != callable(grid):
        raise InputError(f"the kernel of {overload} {'needs a function `grid`' if on_gpu else 'is for the CPU, where there is no grid'}", remedy="lambda x: ingot.Launch((x.numel() + 255) // 256)")
    gpu = _device_code(overload, "cuda", cuda) if cuda is not None else _device_code(overload, "ptx", ptx) if ptx is not None else None
    kernel = Kernel(overload, _host_code(overload, cpu) if cpu is not None else None, gpu, grid, written, triton_kernel.read(overload, triton) if triton is not None else None)
    _registered[overload] = kernel
    return kernel


def of(target) -> Kernel | None:
    """The kernel registered for a node's operator."""
    return _registered.get(target)


def captured(kernel: Kernel, values: list, results: list, targets) -> dict:
    """What capture writes for a call besides its arguments, by name: texts, and sizes as ints or sympy expressions. values: fake tensors, numbers, SymInts. results: fake
    tensors. targets: those of the plan."""
    texts = {"external_name": kernel.name}
    if kernel.cpu is not None:
        texts["external_cpu"] = list(kernel.cpu)
    tensors = [a.name for a in schema_of(kernel.op).arguments if str(a.type) == "Tensor"]
    sizes = {"external_arguments": len(values), "external_written": [tensors.index(name) for name in kernel.in_place]}
    fresh = _FreshSymbols()
    launch, code = kernel.launch([fresh.argument(v) for v in values]), kernel.gpu
    if kernel.triton is not None:
        launch, code = _compiled(kernel, launch, values, results, targets)
    if code is not None:
        texts["external_cuda"] = list(code)
        sizes |= {
            "external_grid": [fresh.back(n) for n in launch.grid],
            "external_block": list(launch.block),
            "external_shared": fresh.back(launch.shared_bytes),
            "external_sizes": [fresh.back(n) for n in launch.sizes],
            "external_number_bytes": launch.number_bytes,
        }
    return texts | sizes


def _compiled(kernel, launch, values, results, targets):
    """The launch and the code of a Triton kernel for the plan's GPU; no code if the plan is for none."""
    gpus = [t for t in targets if t.startswith("cuda:sm_")]
    if len(gpus) > 1:
        raise UnsupportedError(f"the Triton kernel of {kernel.name} is compiled for one GPU, and the plan is for {', '.join(gpus)}", remedy="compile a plan for each")
    if not gpus:
        return launch, None
    made = kernel.triton.compile(values, len(launch.sizes), results, int(gpus[0].removeprefix("cuda:sm_")))
    return replace(launch, block=(made.threads, 1, 1), shared_bytes=made.shared_bytes, number_bytes=4), ("cubin", made.text, made.entry)


def operators() -> list[OpOverload]:
    """The operators that have a kernel."""
    return list(_registered)


def call_of(node: torch.fx.Node) -> Call | None:
    """The node as a call of an operator with a kernel. UnsupportedError if it writes a part of a tensor."""
    if (kernel := of(node.target)) is not None:
        schema = schema_of(kernel.op).arguments
        given = [node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value) for i, a in enumerate(schema)]
        return Call(kernel, given, None)
    if node.target not in _FUNCTIONALISED or (kernel := of(node.args[0])) is None:
        return None
    # torch's form of an operator that writes: its results, or None, and then the new value of each base, or of each argument in the older form.
    given, bases = dict(node.kwargs), node.kwargs.get("_all_bases")
    first, places = max(len(schema_of(kernel.op).returns), 1), []
    for k, name in enumerate(kernel.in_place):
        if bases is not None:
            if [key for key in given if key.startswith(f"_{name}_")] != [f"_{name}_base_index"]:
                raise UnsupportedError(f"{kernel.name} writes a part of a tensor in place, which its kernel cannot: {name!r} has to be a whole tensor")
            k = given[f"_{name}_base_index"]
            given[name] = bases[k]
        places.append(first + k)
    if len(set(places)) != len(places):
        raise UnsupportedError(f"{kernel.name} writes one tensor as two of its arguments")
    return Call(kernel, [given.get(a.name, a.default_value) for a in schema_of(kernel.op).arguments], [*places, *range(len(schema_of(kernel.op).returns))])


class _FreshSymbols:
    """Replaces the sizes of a graph by symbols without any known property, so that `grid` cannot branch on them."""

    def __init__(self):
        self.env, self.known = ShapeEnv(), {}

    def argument(self, value):
        if isinstance(value, torch.Tensor):
            return Shaped([self.size(n) for n in value.shape], value.dtype)
        return self.size(value) if isinstance(value, torch.SymInt) else value

    def size(self, value):
        if not isinstance(value, torch.SymInt):
            return value
        expr = value.node.expr
        for symbol in expr.free_symbols:
            if symbol not in self.known:
                self.known[symbol] = self.env.create_unbacked_symint().node.expr
        return self.env.create_symintnode(expr.xreplace(self.known), hint=None) if expr.free_symbols else int(expr)

    def back(self, value) -> int | sympy.Expr:
        if not isinstance(value, torch.SymInt):
            return value
        return value.node.expr.xreplace({new: old for old, new in self.known.items()})


def _overload_of(op) -> OpOverload:
    if isinstance(op, OpOverload):
        return op
    if isinstance(op, OpOverloadPacket):
        return _only(op)
    if (found := of_custom_op(op)) is not None:  # of torch.library.custom_op
        return found
    if not isinstance(op, str):
        raise InputError(f"{op!r} is not an operator of torch", remedy='give "namespace::name", torch.ops.namespace.name.default, or what torch.library.custom_op gave')
    namespace, _, rest = op.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace or "?"), name, None) if name else None
    if packet is None or overload and overload not in packet.overloads():
        raise InputError(f"there is no operator {op!r}", remedy="register it with torch.library.custom_op first")
    return getattr(packet, overload) if overload else _only(packet)


def _only(packet) -> OpOverload:
    names = packet.overloads()
    if len(names) != 1 and "default" not in names:
        raise InputError(f"{packet} has several overloads: {', '.join(names)}", remedy="name one of them")
    return getattr(packet, "default" if "default" in names else names[0])


def _check_schema(op) -> tuple[str, ...]:
    """The arguments that the operator writes. UnsupportedError if it takes or returns something that no kernel can."""
    schema = schema_of(op)
    if op.namespace in ("aten", "prims", "prim", "ingot"):
        raise UnsupportedError(f"{op} is an operator that ingot has or decomposes itself", remedy="define an operator of your own with torch.library.custom_op")
    for a in schema.arguments:
        if str(a.type) not in _TYPES:
            raise UnsupportedError(f"argument {a.name!r} of {op} is {a.type}; kernels take tensors, ints, floats and bools", remedy="give the operator one argument for each of its parts")
    written = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    for r in schema.returns:
        if str(r.type) != "Tensor" or r.alias_info is not None:
            raise UnsupportedError(f"{op} returns {r.type}{' that shares memory with an argument' if r.alias_info is not None else ''}; kernels give new tensors")
    if not schema.returns and not written:
        raise UnsupportedError(f"{op} returns nothing and writes nothing")
    return written


def _host_code(op, cpu) -> tuple[str, str, str]:
    path, symbol = cpu.rpartition(":")[::2] if isinstance(cpu, str) else cpu if isinstance(cpu, tuple) and len(cpu) == 2 else ("", "")
    if not path or not isinstance(path, (str, os.PathLike)) or not symbol or not isinstance(symbol, str):
        raise InputError(f"cpu={cpu!r} of {op} names no function of a library", remedy='"libmine.so:function", or (library, function)')
    path = os.path.abspath(path)
    try:
        with open(path, "rb") as file:
            return path, symbol, hashlib.sha256(file.read()).hexdigest()
    except OSError as problem:
        raise InputError(f"the library {path} of {op} cannot be read: {problem.strerror}", remedy="give its path; build it with cc -shared -fPIC") from None


_ENTRY = {
    "cuda": re.compile(r'extern\s*"C"\s*__global__\s*(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s*(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\('),
    "ptx": re.compile(r"\.entry\s+([\w$]+)"),
}


def _device_code(op, kind: str, given) -> tuple[str, str, str]:
    text, entry = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if isinstance(text, os.PathLike):
        try:
            with open(text, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError(f"the code {os.fspath(text)} of {op} cannot be read: {problem}") from None
    if not isinstance(text, str) or "\0" in text or not isinstance(entry, (str, type(None))):
        raise InputError(f"{kind} of {op} is neither a text nor (text, name)")
    if entry is None:
        found = list(dict.fromkeys(_ENTRY[kind].findall(text)))
        if len(found) != 1:
            raise InputError(
                f"the code of {op} has {len(found)} kernels{': ' + ', '.join(found) if found else ''}",
                remedy=f'{kind}=(text, "name") says which one it is' + (', declared extern "C" __global__ void name(...)' if kind == "cuda" else ""),
            )
        entry = found[0]
    return kind, text, entry


def _checked_launch(name: str, launch: Launch) -> Launch:
    def triple(value, what):
        parts = (*value,) if isinstance(value, (tuple, list)) else (value,)
        if not 1 <= len(parts) <= 3 or not all(_whole(n) for n in parts):
            raise InputError(f"{what} of kernel {name} is {value!r}, and one to three integers are needed")
        return (*parts, 1, 1)[:3]

    grid, block = triple(launch.grid, "the grid"), triple(launch.block, "the block")
    if not all(type(n) is int and n > 0 for n in block) or block[0] * block[1] * block[2] > 1024 or block[2] > 64:
        raise InputError(f"the block of kernel {name} is {launch.block!r}: 1 to 1024 threads are possible, a number that is known when the model is compiled")
    for what, value in (("shared_bytes", launch.shared_bytes), *(("a size", n) for n in launch.sizes)):
        if not _whole(value):
            raise InputError(f"{what} of kernel {name} is {value!r}, and an integer is needed")
    if launch.number_bytes not in (4, 8):
        raise InputError(f"number_bytes of kernel {name} is {launch.number_bytes!r}, neither 4 nor 8")
    return Launch(grid, block, launch.shared_bytes, tuple(launch.sizes), launch.number_bytes)


def _whole(value) -> bool:
    return isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool)


def _named(names) -> str:
    return ", ".join(map(repr, names)) or "nothing"

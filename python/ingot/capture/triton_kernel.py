"""Kernels written in Triton. They are compiled to a cubin for the plan's GPU while the model is captured, which needs no GPU."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from ..errors import InputError, UnsupportedError
from ..torch_internals.operators import OpOverload, schema_of

_POINTERS = {
    torch.bool: "*i1", torch.uint8: "*u8", torch.int8: "*i8", torch.int16: "*i16", torch.int32: "*i32", torch.int64: "*i64", torch.float16: "*fp16", torch.bfloat16: "*bf16",
    torch.float32: "*fp32", torch.float64: "*fp64",
}  # fmt: skip
_NUMBERS = {"int": "i32", "SymInt": "i32", "float": "fp32", "bool": "i1"}
_SETTINGS = ("num_warps", "num_stages", "maxnreg", "enable_fp_fusion")


@dataclass(frozen=True)
class Cubin:
    """A compiled kernel. text: "sm_90 " and its bytes as hexadecimal digits."""

    text: str
    entry: str
    threads: int
    shared_bytes: int


@dataclass(frozen=True)
class TritonKernel:
    """A function of @triton.jit, the values of its constexpr parameters, and compiler settings (num_warps and the like)."""

    op: OpOverload
    function: object
    constants: dict
    settings: dict

    def compile(self, values, sizes: int, results, architecture: int) -> Cubin:
        """The kernel for these arguments of the operator (fake tensors and numbers), this number of Launch.sizes, and results."""
        signature = self._signature(values, sizes, results)
        import triton
        from triton.backends.compiler import GPUTarget

        source = triton.compiler.ASTSource(self.function, {**signature, **dict.fromkeys(self.constants, "constexpr")}, self.constants)
        try:
            made = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=self.settings)
        except Exception as problem:  # Triton raises all kinds
            raise InputError(f"the Triton kernel of {self.op} does not compile for sm_{architecture}: {str(problem).strip()}") from problem
        meta = made.metadata
        needs = [name for name in ("global_scratch_size", "profile_scratch_size", "launch_cooperative_grid", "launch_pdl") if getattr(meta, name, 0)] + ["num_ctas"] * (getattr(meta, "num_ctas", 1) > 1)
        if needs:
            raise UnsupportedError(f"the Triton kernel of {self.op} needs {', '.join(needs)}, which engines do not give", remedy="leave the operator in torch")
        ptx = _without_scratch(made.asm["ptx"], meta.name, len(signature))
        return Cubin(f"sm_{architecture} {_assembled(ptx, architecture, self.op).hex()}", meta.name, 32 * meta.num_warps, meta.shared)

    def _signature(self, values, sizes, results) -> dict[str, str]:
        """The types of the parameters that are not constants: tensors, numbers, Launch.sizes, results."""
        arguments = list(zip(schema_of(self.op).arguments, values))
        if other := [t.dtype for t in (*values, *results) if isinstance(t, torch.Tensor) and t.dtype not in _POINTERS]:
            raise UnsupportedError(f"the Triton kernel of {self.op} has a tensor of {other[0]}, which engines do not have")
        types = [_POINTERS[v.dtype] for a, v in arguments if str(a.type) == "Tensor"] + [_NUMBERS[str(a.type)] for a, _ in arguments if str(a.type) != "Tensor"]
        types += ["i32"] * sizes + [_POINTERS[r.dtype] for r in results]
        names = [name for name in self.function.arg_names if name not in self.constants]
        if len(names) != len(types):
            raise InputError(
                f"the Triton kernel of {self.op} takes {', '.join(names)}, and the operator gives {', '.join(types)}",
                remedy="tensors, numbers, Launch.sizes and results, in this order; constants as triton=(function, {name: value})",
            )
        return dict(zip(names, types))


def read(op, given) -> TritonKernel:
    """What `triton=` of register_kernel gives."""
    if importlib.util.find_spec("triton") is None:
        raise UnsupportedError(f"the Triton kernel of {op} cannot be compiled: the package triton is not installed", remedy="pip install triton, or give the kernel as cuda or ptx")
    from triton import JITFunction

    function, more = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
    if not isinstance(function, JITFunction) or not isinstance(more, dict):
        raise InputError(f"triton of {op} is neither a function of @triton.jit nor (function, {{name: value}})")
    constants = {name: value for name, value in more.items() if name in function.arg_names}
    settings = {name: value for name, value in more.items() if name not in constants}
    if unknown := sorted(set(settings) - set(_SETTINGS)):
        raise InputError(f"the Triton kernel of {op} has no parameter {unknown[0]!r}", remedy=f"its parameters are {', '.join(function.arg_names)}; settings are {', '.join(_SETTINGS)}")
    return TritonKernel(op, function, constants, settings)


def _without_scratch(ptx: str, entry: str, parameters: int) -> str:
    """The PTX without the pointers to scratch memory that Triton appends to each kernel's parameters. A kernel that needs no such memory does not read them."""
    found = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)", ptx)
    kept, dropped = (found[1].split(",")[part] for part in (slice(parameters), slice(parameters, None)))
    rest = ptx[: found.start(1)] + ",".join(kept) + "\n" + ptx[found.end(1) :]
    if any(re.search(rf"\b{re.escape(p.split()[-1])}\b", rest) for p in dropped):
        raise UnsupportedError(f"the Triton kernel {entry} reads scratch memory, which engines do not give")
    return rest


def _assembled(ptx: str, architecture: int, op) -> bytes:
    """The cubin, by the ptxas of Triton's package."""
    import triton

    folder = Path(triton.__file__).parent / "backends/nvidia/bin"
    ptxas = folder / "ptxas-blackwell" if architecture >= 100 and (folder / "ptxas-blackwell").exists() else folder / "ptxas"
    with tempfile.TemporaryDirectory() as place:
        text, made = Path(place, "kernel.ptx"), Path(place, "kernel.cubin")
        text.write_text(ptx)
        done = subprocess.run([ptxas, f"--gpu-name={re.search(r'[.]target (sm_[0-9a-z]+)', ptx)[1]}", text, "-o", made], capture_output=True, text=True)
        if done.returncode != 0:
            raise InputError(f"ptxas does not assemble the Triton kernel of {op}: {done.stderr.strip()}")
        return made.read_bytes()

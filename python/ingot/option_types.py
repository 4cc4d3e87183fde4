"""The options of a build or a session, as `ingot.options()` has them. Written by tools/option_types.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import torch

    from .autocast_options import Autocast


class RunOptions(TypedDict, total=False):
    """Options of a session: how a plan runs."""

    # bytes of a GPU's memory for the weights and a run; weights beyond it stay in page-locked host memory and are streamed to the GPU for each run
    # (slower). 0 = no limit, -1 = nine tenths of the free memory
    memory_bytes: int
    # scratch memory of a run: "session" keeps it for the next run, "call" releases it after each (slower)
    arena: str
    # on a GPU, runs with the same addresses are recorded and replayed as CUDA graphs, one for each set of sizes
    cuda_graphs: bool
    # threads a session uses; 0 = torch's number inside torch, else what affinity and cgroup allow
    threads: int
    # microseconds for which a thread that waits for the others keeps its core before it sleeps; with it, threads are ingot's own inside torch too. -1
    # = INGOT_WAIT in the environment, else as is best: torch's threads, which keep it for some milliseconds, or ingot's for 5 while other programs
    # want the cores; 200 outside torch
    wait: int


class SessionOptions(RunOptions, total=False):
    """Options of a session, and where it runs."""

    # where weights and their sessions are: "cpu", "cuda", "cuda:1", "reference"; "auto" = the CPU when the plan has a program for it, else the first
    # GPU
    device: str


class Options(SessionOptions, total=False):
    """Options of a build, and of its sessions."""

    # what the plan runs on: "cpu", GPUs by architecture such as "cuda:sm_90" (a program for each), "reference" (slow and exact, to compare with), or
    # "auto": the device of the model's tensors, for a file the CPU
    target: str | torch.device | Sequence[str | torch.device]
    # what happens to operators without an engine: "torch" runs them in torch, "error" refuses the model and lists them
    fallback: str
    # least operators of an engine segment; 0 = a segment must gain more than its call costs
    min_block_size: int
    # operators kept in torch: "aten.gelu.default", "aten.gelu", "gelu", or the name of a node
    torch_executed_ops: str | Sequence[str]
    # modules kept in torch: a path such as "encoder.layer.0", or a class such as "BertLayer"
    torch_executed_modules: str | Sequence[str]
    # when results are the same, bit by bit: "run" = for the same inputs, "batch" = also whatever else is in the batch (matrix products of one or two
    # rows take longer), "off" = not even for the same inputs (scatter_add and its like add floats on a GPU in any order, which is faster for some)
    deterministic: str
    # "embed" = a file of the plan holds the values of its weights, "strip" = they are given when it is loaded
    weights: str
    # results of operators in float16 and bfloat16 that are not stored: "fused" = keep the bits of float32 unless something is decided by them
    # (faster, closer to the exact result), "eager" = are rounded as eager does
    rounding: str
    # matrix products of float32 on a GPU, and convolutions unless convolution_precision is given: "ieee" = full float32, "tf32" = operands with 10
    # bits of mantissa (faster), "torch" = torch's own setting at compile time ("ieee" without torch)
    matmul_precision: str
    # convolutions of float32 on a GPU: "ieee", "tf32", or "torch" = matmul_precision if that is given, else torch's own setting for convolutions at
    # compile time
    convolution_precision: str
    # how weights of matrix products are stored: "none" = in their own type, "int8" = as integers with a scale for each channel of the result (half or
    # a quarter of the memory; results change by the rounding), "int4" = as integers of 4 bits with a scale for each group (weight_group)
    weight_dtype: str
    # how many weights along the summed axis share a scale, with weight_dtype="int4": 32, 64 or 128. More are fewer bytes and a larger error; a weight
    # whose axis is no multiple stays as it is
    weight_group: int
    # the type in which matrix products, convolutions, attention and the operators after them compute: "float16" or "bfloat16"; softmax, norms and
    # large sums stay in float32, results keep their types. "none" = the model's own types
    autocast: str | torch.dtype | Autocast | None
    # what autocast leaves in float32: regular expressions for the whole name of a node, of its operator ("aten.linear.default", "linear"), of the
    # path of a module around it, or of that module's class; "node:linear" and "module:encoder" match only that node or module
    autocast_exclude: str | Sequence[str]
    # the rates by which implementations, storage and what stays in torch are chosen: "table" = of a usual machine of the target, so that the same
    # model gives the same plan everywhere; "measured" = on the CPU those that `ingot doctor --measure --keep` left on this machine, whose numbers a
    # plan's provenance then has; such numbers are a value too, and a row of the table such as "cpu:avx2"
    machine: str
    # bound on a result's error against float64, as a multiple of eager's error, on the inputs at hand. Parts of the model go back from autocast and
    # weight_dtype to their own types until it holds; AccuracyError if it cannot. 0 = no bound
    accuracy: float | None
    # true prints the report of what would run where, a path writes the report to that file (JSON for *.json); no engine is built
    dryrun: bool | str
    # seconds that compiling may spend on timing alternatives for a plan's matrix products and convolutions on the device at hand (a GPU if the plan
    # is for one, else the CPU, with one thread), the most expensive ones first; the fastest are taken. 0 = nothing is timed, and the same model gives
    # the same plan everywhere
    build_seconds: float
    # a file of timings: read before the build, and written if something was timed; timings of other devices and library versions stay in it
    timing_cache: str
    # the cache of plans that were built before, by graph, sizes and options, not by weights: "off", "read", "write" or "readwrite" (with
    # INGOT_CACHE=off in the environment the default is off)
    cache: str
    # the folder of the cache; without it the user's own (INGOT_CACHE_DIR, else ~/.cache/ingot)
    cache_dir: str
    # largest size of the cache in bytes; the least recently used plans are removed first
    cache_bytes: float

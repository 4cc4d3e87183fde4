"""What the numbers of the tuning.h files are worth: the time of problems that a number decides, at its value and at others.

    git worktree add /tmp/constants && python bench/constants.py --edit /tmp/constants       # then build that copy as usual
    INGOT_LIBRARY_DIR=/tmp/constants/build/release python bench/constants.py [--device cuda] [--only scan] [--rounds 12]

`--edit` changes a copy of the sources: the numbers of CONSTANTS become variables that are read from the environment (INGOT_CONSTANT_<suite>_<name>) when the library is loaded. What ships has none of it. Each value has a
process of its own, which builds the problems of the suite, and all processes measure in turn; a figure is the fastest of all rounds, and a ratio its time over that of the value in the sources.

Lines of bench/results/constants-<machine>.jsonl: suite, name, value, and the ratio of each problem. A ratio within 3 % is noise; what is printed is the range, and the problems beyond it.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# Suite -> its tuning.h below src/, and of each number the values that it is compared with.
CPU = {
    "fused": ("backend/cpu/kernels/fused/run", {"per_block": (6, 24), "per_row": (1.5, 6), "staged": (0.12, 0.5), "of_line": (0.12, 0.5), "ns_of_neighbour": (0.05, 0.2), "ns_of_near": (0.3, 1.2), "ns_of_far": (0.75, 3),
              "near_elements": (8, 32), "share_of_last_axis": (0.6, 1), "least_of_part": (1000, 4000), "elements_of_lines": (1024, 4096), "bytes_of_whole_row": (128 << 10, 512 << 10),
              "longest_line": (64, 256), "longest_solid_line": (512, 2048), "staged_stride": (4, 16), "staged_columns": (8, 32), "longest_stored": (24, 96), "bytes_in_memory": (8192, 131072)}),
    "divided": ("backend/cpu/kernels/fused/run", {"least_divided": (5000, 20000), "least_divided_row": (15000, 60000)}),
    "small_matrix": ("backend/cpu/kernels/small_matrix/run", {"work_of_task": (10000, 40000), "columns_at_once": (16, 64), "rows_by_mask": (4, 16)}),
    "fourier": ("backend/cpu/kernels/fourier/run", {"side_by_side_bytes": (1 << 18, 1 << 19, 1 << 21)}),
    "scatter": ("backend/cpu/kernels/scatter/run", {"least_divided": (15000, 60000), "least_divided_along": (10000, 40000), "updates_of_element": (0.1, 0.25, 1, 2)}),
    "ragged": ("backend/cpu/kernels/ragged/run", {"least_panels": (2, 8), "segment": (256, 1024)}),
    "conv": ("backend/cpu/kernels/conv/run", {"reading_tiles": (2, 8), "copied_taps": (16, 64), "skipping_taps": (32, 128), "taps_of_range": (8, 32), "max_block": (1 << 20, 16 << 20), "vectors_of_block": (3, 12), "share_of_empty": (0.01, 0.2),
             "products_of_request": (8, 32)}),
    "matmul": ("backend/cpu/kernels/matmul/run", {"rows_of_aliases": (2, 8), "rows_of_int4": (3, 12), "prefetched_groups": (1024, 4096), "wait_of_matrix": (0.1, 0.7)}),
    "batches": ("backend/cpu/kernels/matmul/run", {"multiplications_of_task": (8192, 32768, 65536)}),
    "scan": ("backend/cpu/kernels/scan/run", {"least_lines": (2, 8), "tasks_of_worker": (2, 8), "min_divided": (10000, 40000)}),
    "attention": ("backend/cpu/kernels/attention/run", {"key_block": (256, 1024), "query_block": (56, 196), "large_query_block": (98, 392), "rows_for_large": (384, 1536), "divided_rows": (8, 32), "tasks_of_worker": (4, 16)}),
    "attention_queries": ("backend/cpu/kernels/attention_queries/run", {"key_block": (256, 1024), "tasks_of_worker": (2, 8)}),
    "storage": ("compile/storage", {"root_additions": (1, 6), "lookup_additions": (2, 8), "function_additions": (5, 20), "max_repeated_additions": (3, 12), "unknown_size": (8, 128), "large_value": (1 << 13, 1 << 17), "repeated": (4, 16),
                "min_additions": (3, 12), "min_body": (1 << 16, 1 << 20), "larger_body": (16, 256)}),
    "schedule": ("compile/schedule", {"min_copied_elements": (512, 8192)}),
}
GPU = {
    "gpu_attention": ("backend/cuda/kernels/attention/run", {"few_queries": (1, 8, 64), "min_keys_of_part": (32, 128, 256), "max_parts": (8, 16, 64), "blocks_of_multiprocessor": (1, 2, 8), "max_shared": (96 << 10, 220 << 10)}),
    "gpu_scatter": ("backend/cuda/kernels/scatter/run", {"max_few_points": (1, 16, 256, 1024), "updates_of_thread": (4, 16), "blocks_of_multiprocessor": (2, 8), "min_updates_of_destination": (1, 4), "min_chunk": (16, 64)}),
    "gpu_grouped": ("backend/cuda/kernels/gemm/grouped_convolution/run", {"threads_of_multiprocessor": (96, 384), "max_threads_of_sum": (4, 16), "min_outputs_of_line": (2, 8)}),
    "gpu_volumes": ("backend/cuda/kernels/gemm/im2col_3d/run", {"min_blocks": (48, 192)}),
    "gpu_depthwise": ("backend/cuda/kernels/depthwise_conv/run", {"max_outputs_of_thread": (4, 16), "threads_of_multiprocessor": (128, 512), "held_registers": (60, 120), "blocks_of_multiprocessor": (2, 6)}),
    "gpu_gemm": ("backend/cuda/kernels/gemm/run", {"min_steps_of_warps": (1, 4), "min_part_bytes": (1 << 20, 64 << 20), "max_encoded_rows": (256, 4096)}),
    "gpu_columns": ("backend/cuda/kernels/gemm/run", {"max_im2col_3d_columns": (16, 64), "max_sum_of_group": (256, 1024), "max_shared_sum": (512, 2048), "max_columns_alone": (2, 8), "max_columns_of_group": (8, 32)}),
    "gpu_experts": ("backend/cuda/kernels/gemm/run", {"max_rows_of_16": (6, 24), "max_rows_of_64": (48, 192), "ragged": (1.4, 2.8), "ragged_tiles_of_16_rows": (2, 4.5)}),
    "gpu_columns_of_tiles": ("backend/cuda/kernels/gemm/tiles/run", {"max_column_bytes": (16, 32, 256)}),
    "gpu_gemv": ("backend/cuda/kernels/gemm/gemv/run", {"max_elements_of_thread": (16, 64), "loaded_registers": (16, 64)}),
    "gpu_sample": ("backend/cuda/kernels/grid_sample/run", {"busy_points": (512, 2048)}),
    "gpu_bodies": ("backend/cuda/compile", {"min_row_of_lane": (32, 128), "threads_of_columns": (512, 2048), "threads_of_rows": (1024, 4096), "units_of_points": (1024, 4096), "early_registers": (16, 64), "min_gathered_loads": (2, 8)}),
    "gpu_small": ("backend/cuda/kernels/fused/run", {"small_rows": (32, 128), "max_small_rows": (256, 1024), "small_products": (1 << 20, 1 << 22), "narrow": (32, 128), "joined_bytes": (8 << 20, 128 << 20)}),
    "gpu_histogram": ("lower", {"max_pairs": (1 << 16, 1 << 26)}),
    "gpu_storage": ("compile/storage", {"root_additions": (1, 6), "lookup_additions": (2, 8), "function_additions": (5, 20), "max_repeated_additions": (3, 12), "unknown_size": (8, 128), "large_value": (1 << 13, 1 << 17), "repeated": (4, 16),
                    "min_additions": (3, 12), "min_body": (1 << 16, 1 << 20), "larger_body": (16, 256)}),
    "gpu_channels": ("compile/passes", {"min_channels": (8, 16)}),
}
THREADS = {"divided": 2, "small_matrix": 2, "scatter": 2, "ragged": 2, "scan": 2, "batches": 2, "attention": 2, "attention_queries": 2}


def variable(file, name):
    """A suite is a set of problems; two of them may ask one file."""
    return "INGOT_CONSTANT_" + re.sub(r"\W", "_", f"{file}_{name}")


# ---- the copy of the sources


def edited(text, file, names):
    """The text of a tuning.h in which these numbers are variables."""
    for name in names:
        found = re.search(rf"inline constexpr (\w+) ((?:[^;()]|\([^)]*\))*?\b)?{name}(?: = ([^,;]+)|\{{([^,;}}]+)\}})((?:, [^;]*)?);", text)
        if not found:
            raise SystemExit(f"{file}/tuning.h has no number {name}")
        kind, before, value, braced, after = found.groups()
        value = value or braced
        others = ", ".join(part for part in ((before or "").rstrip(", "), after.lstrip(", ")) if part)
        read = f'inline const {kind} {name} = [] {{ const char* text = std::getenv("{variable(file, name)}"); return text ? static_cast<{kind}>(std::atof(text)) : static_cast<{kind}>({value}); }}();'
        text = text.replace(found[0], (f"inline constexpr {kind} {others};\n" if others else "") + read)
    return text.replace("#pragma once\n", "#pragma once\n#include <cstdlib>\n", 1)


def edit(copy):
    wanted = {}
    for file, numbers in [*CPU.values(), *GPU.values()]:
        wanted.setdefault(file, {}).update(numbers)
    for file, numbers in wanted.items():
        path = copy / "src" / file / "tuning.h"
        path.write_text(edited(path.read_text(), file, numbers))
    names = "|".join({name for numbers in wanted.values() for name in numbers})
    for path in (copy / "src").rglob("*.cpp"):  # what is computed of a variable is one too
        text = path.read_text()
        changed = re.sub(rf"\b(static )?constexpr (?=\w+ [^;()]*tuning::(?:{names})\b)", lambda found: "static inline const " if found[1] else "const ", text)
        if changed != text:
            path.write_text(changed)


# ---- the problems: name -> (module, inputs)


def problems_of(suite):
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.manual_seed(0)
    half = torch.float16
    randn, randint = torch.randn, torch.randint

    class Of(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, *inputs):
            return self.function(*inputs)

    def of(**functions):
        return {name: (Of(function), inputs) for name, (function, *inputs) in functions.items()}

    def convolutions(names, dtype=torch.float32, form="alone"):
        from offers import ALL, layers

        found = {}
        for name in names:
            model, x, _ = layers(ALL[name], form)
            found[name] = model.to(dtype), (x.to(dtype),)
        return found

    def products(*shapes, dtype=torch.float32):
        return {f"{m} x {n} x {k}": (nn.Linear(k, n).to(dtype), (randn(m, k, dtype=dtype),)) for m, n, k in shapes}

    def scattered(rows, places, width, dtype=torch.float32):
        return lambda base, index, x: base.index_add(0, index, x), randn(places, width, dtype=dtype), randint(0, places, (rows,)), randn(rows, width, dtype=dtype)

    if suite in ("fused", "gpu_bodies", "schedule"):
        return of(
            softmax=(lambda x: x.softmax(-1), randn(256, 1000)), softmax_by_columns=(lambda x: x.softmax(1), randn(8, 256, 400)), norm_of_channels=(lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (64,)), randn(8, 64, 28, 28)),
            transposed_sum=(lambda x, y: x.t() + y, randn(512, 768), randn(768, 512)), group_norm=(lambda x: F.group_norm(x, 8), randn(4, 64, 28, 28)), softmax_of_12=(lambda x: x.softmax(-1), randn(20000, 12)),
            sums_of_6=(lambda x: x.sum(-1), randn(20000, 6)), channels_last=(lambda x: ((x.float() - 3) / 7).permute(0, 2, 3, 1).contiguous(), randint(0, 255, (2, 3, 224, 224), dtype=torch.uint8)),
            parts=(lambda x, y: F.gelu(torch.cat([x, y], 1)), randn(64, 96, 28), randn(64, 32, 28)), mean_of_rows=(lambda x: x.mean(0), randn(512, 768)), variance=(lambda x: x.var(1), randn(512, 768)),
            rows_of_a_table=(lambda t, i, y: F.embedding(i, t) + y, randn(1000, 256), randint(0, 1000, (512,)), randn(512, 256)), resized=(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), randn(1, 32, 40, 40)),
            window=(lambda x: torch.roll(x, (3, 3), (1, 2)).view(2, 8, 7, 8, 7, 48).permute(0, 1, 3, 2, 4, 5).contiguous(), randn(2, 56, 56, 48)), row=(lambda x: x.log_softmax(-1), randn(1, 50000)), long_rows=(lambda x: F.layer_norm(x, (40000,)), randn(8, 40000)),
            bytes_of_an_image=(lambda x: (x >> 1) + 3, randint(0, 255, (4, 128, 128), dtype=torch.uint8)), columns=(lambda x: (x - x.mean(0)) / x.std(0), randn(2000, 90)), steps_of_three=(lambda x: x[:, ::3] * x[:, 1::3], randn(300, 3000)),
        )
    if suite == "divided":
        return of(**{f"gelu_{n}": (lambda x: F.gelu(x), randn(n)) for n in (2000, 5000, 10000, 20000, 40000)}, **{f"sum_{n}": (lambda x, y: x + y, randn(n), randn(n)) for n in (5000, 15000, 30000, 60000)},
                  **{f"norm_of_{n}": (lambda x, n=n: F.layer_norm(x, (n,)), randn(4, n)) for n in (1000, 4000, 10000)}, **{f"softmax_of_{n}": (lambda x: x.softmax(-1), randn(1, n)) for n in (8000, 20000, 50000)})
    if suite == "small_matrix":
        def positive(b, n):
            x = randn(b, n, n)
            return x @ x.mT + n * torch.eye(n)

        return of(**{f"inverse_{b}_of_{n}": (torch.linalg.inv, positive(b, n)) for b, n in ((16, 4), (256, 4), (16, 8), (64, 12), (8, 32), (4096, 3))}, **{f"cholesky_{n}": (torch.linalg.cholesky, positive(64, n)) for n in (6, 16)},
                  **{f"solve_{n}_for_{k}": (torch.linalg.solve, positive(32, n), randn(32, n, k)) for n, k in ((8, 4), (16, 100), (32, 256))})
    if suite == "fourier":
        return of(**{f"along_{axis}_of_{'x'.join(map(str, shape))}": (lambda x, axis=axis: torch.view_as_real(torch.fft.fft(x, dim=axis)), randn(shape))
                     for shape, axis in (((256, 1000), 0), ((1024, 512), 0), ((4096, 64), 0), ((64, 4096), 1), ((16, 128, 128), 1), ((100, 3000), 0), ((8192, 32), 0))})
    if suite == "scatter":
        return of(**{f"rows_{rows}_of_{width}": scattered(rows, 500, width) for rows, width in ((100, 64), (500, 64), (1000, 64), (4000, 64))},
                  **{f"halves_{rows}_to_{places}": scattered(rows, places, 64, torch.bfloat16) for rows, places in ((100, 1000), (300, 1000), (700, 1000), (1500, 1000), (3000, 1000))},
                  **{f"along_{n}": (lambda b, i, x: b.scatter_add(1, i, x), randn(16, 200), randint(0, 200, (16, n)), randn(16, n)) for n in (400, 1000, 2000, 5000)})
    if suite in ("ragged", "gpu_experts"):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import transformers
        from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

        gpu = suite == "gpu_experts"
        config = transformers.Qwen3MoeConfig(hidden_size=2048 if gpu else 512, moe_intermediate_size=768 if gpu else 256, num_experts=64 if gpu else 16, num_experts_per_tok=8 if gpu else 2, intermediate_size=1024, num_hidden_layers=1, num_attention_heads=8,
                                             num_key_value_heads=4, vocab_size=320, head_dim=64)
        config._experts_implementation = "grouped_mm"
        block = Qwen3MoeSparseMoeBlock(config).eval()
        for p in block.parameters():
            nn.init.normal_(p, std=0.02)
        first = lambda y: y[0] if isinstance(y, tuple) else y  # noqa: E731
        kept = Of(lambda x: first(block(x)))
        kept.block = block.to(torch.bfloat16) if gpu else block
        return {f"{n}_tokens": (kept, (randn(1, n, 2048, dtype=torch.bfloat16) if gpu else randn(1, n, 512),)) for n in ((16, 64, 128, 256, 512, 1024) if gpu else (8, 64, 256))}
    if suite == "conv":
        return convolutions([f"random {i}" for i in range(0, 120, 3)], form="between")
    if suite == "matmul":
        aliased = of(**{f"views_{m}": (lambda x, y: x[:, :256] @ y, randn(m, 4096), randn(256, 256)) for m in (2, 3, 4, 6, 8, 12, 32)})
        return aliased | products((1, 4096, 1024), (2, 4096, 1024), (4, 4096, 1024), (16, 1024, 1024), dtype=torch.bfloat16) | {"int4 " + name: (*problem, {"weight_dtype": "int4", "weight_group": 64})
                                                                                                                       for name, problem in products((1, 2048, 2048), (3, 2048, 2048), (6, 2048, 2048), (8, 2048, 2048), (12, 2048, 2048)).items()}
    if suite == "batches":
        from offers import Batch

        return {f"{b} of {n}": (Batch(b, n, n).eval(), (randn(b, n, n),)) for b, n in ((16, 4), (64, 4), (512, 4), (64, 8), (256, 8), (512, 8), (64, 16), (512, 16), (4096, 4))}
    if suite == "scan":
        return of(**{f"along_{axis}_of_{'x'.join(map(str, shape))}": (lambda x, axis=axis: x.cumsum(axis), randn(shape)) for shape, axis in (((64, 1000), 1), ((1000, 64), 0), ((16, 500), 1), ((8, 2000), 1), ((4, 16, 300), 1), ((300, 400), 0), ((30000,), 0), ((20, 800), 1), ((2000, 8), 0))})
    if suite in ("attention", "attention_queries"):
        return of(**{f"{s}_of_{t}_by_{h}": (F.scaled_dot_product_attention, randn(b, h, s, d), randn(b, h, t, d), randn(b, h, t, d))
                     for b, h, s, t, d in (((1, 12, 128, 128, 64), (1, 12, 512, 512, 64), (2, 8, 1024, 1024, 64), (1, 4, 1536, 1536, 64), (16, 4, 20, 20, 32), (1, 8, 40, 300, 64), (1, 2, 16, 700, 64)) if suite == "attention"
                                           else ((1, 16, 1, 2048, 64), (8, 8, 1, 512, 64), (1, 32, 2, 1024, 128), (1, 8, 4, 300, 64), (4, 8, 1, 4000, 64)))})
    if suite in ("storage", "gpu_storage"):
        sys.path.insert(0, str(HERE.parent / "tests" / "plans"))
        from recorded_models import MODELS, made

        found = {}
        for name in MODELS:
            model, inputs = made(name)
            found[name] = model, tuple(x if isinstance(x, torch.Tensor) else example_of(x) for x in inputs)
        return found
    if suite == "gpu_attention":
        return of(**{f"{s}_of_{t}_by_{b * h}": (F.scaled_dot_product_attention, randn(b, h, s, d, dtype=half), randn(b, h, t, d, dtype=half), randn(b, h, t, d, dtype=half))
                     for b, h, s, t, d in ((1, 32, 1, 256, 64), (1, 32, 1, 1024, 64), (1, 32, 1, 4096, 64), (8, 32, 1, 1024, 128), (1, 8, 1, 4096, 128), (1, 32, 4, 1024, 128), (1, 32, 16, 2048, 128), (1, 32, 48, 2048, 128), (4, 12, 512, 512, 64))})
    if suite == "gpu_scatter":
        return of(**{f"put_{n}_of_{w}": (lambda b, i, x: b.index_copy(0, i, x), randn(4096, w), torch.randperm(4096)[:n], randn(n, w)) for n, w in ((8, 64), (16, 1024), (64, 64), (64, 1024), (128, 1024), (256, 64), (256, 1024), (1000, 64))},
                  **{f"add_{n}_to_{p}": (lambda b, i, x: b.scatter_add(0, i, x), randn(p), randint(0, p, (n,)), randn(n)) for n, p in ((1000, 100), (100000, 100), (100000, 2000), (1000000, 1000), (4000, 2000))},
                  **{f"along_{n}": (lambda b, i, x: b.scatter_add(1, i, x), randn(256, 500), randint(0, 500, (256, n)), randn(256, n)) for n in (100, 1000)})
    if suite in ("gpu_grouped", "gpu_columns"):
        from offers import ALL

        return convolutions([name for name in ALL if name.startswith("random") and ALL[name][4]["groups"] > 1 and ALL[name][0] > ALL[name][4]["groups"]][:14] + ["3-D 3 16 at 24", "transposed 5x5 /2 64 to 3 at 64"], half) | {
            f"{k}x{k} {c} to {o}": (nn.Conv2d(c, o, k, padding=k // 2).to(half), (randn(1, c, 96, 96, dtype=half),)) for c, o, k in ((64, 3, 3), (32, 1, 5), (64, 6, 3), (128, 2, 3), (128, 4, 1))}
    if suite == "gpu_volumes":
        return {f"{c} to {o} at {n}, {k}": (nn.Conv3d(c, o, k, padding=k // 2).to(half), (randn(1, c, n, n, n, dtype=half),)) for c, o, n, k in ((3, 16, 24, 3), (3, 32, 48, 3), (1, 16, 32, 5), (4, 16, 40, 3), (3, 64, 32, 3))}
    if suite == "gpu_depthwise":
        return {f"{k}x{k} /{s} {c} at {n}, {b}": (nn.Conv2d(c, c, k, s, k // 2, groups=c).to(half), (randn(b, c, n, n, dtype=half).contiguous(memory_format=torch.channels_last),))
                for c, n, k, s, b in ((96, 56, 7, 1, 1), (384, 14, 7, 1, 1), (32, 112, 3, 1, 8), (144, 56, 3, 2, 8), (960, 7, 5, 1, 8), (768, 7, 7, 1, 32), (192, 28, 3, 1, 1))}
    if suite == "gpu_gemm":
        class Gate(nn.Module):
            def __init__(self, k, n):
                super().__init__()
                self.a, self.b = nn.Linear(k, n, bias=False), nn.Linear(k, n, bias=False)

            def forward(self, x):
                return F.silu(self.a(x)) * self.b(x)

        return {f"gate {m} x {n} x {k}": (Gate(k, n).to(half), (randn(m, k, dtype=half),)) for m, n, k in ((16, 2048, 2048), (64, 4096, 4096), (256, 1024, 1024))} | {
            "int8 " + name: (*problem, {"weight_dtype": "int8"}) for name, problem in products((64, 2048, 2048), (512, 2048, 2048), (1024, 2048, 2048), (2048, 2048, 2048), (4096, 2048, 2048), dtype=half).items()} | products((16, 100, 4096), (30, 70, 1000), (8, 1000, 4096), dtype=half)
    if suite == "gpu_columns_of_tiles":
        class Block(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.a, self.norm, self.scale = nn.Linear(n, n), nn.BatchNorm1d(n), nn.Parameter(randn(n))

            def forward(self, x, y):
                return self.norm(F.gelu(self.a(x)) * self.scale + y)

        return {f"{m} x {n}": (Block(n).eval().to(half), (randn(m, n, dtype=half), randn(m, n, dtype=half))) for m, n in ((512, 768), (4096, 1024), (256, 4096))}
    if suite == "gpu_gemv":
        class Norm(nn.Module):
            def __init__(self, k, n):
                super().__init__()
                self.norm, self.a = nn.LayerNorm(k), nn.Linear(k, n)

            def forward(self, x):
                return self.a(self.norm(x))

        return products(*((m, n, k) for m in (1, 6, 8) for n, k in ((4096, 4096), (768, 3072), (11008, 4096))), dtype=half) | {f"norm and {n} x {k}": (Norm(k, n).to(half), (randn(1, k, dtype=half),)) for n, k in ((4096, 4096), (4096, 8192), (768, 768))}
    if suite == "gpu_sample":
        return of(**{f"{c} of {n}": (lambda x, g: F.grid_sample(x, g, align_corners=False), randn(2, c, n, n), randn(2, n, n, 2).clamp(-1, 1)) for c, n in ((1, 64), (8, 64), (32, 64), (32, 256), (64, 56))})
    if suite == "gpu_small":
        return products(*((m, n, k) for m in (1, 32, 64, 128, 512) for n, k in ((24, 96), (64, 64), (100, 200), (16, 1000)))) | of(
            norms_of_two=(lambda x, y: (F.layer_norm(x, (256,)), F.layer_norm(y, (256,))), randn(2000, 256), randn(2000, 256)), large_norms=(lambda x, y: (F.layer_norm(x, (512,)), F.layer_norm(y, (512,))), randn(40000, 512), randn(40000, 512)),
            **{f"transposed_{n}": (lambda x: x.permute(0, 2, 1).contiguous() + 1, randn(64, n, 500)) for n in (8, 12, 16, 24, 32)})
    if suite == "gpu_histogram":
        return of(**{f"{n}_into_{b}": (lambda x, b=b: torch.histc(x, b, 0.0, 1.0), torch.rand(n)) for n, b in ((1000, 16), (20000, 16), (20000, 256), (100000, 10), (100000, 256), (1000000, 64))})
    if suite == "gpu_channels":
        return {f"{o} columns": (nn.Sequential(nn.Conv2d(32, o, 3, padding=1), nn.ReLU()).to(half), (randn(8, 32, 56, 56, dtype=half).contiguous(memory_format=torch.channels_last),)) for o in (5, 7, 9, 10, 11, 13, 15, 17, 20, 30)}
    raise SystemExit(f"unknown suite {suite}")


def example_of(x):
    import torch

    return torch.zeros(x.opt_shape, dtype=getattr(torch, x.dtype))


# ---- one value in its own process


def worker(suite, device, threads):
    import torch

    import ingot

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    measures, failed = {}, {}
    for name, (model, inputs, *options) in problems_of(suite).items():
        try:
            compiled = ingot.compile(model.eval().to(device), inputs=[x.to(device) for x in inputs], **(options[0] if options else {}))
            inputs = [x.to(device) for x in inputs]
            if device == "cuda":
                from convolutions import recorded

                measure = recorded(lambda compiled=compiled, inputs=inputs: compiled(*inputs), 16)
            else:
                def measure(n, call=compiled, inputs=inputs):
                    best = math.inf
                    for _ in range(n):
                        start = time.perf_counter()
                        call(*inputs)
                        best = min(best, time.perf_counter() - start)
                    return best
            measure(2)
            measures[name] = measure, max(1, min(200, round(0.01 / measure(3))))
        except Exception as problem:  # the parent prints it and goes on with the other problems
            failed[name] = f"{type(problem).__name__}: {problem}"[:200]
    print(json.dumps(failed), file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps({name: measure(n) for name, (measure, n) in measures.items()}), file=answers, flush=True)


def measured(suite, file, numbers, device, rounds, lock):
    """Lines of a suite."""
    threads = THREADS.get(suite, 1)
    values = [None, *((name, value) for name, others in numbers.items() for value in others)]
    processes = []
    for value in values:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "INGOT_CACHE": "off", **({variable(file, value[0]): str(value[1])} if value else {})}
        processes.append(subprocess.Popen([sys.executable, __file__, "--worker", suite, "--device", device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None if value is None else subprocess.DEVNULL, text=True, env=environment))
    best = [{} for _ in values]
    for value, process in zip(values, processes):
        for problem, text in json.loads(process.stdout.readline() or '{"all": "the process died"}').items():
            print(f"{suite} {value or 'as it is'}: {problem} failed: {text}", flush=True)
    held = lock and open(lock, "w")
    if held:
        fcntl.flock(held, fcntl.LOCK_EX)
    for k in range(rounds):
        order = list(range(len(values)))
        for i in order[k % len(order) :] + order[: k % len(order)]:
            try:
                processes[i].stdin.write("\n")
                processes[i].stdin.flush()
                for name, seconds in json.loads(processes[i].stdout.readline()).items():
                    best[i][name] = min(best[i].get(name, math.inf), seconds)
            except (BrokenPipeError, json.JSONDecodeError):
                pass
    if held:
        held.close()
    for process in processes:
        process.stdin.close()
        process.wait()
    for value, times in list(zip(values, best))[1:]:
        yield {"suite": suite, "file": file, "name": value[0], "value": value[1], "ratios": {name: round(seconds / best[0][name], 3) for name, seconds in times.items() if name in best[0]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--edit", metavar="FOLDER", type=Path, help="make the numbers variables in this copy of the sources")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", default="", help="suites whose name this expression finds")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--lock", metavar="FILE", help="measure while no other process has this file's lock: several may build at a time")
    parser.add_argument("--dry", action="store_true", help="write no file")
    parser.add_argument("--worker", metavar="SUITE")
    arguments = parser.parse_args()
    if arguments.edit:
        return edit(arguments.edit)
    if arguments.worker:
        return worker(arguments.worker, arguments.device, THREADS.get(arguments.worker, 1))
    if arguments.device == "cuda":
        import torch

        machine = torch.cuda.get_device_name().lower().replace(" ", "-")
    else:
        from cpu import machine_name

        machine = machine_name()
    for suite, (file, numbers) in (GPU if arguments.device == "cuda" else CPU).items():
        if not re.search(arguments.only, suite):
            continue
        for line in measured(suite, file, numbers, arguments.device, arguments.rounds, arguments.lock):
            ratios = line["ratios"]
            if not ratios:
                print(f"{suite}.{line['name']} = {line['value']}: no problem was measured")
                continue
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            beyond = ", ".join(f"{name} {ratio:.2f}" for name, ratio in sorted(ratios.items(), key=lambda item: item[1]) if abs(ratio - 1) > 0.03)
            print(f"{suite}.{line['name']} = {line['value']:g}: {min(ratios.values()):.2f} to {max(ratios.values()):.2f}, mean {mean:.3f}" + (f"; {beyond}" if beyond else ""), flush=True)
            if not arguments.dry:
                with open(HERE / "results" / f"constants-{machine}.jsonl", "a") as file_of_results:
                    file_of_results.write(json.dumps({**line, "time": time.strftime("%Y-%m-%d")}) + "\n")


if __name__ == "__main__":
    main()

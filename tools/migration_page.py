"""Writes docs/migration.md from the tables of python/ingot/torch_tensorrt: `python tools/migration_page.py` (needs torch).

The names are SYMBOLS in _symbols.py, the settings TABLE in dynamo/_settings.py; tests/dropin/test_migration_page.py compares the page with them.
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
PAGE = ROOT / "docs/migration.md"

HEAD = """# From Torch-TensorRT

`import ingot.torch_tensorrt as torch_tensorrt` gives Torch-TensorRT's Python API (of version 2.14) on ingot: its scripts run unchanged on a CPU or an NVIDIA GPU, without
TensorRT. With the wheel `torch-ingot-tensorrt`, `import torch_tensorrt` does the same, unless NVIDIA's package is installed, which then keeps the name.

Engines are ingot's. Files and bytes that hold engines of TensorRT have to be made again from the model. A compiled module follows the model's own weights, so changing them needs no
refit; docs/modules.md states all that it promises.

Each name and setting below has a status:

- **works**: as in Torch-TensorRT.
- **differs**: accepted; the text says what holds here.
- **not yet**: accepted with one warning; it has no effect.
- **refused**: using the name, or giving the setting a value other than its default, is an error that says what to do instead.

The logger `torch_tensorrt` logs once what a setting means here. An unknown setting does nothing and is logged with the nearest known name.

`python tools/migration_page.py` generates this page from the tables in `python/ingot/torch_tensorrt`.
"""
# Seen in runs on a CPU.
OWN_TESTS = """## Torch-TensorRT's own tests

Its Python tests and examples (commit d7f2062) were run through this package on a CPU, with `"cuda"` replaced by `"cpu"` in their sources (not in `core`), pretrained weights by random ones, and operators
that torch has only on a GPU by the CPU's (efficient attention). Tests that skip themselves are not counted: those of TensorRT's C++ runtime, of TensorRT-RTX, of several GPUs and of Windows. The examples were counted on 25 November 2026, the tests a day later.

| tests | run | pass | what does not pass |
|---|---|---|---|
| `conversion` | 2,094 | 2,071 | 4: limits of TensorRT that are not here (more than 8 axes, the sort of a number, a split of open sizes, a `prims.broadcast_in_dim` that repeats). 3: torch's own on a CPU (softmax from half to float; the mean of `_embedding_bag` with `include_last_offset`, whose divisor counts all indices). 10: what torch.export does not take (bilinear, bicubic and trilinear upsampling of open sizes by fractions, group norm with numbers that contradict open sizes, a tensor among `scale_factors`, two masks among indices). 2: ranges with sizes that eager refuses. 4: `tensorrt.Runtime`. Not imported: `test_converter_utils` (layers of TensorRT), `test_attention` (a GPU) |
| `hlo` | 196 | 194 | 2: the graph after upstream's own rewriting of a complex `cumsum`, which runs in engines here |
| `lowering` | 242 | 240 | 1: log softmax from half to float, which torch has not on a CPU. 1: `post_lowering` does not run `fuse_pad_into_convolution`. Not imported: `test_constant_fold_exclusions` (refused names), `test_complex_decomposition_adapter` (a pass of torch 2.14) |
| `partitioning` | 24 | 24 | |
| `backend` | 16 | 16 | |
| `core` | 8 | 8 | |
| `runtime` | 136 | 127 | 5: `tensorrt.Runtime`. 1: a GPU. 1: insides of classes (profiles rebuilt from TensorRT's). 1: `index_copy` writes its input there, and as in torch not here. 1: expects that a static cache does not compile |
| `models` | 181 | 177 | 1: `tensorrt.Runtime`. 1: sizes of 1 for a program of `Dim.DYNAMIC`, which torch exports for sizes from 2. 1: a cache hit within one build (an entry is a whole build here). 1: a second process that wants a GPU. 3 that upstream expects to fail pass, and are not counted. Not imported: `test_exporter_inlining`, `test_weight_stripped_engine` (TensorRT's objects). Three tests of autocast run with a GPU's rule of torch.autocast for `log` |
| examples | 21 | 20 | 1: `weight_streaming_example` calls a program without the input `position_ids` that it exported it with, which torch's own module of that program refuses too (`TypeError`); with that given, it runs |

On an H200, unchanged: of 1,272 tests of `conversion` and of attention, in the order of their files, 1,250 pass (of the others 1 differs in 2 of 262,144 numbers, 1 writes several values to one place,
7 created tensors on the CPU, which is mended since, 8 compile a program of the CPU and give it tensors of the GPU, 5 are as above); of 274 of `runtime`, `core` and attention 258 (5: `tensorrt.Runtime`. 1: a download. 5: as above. 5: attention with fewer heads of keys, which runs since).
"""
GROUPS = {"field": "## Settings", "call": "## Options of calls", "older": "## Settings of older versions"}


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def shown(value) -> str:
    return f"`{value.name}`" if hasattr(value, "name") else "`{}`" if isinstance(value, set) else f"`{value!r}`"


def table(head, rows) -> list[str]:
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(map(cell, row)) + " |" for row in rows), ""]


def page() -> str:
    from ingot.torch_tensorrt._symbols import SYMBOLS
    from ingot.torch_tensorrt.dynamo._settings import TABLE

    lines = [HEAD]
    kinds = ("works", "differs", "not yet", "refused")
    counted = [("names", collections.Counter(s.status for s in SYMBOLS))]
    counted += [(what, collections.Counter(s.status for s in TABLE if s.group == group)) for what, group in (("settings", "field"), ("options of calls", "call"), ("settings of older versions", "older"))]
    lines += table(["", *kinds, "all"], [[what, *(str(n[k]) for k in kinds), str(sum(n.values()))] for what, n in counted])
    lines += ["## Names", ""]
    groups: dict[str, list] = {}
    for s in SYMBOLS:
        groups.setdefault(s.name.rpartition(".")[0], []).append(s)
    for prefix, rows in groups.items():
        lines += [f"### torch_tensorrt{'.' + prefix if prefix else ''}", ""]
        lines += table(["name", "", "here"], [[f"`{s.name.rpartition('.')[2]}`", s.status, s.text + (f". Instead: {s.remedy}" if s.remedy else "")] for s in rows])
    for group, title in GROUPS.items():
        lines += [title, ""]
        lines += table(["setting", "default", "", "here"], [[f"`{s.name}`", shown(s.initial), s.status, s.text + (f". Instead: {s.remedy}" if s.remedy else "")] for s in TABLE if s.group == group])
    return "\n".join([*lines, OWN_TESTS]).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)

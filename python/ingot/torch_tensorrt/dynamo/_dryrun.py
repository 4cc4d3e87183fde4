"""The output of a dry run: the report in the order and under the headings of Torch-TensorRT."""

from __future__ import annotations

import os
from collections import Counter

from ...running.report import Report


def teller(path=None):
    """A value for ingot's option dryrun. It prints the report, and with a path also writes ingot's own report there (JSON for *.json)."""

    def tell(report: Report):
        print(text(report))
        if path is not None:
            report.write(os.fspath(path))

    return tell


def text(report: Report) -> str:
    counts = Counter(node["target"] for node in report.nodes if node["segment"] is None)
    share = 100 * report.in_engine / report.operators if report.operators else 100.0
    lines = ["+" * 50 + " Dry-Run Results for Graph " + "+" * 50, ""]
    lines += [f"The graph consists of {report.operators} Total Operators, of which {report.in_engine} operators are supported, {share:.2f}% coverage", ""]
    if counts:
        lines += ["The following ops are currently unsupported or excluded from conversion, and are listed with their op-count in the graph:"]
        lines += [f" - torch.ops.{target}: {count}" for target, count in counts.most_common()] + [""]
        lines += ["The following nodes are currently set to run in Torch:"]
        lines += [f" - torch.ops.{n['target']}, with layer location: {n['name']} ({n['reason']})" for n in report.nodes if n["segment"] is None] + [""]
    lines += ["  Graph Structure:", ""]
    sizes = [segment["operators"] for segment in report.segments]
    for i, segment in enumerate(report.segments):
        lines += [
            f"    TRT Engine #{i + 1} - Submodule name: _run_on_acc_{i}",
            f"     Engine Inputs: {_names(segment['inputs'])}",
            f"     Number of Operators in Engine: {segment['operators']}",
            f"     Engine Outputs: {_names(segment['outputs'])}",
            "",
        ]
    lines += ["  " + "-" * 25 + " Aggregate Stats " + "-" * 25, ""]
    lines += [f"   Average Number of Operators per TRT Engine: {sum(sizes) / len(sizes) if sizes else 0:.2f}", f"   Most Operators in a TRT Engine: {max(sizes, default=0)}", ""]
    lines += ["  " + "*" * 10 + " Recommendations " + "*" * 10, ""]
    if sizes:
        lines += [f"   - For minimal graph segmentation, select min_block_size={max(sizes)} which would generate {sizes.count(max(sizes))} TRT engine(s)"]
        lines += [f"   - The current level of graph segmentation is equivalent to selecting min_block_size={min(sizes)} which generates {len(sizes)} TRT engine(s)"]
    else:
        lines += ["   - No engine would be built: a lower min_block_size may give some"]
    return "\n".join(lines) + "\n"


def _names(values) -> str:
    return ", ".join(v if isinstance(v, str) else next(iter(v.values())) for v in values)

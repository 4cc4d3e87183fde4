"""Makes docs/performance.md, its charts (docs/charts/*.svg) and the table of README.md from the lines of bench/results.

    python tools/performance_page.py        tests/docs/test_performance_page.py compares them

A *run* is one command on one machine and day: its peers ran alternately. A ratio is a peer's median time over ingot's in the same run, so above 1 ingot is faster.
For each model and peer the newest run counts, and no run is chosen by its result.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE, CHARTS, README = ROOT / "bench/results", ROOT / "docs/performance.md", ROOT / "docs/charts", ROOT / "README.md"
BEGIN, END = "<!-- made by tools/performance_page.py -->\n", "<!-- end -->\n"
PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "inductor-freezing": "inductor, frozen", "inductor-graphs": "inductor, CUDA graphs", "inductor": "inductor", "eager": "eager"}


@dataclass(frozen=True)
class Machine:
    title: str
    rivals: tuple[str, ...]  # the peers that the chart and the means are about

    @property
    def gpu(self) -> bool:
        return "inductor-graphs" in self.rivals


MACHINES = {
    "intel-xeon-processor-2cores-avx512": Machine("Intel Xeon, 2 cores, AVX-512", ("onnxruntime", "openvino")),
    "amd-epyc-2cores-avx512": Machine("AMD EPYC, 2 cores, AVX-512", ("onnxruntime", "openvino")),
    "amd-epyc-2cores-avx2": Machine("AMD EPYC, 2 cores, AVX2", ("onnxruntime", "openvino")),
    "nvidia-h200": Machine("NVIDIA H200", ("inductor-graphs",)),
    "nvidia-h100-80gb-hbm3": Machine("NVIDIA H100", ("inductor-graphs",)),
}
NAMES = {
    "minilm-b1-s16": "MiniLM, 1 x 16 tokens", "minilm-b32-s32": "MiniLM, 32 x 32 tokens", "bert-base-b1-s128": "BERT-base, 1 x 128", "gpt2-b1-s1": "GPT-2, 1 token",
    "llama-b1-s1": "Llama of 8 layers, 1 token", "llama-bf16-b1-s1": "Llama of 8 layers bf16, 1 token", "llama-bf16-b1-s128": "Llama of 8 layers bf16, 128 tokens",
    "resnet50-b1": "ResNet-50 (transformers)", "vit-b16-b1": "ViT-B/16", "convnext-tiny-b1": "ConvNeXt-T (transformers)", "resnet-50": "ResNet-50", "resnet-50-b8": "ResNet-50, batch 8",
    "mobilenet-v2": "MobileNetV2", "mobilenet-v3": "MobileNetV3", "efficientnet-b0": "EfficientNet-B0", "densenet-121": "DenseNet-121", "regnet-y": "RegNet-Y 800MF", "shufflenet": "ShuffleNetV2",
    "convnext-tiny": "ConvNeXt-T", "swin-tiny": "Swin-T", "unet": "U-Net", "unet-3d": "3-D U-Net", "sound-codec": "sound codec", "vocoder": "vocoder", "separator": "Conv-TasNet",
    "detector": "detector", "deeplab": "DeepLab", "vae-decoder": "VAE decoder", "whisper-encoder": "Whisper encoder",
    "bert-large-f16-b1-s128": "BERT-large, 1 x 128", "bert-large-f16-b8-s128": "BERT-large, 8 x 128", "bert-large-f16-b32-s384": "BERT-large, 32 x 384", "vit-b16-f16-b1": "ViT-B/16, 1",
    "vit-b16-f16-b32": "ViT-B/16, 32", "resnet50-f16-b1": "ResNet-50, 1", "resnet50-f16-b32": "ResNet-50, 32", "resnet50-tf32-b8": "ResNet-50 float32 (TF32), 8", "llama-8b-bf16-token": "Llama-8B bf16, 1 token",
    "llama-8b-int8-token": "Llama-8B int8 weights, 1 token", "convnext-tiny-f16-b32": "ConvNeXt-T, 32", "densenet121-f16-b32": "DenseNet-121, 32", "efficientnet-b0-f16-b1": "EfficientNet-B0, 1",
    "efficientnet-b0-f16-b32": "EfficientNet-B0, 32", "regnet-f16-b32": "RegNet-Y 3.2GF, 32", "swin-t-f16-b32": "Swin-T, 32", "sd15-unet-f16-b2": "Stable Diffusion 1.5 UNet",
    "vae-decoder-f16-512": "VAE decoder, 512 x 512", "sd3-transformer-f16-b2": "Stable Diffusion 3 transformer", "sdxl-unet-f16-b2": "SDXL UNet", "detector-f16-b8": "detector, 8", "separator-f16-b4": "Conv-TasNet, 4",
    "sound-codec-f16-b4": "sound codec, 4", "vocoder-f16-b4": "vocoder, 4", "unet-f16-b8": "U-Net, 8", "unet-3d-f16-b2": "3-D U-Net, 2",
}  # fmt: skip
SHOWN = {  # what README's table has, of these machines
    "intel-xeon-processor-2cores-avx512": ("resnet-50", "mobilenet-v2", "swin-tiny", "unet", "whisper-encoder"),
    "nvidia-h200": ("bert-large-f16-b1-s128", "resnet50-f16-b32", "llama-8b-bf16-token", "sd15-unet-f16-b2", "unet-3d-f16-b2"),
}


@dataclass
class Ratio:
    """One peer and ingot: the newest run that has both."""

    peer: str
    over: float  # the peer's time over ingot's
    ms: float  # ingot's
    date: str
    command: str


@dataclass
class Row:
    name: str
    ratios: dict[str, Ratio]
    limit_ms: float | None  # operations over the measured peak, or bytes over the bandwidth
    build: dict[str, float]  # seconds from the model to its second result, of ingot and frozen inductor in one run, each in a process of its own

    @property
    def title(self) -> str:
        return NAMES.get(self.name, self.name)

    @property
    def last(self) -> Ratio:
        return max(self.ratios.values(), key=lambda ratio: ratio.date)  # the first of the newest

    def best(self, rivals) -> Ratio | None:
        """The fastest of the rivals."""
        return min((self.ratios[peer] for peer in rivals if peer in self.ratios), key=lambda ratio: ratio.over, default=None)


# -- lines


def read(machine: str, folder: Path = RESULTS) -> list[dict]:
    return [json.loads(line) for line in (folder / f"{machine}.jsonl").read_text().splitlines()]


def rows(machine: str, folder: Path = RESULTS) -> dict[str, Row]:
    """Each model that was timed with a peer."""
    runs: dict[tuple, dict[str, dict]] = {}
    for line in read(machine, folder):
        if "row" in line and "peer" in line and "ms" in line:
            runs.setdefault((line["row"], line["time"], line["command"]), {})[line["peer"]] = line
    found: dict[str, Row] = {}
    for (name, date, command), peers in runs.items():
        ingot = peers.get("ingot")
        if ingot is None or not set(peers) & set(PEERS):
            continue
        row = found.setdefault(name, Row(name, {}, None, {}))
        row.limit_ms = ingot.get("limit_ms") or row.limit_ms
        row.ratios.update({peer: Ratio(peer, line["ms"] / ingot["ms"], ingot["ms"], date, command) for peer, line in peers.items() if peer in PEERS})
        if "compile_s" in ingot and "inductor-freezing" in peers:
            row.build = {"ingot": ingot["compile_s"], "inductor": peers["inductor-freezing"]["compile_s"]}
    return dict(sorted(found.items(), key=lambda item: item[1].title.lower()))


def mean(numbers) -> float:
    """Geometric mean."""
    numbers = list(numbers)
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def kernels(machine: str, command: str, folder: Path = RESULTS) -> list[float]:
    """ingot's time over eager's, of each single operator that the command timed."""
    return [line["ratio"] for line in read(machine, folder) if "kernel" in line and line["command"] == command]


# -- charts

BAR, GAP, LEFT, RIGHT, TOP = 14, 8, 230, 60, 44


def chart(title: str, note: str, bars: list[tuple[str, float, str]], line: float, longest: float = 1.5) -> str:
    """Horizontal bars, the longest first, and a line where both are equal. bars: label, value and what is written after the bar. longest: the value that fills the width, unless one is larger."""
    bars = sorted(bars, key=lambda bar: (-bar[1], bar[0]))
    wide, high = 720, TOP + len(bars) * (BAR + GAP) + 30
    scale = (wide - LEFT - RIGHT) / max(longest, *(value for _, value, _ in bars))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" font-family="sans-serif" font-size="12" role="img" aria-label="{escaped(title)}">',
        f'<rect width="{wide}" height="{high}" fill="#ffffff"/>',
        f'<text x="12" y="19" font-size="14" font-weight="bold" fill="#222222">{escaped(title)}</text>',
        f'<text x="12" y="35" fill="#666666">{escaped(note)}</text>',
    ]
    for at, (label, value, text) in enumerate(bars):
        y, length = TOP + at * (BAR + GAP), value * scale
        colour = "#3f7d58" if value >= line else "#c0603a"
        out += [
            f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end" fill="#222222">{escaped(label)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>',
            f'<text x="{LEFT + length + 5:.1f}" y="{y + 11}" fill="#222222">{escaped(text)}</text>',
        ]
    x = LEFT + line * scale
    if line:
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{high - 26}" stroke="#222222" stroke-dasharray="3 3"/>')
        out.append(f'<text x="{x:.1f}" y="{high - 10}" text-anchor="middle" fill="#666666">equal</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def charts(folder: Path = RESULTS) -> dict[str, str]:
    """The text of each file of docs/charts."""
    out = {}
    for machine, of in MACHINES.items():
        found = rows(machine, folder)
        best = {row.title: row.best(of.rivals) for row in found.values() if row.best(of.rivals)}
        against = " and ".join(PEERS[peer] for peer in of.rivals)
        days = dates(best.values())
        bars = [(title, ratio.over, times(ratio.over)) for title, ratio in best.items()]
        note = f"How many times as fast as {'the faster of ' if len(of.rivals) > 1 else ''}{against}; {days}"
        out[f"{machine}.svg"] = chart(of.title, note, bars, 1.0)
        near = [(row.title, row.limit_ms / row.last.ms, f"{100 * row.limit_ms / row.last.ms:.0f} %") for row in found.values() if row.limit_ms and row.limit_ms <= row.last.ms]
        if of.gpu:
            out[f"{machine}-limit.svg"] = chart(of.title, "Limit of the hardware over the time taken (100 %: nothing left to gain)", near, 0.0, longest=1.0)
        built = [] if of.gpu else [(row.title, row.build["inductor"] / row.build["ingot"], times(row.build["inductor"] / row.build["ingot"])) for row in found.values() if row.build]
        if len(built) > 4:
            out[f"{machine}-build.svg"] = chart(of.title, "How many times as long frozen inductor takes from the model to its second result", built, 1.0)
    return out


# -- the page


def times(over: float) -> str:
    return f"{over:.2f}x" if over < 9.95 else f"{over:.0f}x"


def milliseconds(ms: float) -> str:
    return f"{ms:.2f} ms" if ms < 10 else f"{ms:.1f} ms" if ms < 100 else f"{ms:.0f} ms"


def dates(ratios) -> str:
    """First and last day, e.g. `2026-11-22 to 2026-11-27`."""
    days = sorted({ratio.date for ratio in ratios})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def commands(found: dict[str, Row]) -> list[str]:
    """Each command once, the longest way of writing it left as it is."""
    return sorted({ratio.command for row in found.values() for ratio in row.ratios.values()})


def table(machine: str, found: dict[str, Row]) -> list[str]:
    peers = [peer for peer in PEERS if any(peer in row.ratios for row in found.values())]
    lines = ["| model | ingot | limit | " + " | ".join(PEERS[peer] for peer in peers) + " | measured |", "|---|---|---|" + "---|" * (len(peers) + 1)]
    for row in found.values():
        limit = milliseconds(row.limit_ms) if row.limit_ms else ""
        ratios = [times(row.ratios[peer].over) + ("*" if row.ratios[peer].date < row.last.date else "") if peer in row.ratios else "" for peer in peers]
        lines.append(f"| {row.title} | {milliseconds(row.last.ms)} | {limit} | " + " | ".join(ratios) + f" | {dates(row.ratios.values())} |")
    return lines


def summary(folder: Path) -> list[str]:
    lines = ["| machine | peer | models | ingot is, as a geometric mean | behind in | measured |", "|---|---|---|---|---|---|"]
    for machine, of in MACHINES.items():
        found = rows(machine, folder)
        wanted = [(of.rivals, "the faster of " + " and ".join(PEERS[p] for p in of.rivals))] if len(of.rivals) > 1 else []
        wanted += [((peer,), text) for peer, text in PEERS.items()]
        for rivals, text in wanted:
            ratios = [row.best(rivals) for row in found.values() if row.best(rivals)]
            if len(ratios) >= 4:
                behind = sum(ratio.over < 1 for ratio in ratios)
                lines.append(f"| {of.title} | {text} | {len(ratios)} | {times(mean(r.over for r in ratios))} as fast | {behind} | {dates(ratios)} |")
    return lines


def behind(folder: Path) -> list[str]:
    lines = []
    for machine, of in MACHINES.items():
        for row in rows(machine, folder).values():
            slower = [ratio for ratio in row.ratios.values() if ratio.over < 0.995]
            lines += [f"| {row.title} | {of.title} | {PEERS[ratio.peer]} | {times(ratio.over)} | {ratio.date} |" for ratio in slower]
    return ["| model | machine | faster is | ingot's speed relative to it | measured |", "|---|---|---|---|---|", *lines]


CONVOLUTIONS = (  # machine and command of the newest full sweep of bench/convolutions.py
    ("intel-xeon-processor-2cores-avx512", "python bench/convolutions.py --threads 2 --rounds 4"),
    ("amd-epyc-2cores-avx512", "python bench/convolutions.py --threads 2 --rounds 10"),
    ("nvidia-h200", "python bench/convolutions.py --device cuda --dtype float16 --form alone --rounds 3"),
    ("nvidia-h200", "python bench/convolutions.py --device cuda --dtype float32 --form alone --rounds 3"),
)


def convolutions(folder: Path) -> list[str]:
    lines = ["| machine | convolutions | ingot's time over eager's (geometric mean) | slower than eager | command |", "|---|---|---|---|---|"]
    for machine, command in CONVOLUTIONS:
        ratios = kernels(machine, command, folder)
        lines.append(f"| {MACHINES[machine].title} | {len(ratios)} | {mean(ratios):.2f} | {sum(ratio > 1 for ratio in ratios)} | `{command}` |")
    return lines


def page(folder: Path = RESULTS) -> str:
    lines = [
        "# Performance",
        "",
        "How fast ingot is compared with other ways to run the same model, on each machine that was timed. \"1.25x\" means that the other takes 1.25 times as long, so above 1 ingot is faster.",
        "[How it was measured](#how-it-was-measured) says what a run, a limit and a * are. Machines differ: [How fast is my model](how_fast.md) says how to time yours, and where the time goes.",
        "",
        "## In short",
        "",
        *summary(folder),
        "",
    ]
    for machine, of in MACHINES.items():
        found = rows(machine, folder)
        lines += [f"## {of.title}", ""]
        for kind, alt in (("", "speed compared with the fastest peer"), ("-limit", "part of the hardware's limit"), ("-build", "time to compile")):
            if f"{machine}{kind}.svg" in charts(folder):
                lines += [f"![{of.title}: {alt}](charts/{machine}{kind}.svg)", ""]
        lines += [*table(machine, found), ""]
        lines += ["??? note \"Commands\"", "", "    ```", *(f"    {command}" for command in commands(found)), "    ```", ""]
    lines += [
        "## Where ingot is behind",
        "",
        "Each model and peer in which ingot is slower by more than half a percent:",
        "",
        *behind(folder),
        "",
        "## Single convolutions",
        "",
        "Each convolution alone, and on the CPU also between other layers, compared with eager PyTorch (oneDNN on a CPU, cuDNN on a GPU). Below 1 ingot is faster.",
        "",
        *convolutions(folder),
        "",
        "What was tried to get here, and what did not help, is in the [performance notes](performance-notes/index.md).",
        "",
        "## How it was measured",
        "",
        "- A *run* is one command on one machine: all peers run alternately, at their defaults, and each time is a median. A ratio is of one run. Seconds of different runs are not compared: other programs may have shared the machine.",
        "- For each model and peer the newest run counts; no run is chosen by its result. A ratio with * is of an older day than the time in its row, so of an older build.",
        "- The *limit* is what the hardware allows: floating-point operations over the measured peak, or bytes of weights over the measured bandwidth, whichever takes longer. Winograd's transformation needs fewer operations than are counted,",
        "  and caches read faster than memory, so a time may be below it.",
        "- On a GPU a time is that between events around a call. Times to compile are from the model to its second result, in a process of its own.",
        "- Lines of models in `bench/results` have the error of their results against float64.",
        "",
        "`tools/performance_page.py` makes this page and its charts of the lines in `bench/results`, and a test compares them: no figure is typed by hand.",
        "",
    ]
    return "\n".join(lines)


def figures(folder: Path = RESULTS) -> list[str]:
    """What README.md says in words."""
    out = []
    for machine, kind in (("intel-xeon-processor-2cores-avx512", "the faster of ONNX Runtime and OpenVINO"), ("nvidia-h200", "inductor with CUDA graphs")):
        best = [row.best(MACHINES[machine].rivals) for row in rows(machine, folder).values() if row.best(MACHINES[machine].rivals)]
        out += [f"{times(mean(ratio.over for ratio in best))} as fast as {kind}", f"mean of {len(best)} models", dates(best)]
    built = [row for row in rows("amd-epyc-2cores-avx512", folder).values() if row.build]
    return [*out, f"{mean(row.build['inductor'] / row.build['ingot'] for row in built):.1f}x as soon as with frozen inductor", f"mean of {len(built)} models"]


def front(folder: Path = RESULTS) -> str:
    """The table of README.md."""
    lines = ["| model | machine | ingot | compared with the fastest peer | measured |", "|---|---|---|---|---|"]
    for machine, names in SHOWN.items():
        found = rows(machine, folder)
        for name in names:
            ratio = found[name].best(MACHINES[machine].rivals)
            lines.append(f"| {found[name].title} | {MACHINES[machine].title} | {milliseconds(ratio.ms)} | {times(ratio.over)} as fast as {PEERS[ratio.peer]} | {ratio.date} |")
    return "\n".join(lines) + "\n"


def with_table(text: str, made: str) -> str:
    """README.md with this table between its marks."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + made + END + rest.split(END)[1]


def main():
    PAGE.write_text(page())
    CHARTS.mkdir(exist_ok=True)
    made = charts()
    for old in CHARTS.glob("*.svg"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (CHARTS / name).write_text(text)
    README.write_text(with_table(README.read_text(), front()))


if __name__ == "__main__":
    main()

"""Peak host memory of a build by ingot.compile and by `ingot compile model.pt2`, relative to the weights, with an empty cache and with the plan in it.

    python bench/host_memory.py [--models bert,bert_large,resnet,llama,unet]

Figures are multiples of the bytes of the weights, beyond the memory before the build. The module's own weights are not counted; the packed copy that the engine keeps is (about 1.0). A separate
process samples anonymous memory every 2 ms. A small model is compiled first, so that libraries and torch's own tables are loaded. For the command line all anonymous memory counts: it maps the
archive and packs nothing. Bar: 1.3 for ingot.compile, 0.3 for the command line. Random weights, on the CPU.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

from plan_cache import bert, bert_large, llama, resnet, resnet_torchvision  # noqa: F401  by name

BARS = {"ingot.compile": 1.3, "ingot compile": 0.3}


def unet():
    import diffusers
    import torch

    class Sample(torch.nn.Module):
        def __init__(self):
            super().__init__()
            sizes = dict(sample_size=32, block_out_channels=(160, 320, 640), cross_attention_dim=768, attention_head_dim=8, layers_per_block=1)
            blocks = dict(down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"))
            self.model = diffusers.UNet2DConditionModel(**sizes, **blocks)

        def forward(self, sample, step, text):
            return self.model(sample, step, text, return_dict=False)[0]

    return Sample(), [torch.zeros(1, 4, 32, 32), torch.ones(1, dtype=torch.int64), torch.zeros(1, 77, 768)], "UNet as Stable Diffusion's, half its widths, 1 x 4 x 32 x 32"


def anonymous(pid="self") -> int:
    with open(f"/proc/{pid}/status") as f:
        return next((int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon")), 0)


class Peak:
    """The peak anonymous memory of this process while the object is open. A separate process samples it, because a thread would wait for Python's lock."""

    WATCH = (
        "import sys\nmost = 0\nimport time, select\ntry:\n    while not select.select([sys.stdin], [], [], 0.002)[0]:\n        for line in open('/proc/%s/status' % sys.argv[1]):\n"
        "            if line.startswith('RssAnon'): most = max(most, int(line.split()[1]) << 10)\nexcept (FileNotFoundError, ProcessLookupError): pass\nprint(most)"
    )

    def __enter__(self):
        self.before = anonymous()
        self._watch = subprocess.Popen([sys.executable, "-c", self.WATCH, str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(0.2)
        return self

    def __exit__(self, *_):
        self.bytes = int(self._watch.communicate("\n")[0]) - self.before


def of_command(line) -> int:
    """The peak anonymous memory of a command."""
    child = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    peak = 0
    while child.poll() is None:
        try:
            peak = max(peak, anonymous(child.pid))
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.002)
    if child.returncode != 0:
        sys.exit(f"{' '.join(line)} failed")
    return peak


def one(name, state, folder):
    import ctypes

    import torch

    from images import import_torchvision

    import ingot

    import_torchvision()  # transformers and diffusers import it
    model, inputs, title = globals()[name]()
    model = model.eval().requires_grad_(False)
    weights = sum(t.nbytes for t in {t.data_ptr(): t for t in (*model.parameters(), *model.buffers())}.values())
    command = os.environ.get("INGOT_CLI") or str(os.path.join(os.path.dirname(ingot.engine._library.find("libingot.so.0")), "ingot"))
    with torch.no_grad():
        ingot.compile(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval(), inputs=[torch.ones(2, 8)], min_block_size=1, cache="off")
        with Peak() as peak:
            compiled = ingot.compile(model, inputs=inputs, cache="readwrite", cache_dir=f"{folder}/built")
        ctypes.CDLL(None).malloc_trim(0)
        held = anonymous() - peak.before
        print(f"| {title} | {weights / 1e6:.0f} | ingot.compile | {state} | {peak.bytes / weights:.2f} | {held / weights:.2f} |", flush=True)
        del compiled
        if state == "empty":
            return
        archive = os.path.join(folder, "model.pt2")
        torch.export.save(torch.export.export(model, tuple(inputs), strict=False), archive)
        del model
        for state in ("empty", "hit"):
            peak = of_command([command, "compile", archive, "-o", os.path.join(folder, "model.ingot"), "--set", "cache=readwrite", "--set", f"cache_dir={folder}/of_files"])
            print(f"| {title} | {weights / 1e6:.0f} | ingot compile | {state} | {peak / weights:.2f} | |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="bert,bert_large,resnet,llama,unet")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        return one(*args.one)
    print("| model | weights, MB | by | cache | peak, times the weights | kept |\n|---|---|---|---|---|---|", flush=True)
    for name in args.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("empty", "hit"):
                subprocess.run([sys.executable, __file__, "--one", name, state, folder], check=True)


if __name__ == "__main__":
    main()

"""Writes the fuzzers' seeds, small models that reach every kernel: FOLDER/archives, and their plans and graphs."""

import argparse
import os
import pathlib
import shutil
import subprocess

import torch
from torch.export import Dim, export


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.qkv = torch.nn.Linear(8, 24)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, ids, mask):
        x = self.embed(ids)
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        return self.norm(x + y.transpose(1, 2).flatten(2)), torch.matmul(q, k.transpose(-1, -2))


class Lines(torch.nn.Module):
    """Kernels that walk lines, and indices that are data."""

    def forward(self, x, index):
        values, order = torch.sort(x, dim=1)
        sums = torch.cumsum(values, dim=1)
        added = torch.zeros_like(x).scatter_add(1, index, sums)
        put = added.index_put((index[0],), sums[0])
        return torch.gather(put, 1, index), order, put.double() @ x.double().t(), torch.cat([x, put], 1).argmax(1)


class Unet(torch.nn.Module):
    """A step of a diffusion model: norms of groups, a skip that is joined with what comes up, phases of a transposed convolution, attention of pixels."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(4, 32, 3, padding=1)
        self.time = torch.nn.Linear(32, 32)
        self.norm = torch.nn.GroupNorm(4, 32)
        self.down = torch.nn.Conv2d(32, 32, 3, stride=2, padding=1)
        self.qkv = torch.nn.Linear(32, 96)
        self.up = torch.nn.ConvTranspose2d(32, 32, 4, 2, 1)
        self.last = torch.nn.Conv2d(64, 4, 3, padding=1)

    def forward(self, x, time):
        skip = self.first(x)
        y = self.down(torch.nn.functional.silu(self.norm(skip) + self.time(time)[:, :, None, None]))
        q, k, v = (t.unflatten(-1, (2, 16)).transpose(1, 2) for t in self.qkv(y.flatten(2).transpose(1, 2)).chunk(3, -1))
        heads = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        y = y + heads.transpose(1, 2).flatten(2).transpose(1, 2).unflatten(2, y.shape[2:])
        return self.last(torch.cat([self.up(y), skip], 1))


class Rows(torch.nn.Module):
    """Products of a few rows and of one, with B in pieces, two norms side by side, and a state."""

    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = torch.nn.Linear(64, 128), torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)
        self.left, self.right = torch.nn.LayerNorm(64), torch.nn.RMSNorm(64)
        self.register_buffer("seen", torch.zeros(64))

    def forward(self, x, other):
        y = self.down(torch.nn.functional.silu(self.gate(self.left(x))) * self.up(x))
        self.seen.add_(y[0])
        return y, self.right(other), self.down(self.gate(self.seen[None])), x.var(1), y.amax(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ingot", required=True, help="the command line")
    arguments = parser.parse_args()
    archives, plans, graphs = (arguments.folder / name for name in ("archives", "plans", "graphs"))
    for folder in (archives, plans, graphs):
        folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    batch = Dim("B", min=1, max=16)
    ids, mask = torch.randint(0, 11, (3, 6)), torch.ones(3, 6, dtype=torch.bool)
    torch.export.save(export(Attention().eval(), (ids, mask), dynamic_shapes=({0: batch}, {0: batch})), archives / "attention.pt2")
    x, index = torch.randn(5, 7), torch.randint(0, 5, (5, 7))
    torch.export.save(export(Lines(), (x, index)), archives / "lines.pt2")
    images = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.nn.Conv2d(8, 4, 3, groups=2)).eval()
    torch.export.save(export(images, (torch.randn(2, 3, 8, 9),), dynamic_shapes=({0: batch},)), archives / "images.pt2")
    windows = torch.nn.Sequential(
        torch.nn.Conv2d(4, 32, 1), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.MaxPool2d(3, 2, 1), torch.nn.Conv2d(32, 3, 5, padding=2), torch.nn.ConvTranspose2d(3, 2, 4, 2, 1)
    ).eval()  # fmt: skip
    torch.export.save(export(windows, (torch.randn(1, 4, 18, 17),)), archives / "windows.pt2")
    torch.export.save(export(torch.nn.Conv3d(3, 4, (3, 5, 5), padding=(1, 2, 2)).eval(), (torch.randn(1, 3, 3, 5, 33),)), archives / "volume.pt2")
    torch.export.save(export(Unet().eval().half(), (torch.randn(2, 4, 16, 16).half(), torch.randn(2, 32).half())), archives / "unet.pt2")
    torch.export.save(export(Rows().eval().half(), (torch.randn(3, 64).half(), torch.randn(7, 64).half()), dynamic_shapes=({0: batch}, None)), archives / "rows.pt2")
    long_rows = torch.nn.Sequential(torch.nn.GroupNorm(2, 8), torch.nn.Conv2d(8, 2, 1)).eval().half()
    torch.export.save(export(long_rows, (torch.randn(1, 8, 128, 128).half(),)), archives / "moments.pt2")
    for archive in (pathlib.Path(__file__).parents[2] / "src/capture/testdata").glob("*.pt2"):
        shutil.copy(archive, archives)
    for archive in sorted(archives.glob("*.pt2")):
        plan = plans / f"{archive.stem}.ingot"
        subprocess.run([arguments.ingot, "compile", archive, "-o", plan], check=True)
        for_gpu = ["--set", "target=cuda:sm_90", "-o", plans / f"{archive.stem}-sm90.ingot"]
        subprocess.run([arguments.ingot, "compile", archive, *for_gpu], check=True, env={**os.environ, "INGOT_LIBRARY_PATH": str(pathlib.Path(torch.__file__).parents[1])})
        graph = subprocess.run([arguments.ingot, "inspect", plan, "--graph"], check=True, capture_output=True).stdout
        (graphs / f"{archive.stem}.txt").write_bytes(graph)


main()

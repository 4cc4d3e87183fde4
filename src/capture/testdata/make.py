"""Writes the archives that the capture tests read. Run from anywhere; the files land next to this script."""
import pathlib

import torch
from torch.export import Dim, export

here = pathlib.Path(__file__).resolve().parent
environment = str(pathlib.Path(torch.__file__).parents[1])


def save(program, name):
    # The same bytes wherever this runs: recorded paths lose this machine's folders.
    for node in (n for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule) for n in m.graph.nodes):
        if trace := node.meta.get("stack_trace"):
            node.meta["stack_trace"] = trace.replace(environment, "/env/site-packages").replace(str(here), "/home/user")
    torch.export.save(program, here / name)


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = torch.nn.Linear(16, 32)
        self.l2 = torch.nn.Linear(32, 32)
        self.l3 = torch.nn.Linear(32, 4)

    def forward(self, x):
        x = torch.relu(self.l1(x))
        x = torch.relu(self.l2(x))
        return self.l3(x)


class Varied(torch.nn.Module):
    """What an importer meets: tied and transposed weights, infinities, a constant, sizes as values, a no_grad region."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 8)
        self.b = torch.nn.Linear(8, 8)
        self.b.weight = self.a.weight
        self.t = torch.nn.Parameter(torch.randn(6, 8).t())
        self.register_buffer("keep", torch.tensor([True, False] * 3))

    def forward(self, x, y):
        h = self.b(self.a(x)) @ self.t
        with torch.no_grad():
            scale = torch.arange(x.shape[0] * 2).sum() * 0.5
        h = h.masked_fill(~self.keep, float("-inf")) + torch.tensor([1.5])
        parts = torch.split(torch.cat([h, y], dim=1), 4, dim=1)
        return {"first": parts[0], "rest": [parts[1].transpose(0, 1), scale]}


class Decoder(torch.nn.Module):
    """One token after another: keys and values in buffers, which a position counts on."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(32, 8)
        self.query, self.key, self.value = (torch.nn.Linear(8, 8, bias=False) for _ in range(3))
        self.head = torch.nn.Linear(8, 32)
        self.register_buffer("keys", torch.zeros(16, 8))
        self.register_buffer("values", torch.zeros(16, 8))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, id):
        x = self.embed(id)
        self.keys.index_copy_(0, self.position, self.key(x))
        self.values.index_copy_(0, self.position, self.value(x))
        scores = (self.query(x) @ self.keys.t()).masked_fill(torch.arange(16) > self.position, float("-inf"))
        self.position += 1
        return self.head(x + torch.softmax(scores, 1) @ self.values)


class Selected(torch.nn.Module):
    """A size that is read from data, and a branch."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        rows = x[x[:, 0] > 0]
        return torch.cond(x.sum() > 0, lambda rows: self.linear(rows), lambda rows: rows - 1, (rows,))


class Spectrum(torch.nn.Module):
    """A transform from real numbers and one back to them, with parts of complex numbers in between."""

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x) * 2)


torch.manual_seed(0)
batch = Dim("B", min=1, max=64)
save(export(MLP().eval(), (torch.randn(3, 16),), dynamic_shapes={"x": {0: batch}}), "mlp.pt2")
save(
    export(Varied().eval(), (torch.randn(3, 8), torch.randn(3, 2)), dynamic_shapes={"x": {0: batch}, "y": {0: batch}}),
    "varied.pt2",
)
torch.manual_seed(0)
save(export(Decoder().eval(), (torch.tensor([3]),)), "decoder.pt2")
torch.manual_seed(0)
save(export(Selected().eval(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: batch}}), "selected.pt2")
save(export(Spectrum().eval(), (torch.randn(3, 256),), dynamic_shapes={"x": {0: batch}}), "spectrum.pt2")

"""What a user does first with both wheels, in the environment of the Python that runs this: prints a line for each thing that works.

    cd an/empty/folder && python first_use.py

Each step that reads a file runs in a process of its own. Results are judged by tests/accuracy.py.
"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

MODELS = '''
import torch

class Images(torch.nn.Module):
    """Convolutions with batch norm and a residual, a pooled head."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
        self.block = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, padding=1))
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x):
        x = self.stem(x)
        return self.head(torch.relu(x + self.block(x)).mean((2, 3)))

class Tokens(torch.nn.Module):
    """An embedding, two encoder layers, logits."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(100, 32)
        self.layers = torch.nn.Sequential(*(torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(2)))
        self.head = torch.nn.Linear(32, 100)

    def forward(self, ids):
        return self.head(self.layers(self.embedding(ids)))

torch.manual_seed(0)
models = {"images": Images().eval().requires_grad_(False), "tokens": Tokens().eval().requires_grad_(False)}
inputs = {"images": torch.randn(5, 3, 16, 16), "tokens": torch.randint(0, 100, (5, 12))}
names = {"images": "x", "tokens": "ids"}

def check(name, made, x=None):
    from accuracy import assert_accurate
    x = inputs[name] if x is None else x
    model = models[name]
    with torch.no_grad():
        eager = model(x)
        exact = model.double()(x.double() if x.is_floating_point() else x)
        model.float()
    assert_accurate(made, eager, exact, 256)
'''

STEPS = {
    "compile": """
import ingot
import numpy
for name, model in models.items():
    shape, dtype = tuple(inputs[name].shape[1:]), inputs[name].dtype
    given = ingot.Input(min_shape=(1, *shape), opt_shape=(5, *shape), max_shape=(8, *shape), dtype=dtype, name=names[name])
    made = ingot.compile(model, inputs=[given], fallback="error", cache="off")
    for rows in (1, 3, 5):
        check(name, made(inputs[name][:rows]), inputs[name][:rows])
    ingot.save(made, f"{name}.ingot")
    ingot.save(made, f"{name}.pt2", format="exported_program")
    numpy.save(f"{name}.npy", inputs[name].numpy())
""",
    "load": """
import ingot
for name in models:
    check(name, ingot.load(f"{name}.ingot")(inputs[name]))
    check(name, torch.export.load(f"{name}.pt2").module()(inputs[name]))
""",
    "ingot run": """
import subprocess, sys
from pathlib import Path
import numpy
for name in models:
    Path("out", name).mkdir(parents=True)
    command = [str(Path(sys.executable).parent / "ingot"), "run", f"{name}.ingot", "-i", f"{names[name]}={name}.npy", "-o", f"out/{name}"]
    subprocess.run(command, check=True, capture_output=True)
    (made,) = Path("out", name).iterdir()
    check(name, torch.from_numpy(numpy.load(made)))
""",
    "torch.compile": """
import torch._dynamo
assert "ingot" in torch._dynamo.list_backends()
with torch.no_grad():
    for name, model in models.items():
        fast = torch.compile(model, backend="ingot", options={"fallback": "error"})
        for rows in (5, 3):
            check(name, fast(inputs[name][:rows]), inputs[name][:rows])
""",
    "import torch_tensorrt": """
import torch_tensorrt
import ingot
assert torch_tensorrt is __import__("ingot.torch_tensorrt").torch_tensorrt
with torch.no_grad():
    for name, model in models.items():
        shape, dtype = tuple(inputs[name].shape[1:]), inputs[name].dtype
        given = torch_tensorrt.Input(min_shape=(1, *shape), opt_shape=(5, *shape), max_shape=(8, *shape), dtype=dtype)
        made = torch_tensorrt.compile(model, ir="dynamo", inputs=[given], min_block_size=1)
        check(name, made(inputs[name]))
        torch_tensorrt.save(made, f"{name}.ep", arg_inputs=[inputs[name]], retrace=False)
        fast = torch.compile(model, backend="torch_tensorrt", options={"min_block_size": 1})
        check(name, fast(inputs[name]))
""",
    "torch_tensorrt.load": """
import torch_tensorrt
for name in models:
    check(name, torch_tensorrt.load(f"{name}.ep").module()(inputs[name]))
""",
}


def main():
    for name, step in STEPS.items():
        code = f"import sys\nsys.path.insert(0, {sys.path[0]!r})\n{MODELS}\n{step}"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name}:\n{done.stdout}{done.stderr}")
        print(name, flush=True)


if __name__ == "__main__":
    main()

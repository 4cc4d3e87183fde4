"""Lower precision in three ways: the whole model, regions by torch.autocast, and only the weights as int8. Each is compared with float64."""

import copy

import torch

import ingot


def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 64)).eval()


class Autocast(torch.nn.Module):
    """The model with its matrix products in bfloat16. Operators that autocast keeps in float32 (layer norm) stay in float32."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        with torch.autocast(x.device.type, torch.bfloat16):
            return self.model(x)


@torch.no_grad()
def main():
    model, x = make(), torch.randn(32, 64)
    exact = copy.deepcopy(model).double()(x.double())

    def error(result):
        return ((result.double() - exact).norm() / exact.norm()).item()

    half = copy.deepcopy(model).bfloat16()
    ways = {
        "float32": (ingot.compile(model, inputs=[x]), x, model),
        "model.bfloat16()": (ingot.compile(half, inputs=[x.bfloat16()]), x.bfloat16(), half),
        "torch.autocast": (ingot.compile(Autocast(model), inputs=[x]), x, Autocast(model)),
        'weight_dtype="int8"': (ingot.compile(model, inputs=[x], weight_dtype="int8"), x, model),
    }
    for name, (compiled, given, eager) in ways.items():
        ours, theirs = error(compiled(given)), error(eager(given))
        print(f"{name:20} relative error {ours:.1e}, eager's {theirs:.1e}")
        # The error is no larger than eager's in the same precision; for int8 there is no eager to compare with.
        assert ours < (0.02 if "int8" in name else 1.5 * theirs + 1e-6), name


if __name__ == "__main__":
    main()

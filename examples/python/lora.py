"""LoRA adapters: added to a compiled module, chosen call by call, from tensors and from a file of PEFT. Nothing is compiled again."""

import json
import tempfile
from pathlib import Path

import torch

import ingot


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (torch.nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        return self.out(torch.nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))


def adapter(model, names, rank=4, scale=0.5):
    """Two small matrices for each weight: A [rank, in], B [out, rank]."""
    return {n: (torch.randn(rank, model.get_parameter(n).shape[1]) * 0.3, torch.randn(model.get_parameter(n).shape[0], rank) * 0.3, scale) for n in names}


def added(model, *adapters):
    """The model's weights with the adapters' products added, for comparison."""
    weights = {n: p.clone() for n, p in model.named_parameters()}
    for name, (a, b, scale) in (item for each in adapters for item in each.items()):
        weights[name] += scale * b @ a
    return weights


def main():
    torch.manual_seed(0)
    model = Block().eval().requires_grad_(False)
    x = torch.randn(1, 16, 64)
    compiled = ingot.compile(model, inputs=[x])
    plain = compiled(x)

    style, face = adapter(model, ["q.weight", "v.weight"]), adapter(model, ["q.weight", "out.weight"])
    compiled.add_lora("style", style)
    torch.testing.assert_close(compiled(x), torch.func.functional_call(model, added(model, style), x), atol=1e-4, rtol=1e-4)
    compiled.add_lora("face", face)  # beside the first one
    torch.testing.assert_close(compiled(x), torch.func.functional_call(model, added(model, style, face), x), atol=1e-4, rtol=1e-4)
    print(f"style and face change results by up to {(compiled(x) - plain).abs().max():.2f}")

    compiled.use_lora("face")  # only this one
    torch.testing.assert_close(compiled(x), torch.func.functional_call(model, added(model, face), x), atol=1e-4, rtol=1e-4)
    compiled.use_lora()  # none: the model's own weights, which stayed as they were
    torch.testing.assert_close(compiled(x), plain)

    with tempfile.TemporaryDirectory() as folder:
        save_as_peft(style, Path(folder))
        compiled.remove_lora("style")
        compiled.add_lora("from a folder", folder, scale=2.0)
        twice = {n: (a, b, 2 * scale) for n, (a, b, scale) in style.items()}
        torch.testing.assert_close(compiled(x), torch.func.functional_call(model, added(model, twice), x), atol=1e-4, rtol=1e-4)
        print("read from PEFT's folder, with twice its scale")


def save_as_peft(matrices, folder):
    """Writes what PEFT's `save_pretrained` writes."""
    import safetensors.torch

    tensors, rank = {}, 0
    for name, (a, b, _) in matrices.items():
        path = "base_model.model." + name.removesuffix(".weight")
        tensors[f"{path}.lora_A.weight"], tensors[f"{path}.lora_B.weight"], rank = a, b, len(a)
    safetensors.torch.save_file(tensors, folder / "adapter_model.safetensors")
    scale = next(iter(matrices.values()))[2]
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": scale * rank}))


if __name__ == "__main__":
    main()

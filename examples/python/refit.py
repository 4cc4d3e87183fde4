"""Weights that change: training beside a compiled module, other values for a saved plan, two versions side by side."""

import tempfile
from pathlib import Path

import torch

import ingot


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    batch = ingot.Input(min_shape=(1, 8), opt_shape=(64, 8), max_shape=(256, 8), name="x")
    compiled = ingot.compile(model.eval(), inputs=[batch])

    # Train the model in torch. The compiled module reads the same tensors: it needs no refit.
    x = torch.randn(256, 8)
    y = x.sum(1, keepdim=True).sin()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(61):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            ours = torch.nn.functional.mse_loss(compiled(x), y)
            print(f"step {step}: loss {ours:.4f} by the compiled module")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ingot"
        ingot.save(compiled, path)  # with the current values

        # A saved plan with other values, by the names of the model's state dict. Nothing is compiled.
        fresh = {name: torch.randn_like(value) * 0.1 for name, value in model.state_dict().items()}
        loaded = ingot.load(path)
        loaded.update_weights(fresh)
        with torch.no_grad():
            torch.testing.assert_close(loaded(x), torch.func.functional_call(model, fresh, x), atol=1e-5, rtol=1e-4)

        # Two versions of one engine at once. Only the different weights take memory.
        engine = ingot.load_engine(path)
        session, shifted = engine.session(), engine.new_weights({"2.bias": model[2].bias.detach() + 1})
        difference = session.run(x.numpy(), weights=shifted)[0] - session.run(x.numpy())[0]
        print(f"the second version's results are {difference.mean():.3f} higher")
        assert abs(difference - 1).max() < 1e-5


if __name__ == "__main__":
    main()

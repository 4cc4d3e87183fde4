"""Compile ahead of time, save in each format, load, and compare.

    python export_and_save.py [FOLDER]      the files stay in FOLDER; without one they are removed
"""

import sys
import tempfile
import time
from pathlib import Path

import torch

import ingot


class Tagger(torch.nn.Module):
    """Words to tags: an embedding, an encoder layer, a head. ids: [batch, length] int64; results: a dict."""

    def __init__(self, words=1000, width=64, tags=12):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, norm_first=True)
        self.head = torch.nn.Linear(width, tags)

    def forward(self, ids):
        hidden = self.layer(self.embedding(ids))
        return {"scores": self.head(hidden), "best": self.head(hidden).argmax(-1)}


def run(folder: Path):
    torch.manual_seed(0)
    model = Tagger().eval()
    ids = torch.randint(0, 1000, (2, 9))
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 2), opt_shape=(4, 16), max_shape=(16, 64), dtype=torch.int64, name="ids")])

    # .ingot: one file that also runs without torch. exported_program: a torch program, for models that run in torch in part.
    ingot.save(compiled, folder / "tagger.ingot")
    ingot.save(compiled, folder / "tagger.pt2", format="exported_program")
    # The plan without the values of its weights, which are given when it is loaded.
    ingot.save(compiled, folder / "tagger_plan.ingot", weights="strip")

    expected = model(ids)
    for name, more in (("tagger.ingot", {}), ("tagger.pt2", {}), ("tagger_plan.ingot", {"weights": model.state_dict()})):
        start = time.perf_counter()
        loaded = ingot.load(folder / name, **more)
        seconds = time.perf_counter() - start
        result = loaded(ids)
        torch.testing.assert_close(result["scores"], expected["scores"], atol=1e-5, rtol=1e-4)
        assert torch.equal(result["best"], expected["best"])
        print(f"{name}: {(folder / name).stat().st_size / 1e3:.0f} kB, loaded in {seconds * 1e3:.1f} ms, results are eager's")


def main():
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        run(folder)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder))


if __name__ == "__main__":
    main()

"""Weight streaming: a model runs on a GPU that has no room for all of its weights. Needs an NVIDIA GPU; ends at once without one."""

import os
import tempfile

import torch

import ingot


def megabytes(memory):
    return ", ".join(f"{name} {memory[name] / 1e6:.0f} MB" for name in ("resident", "streamed", "ring"))


@torch.no_grad()
def main():
    if not torch.cuda.is_available():
        print("no NVIDIA GPU here: nothing to stream to")
        return
    torch.manual_seed(0)
    layers = [layer for _ in range(16) for layer in (torch.nn.Linear(2048, 2048), torch.nn.GELU())]
    model, x = torch.nn.Sequential(*layers).eval(), torch.randn(4, 2048)

    # The model stays on the host; its plan is made for the GPU that is here.
    target = "cuda:sm_{}{}".format(*torch.cuda.get_device_capability())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.ingot")
        ingot.save(ingot.compile(model, inputs=[x], target=target), path)
        x = x.cuda()
        whole = ingot.load(path, device="cuda")
        wanted = whole(x)
        print("all on the device:", megabytes(whole.engine.memory()))

        # A third of it: what stays is spread over the layers, the rest comes ahead of each of them.
        limit = whole.engine.memory()["resident"] // 3
        streamed = ingot.load(path, device="cuda", memory_bytes=limit)
        assert torch.equal(streamed(x), wanted)
        print(f"within {limit / 1e6:.0f} MB:", megabytes(streamed.engine.memory()))

        # The limit changes while the module is there; results are the same bits.
        with streamed.configure(memory_bytes=0):
            assert torch.equal(streamed(x), wanted)
        try:
            streamed.configure(memory_bytes=1_000_000)
        except ingot.MemoryError as problem:
            print(problem.message)
            print("remedy:", problem.remedy)


if __name__ == "__main__":
    main()

"""torch.compile with the backend ingot: a convolutional network, with its results and time beside eager's."""

import time

import torch

import ingot


class Block(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(channels)
        self.second = torch.nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


def milliseconds(call, runs=30):
    """The median time of some calls, after two warm-up calls."""
    times = []
    for _ in range(runs + 2):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times[2:])[runs // 2]


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 7, stride=4), *(Block(32) for _ in range(4)), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10)).eval()
    image = torch.randn(1, 3, 128, 128)

    # The first call captures and compiles. An unknown option is an error that gives the nearest name.
    fast = torch.compile(model, backend="ingot", options={"fallback": "error"})
    with torch.no_grad():
        torch.testing.assert_close(fast(image), model(image), atol=1e-4, rtol=1e-4)
        print(f"one image: eager {milliseconds(lambda: model(image)):.2f} ms, ingot {milliseconds(lambda: fast(image)):.2f} ms")

        # Another batch size: torch compiles once more, now for all sizes.
        for batch in (2, 5):
            images = torch.randn(batch, 3, 128, 128)
            torch.testing.assert_close(fast(images), model(images), atol=1e-4, rtol=1e-4)

    # What ran where: here all in one engine.
    print(ingot.explain(model, inputs=[image]))


if __name__ == "__main__":
    main()

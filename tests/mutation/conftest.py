"""--device cuda: the same programs with every tensor on a GPU, including tensors that they create."""

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", choices=["cpu", "cuda"])


@pytest.fixture(autouse=True, scope="session")
def device(request):
    name = request.config.getoption("--device")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("--device cuda: torch sees no GPU here")
    if name == "cpu":  # and no default, which torch would ask for with every call
        yield name
        return
    torch.set_default_device(name)
    yield name
    torch.set_default_device(None)

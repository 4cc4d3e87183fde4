"""What the tests of files share: no gradients, and a plan to spoil."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from crafted import Source


@pytest.fixture(scope="module", autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def source():
    return Source()

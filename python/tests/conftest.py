"""Finds the package that the build left, unless another is already on the path."""

import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.environ.get("POSENC_PYTHON", os.path.join(ROOT, "build/release/python")))


@pytest.fixture(autouse=True)
def seed():
    import torch

    torch.manual_seed(0)

"""Finds the package that the build left, unless another is already on the path."""

import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.environ.get("POSENC_PYTHON", os.path.join(ROOT, "build/release/python")))


def pytest_configure(config):
    """Some builds of PyTorch for arm64 have no bfloat16 products in oneDNN, and fail instead of taking their own."""
    import torch

    matrix = torch.ones(64, 64, dtype=torch.bfloat16)
    try:
        torch.nn.functional.linear(matrix, matrix)
    except RuntimeError:
        torch.backends.mkldnn.set_flags(False)


@pytest.fixture(autouse=True)
def seed():
    import torch

    torch.manual_seed(0)


def pytest_terminal_summary(terminalreporter):
    """The largest errors of rows on a GPU, next to the limits of the tests."""
    worst = getattr(sys.modules.get("test_cuda"), "WORST_ROWS", {})
    for (what, dtype), (share, apart) in sorted(worst.items()):
        terminalreporter.write_line(f"largest row error, {what}, {dtype}: {apart:.2e} ({share:.2f} of the limit)")

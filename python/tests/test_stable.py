"""The library for PyTorch's stable ABI gives the values, gradients, shapes and errors of the other one."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import posenc
import stable_calls
from posenc import _library, _stable

HERE = Path(__file__).parent
FOLDER = Path(posenc.__file__).parent
LIBRARY = FOLDER / "_lib" / _library.STABLE
needs_torch = pytest.mark.skipif(
    tuple(int(n) for n in torch.__version__.split(".")[:2]) < _library.OLDEST_STABLE, reason="needs PyTorch 2.10"
)
needs_library = pytest.mark.skipif(not LIBRARY.is_file(), reason="this build has no library for the stable ABI")


def in_process(*command):
    """Runs Python with that library: a process can load one alone."""
    environment = {**os.environ, "POSENC_LIBRARY": str(LIBRARY), "POSENC_PYTHON": str(FOLDER.parent)}
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    file = tmp_path_factory.mktemp("stable") / "found.pt"
    in_process(str(HERE / "stable_calls.py"), str(file))
    return torch.load(file)


@needs_torch
@needs_library
@pytest.mark.parametrize("dtype, near", [(torch.float32, 3e-5), (torch.float64, 1e-12)])
def test_values_and_gradients(found, dtype, near):
    exact, same = stable_calls.run(torch.float64), stable_calls.run(dtype)
    assert found[dtype].keys() == same.keys()
    for name, tensors in found[dtype].items():
        assert len(tensors) == len(same[name])
        for i, (got, here) in enumerate(zip(tensors, same[name])):
            assert torch.allclose(got, here, atol=1e-6, rtol=1e-6), (name, i)
            if len(exact[name]) == len(tensors) and name != "decoding":
                assert torch.allclose(got, exact[name][i], atol=near, rtol=near), (name, i)


@needs_torch
@needs_library
@pytest.mark.parametrize("tests", ["test_torch2.py", "test_refusals.py"])
def test_opcheck_compile_and_errors(tests):
    """opcheck of the operators, torch.compile without graph breaks, and the texts of errors."""
    assert " passed" in in_process("-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / tests))


@needs_torch
@needs_library
def test_refusals_autocast_and_second_derivative():
    in_process("-c", f"""
import sys; sys.path.insert(0, {str(FOLDER.parent)!r})
import pytest, torch, posenc
assert posenc.library_path().name == {_library.STABLE!r}
for name in ("_attention", "_attention_cache", "_linear_attention", "_rope", "rerotate", "quantize_rows"):  # refusals
    assert torch._C._dispatch_has_kernel_for_dispatch_key("posenc::" + name, "CUDA"), name
q = torch.randn(1, 2, 5, 8, requires_grad=True)
with torch.autocast("cpu", torch.bfloat16):
    assert posenc.attention(q.bfloat16(), q, q, "rope").dtype == torch.float32
    for spec in ("fox", "cope(npos_max=4, gate_source=separate)"):  # inputs that stay float32, and others
        inputs = {{i.name: -torch.rand(1, 2, 5, i.channels) for i in posenc.Spec(spec).inputs(8, 2)}}
        params = posenc.Spec(spec).initial_parameters(8, 2)
        narrow = q.detach().bfloat16()
        assert posenc.attention(narrow, narrow, narrow, spec, params, inputs=inputs, causal=True).dtype == torch.bfloat16
gradient, = torch.autograd.grad(posenc.attention(q, q, q, "rope").square().sum(), q, create_graph=True)
with pytest.raises(RuntimeError, match="no second derivative"):
    gradient.sum().backward()
""")


@needs_torch
@needs_library
@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm")
def test_no_symbol_of_libtorch_but_the_stable_ones():
    lines = subprocess.run(["nm", "-D", "--undefined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in lines.splitlines()]
    assert any(name.startswith("torch_call_dispatcher") for name in names)
    assert [n for n in names if re.match(r"_ZN?K?(2at|3c10|5torch|6caffe2)", n)] == []


def test_tensors_on_a_gpu_are_refused_by_name():
    with pytest.raises(RuntimeError, match=r"^\[attention\] attention is not in this build.*pip install"):
        _stable.refusal("_attention_backward")()


def test_older_torch_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    with pytest.raises(ImportError, match="needs PyTorch 2.10 or newer but this Python has 2.9.1"):
        _library._require_stable_abi()

"""Runs an ONNX model in a process without PyTorch: Debian's onnx and PyTorch share a library and crash in one process.

    python3 onnx_runner.py onnx|runtime FILE.onnx INPUTS.npz OUTPUTS.npz [OPSET]

`onnx` checks the model and runs onnx's reference evaluator, which version 1.13 and newer have, after conversion to OPSET
if that is given; `runtime` is ONNX Runtime on a CPU.
"""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np


def needs(*packages):
    """A mark that skips tests without the packages, which are not imported here."""
    import pytest

    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {' and '.join(missing)}")


def run(how, model, feeds, folder, *opset):
    """Outputs of the model [bytes], none where onnx cannot run it, and a description of its graph where onnx reads it."""
    paths = [os.path.join(str(folder), name) for name in ("model.onnx", "in.npz", "out.npz")]
    with open(paths[0], "wb") as file:
        file.write(model)
    np.savez(paths[1], **{name: x.numpy() for name, x in feeds.items()})
    words = [sys.executable, os.path.abspath(__file__), how, *paths, *map(str, opset)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(paths[2]) as found:
        return [found[name] for name in sorted(found.files)], json.loads(done.stdout or "{}")


def described(model):
    nodes = model.graph.node
    return {
        "opsets": [[x.domain, x.version] for x in model.opset_import],
        "domains": sorted({node.domain for node in nodes}),
        "operators": [node.op_type for node in nodes],
        "attributes": {node.op_type: {a.name: a.i or a.f for a in node.attribute} for node in nodes},
        "inputs": {node.op_type: len(node.input) for node in nodes},
        "weights": [list(x.dims) for x in model.graph.initializer],
        "outputs": len(model.graph.output),
    }


def main(how, model, feeds, outputs, opset=None):
    with np.load(feeds) as arrays:
        given = dict(arrays)
    if how == "runtime":
        import onnxruntime

        found = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, given)
    else:
        import onnx

        evaluates = importlib.util.find_spec("onnx.reference") is not None
        if evaluates:
            import onnx.reference
        read = onnx.load(model)
        if opset is not None:
            from onnx import version_converter

            read = version_converter.convert_version(read, int(opset))
        onnx.checker.check_model(read, full_check=True)
        print(json.dumps(described(read)))
        found = onnx.reference.ReferenceEvaluator(read).run(None, given) if evaluates else []
    np.savez(outputs, **{str(i): x for i, x in enumerate(found)})


if __name__ == "__main__":
    main(*sys.argv[1:])

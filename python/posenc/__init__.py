"""posenc: positional encodings in attention, exact, fast, differentiable and composable.

>>> import torch, posenc
>>> q = k = v = torch.randn(1, 8, 128, 64)
>>> out = posenc.attention(q, k, v, spec="rope + alibi", causal=True)

A spec is a list of encodings joined with ``+``, as text or as ``posenc.Rope() + posenc.Alibi()``;
``posenc.Spec`` reads and writes it. Functions take tensors ``[batch, heads, tokens, channels]``;
``posenc.nn`` has modules. Everything runs through ``torch.ops.posenc``, whose gradients are written in C++
and shared with C++ programs. ``posenc.jax`` has functions for JAX; it is the one module that works without PyTorch.
"""

from importlib.util import find_spec

if find_spec("torch") is not None:
    from posenc._export import export_onnx
    from posenc._given import register, unregister
    from posenc._library import library_path
    from posenc import angles, nn, runs
    from posenc._hf_rotary import hf_specs
    from posenc.encodings import *  # noqa: F403
    from posenc.encodings import __all__ as _encodings
    from posenc.errors import Error
    from posenc.figures import Figure, plot
    from posenc.functional import attention, attention_decode, linear_attention, quantize_rows, rerotate, rope
    from posenc.hf import register_attention
    from posenc.patch import PatchReport, patch, unpatch
    from posenc.schedules import *  # noqa: F403
    from posenc.schedules import __all__ as _schedules
    from posenc.view import View, view
    from posenc.tables import alibi_slopes, cope_positions, explain, rope_tables, t5_buckets
    from posenc.spec import Input, Parameter, Spec, catalog, version

    __version__ = version()

    __all__ = [
        "Error",
        "Figure",
        "Input",
        "Parameter",
        "PatchReport",
        "Spec",
        "View",
        "alibi_slopes",
        "angles",
        "attention",
        "attention_decode",
        "catalog",
        "cope_positions",
        "explain",
        "export_onnx",
        "hf_specs",
        "library_path",
        "linear_attention",
        "nn",
        "patch",
        "plot",
        "quantize_rows",
        "register",
        "register_attention",
        "rerotate",
        "rope",
        "rope_tables",
        "runs",
        "t5_buckets",
        "unpatch",
        "unregister",
        "view",
        *_encodings,
        *_schedules,
    ]
else:

    def __getattr__(name: str) -> object:
        raise AttributeError(f"posenc.{name} needs PyTorch, which is not installed; posenc.jax works without it")

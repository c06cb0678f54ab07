"""Gradients, shapes and composed operators of the library for PyTorch's stable ABI, which has kernels alone.

The other library registers all of this in C++. This file needs nothing else of the package: kernels for Hugging Face,
whose operators are in another namespace, have a copy.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Optional, Sequence

import torch
from torch import Tensor
from torch.utils import _python_dispatch

Maybe = Optional[Tensor]
Tensors = Sequence[Tensor]

NO_CUDA = (
    "{name} is not in this build of posenc for tensors on a GPU: it is the one for PyTorch's stable ABI, which computes "
    "on CPUs; build posenc for this torch: pip install --no-build-isolation . in its source tree"
)


def joined(parameters: Tensors, q: Tensor) -> Tensor:
    """All parameters one after the other, in float64 for float64 tensors and in float32 else. Differentiable."""
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    if not parameters:
        return q.new_empty(0, dtype=dtype)
    flat = [p.reshape(-1).to(dtype) for p in parameters]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def needs_graph(*tensors: Maybe) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def is_eager(q: Tensor) -> bool:
    """Tensors that torch.compile and torch.export trace are of other classes."""
    return type(q) in (Tensor, torch.nn.Parameter) and not torch.compiler.is_compiling()


def sums_type(q: Tensor) -> torch.dtype:
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def require_device(scope: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Kernels check the rest; tensors on two devices may reach none."""
    for name, x in (("k", k), ("v", v)):
        if x.device != q.device:
            raise RuntimeError(f"[{scope}] {name} must be on {q.device} as q is but is on {x.device}")


def refuse_double_backward(name: str) -> Callable[..., Any]:
    def refuse(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            f"[{name}] has no second derivative; call backward without create_graph, or compose the operation from "
            "differentiable ones"
        )

    return refuse


class Composed:
    """What users call, made of the library's kernels. The signatures are those of the schemas."""

    def __init__(self, ops: Any, gradients: Gradients) -> None:
        self.ops = ops
        self.gradients = gradients

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, spec: str, parameters: Tensors, inputs: Tensors, *, causal: bool = False,
        window_left: int = -1, window_right: int = -1, key_mask: Maybe = None, cu_queries: Maybe = None,
        cu_keys: Maybe = None, q_positions: Maybe = None, k_positions: Maybe = None, scale: Optional[float] = None,
        dropout: float = 0.0, seed: int = 0, keys_are_turned: bool = False,
    ) -> tuple[Tensor, Tensor]:
        options = (spec, causal, window_left, window_right, key_mask, cu_queries, cu_keys, q_positions, k_positions, scale,
                   dropout, seed, keys_are_turned)
        flat = joined(parameters, q)
        if is_eager(q) and needs_graph(q, k, v, flat, *inputs):
            return EagerAttention.apply(self.gradients, options, q, k, v, flat, *inputs)
        return self.ops._attention(q, k, v, flat, inputs, *options)

    def attention_decode(
        self, q: Tensor, k: Tensor, v: Tensor, spec: str, parameters: Tensors, inputs: Tensors, *, window_left: int = -1,
        key_mask: Maybe = None, q_positions: Maybe = None, k_positions: Maybe = None, scale: Optional[float] = None,
        keys_are_turned: bool = False, k_scales: Maybe = None, v_scales: Maybe = None, block_table: Maybe = None,
        cache_lengths: Maybe = None,
    ) -> Tensor:
        options = (inputs, spec, True, window_left, -1, key_mask, None, None, q_positions, k_positions, scale, 0.0, 0,
                   keys_are_turned)
        if (block_table is None) != (cache_lengths is None):
            alone = "cache_lengths" if block_table is None else "block_table"
            raise RuntimeError(f"[attention_decode] block_table and cache_lengths belong together but got {alone} alone")
        special = k_scales is not None or v_scales is not None or block_table is not None
        if not special and k.dtype == q.dtype and v.dtype == q.dtype:
            return self.ops._attention(q, k, v, joined(parameters, q), *options)[0]
        if not q.device == k.device == v.device:
            raise RuntimeError(
                f"[attention_decode] k and v must be on {q.device} as q is but are on {k.device} and {v.device}"
            )
        if needs_graph(q, k, v, k_scales, v_scales, *parameters, *inputs):
            what = "a cache of another type than q" if block_table is None else "a paged cache"
            raise RuntimeError(f"[attention_decode] {what} has no gradients; call it under torch.no_grad()")
        return self.ops._attention_cache(
            q, k, v, k_scales, v_scales, block_table, cache_lengths, joined(parameters, q), *options
        )

    def _inside(self, which: int, q: Tensor, k: Tensor, v: Tensor, spec: str, parameters: Tensors, inputs: Tensors,
                causal: bool = False, window_left: int = -1, window_right: int = -1, key_mask: Maybe = None,
                cu_queries: Maybe = None, cu_keys: Maybe = None, q_positions: Maybe = None, k_positions: Maybe = None,
                scale: Optional[float] = None) -> Tensor:
        with torch.no_grad():
            return self.ops._attention_inside(
                q, k, v, joined(parameters, q), inputs, spec, causal, window_left, window_right, key_mask, cu_queries,
                cu_keys, q_positions, k_positions, scale, 0.0, 0, False,
            )[which]

    def attention_weights(self, *args: Any, **options: Any) -> Tensor:
        return self._inside(0, *args, **options)

    def cope_positions(self, *args: Any, **options: Any) -> Tensor:
        return self._inside(1, *args, **options)

    def linear_attention(
        self, q: Tensor, k: Tensor, v: Tensor, spec: str, parameters: Tensors, *, form: str = "elu", epsilon: float = 1e-3,
        causal: bool = False, key_mask: Maybe = None, cu_queries: Maybe = None, cu_keys: Maybe = None,
        q_positions: Maybe = None, k_positions: Maybe = None,
    ) -> Tensor:
        return self.ops._linear_attention(
            q, k, v, joined(parameters, q), spec, form, epsilon, causal, key_mask, cu_queries, cu_keys, q_positions,
            k_positions,
        )[0]

    def rope(
        self, q: Tensor, k: Tensor, spec: str, parameters: Tensors, *, positions: Maybe = None, transposed: bool = False
    ) -> tuple[Tensor, Tensor]:
        return self.ops._rope(q, k, joined(parameters, q), spec, positions, transposed)


def output_of(q: Tensor, v: Tensor) -> Tensor:
    """Room for the output of attention: the type and order of q, with the channels of v."""
    if v.shape[3] == q.shape[3]:
        return torch.empty_like(q)
    if q.stride(2) <= q.stride(1):
        return q.new_empty((*q.shape[:3], v.shape[3]))
    return q.new_empty((q.shape[0], q.shape[2], q.shape[1], v.shape[3])).transpose(1, 2)


class Shapes:
    """Results without values, for torch.compile, torch.export and the meta device."""

    @staticmethod
    def _attention(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        require_device("attention", q, k, v)
        return output_of(q, v), q.new_empty(q.shape[:3], dtype=sums_type(q))

    @staticmethod
    def _attention_backward(
        grad_out: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, parameters: Tensor, inputs: Tensors,
        *_: Any,
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor], Tensor]:
        of_inputs = [x.new_empty(x.shape) for x in inputs]
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), of_inputs, torch.empty_like(parameters)

    @staticmethod
    def _attention_cache(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
        return output_of(q, v)

    @staticmethod
    def _attention_inside(
        q: Tensor, k: Tensor, v: Tensor, parameters: Tensor, inputs: Tensors, spec: str, *_: Any
    ) -> tuple[Tensor, Tensor]:
        weights = q.new_empty((*q.shape[:3], k.shape[2]), dtype=sums_type(q))
        return weights, torch.empty_like(weights) if "cope" in spec else weights.new_empty(0)

    @staticmethod
    def _linear_attention(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=sums_type(q))

    @staticmethod
    def _linear_attention_backward(
        grad_out: Tensor, out: Tensor, sums: Tensor, q: Tensor, k: Tensor, v: Tensor, parameters: Tensor, *_: Any
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return torch.empty_like(q), k.new_empty(k.shape), v.new_empty(v.shape), torch.empty_like(parameters)

    @staticmethod
    def _rope(q: Tensor, k: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        return torch.empty_like(q), torch.empty_like(k)

    @staticmethod
    def _rope_frequency_gradient(
        q: Tensor, k: Tensor, dq: Tensor, dk: Tensor, parameters: Tensor, *_: Any
    ) -> Tensor:
        return torch.empty_like(parameters)

    @staticmethod
    def rerotate(k: Tensor, *_: Any) -> Tensor:
        return k.new_empty(k.shape)

    @staticmethod
    def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.new_empty(x.shape, dtype=torch.int8), x.new_empty((*x.shape[:3], 1), dtype=torch.float32)

    @staticmethod
    def t5_buckets(relative: Tensor, *_: Any) -> Tensor:
        return relative.new_empty(relative.shape, dtype=torch.int64)

    @staticmethod
    def sinusoidal_vectors(positions: Tensor, model_dim: int, *_: Any) -> Tensor:
        return positions.new_empty((*positions.shape, model_dim), dtype=torch.float64)


class Gradients:
    """For each differentiable operator what it keeps, and its backward."""

    def __init__(self, ops: Any) -> None:
        self.ops = ops

    def keep_attention(self, ctx: Any, inputs: tuple, output: tuple) -> None:
        q, k, v, parameters, of_encodings, spec, causal, left, right, *places = inputs
        ctx.save_for_backward(q, k, v, parameters, *output, *places[:5], *of_encodings)
        ctx.options = spec, causal, left, right
        ctx.scaling = places[5:]
        ctx.wants_parameters = parameters.requires_grad
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    def attention(self, ctx: Any, grad: Maybe, _: Any) -> tuple:
        q, k, v, parameters, out, lse, *others = ctx.saved_tensors
        nothing = (None,) * 13
        if grad is None:
            return None, None, None, None, [None] * len(others[5:]), *nothing
        wanted = ctx.wants_parameters
        dq, dk, dv, dinputs, dparameters = self.ops._attention_backward(
            grad, out, lse, q, k, v, parameters, others[5:], *ctx.options, *others[:5], *ctx.scaling, wanted
        )
        return dq, dk, dv, dparameters if wanted else None, list(dinputs), *nothing

    def keep_linear(self, ctx: Any, inputs: tuple, output: tuple) -> None:
        q, k, v, parameters, spec, form, epsilon, causal, *places = inputs
        ctx.save_for_backward(q, k, v, parameters, *output, *places)
        ctx.options = spec, form, epsilon, causal
        ctx.mark_non_differentiable(output[1])

    def linear(self, ctx: Any, grad: Tensor, _: Any) -> tuple:
        q, k, v, parameters, out, sums, *places = ctx.saved_tensors
        found = self.ops._linear_attention_backward(grad, out, sums, q, k, v, parameters, *ctx.options, *places)
        return *found, *(None,) * 9

    def keep_rope(self, ctx: Any, inputs: tuple, output: tuple) -> None:
        q, k, parameters, ctx.spec, positions, ctx.transposed = inputs
        learns = parameters.requires_grad
        ctx.save_for_backward(q if learns else None, k if learns else None, parameters, positions)

    def rope(self, ctx: Any, dq: Tensor, dk: Tensor) -> tuple:
        q, k, parameters, positions = ctx.saved_tensors
        dparameters = None
        if q is not None and ctx.transposed:
            raise RuntimeError("[rope] trained frequencies have no gradient through transposed=True")
        if q is not None:
            dparameters = self.ops._rope_frequency_gradient(q, k, dq, dk, parameters, ctx.spec, positions)
        turned = self.ops._rope(dq, dk, parameters, ctx.spec, positions, not ctx.transposed)
        return *turned, dparameters, None, None, None

    def keep_rerotate(self, ctx: Any, inputs: tuple, output: Tensor) -> None:
        _, spec, start, end, to_spec = inputs
        ctx.save_for_backward(start, end)
        ctx.specs = spec, to_spec or spec

    def rerotate(self, ctx: Any, grad: Tensor) -> tuple:
        start, end = ctx.saved_tensors
        return self.ops.rerotate(grad, ctx.specs[1], end, start, ctx.specs[0]), None, None, None, None

    def all(self) -> dict[str, tuple[Callable[..., Any], Optional[Callable[..., Any]]]]:
        return {
            "_attention": (self.attention, self.keep_attention),
            "_attention_backward": (refuse_double_backward("attention"), None),
            "_linear_attention": (self.linear, self.keep_linear),
            "_linear_attention_backward": (refuse_double_backward("linear_attention"), None),
            "_rope": (self.rope, self.keep_rope),
            "_rope_frequency_gradient": (refuse_double_backward("rope(schedule=learnable)"), None),
            "rerotate": (self.rerotate, self.keep_rerotate),
        }


class EagerAttention(torch.autograd.Function):
    """The gradient of _attention for calls that nothing traces: what torch.library makes of a list of inputs and of many
    options takes half a millisecond."""

    @staticmethod
    def forward(ctx: Any, gradients: Gradients, options: tuple, q: Tensor, k: Tensor, v: Tensor, parameters: Tensor,
                *inputs: Tensor) -> tuple[Tensor, Tensor]:
        out = gradients.ops._attention(q, k, v, parameters, inputs, *options)
        ctx.gradients = gradients
        gradients.keep_attention(ctx, (q, k, v, parameters, inputs, *options), out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Maybe) -> tuple:
        dq, dk, dv, dparameters, dinputs, *_ = ctx.gradients.attention(ctx, *grads)
        return None, None, dq, dk, dv, dparameters, *dinputs


def public_names(cls: type) -> list[str]:
    return [name for name in vars(cls) if not name.startswith("__") and name not in ("_inside", "all")]


def stay_float32(ops: Any, spec: str, q: Tensor) -> list[bool]:
    """For each input of a spec, whether it is float32 whatever the type of q."""
    if not hasattr(ops, "spec_info"):
        return []
    with _python_dispatch._disable_current_modes():
        return [i["float32"] for i in json.loads(ops.spec_info(spec, q.shape[3], q.shape[1], 0, ""))["inputs"]]


def autocast(ops: Any, name: str) -> Callable[..., Any]:
    """Brings q, k and v to the widest of their types, and inputs too unless they stay float32; int8 rows stay."""
    below = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    tensors = 2 if name == "rope" else 3

    def call(*args: Any, **options: Any) -> Any:
        if options.get("block_table") is not None:  # pools are read in their type: a conversion would copy all of them
            with torch._C._ExcludeDispatchKeyGuard(below):
                return getattr(ops, name)(*args, **options)
        rows, others = list(args[:tensors]), list(args[tensors:])
        dtype = rows[0].dtype
        for x in rows[1:]:
            dtype = torch.promote_types(dtype, x.dtype) if x.is_floating_point() else dtype
        rows = [x.to(dtype) if x.is_floating_point() else x for x in rows]
        if len(others) > 2 and others[2]:  # spec, parameters, inputs
            kept = stay_float32(ops, others[0], rows[0]) or [x.dtype == torch.float32 for x in others[2]]
            narrow = torch.float32 if dtype != torch.float64 else dtype
            others[2] = [x.to(narrow if float32 else dtype) for x, float32 in zip(others[2], kept)]
        with torch._C._ExcludeDispatchKeyGuard(below):
            return getattr(ops, name)(*rows, *others, **options)

    return call


def refusal(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        plain = name.removeprefix("_").removesuffix("_backward").removesuffix("_cache").removesuffix("_inside")
        raise RuntimeError(f"[{plain}] " + NO_CUDA.format(name=plain))

    return refuse


def register(namespace: str) -> torch.library.Library:
    """Completes the operators of the namespace that a library has registered. The result has to be kept."""
    ops, library = getattr(torch.ops, namespace), torch.library.Library(namespace, "FRAGMENT")
    differentiable = Gradients(ops)
    composed, gradients = Composed(ops, differentiable), differentiable.all()
    for name in filter(lambda name: hasattr(ops, name), public_names(Composed)):
        library.impl(name, getattr(composed, name), "CompositeImplicitAutograd")
        if name in ("attention", "attention_decode", "linear_attention", "rope"):
            library.impl(name, autocast(ops, name), "AutocastCPU")
    for name in filter(lambda name: hasattr(ops, name), public_names(Shapes)):
        torch.library.register_fake(f"{namespace}::{name}", getattr(Shapes, name), lib=library)
        library.impl(name, refusal(name), "CUDA")
        if name in gradients:
            backward, keep = gradients[name]
            torch.library.register_autograd(f"{namespace}::{name}", backward, setup_context=keep, lib=library)
        else:
            library.impl(name, torch.library.fallthrough_kernel, "Autograd")
    return library

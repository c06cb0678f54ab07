"""Arguments of the functions as the operators take them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Optional, Sequence, Union

import torch
from torch import Tensor

from posenc._given import split_registered, with_given
from posenc.errors import Error, is_compiling, refuse_misspelled, require_tensors, sizes
from posenc.spec import Spec, _initial, wanted_inputs, wanted_parameters

SpecLike = Union[str, Spec, Sequence[object]]
Params = Optional[Mapping[str, Tensor]]
Inputs = Optional[Mapping[str, Tensor]]


def text_of(spec: SpecLike) -> str:
    return spec if isinstance(spec, str) else Spec(spec).text


def named_tensors(argument: str, given: Optional[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"[posenc] {argument} must be a dict from names to tensors but got {type(given).__name__}")
    for name, value in given.items():
        if not isinstance(value, Tensor):
            require_tensors("posenc", **{f"{argument}[{name!r}]": value})
    return dict(given)


def _has_shape(value: Tensor, shape: Sequence[int]) -> bool:
    # Entry by entry: torch.compile cannot compare two tuples here.
    return value.dim() == len(shape) and all(n == m for n, m in zip(sizes(value), shape))


def parameters_of(spec: str, params: Params, heads: int, head_dim: int) -> list[Tensor]:
    """The tensors in the operators' order; says which are missing, unknown or of a wrong shape."""
    wanted = wanted_parameters(spec, head_dim, heads)
    given = named_tensors("params", params)
    # Constants are said all together or not at all.
    constants = any(name in given for name, _, trainable in wanted if not trainable)
    tensors = []
    for index, (name, shape, trainable) in enumerate(wanted):
        value = given.pop(name, None)
        if value is None and not trainable:
            if constants:
                tensors.append(_initial(spec, head_dim, heads, 0, 0)[index])
            continue
        if value is None:
            refuse_misspelled("params", given, [name])
            raise Error(
                f"[posenc] params lacks {name!r} of shape {list(shape)}; pass it, or use "
                "posenc.nn, whose modules own their parameters"
            )
        if not _has_shape(value, shape):
            raise Error(
                f"[posenc] params[{name!r}] must have shape {list(shape)} "
                f"but has {list(value.shape)}"
            )
        tensors.append(value)
    if given:
        names = [name for name, _, _ in wanted]
        refuse_misspelled("params", given, names)
        raise Error(f"[posenc] params has unknown {sorted(given)}; the spec's are: {', '.join(names) or 'none'}")
    return tensors


def inputs_of(spec: str, inputs: Inputs, heads: int, head_dim: int) -> list[Tensor]:
    """The tensors in the operators' order; says which are missing or unknown. One of a single channel may
    be [B, H, Tk]."""
    channels = dict(wanted_inputs(spec, head_dim, heads))
    wanted = list(channels)
    given = named_tensors("inputs", inputs)
    missing = [name for name in wanted if name not in given]
    unknown = sorted(name for name in given if name not in wanted)
    if missing or unknown:
        refuse_misspelled("inputs", unknown, wanted)
        what = f"lacks {missing[0]!r}" if missing else f"has unknown {unknown}"
        raise Error(f"[posenc] inputs {what}; the spec's are: {', '.join(wanted) or 'none'}")
    return [
        given[name].unsqueeze(-1) if channels[name] == 1 and given[name].dim() == 3 else given[name]
        for name in wanted
    ]


def _warn_if_slow(text: str, q: Tensor, k: Tensor, v: Tensor, explicit_positions: bool) -> None:
    """Once per kind of call: what no fused kernel serves is slow, or takes memory of Tq x Tk."""
    if is_compiling() or torch.jit.is_tracing():
        return
    slow = torch.ops.posenc._slow_path(text, q, k, v, explicit_positions)
    if slow:
        warnings.warn(f"{slow}; {_advice(slow)}", stacklevel=5)


# What to do about a slow call, by its reason.
_ADVICE = (
    (r"more than one", "use a spec with one of them"),
    (r"explicit positions", "leave q_positions and k_positions out where tokens count 0, 1, 2, ..."),
    (r"float64", "convert q, k and v with .float()"),
)


def _advice(slow: str) -> str:
    for reason, words in _ADVICE:
        found = re.search(reason, slow.split("; backward")[0].replace("reference (float64)", ""))
        if found:
            return found.expand(words)
    return "posenc.explain(...) tells which specs and shapes are fused"


def shape_of(q: Tensor) -> tuple[int, int]:
    require_tensors("posenc", q=q)
    if q.dim() != 4:
        raise Error(
            f"[posenc] q must be [batch, heads, tokens, channels] but has {q.dim()} dimensions"
        )
    _, heads, _, dim = sizes(q)
    return heads, dim


def prepared(
    spec: SpecLike,
    params: Params,
    inputs: Inputs,
    bias: Optional[Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    explicit_positions: bool,
) -> tuple[str, list[Tensor], list[Tensor]]:
    """Spec, parameters and inputs as the operators take them."""
    require_tensors("posenc", q=q, k=k, **({} if bias is None else {"bias": bias}))
    shape, text = shape_of(q), text_of(spec)
    if bias is not None or split_registered(text)[1]:
        text, params, inputs = with_given(
            text, params or {}, inputs or {}, bias, q, k, explicit_positions
        )
    tensors = parameters_of(text, params, *shape), inputs_of(text, inputs, *shape)
    _warn_if_slow(text, q, k, v, explicit_positions)
    return text, *tensors


def refuse_unpaged(k: Tensor, v: Tensor, bias: Optional[Tensor], spec: str) -> None:
    """What works with a contiguous cache and not with a block table."""
    for name, pool in (("k", k), ("v", v)):
        if pool.dim() != 4:
            raise Error(
                f"[attention_decode] {name} must be [blocks, page, heads, channels] with a block_table but has "
                f"{pool.dim()} dimensions"
            )
    if bias is not None or split_registered(spec)[1]:
        raise Error(
            "[attention_decode] a bias that Python gives does not work with a block_table; gather the pages",
            kind="unsupported",
        )

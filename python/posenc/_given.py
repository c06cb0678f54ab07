"""Biases that a caller gives: a tensor, or a function of the distance under a name of its own.

Both become encodings that the fused kernels know. A bias by distance is the table of ``relative``, one by key is
the input of ``key_bias``; gradients go back through them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Callable, Mapping, Optional

import torch
from torch import Tensor

from posenc.errors import Error, is_compiling, refuse_misspelled
from posenc.spec import Spec, catalog


@dataclass(frozen=True)
class Registered:
    """An encoding that Python defines."""

    name: str
    bias: Callable[..., Tensor]  # (distance [n], **params) -> [H, n]
    params: Mapping[str, Callable[[int], Tensor]]  # initial values for a number of heads


_REGISTERED: dict[str, Registered] = {}
_TERM = re.compile(r"\s*([A-Za-z_]\w*)\s*$")


def register(
    name: str,
    *,
    bias: Callable[..., Tensor],
    params: Optional[Mapping[str, Callable[[int], Tensor]]] = None,
) -> None:
    """Makes ``name`` an encoding of this process: a bias by distance, usable in any spec.

    ``bias(distance, **params)`` gets the distances i - j as a float tensor [n] and returns [H, n] (or [n], for
    all heads). It is evaluated once per call over all distances, and autograd differentiates it; the kernels add
    the table and return its gradient. ``params`` has a function per parameter, from the number of heads to its
    initial value; in ``attention`` they are passed as ``params={"name.parameter": tensor}``. Registering a name
    again replaces its function, also for modules that use it already.

    >>> posenc.register("linear_decay", bias=lambda d, slope: -slope[:, None] * d, params={"slope": torch.ones})
    >>> q = torch.randn(1, 2, 5, 8)
    >>> out = posenc.attention(q, q, q, "rope + linear_decay", {"linear_decay.slope": torch.ones(2)})
    """
    if not isinstance(name, str):
        raise TypeError(f"[register] name must be text but got {type(name).__name__}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise Error(f"[register] name must be lower case letters, digits and _ but got {name!r}")
    known = {entry["name"] for entry in catalog()["encodings"]}
    if name in known:
        raise Error(f"[register] posenc has an encoding {name!r}; choose another name")
    if not callable(bias):
        raise TypeError(f"[register] bias must be a function but got {type(bias).__name__}")
    _REGISTERED[name] = Registered(name, bias, dict(params or {}))


def unregister(name: str) -> None:
    """Forgets an encoding that :func:`register` made."""
    if _REGISTERED.pop(name, None) is None:
        raise Error(f"[unregister] {name!r} is not registered; registered are: {_names()}")


def _names() -> str:
    return ", ".join(sorted(_REGISTERED)) or "none"


def _terms(text: str) -> list[str]:
    """The encodings of a spec, split where no bracket is open.

    >>> _terms("rope(theta=[1, 2]) + alibi")
    ['rope(theta=[1, 2])', 'alibi']
    """
    terms, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "+" and depth == 0:
            terms.append(text[start:at].strip())
            start = at + 1
    return terms + [text[start:].strip()]


def split_registered(text: str) -> tuple[str, list[Registered]]:
    """A spec without its registered encodings, and those."""
    if not _REGISTERED or text.lstrip().startswith("["):
        return text, []
    kept, found = [], []
    for term in _terms(text):
        match = _TERM.match(term)
        registered = _REGISTERED.get(match[1]) if match else None
        if registered is not None and registered in found:
            raise Error(f"[posenc] the registered {registered.name} can be in a spec once but is in {text!r}")
        found.append(registered) if registered else kept.append(term)
    return " + ".join(kept) or "none", found


def distances(queries: int, keys: int, device: torch.device) -> Tensor:
    """i - j of every pair, from 1 - Tq to Tk - 1; queries stand at the last keys."""
    return torch.arange(1 - queries, keys, device=device)


def _table_of(one: Registered, params: Mapping[str, Tensor], distance: Tensor, heads: int) -> Tensor:
    missing = [p for p in one.params if f"{one.name}.{p}" not in params]
    if missing:
        refuse_misspelled("params", params, [f"{one.name}.{missing[0]}"])
        raise Error(f"[posenc] params lacks '{one.name}.{missing[0]}' of the registered {one.name}")
    table = one.bias(distance, **{p: params[f"{one.name}.{p}"] for p in one.params})
    if table.dim() == 1:
        table = table.expand(heads, -1)
    if tuple(table.shape) != (heads, distance.numel()):
        raise Error(
            f"[posenc] bias of the registered {one.name} must return [{heads}, {distance.numel()}] "
            f"but returned {list(table.shape)}"
        )
    return table


def _add_term(text: str, term: str) -> tuple[str, str]:
    """The spec with one more encoding, and the prefix of that encoding's names."""
    name = term.split("(")[0]
    count = Spec(text).encodings.count(name) + 1
    joined = term if text == "none" else f"{text} + {term}"
    return joined, name if count == 1 else f"{name}_{count}"


def _require_no_infinity(bias: Tensor) -> None:
    """On a CPU: a GPU would have to be waited for."""
    if is_compiling() or torch.jit.is_tracing() or not bias.is_cpu:
        return
    if torch.isinf(bias).any():
        raise Error(
            f"[posenc] bias must be finite but has {float(bias[torch.isinf(bias)][0])}; pass key_mask for keys that are not "
            "seen",
            kind="not_finite",
        )


def with_given(
    text: str,
    params: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    bias: Optional[Tensor],
    q: Tensor,
    k: Tensor,
    positions: bool,
) -> tuple[str, dict[str, Tensor], dict[str, Tensor]]:
    """Spec, params and inputs with the registered encodings and the bias of a call as encodings of the library."""
    text, registered = split_registered(text)
    params, inputs = dict(params), dict(inputs)
    heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    tables = []
    distance = distances(queries, keys, q.device).to(torch.float64 if q.dtype == torch.float64 else torch.float32)
    for one in registered:
        tables.append(_table_of(one, params, distance, heads))
        for name in one.params:  # what is left over is unknown, and refused
            del params[f"{one.name}.{name}"]
    if bias is not None and bias.dim() == 2:
        if tuple(bias.shape) != (heads, queries + keys - 1):
            raise Error(
                f"[posenc] bias must be [H, Tq + Tk - 1] = [{heads}, {queries + keys - 1}] "
                f"but has shape {list(bias.shape)}"
            )
        tables.append(bias)
    elif bias is not None:
        if tuple(bias.shape) != (q.shape[0], heads, keys):
            raise Error(
                f"[posenc] bias must be [H, Tq + Tk - 1] by distance or [B, H, Tk] = "
                f"[{q.shape[0]}, {heads}, {keys}] by key but has shape {list(bias.shape)}"
            )
        _require_no_infinity(bias)
        text, prefix = _add_term(text, "key_bias")
        inputs[f"{prefix}.value"] = bias.unsqueeze(-1).to(distance.dtype)
    if tables:
        if positions:
            raise Error(
                "[posenc] a bias by distance is indexed by the order of the tokens; "
                "leave q_positions and k_positions out"
            )
        reach = max(queries, keys, 2) - 1
        text, prefix = _add_term(text, f"relative(max_distance={reach}, bidirectional=true)")
        table = sum(tables[1:], tables[0])
        params[f"{prefix}.weight"] = torch.nn.functional.pad(table, (reach + 1 - queries, reach + 1 - keys))
    return text, params, inputs

"""What a patched attention module computes, whatever the model: rotation, cache, masks, kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Optional

import torch
from torch import Tensor, nn

from posenc import _hf_cache, functional
from posenc._hf_masks import NAME, Visible, has_holes, read_mask
from posenc.errors import Error
from posenc.nn import TokenInputs
from posenc.spec import Spec

# Arguments of attention functions that change scores and that nothing here honours.
_REFUSED = ("softcap", "s_aux", "sinks", "head_mask", "layer_head_mask")


class Rotation(NamedTuple):
    """What a patched rotary embedding hands to its layers in place of cos and sin."""

    spec: str
    positions: Optional[Tensor]  # [T] or [B, T]
    length: Optional[int] = None  # of the sequence so far, where the spec follows it


class Parts(NamedTuple):
    """How a spec runs with a cache."""

    rotates: bool
    cached: Optional[str]  # the rotation of keys that are cached rotated
    rest: str  # all but site 2
    biased: bool
    shifts: bool  # the biases are functions of distances alone
    whole: str  # why the rest needs unrotated queries with rotated keys: "cope", "temperature"; else empty
    follows: bool  # a rotation follows the length


@lru_cache(maxsize=256)
def cut(text: str) -> Parts:
    spec = Spec(text)
    if spec.part("input").encodings:
        raise Error(f"[patch] spec must be of sites 2 to 5 but got {text}")
    rotations, biases, content = (spec.part(s) for s in ("query/key", "bias", "content"))
    biased = bool(biases.encodings)
    why = [name for name in content.encodings if not Spec(name).per_token]  # they read queries
    why += ["softmax_mscale=true"] if "softmax_mscale=true" in text else []
    why += ["temperature"] if "temperature" in rotations.encodings else []
    whole = " and ".join(why)
    # With biases the kernel rotates queries by places, which rotated keys need not have.
    cached = None if biased and whole else spec.cacheable_rotation
    return Parts(
        rotates=bool(rotations.encodings),
        cached=cached.text if cached is not None else None,
        rest=spec.without("query/key").text,
        biased=biased,
        shifts=biases.relative,
        whole=whole,
        follows=spec.follows_length,
    )


@dataclass
class Call:
    """One call of one layer."""

    spec: str
    scale: float
    causal: bool
    params: Mapping[str, Tensor] = field(default_factory=dict)
    inputs: Mapping[str, Tensor] = field(default_factory=dict)  # of the new tokens
    mask: Optional[Tensor] = None
    window: Optional[int] = None  # the query itself and the window - 1 keys before it
    positions: Optional[Tensor] = None  # of the queries, [T] or [B, T]
    length: Optional[int] = None  # for specs that follow it; else the number of tokens so far
    token_positions: Optional[Tensor] = None  # of all keys, where biases count other than places
    dropout: float = 0.0
    want_weights: bool = False
    cached_order: Optional[Tensor] = None  # of the channels of rotated keys, where a cache has another one


@dataclass
class LayerState:
    """What a patched module remembers, as its attribute `_posenc`."""

    spec: str  # the model's own rotations are told at every call instead: they may follow the length
    own_spec: bool  # the caller's, not the model's
    rotates: bool = False
    sink: Optional[str] = None  # the attribute that is the logit of the spec's sink
    inputs: Optional[TokenInputs] = None  # made by linear layers in the submodule `pos`
    want_weights: bool = False  # for layers that are not told


def params_of(module: nn.Module) -> Mapping[str, Tensor]:
    params = dict(module.pos()) if "pos" in module._modules else {}
    sink = module._posenc.sink
    return params if sink is None else {**params, "sink.logit": getattr(module, sink)}


def inputs_of(module: nn.Module, x: Tensor) -> Mapping[str, Tensor]:
    makes = module._posenc.inputs
    return makes.make(module.pos, x) if makes is not None else {}


def dropout_of(module: nn.Module, probability: float) -> float:
    return probability if module.training else 0.0


def _named(params: Mapping[str, Tensor], spec: str) -> dict[str, Tensor]:
    """Those of the spec's encodings; a second one of a kind is numbered, alibi_2.slopes."""
    kinds = set(Spec(spec).encodings)
    return {n: p for n, p in params.items() if re.sub(r"(_\d+)?\..*", "", n) in kinds}


def turn(q: Tensor, k: Tensor, rotation: str, call: Call, past: int) -> tuple[Tensor, Tensor]:
    positions = call.positions
    if positions is None:
        positions = torch.arange(past, past + q.shape[2], device=q.device)
    return functional.rope(q, k, rotation, _named(call.params, rotation), positions=positions)


def attend(
    q: Tensor, k: Tensor, v: Tensor, call: Call, cache: Any = None, layer: Optional[int] = None
) -> tuple[Tensor, Optional[Tensor]]:
    """[B, H, T, D] to [B, T, H D], and the weights where they are wanted.

    Keys go into the cache rotated, as the model itself would have put them there, where the spec has
    one constant rotation; else unrotated, and the kernel rotates all of them at each call.
    """
    parts = cut(call.spec)
    past = int(cache.get_seq_length(layer)) if cache is not None else 0
    spec, rotates, turned, inputs = call.spec, parts.rotates, False, call.inputs
    if parts.follows:
        spec = Spec(spec).at_length(call.length or past + q.shape[2]).text
    if cache is not None:
        if parts.cached is not None:
            turned_q, k = turn(q, k, parts.cached, call, past)
            rotates = turned = bool(parts.whole)
            if not rotates:
                q, spec = turned_q, parts.rest
                if call.cached_order is not None:
                    q, k = q[..., call.cached_order], k[..., call.cached_order]
        k, v, inputs = _hf_cache.update(cache, k, v, inputs, layer, past)
    if turned and call.want_weights:
        raise Error(
            f"[patch] output_attentions with a cache is not supported for specs with {parts.whole}; "
            "pass use_cache=False"
        )
    seen = read_mask(call.mask, k.shape[2])
    k, v = k[:, :, : seen.keys], v[:, :, : seen.keys]
    inputs = {name: x[:, :, : seen.keys] for name, x in inputs.items()}
    positions: tuple[Optional[Tensor], Optional[Tensor]] = (None, None)  # places
    if parts.biased and parts.shifts:
        _check_places(call.positions, seen)
    elif (rotates or parts.biased) and call.positions is not None:
        keys = call.positions
        if past and not turned:
            keys = _key_positions(call.positions, seen, past)
        if not (parts.biased and _are_places(keys, seen)):  # biases by places have a fused kernel
            positions = (call.positions, None if turned else keys)
    out, weights = run_kernel(q, k, v, call, seen, spec, inputs, positions, turned)
    return out.transpose(1, 2).flatten(2), weights


def _are_places(positions: Tensor, seen: Visible) -> bool:
    """Of all keys; places of packed sequences start with each of them, as their positions do."""
    if seen.segments is not None:
        return True
    same = positions == torch.arange(seen.keys, device=positions.device)
    return bool((same if seen.padding is None else same | ~seen.padding).all())


def _key_positions(positions: Tensor, seen: Visible, past: int) -> Tensor:
    """Of all keys in a cache, from those of the queries: places, or the number of real tokens before,
    as `generate` counts them."""
    queries = positions.shape[-1]
    dropped = past + queries - seen.keys  # by a cache with a window
    real = seen.padding
    if real is None:
        real = torch.ones(1, seen.keys, dtype=torch.bool, device=positions.device)
    counted = real.long().cumsum(-1) - 1
    if dropped > 0:
        counted = counted + (positions[..., -1:] - counted[:, -1:])
    places = torch.arange(dropped, dropped + seen.keys, device=positions.device)[None]
    for candidate in (places, counted):
        if bool(((candidate[:, -queries:] == positions) | ~real[:, -queries:]).all()):
            return candidate
    raise Error(
        "[patch] position_ids must count tokens from 0, padding included or not, where keys are "
        f"cached unrotated but end at {positions[..., -1].tolist()} for {past + queries} tokens"
    )


def _check_places(positions: Optional[Tensor], seen: Visible) -> None:
    """Biases of distances count places; positions may differ from them by one number per row."""
    if positions is None or seen.segments is not None:
        return
    offset = positions - torch.arange(positions.shape[-1], device=positions.device)
    if seen.padding is None:
        same = bool((offset == offset[..., :1]).all())
    else:
        real = seen.padding[:, -positions.shape[-1] :]
        limits = torch.iinfo(offset.dtype)
        high = torch.where(real, offset, limits.min).amax(-1)
        low = torch.where(real, offset, limits.max).amin(-1)
        # A row without real tokens has the limits.
        same = bool((high <= low).all()) and not has_holes(seen.padding)
    if not same:
        raise Error(
            "[patch] position_ids must count on by one where the spec has biases; "
            "use a spec of rope alone, or call posenc.unpatch(model)"
        )


def run_kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    call: Call,
    seen: Visible,
    spec: Optional[str] = None,
    inputs: Mapping[str, Tensor] = MappingProxyType({}),
    positions: tuple[Optional[Tensor], Optional[Tensor]] = (None, None),
    turned: bool = False,
) -> tuple[Tensor, Optional[Tensor]]:
    """Attention over the visible keys, [B, H, T, D]; `spec` is what is left of the call's to compute."""
    shape, spec = q.shape, call.spec if spec is None else spec
    options: dict[str, Any] = dict(
        causal=call.causal,
        window_left=-1 if call.window is None else call.window - 1,
        key_mask=seen.padding,
        q_positions=positions[0],
        k_positions=positions[1],
        scale=call.scale,
        inputs=inputs,
    )
    if call.token_positions is not None:
        options.update(
            q_positions=call.token_positions[:, -shape[2] :], k_positions=call.token_positions
        )
    if seen.segments is not None:
        q, k, v, options = _packed(q, k, v, options, seen.segments)
    if call.dropout > 0:
        options.update(dropout=call.dropout, seed=int(torch.randint(2**31, ())))
    result = functional.attention(
        q,
        k,
        v,
        spec,
        _named(call.params, spec),
        keys_are_turned=turned,
        return_weights=call.want_weights,
        **options,
    )
    out, weights = result if call.want_weights else (result, None)
    if seen.segments is not None:
        rows = (shape[0], shape[2])
        out = out[0].unflatten(1, rows).transpose(0, 1)
        if weights is not None:  # of each row with itself
            square = weights[0].unflatten(2, rows).unflatten(1, rows)
            weights = square.diagonal(dim1=1, dim2=3).permute(3, 0, 1, 2)
    return out, weights


def _packed(
    q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], segments: Tensor
) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
    """All rows of the batch in one, with the lengths of the sequences packed in them."""
    batch, tokens = q.shape[0], q.shape[2]
    if k.shape[2] != tokens:
        raise Error("[patch] packed sequences cannot go on from a cache; unpack them")
    starts = torch.ones(batch, tokens, dtype=torch.bool, device=q.device)
    starts[:, 1:] = segments[:, 1:] != segments[:, :-1]
    ends = torch.full((1,), batch * tokens, device=q.device)
    lengths = torch.cat([starts.flatten().nonzero().flatten(), ends])
    positions = options["q_positions"]
    if positions is not None:
        positions = positions.expand(batch, tokens).reshape(-1)

    def row(x: Tensor) -> Tensor:
        return x.transpose(0, 1).flatten(1, 2)[None]

    changes = dict(
        inputs={name: row(x) for name, x in options["inputs"].items()},
        key_mask=None,
        q_positions=positions,
        k_positions=positions,
        cu_queries=lengths,
        cu_keys=lengths,
    )
    return row(q), row(k), row(v), {**options, **changes}


def refuse_unknown(module: torch.nn.Module, options: Mapping[str, Any]) -> None:
    """What a caller asks for and would not get is an error."""
    config = getattr(module, "config", None)
    chosen = getattr(config, "_attn_implementation", NAME)
    if chosen != NAME:  # the masks would be another's
        raise Error(
            f"[patch] attn_implementation was set to {chosen!r} after posenc.patch; "
            "call posenc.unpatch(model) first"
        )
    asked = [name for name in _REFUSED if options.get(name) is not None]
    if options.get("is_causal") is False:
        asked.append("is_causal=False")
    if asked:
        raise Error(f"[patch] {', '.join(asked)} is not supported; call posenc.unpatch(model)")


def wants_weights(module: torch.nn.Module, options: Mapping[str, Any]) -> bool:
    asked = options.get("output_attentions")
    if asked is None:
        asked = getattr(getattr(module, "config", None), "output_attentions", False)
    return bool(asked)

"""What a patched attention module computes, whatever the model: rotation, cache, masks, kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Mapping, NamedTuple, Optional

import torch
from torch import Tensor

from posenc import functional
from posenc._hf_masks import NAME, Visible, read_mask
from posenc.spec import Spec

# Arguments of attention functions that change scores and that nothing here honours.
_REFUSED = ("softcap", "s_aux", "sinks", "head_mask", "layer_head_mask")


class Rotation(NamedTuple):
    """What a patched rotary embedding hands to its layers in place of cos and sin."""

    spec: str  # at the length of this call
    positions: Optional[Tensor]  # [T] or [B, T]


class Parts(NamedTuple):
    """A spec cut at site 2."""

    rotation: Optional[str]
    rest: str
    biased: bool  # by places, whatever the positions are
    whole: bool  # the rest needs plain queries beside turned keys


@lru_cache(maxsize=256)
def cut(spec: str) -> Parts:
    whole = Spec(spec)
    rotation, biases = whole.part("query/key"), whole.part("bias")
    content = whole.part("content")
    if whole.part("input").encodings and whole.text != "none":
        raise ValueError(f"[patch] spec must be of sites 2 to 4 but got {spec}")
    rest = (biases + content).text
    turns = rotation.text if rotation.text != "none" else None
    if turns is not None and len(rotation.encodings) > 1:
        raise ValueError(f"[patch] spec must have one rotation at most but got {spec}")
    needs_plain = content.text != "none" or "softmax_mscale=true" in spec
    return Parts(turns, rest, biases.text != "none", needs_plain)


@dataclass
class Call:
    """One call of one layer."""

    spec: str
    scale: float
    causal: bool
    params: Mapping[str, Tensor] = field(default_factory=dict)
    mask: Optional[Tensor] = None
    window: Optional[int] = None  # the query itself and the window - 1 keys before it
    positions: Optional[Tensor] = None  # of the queries, [T] or [B, T]
    token_positions: Optional[Tensor] = None  # of all keys, where biases count other than places
    dropout: float = 0.0
    want_weights: bool = False


def _named(params: Mapping[str, Tensor], spec: str) -> dict[str, Tensor]:
    kinds = set(Spec(spec).encodings)
    return {name: value for name, value in params.items() if name.split(".", 1)[0] in kinds}


def turn(q: Tensor, k: Tensor, rotation: str, call: Call, past: int) -> tuple[Tensor, Tensor]:
    positions = call.positions
    if positions is None:
        positions = torch.arange(past, past + q.shape[2], device=q.device)
    return functional.rope(q, k, rotation, _named(call.params, rotation), positions=positions)


def attend(
    q: Tensor, k: Tensor, v: Tensor, call: Call, cache: Any = None, layer: Optional[int] = None
) -> tuple[Tensor, Optional[Tensor]]:
    """[B, H, T, D] to [B, T, H D], and the weights where they are wanted.

    Keys go into the cache turned, as the model itself would have put them there.
    """
    parts = cut(call.spec)
    spec, turned = call.spec, False
    positions: Optional[Tensor] = call.positions
    if cache is not None:
        if parts.rotation is not None:
            turned_q, k = turn(q, k, parts.rotation, call, int(cache.get_seq_length(layer)))
            turned = parts.whole
            if not turned:
                q, spec, positions = turned_q, parts.rest, None
        k, v = cache.update(k, v, layer)
    if turned and call.want_weights:
        raise ValueError("[patch] output_attentions with a cache is not known for specs with cope")
    seen = read_mask(call.mask, k.shape[2])
    k, v = k[:, :, : seen.keys], v[:, :, : seen.keys]
    if parts.biased and positions is not None:
        _check_places(positions, seen)
        positions = None
    out, weights = _kernel(q, k, v, spec, call, seen, positions, turned)
    return out.transpose(1, 2).flatten(2), weights


def _check_places(positions: Tensor, seen: Visible) -> None:
    """Biases count places; positions may differ from them by one number per row."""
    if seen.segments is not None:
        return
    offset = (positions - torch.arange(positions.shape[-1], device=positions.device)).float()
    if seen.padding is None:
        same = bool((offset == offset[..., :1]).all())
    else:
        real = seen.padding[:, -positions.shape[-1] :]
        high = torch.where(real, offset, -torch.inf).amax(-1)
        low = torch.where(real, offset, torch.inf).amin(-1)
        same = bool((high <= low).all())  # a row without real tokens has -inf and inf
    if not same:
        raise ValueError(
            "[patch] position_ids must count on by one where the spec has biases; "
            "use a spec of rope alone, or call posenc.unpatch(model)"
        )


def _kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spec: str,
    call: Call,
    seen: Visible,
    positions: Optional[Tensor],
    turned: bool,
) -> tuple[Tensor, Optional[Tensor]]:
    shape = q.shape
    options: dict[str, Any] = dict(
        causal=call.causal,
        window_left=-1 if call.window is None else call.window - 1,
        key_mask=seen.padding,
        q_positions=positions,
        k_positions=None if turned else positions,
        scale=call.scale,
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
        raise ValueError("[patch] packed sequences cannot go on from a cache; unpack them")
    starts = torch.ones(batch, tokens, dtype=torch.bool, device=q.device)
    starts[:, 1:] = segments[:, 1:] != segments[:, :-1]
    ends = torch.full((1,), batch * tokens, device=q.device)
    lengths = torch.cat([starts.flatten().nonzero().flatten(), ends])
    positions = options["q_positions"]
    if positions is not None:
        positions = positions.expand(batch, tokens).reshape(-1)
    rows = [x.transpose(0, 1).flatten(1, 2)[None] for x in (q, k, v)]
    changes = dict(
        key_mask=None,
        q_positions=positions,
        k_positions=positions,
        cu_queries=lengths,
        cu_keys=lengths,
    )
    return (*rows, {**options, **changes})


def refuse_unknown(module: torch.nn.Module, options: Mapping[str, Any]) -> None:
    """What a caller asks for and would not get is an error."""
    config = getattr(module, "config", None)
    chosen = getattr(config, "_attn_implementation", NAME)
    if chosen != NAME:  # the masks would be another's
        raise ValueError(
            f"[patch] attn_implementation was set to {chosen!r} after posenc.patch; "
            "call posenc.unpatch(model) first"
        )
    asked = [name for name in _REFUSED if options.get(name) is not None]
    if options.get("is_causal") is False:
        asked.append("is_causal=False")
    if asked:
        raise ValueError(f"[patch] {', '.join(asked)} is not known; call posenc.unpatch(model)")


def wants_weights(module: torch.nn.Module, options: Mapping[str, Any]) -> bool:
    asked = options.get("output_attentions")
    if asked is None:
        asked = getattr(getattr(module, "config", None), "output_attentions", False)
    return bool(asked)

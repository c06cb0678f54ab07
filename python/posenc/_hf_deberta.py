"""DeBERTa v2 and v3: disentangled attention as two terms of relative_query.

transformers adds to the score of a key the products of the query with a vector of the distance (c2p),
and of the key with another one (p2c). Both vectors are projections of one trained table with a row for
each of the buckets -span .. span - 1, and both terms read row b(i - j) + span, clamped to the table.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Mapping, NamedTuple, Optional

import torch
from torch import Tensor, nn

from posenc._hf_attention import Call, attend, dropout_of, inputs_of, params_of, refuse_unknown
from posenc.errors import Error

_KNOWN = "_posenc_known"  # on the tensors that one call hands to all layers: what was read of them


def _recall(tensor: Optional[Tensor], key: Any) -> Optional[tuple[Any]]:
    """What was read of a tensor, in a tuple, unless it has changed since."""
    if tensor is None or tensor.is_inference():  # such a tensor does not count its changes
        return None
    found = getattr(tensor, _KNOWN, None)
    return found[1:] if found is not None and found[0] == (key, tensor._version) else None


def _remember(tensor: Optional[Tensor], key: Any, value: Any) -> Any:
    if tensor is not None and not tensor.is_inference():
        setattr(tensor, _KNOWN, ((key, tensor._version), value))
    return value


class Entries(NamedTuple):
    """A term's fields, and the row of the model's table that each of its entries is."""

    fields: str
    rows: Tensor


def _terms(module: nn.Module) -> list[str]:
    return [
        name for name in ("c2p", "p2c") if module.relative_attention and name in module.pos_att_type
    ]


def _scale(module: nn.Module) -> float:
    """The names count without relative attention, too."""
    parts = 1 + sum(name in module.pos_att_type for name in ("c2p", "p2c"))
    return 1 / math.sqrt(module.attention_head_size * parts)


def _spec(module: nn.Module, fields: str) -> str:
    sides = {"c2p": "", "p2c": "side=key, "}
    return " + ".join(f"relative_query({sides[name]}{fields})" for name in _terms(module)) or "none"


def _plain(extent: int) -> str:
    return f"extent={extent}, beyond=clip, bidirectional=true, per_head=true"


def model_spec(module: nn.Module) -> str:
    """What the module computes; refuses sizes without a spec."""
    if not _terms(module):
        return "none"
    return _spec(module, _model_entries(module.position_buckets, module.max_relative_positions).fields)


def _model_entries(buckets: int, farthest: int) -> Entries:
    """Without buckets, entries -span and span are the rows at the two ends. With buckets, no distance
    below `farthest` reads row 0."""
    if buckets <= 0:
        rows = torch.arange(2 * farthest + 1).clamp(max=2 * farthest - 1)
        return Entries(_plain(farthest + 1), rows)
    if buckets < 4 or buckets % 2:
        raise Error(
            f"[patch] position_buckets {buckets} is unsupported: it must be even and at least 4"
        )
    if farthest <= buckets:
        raise Error(
            f"[patch] max_relative_positions {farthest} is unsupported: it must be above "
            f"position_buckets, which is {buckets}"
        )
    fields = f"{_plain(buckets)}, buckets=log, max_distance={farthest}"
    return Entries(fields, torch.arange(1, 2 * buckets))


@lru_cache(maxsize=64)
def _rows_of_spec(buckets: int, farthest: int, tokens: int) -> list[int]:
    """The rows that the model's spec reads for the distances 1 - tokens .. tokens - 1."""
    if buckets <= 0:
        span, ahead = farthest, [min(d, farthest) for d in range(tokens)]
    else:
        span = buckets
        ahead = [min(_bucket(d, span // 2, farthest), span - 1) for d in range(tokens)]
    return [span - b for b in ahead[:0:-1]] + [min(span + b, 2 * span - 1) for b in ahead]


def _bucket(distance: int, middle: int, farthest: int) -> int:
    """In float64, as posenc's kernels have it."""
    if distance <= middle:
        return distance
    far = math.log(distance / middle) / math.log((farthest - 1) / middle) * (middle - 1)
    return middle + math.ceil(far)


def _build_buckets(buckets: int, farthest: int, tokens: int, device: torch.device) -> Tensor:
    """Of all distances, in float32, as transformers has them."""
    distances = torch.arange(1 - tokens, tokens, device=device)
    if buckets <= 0:
        return distances
    middle, size = buckets // 2, distances.abs()
    far = torch.log(size.clamp(min=middle) / middle)
    far = far / torch.log(torch.tensor((farthest - 1) / middle)) * (middle - 1)
    past = (torch.ceil(far) + middle).long() * distances.sign()
    return torch.where(size <= middle, distances, past)


def _read_buckets(relative_pos: Tensor, tokens: int) -> Tensor:
    """Of the distances 1 - tokens .. tokens - 1; one number per distance, or an error."""
    square = relative_pos
    if square.numel() == tokens * tokens and square.shape[-1] == tokens:
        square = square.reshape(tokens, tokens).long()
        found = torch.cat([square[0].flip(0), square[1:, 0]])
        by_distance = torch.equal(square[1:, 1:], square[:-1, :-1])
        if by_distance and torch.equal(found, -found.flip(0)):
            return found
    raise Error(
        "[patch] relative_pos must be that of build_relative_position, one bucket per distance, but "
        f"is another tensor of shape {list(relative_pos.shape)}; call posenc.unpatch(model)"
    )


def _entries(
    module: nn.Module, relative_pos: Optional[Tensor], tokens: int, device: torch.device
) -> Entries:
    """The model's spec where it reads the same rows. The float32 logarithms of transformers may round
    otherwise, and distances past max_relative_positions read row 0: then every distance has an entry."""
    sizes = (module.position_buckets, module.max_relative_positions)
    key = (*sizes, tokens, device)
    known = _recall(relative_pos, key)
    if known is not None:
        return known[0]
    if relative_pos is None:
        buckets = _build_buckets(*sizes, tokens, device)
    else:
        buckets = _read_buckets(relative_pos, tokens)
    span = module.pos_ebd_size
    rows = (buckets + span).clamp(0, 2 * span - 1).to(device)
    found = _model_entries(*sizes)
    if torch.equal(rows, torch.tensor(_rows_of_spec(*sizes, tokens), device=device)):
        found = Entries(found.fields, found.rows.to(device))
    else:
        found = _by_distance(rows, tokens)
    return _remember(relative_pos, key, found)


def _by_distance(rows: Tensor, tokens: int) -> Entries:
    """Up to the distance from which all farther ones read the same row, in both directions."""
    behind, ahead = rows[:tokens].flip(0), rows[tokens - 1 :]
    changes = ((behind != behind[-1]) | (ahead != ahead[-1])).nonzero()
    extent = int(changes[-1]) + 2 if len(changes) else 1
    return Entries(_plain(extent), rows[tokens - extent : tokens - 1 + extent])


def _disentangled(
    module: nn.Module, embeddings: Tensor, entries: Entries
) -> tuple[str, Mapping[str, Tensor]]:
    """The spec and its tables [heads, channels, entries]."""
    kept = module.pos_dropout(embeddings)[: 2 * module.pos_ebd_size]
    shared = {"c2p": "key_proj", "p2c": "query_proj"}
    params = {}
    for number, name in enumerate(_terms(module)):
        projection = getattr(module, shared[name] if module.share_att_key else f"pos_{shared[name]}")
        table = projection(kept).unflatten(-1, (module.num_attention_heads, -1)).permute(1, 2, 0)
        owner = "relative_query" if number == 0 else f"relative_query_{number + 1}"
        params[f"{owner}.table"] = table.index_select(2, entries.rows)
    return _spec(module, entries.fields), params


def _read_mask(mask: Optional[Tensor], batch: int, tokens: int) -> Optional[Tensor]:
    """As patched attention takes it, from transformers' [B, 1, T, T]: 1 where both tokens are real."""
    if mask is None:
        return None
    known = _recall(mask, (batch, tokens))
    if known is not None:
        return known[0]
    return _remember(mask, (batch, tokens), _read_square(mask, batch, tokens))


def _read_square(mask: Tensor, batch: int, tokens: int) -> Optional[Tensor]:
    rows = ((tokens, tokens), (1, tokens))
    if mask.dim() == 4 and mask.shape[:2] in ((batch, 1), (1, 1)) and mask.shape[2:] in rows:
        seen = mask[:, 0].bool()
        real = seen.any(1, keepdim=True)
        if torch.equal(seen, real.expand_as(seen)) or torch.equal(seen, real & real.transpose(1, 2)):
            if bool(real.all()):
                return None
            return real.expand(batch, 1, tokens)[:, None].to(torch.int32)
    raise Error(
        "[patch] attention_mask must be [batch, tokens], 0 for padding, but a mask of shape "
        f"{list(mask.shape)} hides other pairs of tokens; call posenc.unpatch(model)"
    )


_disable = getattr(getattr(torch, "compiler", None), "disable", None)
if _disable is not None:  # they read values of tensors, which breaks the graph of torch.compile
    _entries, _read_mask = _disable(_entries), _disable(_read_mask)


def deberta_forward(
    self: nn.Module,
    hidden_states: Tensor,
    attention_mask: Optional[Tensor] = None,
    output_attentions: bool = False,
    query_states: Optional[Tensor] = None,
    relative_pos: Optional[Tensor] = None,
    rel_embeddings: Optional[Tensor] = None,
    **options: Any,
) -> tuple[Tensor, Optional[Tensor]]:
    refuse_unknown(self, options)
    x, queries = hidden_states, hidden_states if query_states is None else query_states
    batch, tokens = x.shape[:2]
    if queries.shape[1] != tokens:
        raise Error(
            f"[patch] query_states has {queries.shape[1]} tokens but hidden_states has {tokens}; "
            "they must have the same number"
        )
    spec, params = self._posenc.spec, params_of(self)
    if not self._posenc.own_spec and _terms(self):
        entries = _entries(self, relative_pos, tokens, x.device)
        spec, params = _disentangled(self, rel_embeddings, entries)
    call = Call(
        spec=spec,
        scale=_scale(self),
        causal=False,
        params=params,
        inputs=inputs_of(self, x),
        mask=_read_mask(attention_mask, batch, tokens),
        dropout=dropout_of(self, self.dropout.p),
        want_weights=bool(output_attentions),
    )
    rows = (self.query_proj(queries), self.key_proj(x), self.value_proj(x))
    q, k, v = (row.unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2) for row in rows)
    return attend(q, k, v, call)

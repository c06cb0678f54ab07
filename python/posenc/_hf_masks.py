"""Masks of Hugging Face models in the terms of posenc: one row of keys in place of a square.

transformers asks the function registered for an attention implementation to build the mask of a
call, and hands the result to every layer. Ours for patched models is None where nothing is hidden but
the future, else whole numbers [B, 1, 1, keys]: int32, 0 for padding; or int64, the number of each
token's packed sequence. A mask may have fewer keys than the cache: those after the last query are not
there yet (static caches). The masks of attn_implementation="posenc" are in hf.py.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor

from posenc.errors import Error

NAME = "posenc_patched"  # of patched models; hf.py registers "posenc"
_MODULE = "transformers.masking_utils"


class Pattern(NamedTuple):
    """What a mask function of transformers hides besides padding."""

    causal: bool = False
    segments: Optional[Tensor] = None  # [B, T], the packed sequence of each token
    window: Optional[int] = None  # the query itself and the window - 1 keys before it
    chunk: Optional[int] = None  # queries see the keys of their own chunk (Llama 4)
    left_padding: Optional[Tensor] = None  # [B], tokens before the first chunk


# Always true: in transformers 5.12 it makes Falcon build a mask that its ALiBi can be added to.
_FALCON_FORCES_A_MASK = "FalconModel.forward.<locals>.<lambda>"


class UnsupportedMask(ValueError):
    """A mask that is neither causal nor bidirectional with padding, a window, chunks or packing."""


def read_pattern(function: Optional[Callable]) -> Pattern:
    """Raises for patterns that posenc has no words for: never another mask than was asked for."""
    name = getattr(function, "__qualname__", None) or repr(function)
    if function is not None and getattr(function, "__module__", None) == _MODULE:
        held = inspect.getclosurevars(function).nonlocals
        if name.startswith("and_masks."):
            return _both([read_pattern(part) for part in held["mask_functions"]], name)
        if name == "causal_mask_function":
            return Pattern(causal=True)
        if name == "bidirectional_mask_function":
            return Pattern()
        if name.startswith("sliding_window_overlay.") and "sliding_window" in held:
            return Pattern(window=held["sliding_window"])
        if name.startswith("chunked_overlay.") and {"chunk_size", "left_padding"} <= set(held):
            return Pattern(chunk=held["chunk_size"], left_padding=held["left_padding"])
        if name.startswith("packed_sequence_mask_function."):
            return Pattern(segments=held["packed_sequence_mask"])
    if name == _FALCON_FORCES_A_MASK:
        return Pattern()
    raise _unsupported(name)


def _unsupported(name: str) -> UnsupportedMask:
    return UnsupportedMask(
        f"[patch] the mask {name} is not one that posenc can express; call posenc.unpatch(model)"
    )


def _both(parts: list[Pattern], name: str) -> Pattern:
    """The intersection of patterns; each kind of restriction may come once."""
    merged: dict[str, Any] = {"causal": any(part.causal for part in parts)}
    for field in ("segments", "window", "chunk", "left_padding"):
        said = [getattr(part, field) for part in parts if getattr(part, field) is not None]
        if len(said) > 1:
            raise _unsupported(name)
        merged[field] = said[0] if said else None
    return Pattern(**merged)


def chunk_segments(
    pattern: Pattern,
    row: Optional[Tensor],
    queries: tuple[int, int],
    keys: tuple[int, int],
) -> tuple[Optional[Tensor], Optional[Tensor]]:
    """Chunks as a row of visible keys and as packed sequences, each None where it hides nothing.

    `queries` and `keys` are the first place and the number; `row` [B, keys] is False for padding.
    """
    left = pattern.left_padding
    assert left is not None  # chunks start after the padding
    start = left[:, None]

    def chunks(first: int, count: int) -> Tensor:
        places = torch.arange(first, first + count, device=start.device)
        return torch.div(places - start, pattern.chunk, rounding_mode="floor")

    of_keys, of_queries = chunks(*keys), chunks(*queries)
    same = of_keys == of_queries[:, -1:]
    if queries[1] == 1:
        row = same if row is None else row & same
        return (None if bool(row.all()) else row), None
    hidden = ~same if row is None else ~same & row
    alike = (of_queries == of_queries[:, -1:]) | (of_queries < 0)  # before 0 is padding
    if not bool(hidden.any()) and bool(alike.all()):
        return row, None
    packed = pattern.segments is not None or (row is not None and has_holes(row))
    if queries != keys or packed or pattern.window is not None:
        raise _unsupported("chunked_overlay")
    return None, of_keys


def visible_padding(padding: Optional[Tensor], first: int, keys: int) -> Optional[Tensor]:
    """The keys [first, first + keys) of a padding mask, or None where all of them are real."""
    if padding is None:
        return None
    row = padding[:, first : first + keys].to(torch.bool)
    if row.shape[1] < keys:  # what the caller says nothing of is not there
        row = torch.nn.functional.pad(row, (0, keys - row.shape[1]))
    return None if bool(row.all()) else row


def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Optional[Callable] = None,
    attention_mask: Optional[Tensor] = None,
    config: Any = None,
    device: Any = "cpu",
    **_: Any,
) -> Optional[Tensor]:
    """What transformers calls for models whose attention implementation is ours."""
    pattern = read_pattern(mask_function)  # the window is the layer's own and is read there
    model = getattr(config, "model_type", "")
    if not pattern.causal and model not in ("t5", "mt5"):
        raise Error(
            f"[patch] {model or 'this model'} asks for a mask that is not causal, which is not "
            "known for it; call posenc.unpatch(model)"
        )
    if pattern.segments is not None:
        return (pattern.segments.to(torch.int64) + 1)[:, None, None, :]
    keys = kv_length
    if pattern.causal:
        keys = min(keys, int(q_offset) + q_length - int(kv_offset))
    row = visible_padding(attention_mask, int(kv_offset), keys)
    if pattern.chunk is not None:
        places = ((int(q_offset), q_length), (int(kv_offset), keys))
        row, segments = chunk_segments(pattern, row, *places)
        if segments is not None:
            return segments.to(torch.int64)[:, None, None, :]
    # MPT turns its mask into truth values before the layers see it, and so needs one always; its
    # fifth dimension tells it from a caller's own.
    if model == "mpt":
        row = torch.ones(batch_size, keys, dtype=torch.bool, device=device) if row is None else row
        return row.to(torch.int32)[:, None, None, None, :]
    if row is None and keys == kv_length:
        return None
    if row is None:
        row = torch.ones(batch_size, keys, dtype=torch.bool, device=device)
    return row.to(torch.int32)[:, None, None, :]


class Visible(NamedTuple):
    """A mask as attention takes it."""

    keys: int
    padding: Optional[Tensor] = None  # [B, keys], False for padding
    segments: Optional[Tensor] = None  # [B, keys]


def read_mask(mask: Optional[Tensor], keys: int) -> Visible:
    """The inverse of make_mask; refuses every other tensor."""
    if mask is None:
        return Visible(keys)
    ours = mask.dim() == 4 and mask.dtype in (torch.int32, torch.int64)
    if not (ours or mask.dim() == 5) or mask[0, 0].numel() != mask.shape[-1]:
        raise Error(
            "[patch] attention_mask must be [batch, tokens], 0 for padding, but has the shape "
            f"{list(mask.shape)}; for masks of your own call posenc.unpatch(model)"
        )
    row = mask.reshape(mask.shape[0], mask.shape[-1])
    if mask.dtype == torch.int64:
        return Visible(row.shape[1], segments=row)
    return Visible(row.shape[1], padding=row != 0)


def has_holes(padding: Tensor) -> bool:
    """Whether padding stands between real tokens of a row, so that places and positions differ."""
    starts = padding[:, 1:] & ~padding[:, :-1]
    return bool((starts.sum(1) + padding[:, 0] > 1).any())


def unknown_attention(module: torch.nn.Module, *_: Any, **__: Any) -> None:
    """Registered with the mask: what a layer calls that shares a config but was not patched."""
    raise Error(
        f"[patch] {type(module).__name__} is not patched but shares its config with a layer that is; "
        'call posenc.unpatch(model) and use attn_implementation="posenc"'
    )


def register() -> None:
    """Makes the implementation known to transformers; asked for again, it does nothing new."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, unknown_attention)
    AttentionMaskInterface.register(NAME, make_mask)

"""Attention weights of a model while it runs: what :func:`posenc.view` records."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

import torch
from torch import Tensor, nn

from posenc.errors import Error, raises_errors

MOST_BYTES = 1 << 30  # of all recorded weights
recorder: Optional["Recorder"] = None  # is told of every attention that posenc computes


@raises_errors
def weights(
    q: Tensor, k: Tensor, v: Tensor, spec: str, params: list[Tensor], inputs: list[Tensor], masks: dict[str, Any]
) -> Tensor:
    """[B, H, Tq, Tk] in float32: attention to the unit vectors as values, as many keys at a time as q has channels.

    The fused kernels compute them, much faster than the float64 reference, which serves what the former do not.
    """
    if q.dtype == torch.float64 or "gate_source=value" in spec or "values=true" in spec:
        return torch.ops.posenc.attention_weights(q, k, v, spec, params, inputs, **masks)
    q, k, keys = q.float(), k.float(), k.shape[2]
    columns = []
    for one in torch.eye(keys, device=q.device).split(q.shape[-1], dim=1):
        values = one.contiguous().expand(*k.shape[:2], *one.shape)
        plain = dict(masks, dropout=0.0, seed=0, keys_are_turned=False)
        columns.append(torch.ops.posenc.attention(q, k, values, spec, params, inputs, **plain)[0])
    return torch.cat(columns, -1)


class Layer(NamedTuple):
    """The attention of one layer."""

    number: int  # in the order of the calls
    name: str  # of the module
    spec: str  # empty where posenc did not compute it
    weights: Tensor  # [heads, T, T]
    hidden: Tensor  # bool [T, T], pairs that no head of the layer sees


class Recorder:
    """Records the weights of every self-attention over ``tokens`` tokens.

    Args:
        tokens: of the text.
        layers: those whose weights are kept, by number; None for all.
        heads: those that are kept; None for all.
    """

    def __init__(self, tokens: int, layers: Optional[Sequence[int]], heads: Optional[Sequence[int]]) -> None:
        self.tokens, self.wanted, self.heads = tokens, layers, heads
        self.seen = 0
        self.kept: list[Layer] = []
        self._running: list[list[Any]] = []  # name, and whether the attention in it was recorded

    def attention(self, spec: str, heads: int, keys_are_rotated: bool, weights: Callable[[], Tensor]) -> None:
        """An attention that posenc computes; ``weights`` is called for layers that are kept."""
        if keys_are_rotated:
            raise Error("[view] the model keeps rotated keys in a cache; call it without one", kind="unsupported")
        for entry in self._running:
            entry[1] = True
        self._record(spec, heads, weights)

    def _record(self, spec: str, heads: int, weights: Callable[[], Tensor]) -> None:
        number, self.seen = self.seen, self.seen + 1
        if self.wanted is not None and number not in self.wanted:
            return
        chosen = list(range(heads)) if self.heads is None else list(self.heads)
        if chosen and max(chosen) >= heads:
            raise Error(f"[view] heads must be in [0, {heads - 1}] but got {max(chosen)}", kind="out_of_range")
        self._require_room(heads, len(chosen))
        with torch.no_grad():
            maps = weights()[0].detach().float().cpu()
        name = self._running[-1][0] if self._running else ""
        self.kept.append(Layer(number, name, spec, maps[chosen], (maps == 0).all(0)))

    def _require_room(self, heads: int, kept: int) -> None:
        """Weights of all heads are computed at a time, those of the chosen heads are kept."""
        size = 4 * self.tokens**2
        needed = sum(4 * layer.weights.numel() for layer in self.kept) + size * max(heads, kept)
        if needed > MOST_BYTES:
            raise Error(
                f"[view] text must be short enough for {MOST_BYTES >> 20} MiB of weights but has {self.tokens} tokens, "
                f"{size / 2**20:.3g} MiB for each head of each layer; shorten it, or choose layers= and heads=",
                kind="resource",
            )

    # Modules of other libraries, which return their weights.

    def _enters(self, name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            self._running.append([name, False])

        return hook

    def _leaves(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        name, recorded = self._running.pop()
        if recorded:
            return
        parts = output if isinstance(output, (tuple, list)) else ()
        found = next((part for part in parts if self._are_weights(part)), None)
        if found is None:
            return
        for entry in self._running:
            entry[1] = True
        self._running.append([name, True])
        self._record("", found.shape[1], lambda: found)
        self._running.pop()

    def _are_weights(self, value: Any) -> bool:
        """Rows that sum to one, or to less with a sink: no other tensor of this shape that layers return."""
        if not isinstance(value, Tensor) or value.dim() != 4 or not value.is_floating_point():
            return False
        if value.shape[0] != 1 or value.shape[2:] != (self.tokens, self.tokens):
            return False
        sums = value.float().sum(-1)
        return bool((value >= 0).all()) and bool(((sums > 0) & (sums < 1.02)).all())

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        global recorder
        handles = []
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(self._enters(name)))
            handles.append(module.register_forward_hook(self._leaves))
        before, recorder = recorder, self
        try:
            yield
        finally:
            recorder = before
            for handle in handles:
                handle.remove()

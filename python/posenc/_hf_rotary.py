"""Rotary embeddings of Hugging Face models: which spec a call has, and where its tokens stand."""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional, Union

import torch
from torch import Tensor, nn

from posenc import tables
from posenc._hf_attention import Rotation
from posenc.errors import Error, raises_errors
from posenc.spec import Spec


@raises_errors
def hf_specs(config: Union[str, Mapping[str, Any], Any], precision: str = "hf") -> dict[str, Spec]:
    """The spec of each type of layer of a Hugging Face model, by its config.

    Args:
        config: a config object of transformers, a dict, or the text of a config.json.
        precision: ``"exact"`` takes angles in float64; ``"hf"`` rounds them as transformers does.

    Returns:
        A spec by type of layer; the type is ``""`` where all layers are alike.

    >>> config = {"model_type": "llama", "num_attention_heads": 8, "hidden_size": 512, "rope_theta": 500000.0}
    >>> posenc.hf_specs(config, precision="exact")
    {'': Spec('rope(theta=500000)')}
    """
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    text = config if isinstance(config, str) else json.dumps(config, default=str)
    model = json.loads(torch.ops.posenc.hf_specs(text, precision))
    return {layer["type"]: Spec(layer["spec"]) for layer in model["layers"]}


def without(spec: Spec, encoding: str) -> Spec:
    kept = [entry for entry, name in zip(spec.json, spec.encodings) if name != encoding]
    return Spec(kept or "none")


def _trained_length(spec: Spec) -> int:
    """Of a dynamic schedule; 0 where there is none."""
    for entry in spec.json:
        schedule = entry.get("rope", {}).get("schedule") if isinstance(entry, dict) else None
        if isinstance(schedule, dict) and "dynamic" in schedule:
            return schedule["dynamic"]["max_position_embeddings"]
    return 0


class RotaryState:
    """What a patched rotary embedding remembers, as its attribute `_posenc`."""

    def __init__(self, spec: Spec, own_spec: bool) -> None:
        self.spec = spec
        self.own_spec = own_spec  # the caller's, not the model's
        self.trained_length = _trained_length(spec)
        self.longest = self.trained_length

    def rotation(self, positions: Tensor) -> Rotation:
        """Frequencies of the model's own spec are fixed for this call, as transformers fixes them, and
        keys in a cache keep theirs. The caller's spec runs as it is written: all keys are rotated for
        the length of this call."""
        if not self.spec.follows_length:
            return Rotation(self.spec.text, positions)
        length = int(positions.max()) + 1
        if self.own_spec:
            return Rotation(self.spec.text, positions, length)
        return Rotation(self.spec.at_length(self._transformers_length(length)).text, positions)

    def _transformers_length(self, length: int) -> int:
        """The dynamic schedule keeps the longest length it has met until a sequence shorter than the
        trained length comes, and LongRoPE looks at this call alone."""
        if self.trained_length == 0:
            return length
        self.longest = max(self.longest, length)
        if length < self.trained_length:
            self.longest = self.trained_length
        return self.longest


def rotary_forward(
    self: nn.Module,
    x: Tensor,
    position_ids: Optional[Tensor] = None,
    layer_type: Optional[str] = None,
    **_: Any,
) -> Rotation:
    if position_ids is None:
        position_ids = torch.arange(x.shape[1], device=x.device)[None]
    positions = position_ids[0] if position_ids.shape[0] == 1 else position_ids
    states = self._posenc
    state = states[layer_type] if layer_type in states else next(iter(states.values()))
    return state.rotation(positions)


def rotates_by_type(module: nn.Module, layer_type: str) -> bool:
    """Whether a rotary embedding has frequencies for a type of layers alone, as Gemma 3's has."""
    return hasattr(module, f"{layer_type}_inv_freq")


def check_frequencies(module: nn.Module, spec: Spec, head_dim: int, layer_type: str = "") -> None:
    """Raises if a model's frequencies differ from those of its config, for example because buffers were changed."""
    prefix = f"{layer_type}_" if rotates_by_type(module, layer_type) else ""

    def held(name: str, otherwise: Any = None) -> Any:
        return getattr(module, prefix + name, otherwise)

    inv_freq = held("original_inv_freq", held("inv_freq"))
    if inv_freq is None:
        raise Error(f"[patch] {type(module).__name__} has no inv_freq to check the config by")
    rotation = spec.part("query/key").at_length(1)
    cos, sin = tables.rope_tables(2, head_dim, 1, rotation)
    angles = inv_freq.detach().double().cpu()
    scale = float(held("attention_scaling", 1.0))
    wanted = torch.stack([angles.cos(), angles.sin()]) * scale
    found = torch.stack([cos[0, 1], sin[0, 1]])
    allowed = 8 * max(torch.finfo(kind).eps for kind in (inv_freq.dtype, torch.float32)) * scale
    if wanted.shape != found.shape or (wanted - found).abs().max() > allowed:
        raise Error(
            f"[patch] {type(module).__name__} does not rotate by the frequencies of its config "
            f"({spec.text}); pass the right ones with spec="
        )

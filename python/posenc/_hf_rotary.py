"""Rotary embeddings of Hugging Face models: which spec a call has, and where its tokens stand."""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional, Union

import torch
from torch import Tensor, nn

from posenc import functional
from posenc._hf_attention import Rotation
from posenc.spec import Spec


def hf_specs(config: Union[str, Mapping[str, Any], Any], precision: str = "hf") -> dict[str, Spec]:
    """The spec of each type of layer of a Hugging Face model, by its config.

    ``config`` is a config object of transformers, a dict, or the text of a config.json. Layers that
    are all alike have the type ``""``. ``precision="exact"`` takes angles in float64; ``"hf"`` rounds
    them as transformers does.
    """
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    text = config if isinstance(config, str) else json.dumps(config, default=str)
    model = json.loads(torch.ops.posenc.hf_specs(text, precision))
    return {layer["type"]: Spec(layer["spec"]) for layer in model["layers"]}


def at_length(spec: Spec, length: int, head_dim: int) -> Spec:
    """The spec with schedules that follow the length settled for one."""
    entries = spec.json
    settled = [_settled(entry, length, head_dim) for entry in entries]
    return spec if settled == entries else Spec(settled)


def _settled(entry: Any, length: int, head_dim: int) -> Any:
    fields = entry.get("rope") if isinstance(entry, dict) else None
    schedule = fields.get("schedule") if fields else None
    if not isinstance(schedule, dict):
        return entry
    if "dynamic" in schedule and schedule["dynamic"].get("length", "current") == "current":
        theta = _dynamic_theta(fields, schedule["dynamic"], length, head_dim)
        kept = {k: v for k, v in fields.items() if k != "schedule"}
        return {"rope": {**kept, "theta": theta}}
    if "longrope" in schedule and schedule["longrope"].get("switch_by", "current") == "current":
        s = schedule["longrope"]
        far = length > s["original_max_position_embeddings"]
        chosen = s["long_factor" if far else "short_factor"]
        both = {**s, "short_factor": chosen, "long_factor": chosen}
        return {"rope": {**fields, "schedule": {"longrope": both}}}
    return entry


def _dynamic_theta(
    fields: Mapping[str, Any], schedule: Mapping[str, Any], length: int, head_dim: int
) -> Any:
    theta = fields.get("theta", 10000.0)
    most, factor = schedule["max_position_embeddings"], schedule["factor"]
    if length <= most:
        return theta
    dim = fields.get("rotary_dim", 0) or head_dim - fields.get("dim_offset", 0)
    growth = (factor * length / most - (factor - 1)) ** (dim / (dim - 2))
    return [t * growth for t in theta] if isinstance(theta, list) else theta * growth


def _trained_length(spec: Spec) -> int:
    """Of a dynamic schedule; 0 where there is none."""
    for entry in spec.json:
        schedule = entry.get("rope", {}).get("schedule") if isinstance(entry, dict) else None
        if isinstance(schedule, dict) and "dynamic" in schedule:
            return schedule["dynamic"]["max_position_embeddings"]
    return 0


class RotaryState:
    """What a patched rotary embedding remembers, as its attribute `_posenc`."""

    def __init__(self, spec: Spec, head_dim: int) -> None:
        self.spec = spec
        self.head_dim = head_dim
        self.follows = at_length(spec, 1, head_dim) is not spec
        self.trained_length = _trained_length(spec)
        self.longest = self.trained_length

    def spec_for(self, position_ids: Tensor) -> str:
        """As transformers has it: the dynamic schedule keeps the longest length it has met until a
        sequence shorter than the trained length comes, and LongRoPE looks at this call alone."""
        if not self.follows:
            return self.spec.text
        length = int(position_ids.max()) + 1
        if self.trained_length == 0:
            return at_length(self.spec, length, self.head_dim).text
        self.longest = max(self.longest, length)
        if length < self.trained_length:
            self.longest = self.trained_length
        return at_length(self.spec, self.longest, self.head_dim).text


def rotary_forward(
    self: nn.Module, x: Tensor, position_ids: Optional[Tensor] = None, **_: Any
) -> Rotation:
    if position_ids is None:
        position_ids = torch.arange(x.shape[1], device=x.device)[None]
    positions = position_ids[0] if position_ids.shape[0] == 1 else position_ids
    return Rotation(self._posenc.spec_for(position_ids), positions)


def check_frequencies(module: nn.Module, spec: Spec, head_dim: int) -> None:
    """A model may turn otherwise than its config says (changed buffers): not to go unseen."""
    inv_freq = getattr(module, "original_inv_freq", getattr(module, "inv_freq", None))
    if inv_freq is None:
        raise ValueError(f"[patch] {type(module).__name__} has no inv_freq to check the config by")
    cos, sin = functional.rope_tables(2, head_dim, 1, at_length(spec, 1, head_dim))
    angles = inv_freq.detach().double().cpu()
    scale = float(getattr(module, "attention_scaling", 1.0))
    wanted = torch.stack([angles.cos(), angles.sin()]) * scale
    found = torch.stack([cos[0, 1], sin[0, 1]])
    allowed = 8 * max(torch.finfo(kind).eps for kind in (inv_freq.dtype, torch.float32)) * scale
    if wanted.shape != found.shape or (wanted - found).abs().max() > allowed:
        raise ValueError(
            f"[patch] {type(module).__name__} does not turn by the frequencies of its config "
            f"({spec.text}); say which with spec="
        )

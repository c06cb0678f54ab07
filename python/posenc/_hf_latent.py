"""Multi-head latent attention of DeepSeek V2, DeepSeek V3 and Mistral 4: keys and values are made of a narrow vector.

Queries and keys have channels without a rotation, then channels with one. All heads share the rotated channels of keys,
and values may have another number of channels than keys.
"""

from __future__ import annotations

from typing import Mapping, Optional

import torch
from torch import Tensor, nn

from posenc.errors import Error
from posenc.spec import Spec

_SOFTMAX_MSCALE = "softmax_mscale=true"


def project_latent(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    plain, rotated = module.qk_nope_head_dim, module.qk_rope_head_dim
    if module.q_lora_rank is None:
        q = module.q_proj(x)
    else:
        q = module.q_b_proj(module.q_a_layernorm(module.q_a_proj(x)))
    q = q.unflatten(-1, (-1, plain + rotated)).transpose(1, 2)
    latent, shared = module.kv_a_proj_with_mqa(x).split([module.kv_lora_rank, rotated], -1)
    rows = module.kv_b_proj(module.kv_a_layernorm(latent))
    k, v = rows.unflatten(-1, (-1, plain + module.v_head_dim)).transpose(1, 2).split([plain, module.v_head_dim], -1)
    return q, torch.cat([k, shared.unsqueeze(1).expand(-1, k.shape[1], -1, -1)], -1), v


def latent_scale(module: nn.Module) -> float:
    """A caller's spec with softmax_mscale brings the factor that the scale of DeepSeek V3 has already."""
    brings = _SOFTMAX_MSCALE in module._posenc.spec
    return (module.qk_nope_head_dim + module.qk_rope_head_dim) ** -0.5 if brings else module.scaling


def check_values(module: nn.Module, specs: Mapping[str, Spec]) -> None:
    """Raises for a spec that needs values as wide as the keys, where they are not."""
    if not hasattr(module, "qk_nope_head_dim"):
        return
    keys, values = module.qk_nope_head_dim + module.qk_rope_head_dim, module.v_head_dim
    for spec in specs.values():
        for field in ("gate_source=value", "values=true"):
            if field in spec.text and values != keys:
                raise Error(
                    f"[patch] {field} needs values with as many channels as the keys ({keys}) but v_head_dim is "
                    f"{values}; use a spec without it", kind="unsupported"
                )


def without_softmax_mscale(spec: Spec) -> Spec:
    """As the model computes it, whose modules have the scale as a number."""
    return Spec(spec.text.replace(f", {_SOFTMAX_MSCALE}", ""))


def cached_order(module: nn.Module) -> Optional[Tensor]:
    """Channels in the order of transformers' caches: it rotates pairs of neighbours and stores their halves apart."""
    if not getattr(module.config, "rope_interleave", False):
        return None
    plain, rotated = module.qk_nope_head_dim, module.qk_rope_head_dim
    channels = torch.arange(plain + rotated, device=module.kv_b_proj.weight.device)
    return torch.cat([channels[:plain], channels[plain::2], channels[plain + 1 :: 2]])

"""The attention of each family of Hugging Face models: how it projects, and how it is called.

A patched module keeps its class, its weights and its name; its forward is one of those below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional

import torch
from torch import Tensor, nn

from posenc._hf_attention import Call, Rotation, attend, refuse_unknown, wants_weights
from posenc._hf_masks import has_holes, read_mask
from posenc.nn import TokenInputs

Projected = tuple[Tensor, Tensor, Tensor]


@dataclass
class LayerState:
    """What a patched module remembers, as its attribute `_posenc`."""

    spec: str  # of modules without a rotary embedding; the others are told at every call
    own_spec: bool  # the caller's, not the model's
    inputs: Optional[TokenInputs] = None  # made by linear layers in the submodule `pos`
    want_weights: bool = False  # for layers that are not told


def _params(module: nn.Module) -> Mapping[str, Tensor]:
    return module.pos() if "pos" in module._modules else {}


def _inputs(module: nn.Module, x: Tensor) -> Mapping[str, Tensor]:
    makes = module._posenc.inputs
    return makes.make(module.pos, x) if makes is not None else {}


def _dropout(module: nn.Module, probability: float) -> float:
    return probability if module.training else 0.0


# Llama, Mistral, Mixtral, Qwen 2 and 3, GPT-NeoX: rotation.


def _project_llama(module: nn.Module, x: Tensor) -> Projected:
    shape = (*x.shape[:-1], -1, module.head_dim)
    q, k = module.q_proj(x).view(shape), module.k_proj(x).view(shape)
    if hasattr(module, "q_norm"):
        q, k = module.q_norm(q), module.k_norm(k)
    v = module.v_proj(x).view(shape)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def _project_neox(module: nn.Module, x: Tensor) -> Projected:
    fused = module.query_key_value(x).view(*x.shape[:-1], -1, 3 * module.head_size)
    q, k, v = fused.transpose(1, 2).chunk(3, dim=-1)
    return q, k, v


def _window(module: nn.Module) -> Optional[int]:
    if type(module).__name__ in ("MistralAttention", "MixtralAttention"):
        return getattr(module.config, "sliding_window", None)
    return getattr(module, "sliding_window", None)


def _rotary_forward(
    module: nn.Module,
    x: Tensor,
    project: Callable[[nn.Module, Tensor], Projected],
    rotation: Rotation,
    mask: Optional[Tensor],
    cache: Any,
    options: Mapping[str, Any],
) -> tuple[Tensor, Optional[Tensor]]:
    refuse_unknown(module, options)
    if not isinstance(rotation, Rotation):
        raise ValueError("[patch] the rotary embedding is not patched; call posenc.patch again")
    call = Call(
        spec=rotation.spec,
        scale=module.scaling,
        causal=True,
        params=_params(module),
        inputs=_inputs(module, x),
        mask=mask,
        window=_window(module),
        positions=rotation.positions,
        length=rotation.length,
        dropout=_dropout(module, module.attention_dropout),
        want_weights=wants_weights(module, options),
    )
    return attend(*project(module, x), call, cache, module.layer_idx)


def llama_forward(
    self: nn.Module,
    hidden_states: Tensor,
    position_embeddings: Any = None,
    attention_mask: Optional[Tensor] = None,
    past_key_values: Any = None,
    **options: Any,
) -> tuple[Tensor, Optional[Tensor]]:
    out, weights = _rotary_forward(
        self,
        hidden_states,
        _project_llama,
        position_embeddings,
        attention_mask,
        past_key_values,
        options,
    )
    return self.o_proj(out), weights


def neox_forward(
    self: nn.Module,
    hidden_states: Tensor,
    attention_mask: Optional[Tensor] = None,
    layer_past: Any = None,
    position_embeddings: Any = None,
    **options: Any,
) -> tuple[Tensor, Optional[Tensor]]:
    cache = layer_past if layer_past is not None else options.get("past_key_values")
    out, weights = _rotary_forward(
        self, hidden_states, _project_neox, position_embeddings, attention_mask, cache, options
    )
    return self.dense(out), weights


# BLOOM and MPT: ALiBi.


def bloom_forward(
    self: nn.Module,
    hidden_states: Tensor,
    residual: Tensor,
    alibi: Optional[Tensor] = None,
    attention_mask: Optional[Tensor] = None,
    layer_past: Any = None,
    **options: Any,
) -> tuple[Tensor, Optional[Tensor]]:
    refuse_unknown(self, options)
    x = hidden_states
    fused = self.query_key_value(x).view(*x.shape[:-1], self.num_heads, 3, self.head_dim)
    q, k, v = fused.unbind(3)
    call = Call(
        spec=self._posenc.spec,
        scale=self.inv_norm_factor,
        causal=True,
        params=_params(self),
        inputs=_inputs(self, x),
        mask=attention_mask,
        token_positions=None if self._posenc.own_spec else _positions_past_holes(attention_mask),
        dropout=_dropout(self, self.attention_dropout.p),
        want_weights=wants_weights(self, options),
    )
    rows = (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
    out, weights = attend(*rows, call, layer_past, self.layer_idx)
    out = nn.functional.dropout(self.dense(out), self.hidden_dropout, self.training)
    return residual + out, weights


def _positions_past_holes(mask: Optional[Tensor]) -> Optional[Tensor]:
    """BLOOM counts real tokens. Only padding between them makes that differ from places."""
    padding = read_mask(mask, 0).padding
    if padding is None or not has_holes(padding):
        return None
    return (padding.long().cumsum(-1) - 1).clamp(min=0)


def mpt_forward(
    self: nn.Module,
    hidden_states: Tensor,
    position_bias: Optional[Tensor] = None,
    past_key_values: Any = None,
    attention_mask: Optional[Tensor] = None,
    **options: Any,
) -> tuple[Tensor, Optional[Tensor]]:
    refuse_unknown(self, options)
    fused = self.Wqkv(hidden_states)
    if self.clip_qkv:
        fused = fused.clamp(min=-self.clip_qkv, max=self.clip_qkv)
    parts = fused.chunk(3, dim=-1)
    q, k, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in parts)
    call = Call(
        spec=self._posenc.spec,
        scale=self.softmax_scale,
        causal=True,
        params=_params(self),
        inputs=_inputs(self, hidden_states),
        mask=attention_mask,
        dropout=_dropout(self, self.attn_dropout_p),
        want_weights=self._posenc.want_weights,
    )
    out, weights = attend(q, k, v, call, past_key_values, self.layer_idx)
    return self.out_proj(out), weights


def note_weights_wanted(block: nn.Module, _: Any, options: Mapping[str, Any]) -> None:
    """MPT's blocks do not tell their attention that weights are wanted."""
    block.attn._posenc.want_weights = bool(options.get("output_attentions"))


# T5: buckets. The first layer's table goes from layer to layer in place of the bias made of it.


def t5_forward(
    self: nn.Module,
    hidden_states: Tensor,
    mask: Optional[Tensor] = None,
    key_value_states: Optional[Tensor] = None,
    position_bias: Optional[Tensor] = None,
    past_key_values: Any = None,
    **options: Any,
) -> tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    refuse_unknown(self, options)
    crossing = key_value_states is not None
    if position_bias is None and self.has_relative_attention_bias:
        position_bias = self.relative_attention_bias.weight
    spec, params = ("none", {}) if crossing else _t5_spec(self, position_bias)
    call = Call(
        spec=spec,
        scale=1.0,
        causal=self.is_decoder and not crossing,
        params=params,
        inputs={} if crossing else _inputs(self, hidden_states),
        mask=mask,
        dropout=_dropout(self, self.dropout),
        want_weights=wants_weights(self, options),
    )
    q = _t5_heads(self, self.q(hidden_states))
    if crossing:
        k, v = _t5_cross_keys(self, key_value_states, past_key_values)
        out, weights = attend(q, k, v, call)
    else:
        k, v = _t5_heads(self, self.k(hidden_states)), _t5_heads(self, self.v(hidden_states))
        cache = getattr(past_key_values, "self_attention_cache", past_key_values)
        out, weights = attend(q, k, v, call, cache, self.layer_idx)
    return self.o(out), position_bias, weights


def _t5_heads(module: nn.Module, x: Tensor) -> Tensor:
    return x.view(*x.shape[:-1], -1, module.key_value_proj_dim).transpose(1, 2)


def _t5_spec(module: nn.Module, table: Optional[Tensor]) -> tuple[str, Mapping[str, Tensor]]:
    if module._posenc.own_spec:
        return module._posenc.spec, _params(module)
    if table is None:
        return "none", {}
    return module._posenc.spec, {"t5.weight": table}


def _t5_cross_keys(module: nn.Module, states: Tensor, cache: Any) -> tuple[Tensor, Tensor]:
    """Keys and values of the encoder's states, made once per generation."""
    crossing = getattr(cache, "cross_attention_cache", cache)
    known = getattr(cache, "is_updated", None)
    if known is not None and known.get(module.layer_idx):
        layer = crossing.layers[module.layer_idx]
        return layer.keys, layer.values
    k, v = _t5_heads(module, module.k(states)), _t5_heads(module, module.v(states))
    if cache is not None:
        k, v = crossing.update(k, v, module.layer_idx)
        if known is not None:
            known[module.layer_idx] = True
    return k, v


@dataclass(frozen=True)
class Family:
    """Classes of attention that compute the same."""

    forward: Callable[..., Any]
    classes: tuple[str, ...]
    rotary: bool = False


FAMILIES = (
    Family(
        llama_forward,
        (
            "LlamaAttention",
            "MistralAttention",
            "MixtralAttention",
            "Qwen2Attention",
            "Qwen2MoeAttention",
            "Qwen3Attention",
            "Qwen3MoeAttention",
        ),
        rotary=True,
    ),
    Family(neox_forward, ("GPTNeoXAttention",), rotary=True),
    Family(bloom_forward, ("BloomAttention",)),
    Family(mpt_forward, ("MptAttention",)),
    Family(t5_forward, ("T5Attention", "MT5Attention")),
)


def family_of(module: nn.Module) -> Optional[Family]:
    """By the exact class: who derives from one may compute something else."""
    kind = type(module)
    if not kind.__module__.startswith("transformers.models."):
        return None
    return next((f for f in FAMILIES if kind.__name__ in f.classes), None)

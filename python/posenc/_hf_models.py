"""The attention of each family of Hugging Face models: how it projects, and how it is called.

A patched module keeps its class, its weights and its name; its forward is one of those below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional

import torch
from torch import Tensor, nn

from posenc._hf_attention import Call, Rotation, attend, dropout_of, inputs_of, params_of
from posenc._hf_attention import refuse_unknown, wants_weights
from posenc._hf_deberta import deberta_forward
from posenc._hf_latent import cached_order, latent_scale, project_latent
from posenc._hf_masks import has_holes, read_mask
from posenc.errors import Error

Projected = tuple[Tensor, Tensor, Tensor]


# Llama and its relatives, GPT-NeoX, Falcon: rotation.


def _heads(module: nn.Module, *rows: Tensor) -> Projected:
    q, k, v = (x.view(*x.shape[:-1], -1, module.head_dim).transpose(1, 2) for x in rows)
    return q, k, v


def _project_llama(module: nn.Module, x: Tensor) -> Projected:
    q, k, v = _heads(module, module.q_proj(x), module.k_proj(x), module.v_proj(x))
    if hasattr(module, "q_norm"):
        q, k = module.q_norm(q), module.k_norm(k)
    elif hasattr(module, "qk_norm"):  # Llama 4, after the rotation, which keeps the norm
        q, k = module.qk_norm(q), module.qk_norm(k)
    return q, k, v


def _project_olmo2(module: nn.Module, x: Tensor) -> Projected:
    q, k = module.q_norm(module.q_proj(x)), module.k_norm(module.k_proj(x))
    return _heads(module, q, k, module.v_proj(x))


def _project_phi3(module: nn.Module, x: Tensor) -> Projected:
    queries = module.config.num_attention_heads * module.head_dim
    keys = module.num_key_value_heads * module.head_dim
    return _heads(module, *module.qkv_proj(x).split([queries, keys, keys], -1))


def _ministral3_factor(module: nn.Module, positions: Tensor) -> Tensor:
    """Of queries, [1 or B, 1, T, 1]; `temperature` takes its steps one position earlier."""
    rope = module.config.rope_parameters
    steps = torch.floor(positions / rope["original_max_position_embeddings"])
    factor = 1 + rope["llama_4_scaling_beta"] * torch.log(1 + steps)
    return factor.reshape(-1, 1, positions.shape[-1], 1)


def _project_neox(module: nn.Module, x: Tensor) -> Projected:
    fused = module.query_key_value(x).view(*x.shape[:-1], -1, 3 * module.head_size)
    q, k, v = fused.transpose(1, 2).chunk(3, dim=-1)
    return q, k, v


def _project_falcon(module: nn.Module, x: Tensor) -> Projected:
    q, k, v = (rows.transpose(1, 2) for rows in module._split_heads(module.query_key_value(x)))
    return q, k, v


def _window(module: nn.Module) -> Optional[int]:
    holder = module.config if known_family(module).window_of_config else module
    return getattr(holder, "sliding_window", None)


def _rotary_forward(
    module: nn.Module,
    x: Tensor,
    rotation: Rotation,
    mask: Optional[Tensor],
    cache: Any,
    options: Mapping[str, Any],
) -> tuple[Tensor, Optional[Tensor]]:
    refuse_unknown(module, options)
    if not isinstance(rotation, Rotation):
        raise Error("[patch] the rotary embedding is not patched; call posenc.patch again")
    state, family = module._posenc, known_family(module)
    told = state.rotates and not state.own_spec
    q, k, v = family.project(module, x)
    if family.query_factor is not None and not state.own_spec:
        q = q * family.query_factor(module, rotation.positions).to(q.dtype)
    call = Call(
        spec=rotation.spec if told else state.spec,
        scale=latent_scale(module) if family.latent else getattr(module, family.scale),
        causal=True,
        params=params_of(module),
        inputs=inputs_of(module, x),
        mask=mask,
        window=_window(module),
        positions=rotation.positions if told or state.own_spec else None,
        length=rotation.length,
        dropout=dropout_of(module, module.attention_dropout) if family.dropout else 0.0,
        want_weights=wants_weights(module, options),
        cached_order=cached_order(module) if family.latent and not state.own_spec else None,
    )
    return attend(q, k, v, call, cache, module.layer_idx)


def llama_forward(
    self: nn.Module,
    hidden_states: Tensor,
    position_embeddings: Any = None,
    attention_mask: Optional[Tensor] = None,
    past_key_values: Any = None,
    **options: Any,
) -> tuple[Tensor, Optional[Tensor]]:
    out, weights = _rotary_forward(
        self, hidden_states, position_embeddings, attention_mask, past_key_values, options
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
        self, hidden_states, position_embeddings, attention_mask, cache, options
    )
    return self.dense(out), weights


def falcon_forward(
    self: nn.Module,
    hidden_states: Tensor,
    alibi: Optional[Tensor],
    attention_mask: Optional[Tensor],
    position_ids: Optional[Tensor] = None,
    layer_past: Any = None,
    use_cache: bool = False,
    output_attentions: bool = False,
    position_embeddings: Any = None,
    **options: Any,
) -> tuple[Tensor, Optional[Tensor]]:
    options = {**options, "output_attentions": output_attentions}
    out, weights = _rotary_forward(
        self, hidden_states, position_embeddings, attention_mask, layer_past, options
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
        params=params_of(self),
        inputs=inputs_of(self, x),
        mask=attention_mask,
        token_positions=None if self._posenc.own_spec else _positions_past_holes(attention_mask),
        dropout=dropout_of(self, self.attention_dropout.p),
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
        params=params_of(self),
        inputs=inputs_of(self, hidden_states),
        mask=attention_mask,
        dropout=dropout_of(self, self.attn_dropout_p),
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
        inputs={} if crossing else inputs_of(self, hidden_states),
        mask=mask,
        dropout=dropout_of(self, self.dropout),
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
        return module._posenc.spec, params_of(module)
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


def _marked_type(module: nn.Module) -> str:
    return "rope" if module.use_rope else "no_rope"


def _sliding_type(module: nn.Module) -> str:
    return "full_attention" if module.sliding_window is None else "sliding_attention"


def _t5_type(module: nn.Module) -> str:
    return "decoder" if module.is_decoder else "encoder"


@dataclass(frozen=True)
class Family:
    """Classes of attention that compute the same."""

    forward: Callable[..., Any]
    classes: tuple[str, ...]
    package: str = ""  # of transformers.models, where several have classes of these names
    rotary: bool = False
    project: Callable[[nn.Module, Tensor], Projected] = _project_llama
    layer_type: Callable[[nn.Module], str] = lambda module: ""  # as hf_specs names it
    scale: str = "scaling"  # the attribute that multiplies scores
    dropout: bool = True
    window_of_config: bool = False  # the config has the window of all layers
    softcap: Optional[str] = None  # the attribute that bounds scores
    sink: Optional[str] = None  # the attribute with a logit per head
    query_factor: Optional[Callable[[nn.Module, Tensor], Tensor]] = None
    latent: bool = False  # keys and values are made of a latent vector
    encoder: bool = False  # alone: tokens see those after them

    @property
    def names(self) -> tuple[str, ...]:
        """Of its classes, for messages."""
        return tuple(f"{self.package}.{kind}" if self.package else kind for kind in self.classes)


def _like_llama(*classes: str, **options: Any) -> Family:
    return Family(llama_forward, classes, rotary=True, **options)


FAMILIES = (
    _like_llama(
        "LlamaAttention",
        "Qwen2Attention",
        "Qwen2MoeAttention",
        "Qwen3Attention",
        "Qwen3MoeAttention",
        "GraniteAttention",
    ),
    _like_llama("MistralAttention", "MixtralAttention", window_of_config=True),
    _like_llama("Ministral3Attention", window_of_config=True, query_factor=_ministral3_factor),
    _like_llama("GptOssAttention", sink="sinks"),
    _like_llama("Gemma2Attention", softcap="attn_logit_softcapping"),
    _like_llama("Gemma3Attention", layer_type=_sliding_type),
    _like_llama("Cohere2Attention", layer_type=_sliding_type),
    _like_llama("SmolLM3Attention", "Llama4TextAttention", layer_type=_marked_type),
    _like_llama("Olmo2Attention", project=_project_olmo2),
    _like_llama("Phi3Attention", project=_project_phi3, window_of_config=True),
    _like_llama("DeepseekV2Attention", "DeepseekV3Attention", project=project_latent, latent=True),
    _like_llama("Mistral4Attention", project=project_latent, latent=True, query_factor=_ministral3_factor),
    Family(neox_forward, ("GPTNeoXAttention",), rotary=True, project=_project_neox),
    Family(
        falcon_forward,
        ("FalconAttention",),
        rotary=True,
        project=_project_falcon,
        scale="inv_norm_factor",
        dropout=False,  # transformers has none with a rotation
    ),
    Family(bloom_forward, ("BloomAttention",)),
    Family(mpt_forward, ("MptAttention",)),
    Family(t5_forward, ("T5Attention", "MT5Attention"), layer_type=_t5_type),
    Family(deberta_forward, ("DisentangledSelfAttention",), "deberta_v2", encoder=True),
)


def known_family(module: nn.Module) -> Family:
    """Of a module that is patched, or found to have one."""
    family = family_of(module)
    assert family is not None, type(module)
    return family


def family_of(module: nn.Module) -> Optional[Family]:
    """By the exact class: who derives from one may compute something else."""
    kind = type(module)
    if not kind.__module__.startswith("transformers.models."):
        return None
    package = kind.__module__.split(".")[2]
    return next(
        (f for f in FAMILIES if kind.__name__ in f.classes and f.package in ("", package)), None
    )

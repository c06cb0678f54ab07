"""posenc.patch: the rotary embedding and attention of a Hugging Face model replaced in place.

>>> report = posenc.patch(model)                        # doctest: +SKIP
>>> posenc.patch(model, "rope(theta=500000)")           # doctest: +SKIP
>>> posenc.unpatch(model)                               # doctest: +SKIP

The first keeps the logits and runs posenc's kernels, the second runs the same weights with another encoding.
"""

from __future__ import annotations

import math
import types
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Optional, Union

import torch
from torch import nn

from posenc import _hf_deberta, _hf_masks
from posenc._hf_attention import LayerState, cut
from posenc._hf_latent import check_values, without_softmax_mscale
from posenc._hf_models import FAMILIES, family_of, known_family, note_weights_wanted
from posenc._hf_rotary import RotaryState, check_frequencies, hf_specs, rotary_forward
from posenc._hf_rotary import rotates_by_type, without
from posenc.errors import Error
from posenc._arguments import SpecLike
from posenc.nn import EncodingParameters, TokenInputs
from posenc.spec import Spec

_KEPT = "_posenc_patch"  # on the model: what unpatch needs
_FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass
class PatchReport:
    """What :func:`patch` replaced, by name, and what now runs. ``print`` shows it.

    Attributes:
        model_type: as the config says, such as ``llama``.
        specs: the spec of each type of layers; the type is ``""`` where all are alike.
        attention: names of the patched attention modules.
        rotary: names of the patched rotary embeddings.
        parameters: names of the new parameters, which are at their initial values.
        untouched: names and classes of attention modules that were not patched.

    >>> report = posenc.PatchReport("llama", {"": posenc.Spec("rope")}, attention=["layers.0.self_attn"])
    >>> print(report)
    llama: patched 1 attention module
      spec: rope
      posenc.unpatch(model) undoes it
    """

    model_type: str
    specs: dict[str, Spec]
    attention: list[str] = field(default_factory=list)
    rotary: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        count = len(self.attention)
        lines = [f"{self.model_type}: patched {count} attention module{'s' * (count != 1)}"]
        lines += [f"  spec{f' of {kind}' if kind else ''}: {spec.text}" for kind, spec in self.specs.items()]
        lines += [f"  rotary embedding: {name}" for name in self.rotary]
        kinds = sorted({name.split(".pos.")[1] for name in self.parameters})
        if kinds:
            lines.append(f"  new parameters in every module, not trained yet: {', '.join(f'pos.{kind}' for kind in kinds)}")
        lines += [f"  not patched: {name}" for name in self.untouched]
        return "\n".join([*lines, "  posenc.unpatch(model) undoes it"])


@dataclass
class _Kept:
    """What is put back by unpatch."""

    implementations: list[tuple[Any, Any]] = field(default_factory=list)  # config, its former value
    hooks: list[Any] = field(default_factory=list)


def patch(
    model: nn.Module, spec: Union[SpecLike, Mapping[str, SpecLike], None] = None
) -> PatchReport:
    """Replaces rotary embedding and attention of a transformers model, in place.

    Without ``spec`` the model computes what it did before: the spec is read from its config and
    checked against its frequencies. With ``spec`` its weights run with another encoding or schedule
    of sites 2 to 5; a dict may name one for each type of layers (``encoder`` and ``decoder`` of T5,
    ``rope`` and ``no_rope`` of Llama 4). Soft caps and sinks of the model stay. Parameters of
    the encodings are registered as ``pos`` in every attention module, at their initial values. So are
    the linear layers that make the inputs of a spec (``pos.forget_proj`` for ``fox``): their weights
    are zero, and forget gates have a bias with which they forget next to nothing.

    docs/patch.md lists the families. Other models, and later calls with masks or options that posenc
    cannot honour, are errors, not other logits.
    A model that is patched already is unpatched first.

    Args:
        model: a model of transformers, in the table of docs/patch.md.
        spec: what its attention computes from now on; None for what it computes already.

    Returns:
        A report to print.

    >>> report = posenc.patch(model, "rope(theta=500000) + alibi")  # doctest: +SKIP
    >>> print(report)                                               # doctest: +SKIP
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"[patch] model must be a torch.nn.Module but got {type(model).__name__}")
    unpatch(model)
    found = [(name, module) for name, module in model.named_modules() if family_of(module)]
    if not found:
        raise Error(_unknown(model), kind="unsupported")
    config = getattr(model, "config", None)
    _refuse_features(config, found)
    specs = _model_specs(found) if spec is None else _own_specs(spec, found)
    check_values(found[0][1], specs)
    report = PatchReport(getattr(config, "model_type", type(model).__name__), specs)
    setattr(model, _KEPT, _Kept())
    try:
        _apply(model, found, report, own=spec is not None)
    except Exception:
        unpatch(model)
        raise
    report.parameters = [name for name, _ in model.named_parameters() if ".pos." in name]
    report.untouched = _other_attention(model)
    return report


def _apply(
    model: nn.Module, found: list[tuple[str, nn.Module]], report: PatchReport, own: bool
) -> None:
    for name, module in _rotary_modules(model, found):
        module._posenc = _rotary_states(module, found, report.specs, own)
        module.forward = types.MethodType(rotary_forward, module)
        report.rotary.append(name)
    for name, module in found:
        _patch_attention(name, module, report.specs, own, getattr(model, "config", None))
        report.attention.append(name)
    _hf_masks.register()
    kept = getattr(model, _KEPT)
    for config in _configs(model, found):
        kept.implementations.append((config, config._attn_implementation_internal))
        config._attn_implementation_internal = _hf_masks.NAME
    for module in model.modules():
        if type(module).__name__ == "MptBlock":
            hook = module.register_forward_pre_hook(note_weights_wanted, with_kwargs=True)
            kept.hooks.append(hook)


def unpatch(model: nn.Module) -> bool:
    """Undoes :func:`patch`. Returns False for a model that is not patched.

    >>> posenc.unpatch(torch.nn.Linear(2, 2))
    False
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"[unpatch] model must be a torch.nn.Module but got {type(model).__name__}")
    kept = model.__dict__.get(_KEPT)
    for module in model.modules():
        if "_posenc" in module.__dict__:
            del module._posenc
            del module.forward
            module._modules.pop("pos", None)
    if kept is None:
        return False
    for config, implementation in kept.implementations:
        config._attn_implementation_internal = implementation
    for hook in kept.hooks:
        hook.remove()
    delattr(model, _KEPT)
    return True


def _heads(module: nn.Module) -> tuple[int, Any]:
    """Heads of the queries, and channels of each."""

    def first(*names: str) -> Optional[int]:
        return next((getattr(module, name) for name in names if hasattr(module, name)), None)

    heads = first("num_heads", "n_heads", "num_attention_heads") or module.config.num_attention_heads
    return heads, first("qk_head_dim", "head_dim", "head_size", "key_value_proj_dim", "attention_head_size")


def _kv_heads(module: nn.Module, heads: int) -> int:
    """Of the keys in a cache: Falcon's new architecture caches them once per query head."""
    if hasattr(module, "_split_heads") and hasattr(module, "new_decoder_architecture"):
        return heads if module.new_decoder_architecture else module.num_kv_heads
    return heads // getattr(module, "num_key_value_groups", 1)


def _layer_type(module: nn.Module) -> str:
    return known_family(module).layer_type(module)


def _model_specs(found: list[tuple[str, nn.Module]]) -> dict[str, Spec]:
    """What the model does, by its config, as transformers reads it."""
    kind = type(found[0][1]).__name__
    if kind == "BloomAttention":
        return {"": Spec("alibi(precision=hf)")}
    if kind == "MptAttention":  # transformers always adds it, with 8 for alibi_bias_max
        return {"": Spec("alibi(slopes=mpt)")}
    if kind in ("T5Attention", "MT5Attention"):
        return {_layer_type(module): _t5_spec(module) for _, module in found}
    if kind == "DisentangledSelfAttention":
        return {"": Spec(_hf_deberta.model_spec(found[0][1]))}
    specs = hf_specs(found[0][1].config)
    if known_family(found[0][1]).query_factor is not None:  # computed with the queries
        specs = {kind: without(spec, "temperature") for kind, spec in specs.items()}
    if known_family(found[0][1]).latent:
        specs = {kind: without_softmax_mscale(spec) for kind, spec in specs.items()}
    kinds = {_layer_type(module) for _, module in found}
    return {kind: spec for kind, spec in specs.items() if kind in kinds} or specs


def _rotates(spec: Spec) -> bool:
    return any(name in ("rope", "xpos") for name in spec.encodings)


def _t5_spec(module: nn.Module) -> Spec:
    return Spec(
        f"t5(num_buckets={module.relative_attention_num_buckets}, "
        f"max_distance={module.relative_attention_max_distance}, "
        f"bidirectional={'false' if module.is_decoder else 'true'})"
    )


def _own_specs(
    spec: Union[SpecLike, Mapping[str, SpecLike]], found: list[tuple[str, nn.Module]]
) -> dict[str, Spec]:
    kinds = sorted({_layer_type(module) for _, module in found})
    given = spec if isinstance(spec, Mapping) else {kind: spec for kind in kinds}
    if sorted(given) != kinds:
        raise Error(
            f"[patch] spec must be one spec or have the keys {kinds} but has {sorted(given)}"
        )
    specs = {kind: Spec(value) for kind, value in given.items()}
    chunks = any(type(module).__name__ == "Llama4TextAttention" for _, module in found)
    for one in specs.values():
        cut(one.text)
        if chunks and not one.part("bias").relative:
            raise Error(
                f"[patch] {one.text} has biases that read positions, which the chunks of Llama 4 "
                "would count from their own start; use biases of distances"
            )
    return specs


def _patch_attention(
    name: str, module: nn.Module, specs: Mapping[str, Spec], own: bool, config: Any
) -> None:
    spec, family = specs.get(_layer_type(module), next(iter(specs.values()))), known_family(module)
    whole = _with_scores_of(module, spec) if own else spec
    sink = None if own and "sink" in spec.encodings else family.sink
    module._posenc = LayerState(whole.text, own, _rotates(spec), sink)
    module.forward = types.MethodType(family.forward, module)
    if not own or name.endswith("EncDecAttention"):  # cross attention has no encoding
        return
    heads, dim = _heads(module)
    inputs = TokenInputs(spec, dim, heads, _kv_heads(module, heads))
    if not (inputs.declared or any(p.trainable for p in spec.parameters(dim, heads))):
        return
    pos = EncodingParameters(spec, dim, heads).to(next(module.parameters()).device)
    if inputs.declared:
        _add_projections(pos, inputs, module, getattr(module, "config", config))
        module._posenc.inputs = inputs
    module.add_module("pos", pos)


def _with_scores_of(module: nn.Module, spec: Spec) -> Spec:
    """The caller's spec with the model's own soft cap and sink, unless it has such of its own."""
    family = known_family(module)
    cap = getattr(module, family.softcap) if family.softcap else None
    if cap is not None and "softcap" not in spec.encodings:
        spec = spec + f"softcap(cap={float(cap)!r})"
    if family.sink and "sink" not in spec.encodings:
        spec = spec + "sink"
    return spec


def _add_projections(pos: nn.Module, inputs: TokenInputs, module: nn.Module, config: Any) -> None:
    """Weights start at zero: a pretrained model changes as little as possible."""
    weights = list(module.parameters())
    dtype = next((w.dtype for w in weights if w.dtype in _FLOATS), None)  # not of quantized ones
    if dtype is None:
        named = getattr(config, "dtype", None)
        dtype = named if isinstance(named, torch.dtype) else torch.get_default_dtype()
    width = getattr(module, "hidden_size", None) or getattr(module, "d_model", None)
    inputs.add_projections(
        pos, width or config.hidden_size, device=weights[0].device, dtype=dtype
    )
    for declared in inputs.declared:
        projection = getattr(pos, declared.projection)
        if declared.activation == "unit_norm":  # a direction: its factor is near 0
            continue
        nn.init.zeros_(projection.weight)
        if declared.activation == "log_sigmoid":
            nn.init.constant_(projection.bias, _forget_bias(config) - declared.shift)
        if declared.activation == "twice_sigmoid":
            nn.init.constant_(projection.bias, -_forget_bias(config))


def _forget_bias(config: Any) -> float:
    """Gates with it fade a key by exp(-0.1) over the length that the model was trained for."""
    names = ("max_position_embeddings", "max_seq_len", "n_positions", "seq_length")
    lengths = (getattr(config, name, None) for name in names)
    return math.log(10 * next((n for n in lengths if isinstance(n, int) and n > 0), 2048))


def _rotary_modules(
    model: nn.Module, found: list[tuple[str, nn.Module]]
) -> Iterator[tuple[str, nn.Module]]:
    """The one next to the layers of each stack of patched rotary attention."""
    if not any(known_family(module).rotary for _, module in found):
        return
    names = []
    for name, module in model.named_modules():
        stack = name.rsplit(".", 1)[0] + "." if "." in name else ""
        if type(module).__name__.endswith("RotaryEmbedding") and any(
            other.startswith(stack) and known_family(attention).rotary for other, attention in found
        ):
            names.append((name, module))
    if not names:
        raise Error(f"[patch] {type(model).__name__} has no rotary embedding by its layers")
    yield from names


def _rotary_states(
    module: nn.Module, found: list[tuple[str, nn.Module]], specs: Mapping[str, Spec], own: bool
) -> dict[str, RotaryState]:
    """By type of layers, for those that rotate. Layers with the caller's spec read positions alone."""
    if own:
        following = [spec for spec in specs.values() if spec.follows_length]
        return {"": RotaryState((following or list(specs.values()))[0], own)}
    rotating = {kind: spec for kind, spec in specs.items() if _rotates(spec)}
    if len(set(rotating.values())) > 1 and not all(rotates_by_type(module, k) for k in rotating):
        raise Error(
            f"[patch] {type(module).__name__} has one rotation, but the config has several, for "
            f"{', '.join(sorted(rotating))}; pass spec="
        )
    normed = any(hasattr(attention, "qk_norm") for _, attention in found)
    if normed and getattr(module, "attention_scaling", 1.0) != 1.0:  # the norm would undo it
        raise Error(
            f"[patch] {type(module).__name__} has attention_scaling {module.attention_scaling} "
            "before a norm; pass spec="
        )
    head_dim = _heads(found[0][1])[1]
    for kind, spec in rotating.items():
        check_frequencies(module, spec, head_dim, kind)
    return {kind: RotaryState(spec, own) for kind, spec in rotating.items()}


def _configs(model: nn.Module, found: list[tuple[str, nn.Module]]) -> list[Any]:
    """The configs by which the models around the patched layers choose their masks, each once."""
    configs: dict[int, Any] = {}
    for name, module in model.named_modules():
        config = getattr(module, "config", None)
        inside = any(other.startswith(name + ".") or name in ("", other) for other, _ in found)
        if inside and hasattr(config, "_attn_implementation_internal"):
            configs[id(config)] = config
    return list(configs.values())


def _refuse_features(config: Any, found: list[tuple[str, nn.Module]]) -> None:
    if getattr(config, "is_causal", True) is False and not known_family(found[0][1]).encoder:
        raise Error("[patch] is_causal=False in the config is not supported; use attn_implementation=\"posenc\"")
    if type(found[0][1]).__name__ == "FalconAttention" and found[0][1].config.alibi:
        raise Error(
            "[patch] Falcon with alibi=True is unsupported: transformers rounds its biases to "
            "bfloat16; use attn_implementation=\"sdpa\""
        )
    for name, module in found:
        if getattr(module, "slow_but_exact", False) and getattr(module, "pretraining_tp", 1) > 1:
            raise Error(
                f"[patch] {name}: slow_but_exact with pretraining_tp > 1 is not supported; set slow_but_exact=False "
                "in the config"
            )


def _other_attention(model: nn.Module) -> list[str]:
    return [
        f"{name} ({type(module).__name__})"
        for name, module in model.named_modules()
        if type(module).__name__.endswith("Attention")
        and "_posenc" not in module.__dict__
        and not any("_posenc" in inner.__dict__ for inner in module.modules())
    ]


def _unknown(model: nn.Module) -> str:
    known = ", ".join(kind for family in FAMILIES for kind in family.names)
    kinds = sorted({type(m).__name__ for m in model.modules() if "Attention" in type(m).__name__})
    return (
        f"[patch] {type(model).__name__} has no attention that posenc.patch knows (it has {', '.join(kinds) or 'none'}); "
        'call posenc.register_attention() and load the model with attn_implementation="posenc", which keeps its '
        f"encoding. posenc.patch knows {known} of transformers"
    )

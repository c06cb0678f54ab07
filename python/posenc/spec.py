"""Specs: lists of encodings, written as text, JSON or YAML."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import torch

from posenc import _library  # noqa: F401  (registers the operators)
from posenc.errors import Error, raises_errors, untraced


@dataclass(frozen=True)
class Parameter:
    """A parameter of a spec for a shape: ``alibi.slopes``, ``cope.pos_emb``."""

    name: str
    shape: tuple[int, ...]
    trainable: bool
    site: str


@dataclass(frozen=True)
class Input:
    """A tensor [B, heads, Tk, channels] that attention reads for an encoding: ``cope.gate_k``. A module
    makes it from its input with a linear layer called ``projection``, adds ``shift`` and applies ``activation``:
    ``none``, ``log_sigmoid``, ``twice_sigmoid`` or ``unit_norm`` (over the channels of a head)."""

    name: str
    by_query_head: bool  # a head for each of the queries', or of the keys'
    channels: int
    float32: bool  # float32 even where q has 16 bits
    log_sigmoid: bool
    activation: str
    shift: float
    has_bias: bool  # whether the linear layer has a bias in every module
    projection: str

    def activate(self, y: torch.Tensor) -> torch.Tensor:
        """What the layer's output, [..., channels] of a head, is to attention."""
        y = y + self.shift if self.shift else y
        if self.activation == "log_sigmoid":
            return torch.nn.functional.logsigmoid(y)
        if self.activation == "twice_sigmoid":
            return 2 * torch.sigmoid(y)
        if self.activation == "unit_norm":
            return y * torch.rsqrt(y.square().sum(-1, keepdim=True) + 1e-6)
        return y


@raises_errors
@lru_cache(maxsize=256)
@untraced()
def _info(
    text: str, head_dim: int, heads: int, model_dim: int, part: str = ""
) -> Mapping[str, Any]:
    return json.loads(torch.ops.posenc.spec_info(text, head_dim, heads, model_dim, part))


def require_part(spec: "Spec", part: str) -> "Spec":
    """The spec itself; an error where it has encodings that are not for ``attention`` or ``input``."""
    _info(spec.text, 0, 0, 0, part)
    return spec


def constant_result(function):
    """For torch.compile: what a spec says is known before anything runs."""
    mark = getattr(getattr(torch, "compiler", None), "assume_constant_result", None)
    return mark(function) if mark is not None else function


@constant_result
def wanted_parameters(
    text: str, head_dim: int, heads: int
) -> tuple[tuple[str, tuple[int, ...], bool], ...]:
    """Name, shape and whether it trains, of each parameter of attention, in order."""
    return tuple(
        (p["name"], tuple(p["shape"]), p["trainable"])
        for p in _info(text, head_dim, heads, 0, "attention")["parameters"]
    )


@constant_result
def wanted_inputs(text: str, head_dim: int, heads: int) -> tuple[tuple[str, int], ...]:
    """Name and channels of each tensor that attention reads besides q, k and v, in order."""
    return tuple(
        (i["name"], i["channels"]) for i in _info(text, head_dim, heads, 0, "attention")["inputs"]
    )


@raises_errors
@lru_cache(maxsize=256)
@untraced()
def _initial(
    text: str, head_dim: int, heads: int, model_dim: int, seed: int
) -> tuple[torch.Tensor, ...]:
    return tuple(torch.ops.posenc.initial_parameters(text, head_dim, heads, model_dim, seed))


@raises_errors
@lru_cache(maxsize=256)
@untraced()
def _at_length(text: str, length: int) -> str:
    return torch.ops.posenc.spec_at_length(text, length)


def version() -> str:
    """Of the library, such as ``0.2.0``."""
    return torch.ops.posenc.version()


def catalog() -> Mapping[str, Any]:
    """Every name that a spec may use: ``encodings``, ``schedules`` and ``axes``, with their fields."""
    return json.loads(torch.ops.posenc.catalog())


_SITES = ("input", "query/key", "bias", "content", "softmax")


def _require_sites(sites: Sequence[str]) -> None:
    for site in sites:
        if site not in _SITES:
            raise Error(f"[spec] site must be one of {', '.join(_SITES)} but got {site!r}", kind="out_of_range")


def _json_of(spec: Any) -> str:
    if isinstance(spec, torch.Tensor):
        raise TypeError("[spec] spec must be text or a posenc.Spec but got a tensor; pass masks by name: attn_mask=...")
    if not isinstance(spec, (list, tuple, dict)):
        hint = "; write 'none' for no encoding" if spec is None else ""
        raise TypeError(f"[spec] spec must be text, a posenc.Spec or a list but got {type(spec).__name__}{hint}")
    try:
        return json.dumps(spec)
    except TypeError as error:
        raise TypeError(f"[spec] spec must hold names, lists, dicts and numbers, but: {error}") from None


class Spec:
    """An immutable list of encodings, which can be added to each other.

    Args:
        spec: text (``"rope(theta=500000) + alibi"``), another Spec, or a list of names and of dicts from a name to its
            fields, as :attr:`json` gives it.

    >>> spec = posenc.Spec("rope(theta=500000)") + "alibi"
    >>> spec
    Spec('rope(theta=500000) + alibi')
    >>> spec.parameters(head_dim=64, heads=8)[0].name
    'alibi.slopes'
    """

    def __init__(self, spec: Union[str, "Spec", Sequence[Any]]) -> None:
        if isinstance(spec, Spec):
            source = spec.text
        elif isinstance(spec, str):
            source = spec
        else:
            source = _json_of(spec)
        self._text: str = _info(source, 0, 0, 0)["text"]

    @property
    def text(self) -> str:
        """The canonical text."""
        return self._text

    @property
    def json(self) -> Any:
        """The same as a value of lists, dicts, strings and numbers."""
        return _info(self._text, 0, 0, 0)["json"]

    @property
    def yaml(self) -> str:
        return _info(self._text, 0, 0, 0)["yaml"]

    @property
    def hash(self) -> str:
        """16 hexadecimal digits, the same for every written form."""
        return _info(self._text, 0, 0, 0)["hash"]

    @property
    def encodings(self) -> list[str]:
        """The names of the encodings, in order."""
        return [e["name"] for e in _info(self._text, 0, 0, 0)["encodings"]]

    @property
    def follows_length(self) -> bool:
        """Whether a rotation changes while a sequence grows, as ``xpos`` without a center does."""
        return any(e["follows_length"] for e in _info(self._text, 0, 0, 0)["encodings"])

    @property
    def relative(self) -> bool:
        """Whether scores depend on distances alone, so that all positions may be shifted."""
        return all(e["relative"] for e in _info(self._text, 0, 0, 0)["encodings"])

    @property
    def per_token(self) -> bool:
        """Whether every encoding adds terms per token alone, which read no queries."""
        return all(e["per_token"] for e in _info(self._text, 0, 0, 0)["encodings"])

    def at_length(self, length: int) -> "Spec":
        """The same spec with such rotations made constant, as they are at this length."""
        return Spec(_at_length(self._text, length)) if self.follows_length else self

    @property
    def cacheable_rotation(self) -> Optional["Spec"]:
        """The rotation of keys that a cache can keep rotated: the only one, where it neither follows
        the length nor trains. None: keys are cached unrotated."""
        text = _info(self._text, 0, 0, 0)["cacheable_rotation"]
        return Spec(text) if text else None

    @property
    def needs_causal(self) -> bool:
        """Whether attention must be causal: path and wall have a step for every token from a key to a query."""
        return _info(self._text, 0, 0, 0)["needs_causal"]

    def part(self, *sites: str) -> "Spec":
        """The encodings of these sites alone: ``input``, ``query/key``, ``bias``, ``content``, ``softmax``."""
        _require_sites(sites)
        return self._kept(lambda site: site in sites)

    def without(self, *sites: str) -> "Spec":
        """The encodings of all other sites."""
        _require_sites(sites)
        return self._kept(lambda site: site not in sites)

    def __radd__(self, other: Union[str, int, Sequence[Any]]) -> "Spec":
        return self if isinstance(other, int) and other == 0 else Spec(other) + self  # type: ignore[arg-type]

    def _kept(self, wanted: Callable[[str], bool]) -> "Spec":
        kinds = _info(self._text, 0, 0, 0)["encodings"]
        kept = [entry for entry, kind in zip(self.json, kinds) if wanted(kind["site"])]
        return Spec(kept if kept else "none")

    def parameters(self, head_dim: int, heads: int, model_dim: int = 0) -> list[Parameter]:
        """All parameters for a shape, in the order that the operators take them."""
        return [
            Parameter(p["name"], tuple(p["shape"]), p["trainable"], p["site"])
            for p in _info(self._text, head_dim, heads, model_dim)["parameters"]
        ]

    def inputs(self, head_dim: int, heads: int) -> list[Input]:
        """What attention reads besides q, k and v: ``cope.gate_k`` of ``cope(gate_source=separate)``."""
        return [Input(**i) for i in _info(self._text, head_dim, heads, 0)["inputs"]]

    def initial_parameters(
        self, head_dim: int, heads: int, model_dim: int = 0, seed: int = 0
    ) -> dict[str, torch.Tensor]:
        """Their values at the start of training, by name."""
        names = [p.name for p in self.parameters(head_dim, heads, model_dim)]
        values = _initial(self._text, head_dim, heads, model_dim, seed)
        return {name: value.clone() for name, value in zip(names, values)}

    def __add__(self, other: Union[str, "Spec", Sequence[Any]]) -> "Spec":
        more = Spec(other)
        both = [text for text in (self._text, more._text) if text != "none"]
        return Spec(" + ".join(both) if both else "none")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Spec({self._text!r})"

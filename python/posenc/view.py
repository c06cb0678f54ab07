"""posenc.view: the attention of a model on a text, in a notebook or a page.

>>> before = posenc.view(model, "the cat sat", tokenizer)                       # doctest: +SKIP
>>> posenc.patch(model, "rope + alibi")                                         # doctest: +SKIP
>>> posenc.view(model, "the cat sat", tokenizer, compare=before)                # doctest: +SKIP
"""

from __future__ import annotations

import html
import inspect
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence, Union

import torch
from torch import Tensor, nn

from posenc import _hf_masks, _view_page, _watch
from posenc.errors import Error, raises_errors

Text = Union[str, Tensor, Sequence[int], Sequence[tuple[str, int]]]
Chosen = Union[int, Sequence[int], None]
_ATTENTION_OF_POSENC = (_hf_masks.NAME, "posenc")  # implementations that report to the recorder
_HEIGHT = 780  # pixels in a notebook


class View:
    """Attention weights of a model on a text. Notebooks show it; :meth:`save` writes the page.

    Attributes:
        tokens: the tokens of the text, as text.
        weights: float32 [layers, heads, T, T] on the CPU; rows are queries.
        layers: numbers of the layers, in the order in which the model runs them.
        heads: numbers of the heads.
        modules: names of the modules that computed the weights.
        specs: the spec of each layer, empty for layers that posenc did not compute.
        name: what the page calls the model; assign another one to change it.
        before: the view that it is compared with, or None.
    """

    def __init__(self, name: str, tokens: list[str], kept: list[_watch.Layer], heads: Optional[list[int]]) -> None:
        self.name = name
        self.tokens = tokens
        self.weights = torch.stack([layer.weights for layer in kept])
        self.layers = [layer.number for layer in kept]
        self.heads = list(range(self.weights.shape[1])) if heads is None else heads
        self.modules = [layer.name for layer in kept]
        self.specs = [layer.spec for layer in kept]
        self.before: Optional[View] = None
        self._hidden = torch.stack([layer.hidden for layer in kept])

    @property
    def html(self) -> str:
        """The page: one file that loads nothing else."""
        if self.before is None:
            return _view_page.page([self], [self.name])
        names = [self.before.name, self.name]
        if names[0] == names[1]:
            names = [f"{names[0]} (before)", f"{names[1]} (after)"]
        return _view_page.page([self.before, self], names)

    def save(self, path: Union[str, Path]) -> None:
        """Writes the page to a file that ends in .html."""
        if Path(path).suffix not in (".html", ".htm"):
            raise Error(f"[view] a file must end in .html but got {str(path)!r}", kind="out_of_range")
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="attention of {html.escape(self.name)}" srcdoc="{html.escape(self.html)}" '
            f'style="width:100%;height:{_HEIGHT}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        sizes = zip(self.weights.shape, ("layer", "head", "token"))
        counts = ", ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in sizes)
        compared = "" if self.before is None else f", compared with {self.before.name}"
        return f"<View: {self.name}, {counts}{compared}>"


@raises_errors
def view(
    model: nn.Module,
    text: Text,
    tokenizer: Any = None,
    layers: Chosen = None,
    heads: Chosen = None,
    compare: Union[View, nn.Module, None] = None,
) -> View:
    """The attention weights of a model on a text, as a page with a map for each head.

    It runs the model once, in evaluation mode and without gradients. posenc computes the weights of every attention
    that goes through it: patched models, ``attn_implementation="posenc"``, :class:`posenc.nn.Attention`, and calls of
    :func:`posenc.attention`. Other models of transformers run their eager attention for this call and return their
    weights.

    Args:
        model: a module that is called with ids [1, T], or with hidden states [1, T, width].
        text: text for the tokenizer; a list of ``(token, id)`` pairs; ids as a list or a tensor [T] or [1, T]; or
            hidden states as a float tensor [T, width] or [1, T, width].
        tokenizer: needed for text: one of transformers or tokenizers, or a function from text to ids. With ids it names
            the tokens.
        layers: a number, or several, counted in the order of the attention calls from 0; None for all.
        heads: the same for heads.
        compare: what the page shows on the left, with the difference: a view made before, or another model.
            :func:`posenc.patch` works in place, so make the view of the model as it was first.

    Returns:
        A :class:`View`.

    Weights take 4 T^2 bytes for each head of each layer; above 1 GiB this is an error that says what to choose.

    >>> layer = posenc.nn.Attention(32, 4, "rope + alibi", causal=True)
    >>> made = posenc.view(layer, torch.randn(6, 32))
    >>> made
    <View: Attention: rope + alibi, 1 layer, 4 heads, 6 tokens>
    >>> made.weights.shape
    torch.Size([1, 4, 6, 6])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"[view] model must be a torch.nn.Module but got {type(model).__name__}")
    model = getattr(model, "_orig_mod", model)  # a compiled model, whose graph would not tell
    x, tokens = _read(text, tokenizer)
    wanted, chosen = _numbers("layers", layers), _numbers("heads", heads)
    made = _made(model, x, tokens, wanted, chosen)
    if isinstance(compare, nn.Module):
        compare = view(compare, text, tokenizer, layers, heads)
    if compare is not None:
        made.before = _comparable(made, compare)
    return made


def _comparable(made: View, other: Any) -> View:
    if not isinstance(other, View):
        raise TypeError(f"[view] compare must be a posenc.View or a torch.nn.Module but got {type(other).__name__}")
    for what in ("tokens", "layers", "heads"):
        if getattr(made, what) != getattr(other, what):
            raise Error(
                f"[view] compare must have the same {what}; make both views with the same text, layers and heads",
                kind="conflict",
            )
    return other


def _numbers(name: str, chosen: Chosen) -> Optional[list[int]]:
    if chosen is None:
        return None
    numbers = [chosen] if isinstance(chosen, int) else list(chosen)
    if not numbers or any(not isinstance(n, int) or isinstance(n, bool) for n in numbers):
        raise TypeError(f"[view] {name} must be a whole number or several but got {chosen!r}")
    if min(numbers) < 0:
        raise Error(f"[view] {name} must not be negative but got {min(numbers)}", kind="out_of_range")
    return sorted(set(numbers))


# The text.


def _encoded(tokenizer: Any, text: str) -> list[int]:
    made = tokenizer(text) if callable(tokenizer) else tokenizer.encode(text)
    made = made["input_ids"] if isinstance(made, Mapping) else getattr(made, "ids", made)
    return [int(i) for i in (made.flatten().tolist() if isinstance(made, Tensor) else made)]


def _word(tokenizer: Any, token: int) -> str:
    if hasattr(tokenizer, "decode"):
        return str(tokenizer.decode([token]))
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return str(tokenizer.convert_ids_to_tokens([token])[0])
    return str(token)


def _read(text: Text, tokenizer: Any) -> tuple[Tensor, list[str]]:
    """What the model is called with, and the tokens as text."""
    if isinstance(text, str):
        if tokenizer is None:
            raise Error(
                "[view] text needs a tokenizer; pass tokenizer=, or the ids of the tokens as text", kind="missing_key"
            )
        text = _encoded(tokenizer, text)
    if not isinstance(text, Tensor):
        pairs = list(text)
        if pairs and all(isinstance(p, (tuple, list)) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
            return _ids([int(i) for _, i in pairs]), [token for token, _ in pairs]
        if any(not isinstance(i, int) for i in pairs):
            raise TypeError("[view] text must be a str, (token, id) pairs, or ids as a list or a tensor")
        text = _ids(pairs)
    floating = text.is_floating_point()
    if text.dim() == 1 + floating:
        text = text[None]
    if text.dim() != 2 + floating or text.shape[0] != 1 or text.shape[1] == 0:
        shape = "[tokens, width] or [1, tokens, width]" if floating else "[tokens] or [1, tokens]"
        raise Error(f"[view] text must be one sequence {shape} but has shape {list(text.shape)}", kind="wrong_length")
    if floating:
        return text, [str(i) for i in range(text.shape[1])]
    return text, [_word(tokenizer, i) for i in text[0].tolist()]


def _ids(numbers: list[int]) -> Tensor:
    return torch.tensor([numbers], dtype=torch.long)


# The model.


def _made(
    model: nn.Module, x: Tensor, tokens: list[str], layers: Optional[list[int]], heads: Optional[list[int]]
) -> View:
    weight = next(model.parameters(), None)
    x = x if weight is None else x.to(weight.device)
    recorder = _run(model, x, layers, heads, {})
    if recorder.seen == 0 and _accepts(model, "output_attentions"):  # families outside the registry
        recorder = _run(model, x, layers, heads, {"output_attentions": True})
    if recorder.seen == 0:
        raise Error(
            f"[view] {type(model).__name__} computed no self-attention over the {len(tokens)} tokens whose weights can "
            "be read; use posenc.nn.Attention, posenc.attention, or a model of transformers without torch.compile",
            kind="unsupported",
        )
    if layers is not None and layers[-1] >= recorder.seen:
        raise Error(f"[view] layers must be in [0, {recorder.seen - 1}] but got {layers[-1]}", kind="out_of_range")
    sizes = {layer.weights.shape[0] for layer in recorder.kept}
    if len(sizes) > 1:
        raise Error(
            f"[view] layers must have as many heads as each other but have {sorted(sizes)}; choose layers= or heads=",
            kind="conflict",
        )
    return View(_name(model, recorder), tokens, recorder.kept, heads)


def _name(model: nn.Module, recorder: _watch.Recorder) -> str:
    specs = list(dict.fromkeys(layer.spec for layer in recorder.kept if layer.spec not in ("", "none")))
    return type(model).__name__ + (f": {', '.join(specs)}" if specs else "")


def _accepts(model: nn.Module, name: str) -> bool:
    parameters = inspect.signature(model.forward).parameters
    more = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return name in parameters or (more and hasattr(model, "config"))


def _run(
    model: nn.Module, x: Tensor, layers: Optional[list[int]], heads: Optional[list[int]], options: Mapping[str, Any]
) -> _watch.Recorder:
    recorder = _watch.Recorder(x.shape[1], layers, heads)
    with torch.no_grad(), _evaluating(model), _returning_weights(model), recorder.watching(model):
        model(x, **options)
    return recorder


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def _returning_weights(model: nn.Module) -> Iterator[None]:
    """Models of transformers without a cache and, where posenc does not compute the attention, with eager attention."""
    former: list[tuple[Any, str, Any]] = []

    def change(config: Any, name: str, value: Any) -> None:
        former.append((config, name, getattr(config, name)))
        setattr(config, name, value)

    for config in {id(c): c for c in (getattr(m, "config", None) for m in model.modules())}.values():
        if getattr(config, "use_cache", False):
            change(config, "use_cache", False)
        if getattr(config, "_attn_implementation_internal", "eager") not in ("eager", *_ATTENTION_OF_POSENC):
            change(config, "_attn_implementation_internal", "eager")
    try:
        yield
    finally:
        for config, name, value in reversed(former):
            setattr(config, name, value)

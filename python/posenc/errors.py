"""The one kind of error that posenc raises for bad input."""

from __future__ import annotations

import difflib
import functools
import json
import re
from contextlib import contextmanager, nullcontext
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, TypeVar

import torch
from torch.utils import _python_dispatch

from posenc import _library  # noqa: F401  (registers the operators)

# Kind and hint of errors that say neither, by their rule.
_KNOWN = (
    (re.compile(r"must be \w+ as q is$"), "wrong_type", "convert it with {key}.to(q.dtype)"),
    (re.compile(r"must be on .* as q is"), "conflict", "move it with {key}.to(q.device)"),
    (re.compile(r"must have a floating type$"), "wrong_type", "convert it with {key}.float()"),
    (re.compile(r"must be (a list of )?whole numbers$"), "wrong_type", "convert it with {key}.long()"),
    (re.compile(r"must be bool"), "wrong_type", "pass {key}.bool(), true where a key is seen"),
    (re.compile(r"must be \[batch, heads, tokens, channels\]$"), "wrong_length", "reshape it, or add a dimension"),
    (re.compile(r"must (have (shape|\d+ .*entries|1 or \d+ coordinates)|be \[)"), "wrong_length", ""),
    (re.compile(r"^(lacks|is required)"), "missing_key", ""),
    (re.compile(r"^has unknown|must be a known (name|kind)"), "unknown_key", ""),
    (re.compile(r"must be a number$"), "wrong_type", ""),
    (re.compile(r"must have \d+ to \d+ words$"), "wrong_length", ""),
    (re.compile(r"^needs a name at column"), "syntax", ""),
    (re.compile(r"^spec must|no second derivative"), "unsupported", ""),
    (re.compile(r"^(must be (in|one of|>|<|.* or )|must (not be negative|divide|be a multiple))"), "out_of_range", ""),
)
_EXPECTED = re.compile(r"posenc::\w+\(\) Expected a value of type '(.+?)' for argument '_?(\w+)' but instead found type '(.+?)'")
_UNKNOWN = re.compile(r"Unknown keyword argument '(\w+)' for operator")
_TYPES = {"Tensor": "a tensor", "str": "text", "int": "a whole number", "float": "a number", "bool": "True or False"}

# "[scope] key rule but got value; hint": how every message of the library is put together.
_MESSAGE = re.compile(r"^\[(?P<scope>[^\]]*)\] (?P<rule>.*?)(?: but (?:got|has|is|are|span) (?P<value>.*?))?(?:; (?P<hint>.*))?$", re.S)
_KEY = re.compile(r"^(?P<key>[\w.\[\]'\"-]+) (?P<rule>(?:must|lacks|has|needs|is|are)\b.*)$", re.S)

Function = TypeVar("Function", bound=Callable[..., Any])


# PyTorch 2.1 and newer; without it torch.export records what a spec is asked for.
_without_modes: Callable[[], Any] = getattr(_python_dispatch, "_disable_current_modes", nullcontext)


@contextmanager
def untraced() -> Iterator[None]:
    """What runs here is in no trace of torch.jit, ONNX or torch.export: sizes are numbers, and texts may be returned."""
    state = torch._C._get_tracing_state()
    with _without_modes():
        if state is None:
            yield
            return
        torch._C._set_tracing_state(None)
        try:
            yield
        finally:
            torch._C._set_tracing_state(state)


class Error(ValueError, RuntimeError):
    """What is wrong, which value, and what to do.

    >>> try:
    ...     posenc.Spec("rope(theta=-1)")
    ... except posenc.Error as error:
    ...     print(error.kind, error.scope, error.key)
    out_of_range rope theta

    It is a ValueError and a RuntimeError: PyTorch's operators raise the latter.
    """

    kind: str  #: ``syntax``, ``unknown_key``, ``missing_key``, ``wrong_type``, ``out_of_range``, ``wrong_length``,
    #: ``not_finite``, ``conflict``, ``unsupported``, ``resource``, ``io``, or ``invalid`` where nothing more is known
    scope: str  #: the encoding, function or file that complains
    key: str  #: the field or argument; empty: the whole input
    rule: str  #: what must hold
    value: str  #: what was given
    hint: str  #: what to do

    def __init__(self, message: str, **parts: str) -> None:
        known = {**_parts(message), **parts}
        if message.startswith("[kernel] ["):
            message = message.removeprefix("[kernel] ")
        if known["kind"] == "invalid" or not known["hint"]:
            kind, hint = _known(known)
            known["kind"] = kind if known["kind"] == "invalid" else known["kind"]
            if hint and not known["hint"]:
                known["hint"] = hint
                message += f"; {hint}"
        super().__init__(message)
        for name in ("kind", "scope", "key", "rule", "value", "hint"):
            setattr(self, name, known.get(name, ""))

    def _of(self, function: str) -> "Error":
        """What functions share complains as [posenc]; the one that was called puts its name there."""
        if self.scope == "posenc":
            self.args = (str(self).replace("[posenc]", f"[{function}]", 1),)
            self.scope = function
        return self


def _parts(message: str) -> dict[str, str]:
    """From the library where it made the error, else read from the text."""
    with untraced():
        found = json.loads(torch.ops.posenc._error_parts(message) or "{}")
    if found and not found["rule"].startswith("["):
        return found
    if found:  # a kernel's own message, passed on
        return {**_parts_of_text(found["rule"]), "kind": found["kind"]}
    return _parts_of_text(message)


def _parts_of_text(message: str) -> dict[str, str]:
    match = _MESSAGE.match(message)
    parts = {"kind": "invalid", **{k: v or "" for k, v in (match.groupdict() if match else {}).items()}}
    named = _KEY.match(parts.get("rule", ""))
    parts.update(named.groupdict() if named else {})
    return parts


def _known(parts: dict[str, str]) -> tuple[str, str]:
    """Kind and hint by what the rule says."""
    key, rule = parts.get("key", ""), parts.get("rule", "")
    for pattern, kind, hint in _KNOWN:
        if pattern.search(rule) or pattern.search(f"{key} {rule}"):
            return kind, hint.format(key=key) if key.isidentifier() else ""
    return "invalid", ""


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """A hint with the nearest of the names; empty where none is near."""
    near = difflib.get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else ""


def refuse_misspelled(argument: str, given: Iterable[str], names: Sequence[str]) -> None:
    """Says of unknown names that are near to one of the spec's which was meant."""
    for name in sorted(given):
        hint = did_you_mean(name, names)
        if hint and name not in names:
            raise Error(f"[posenc] {argument} has unknown {name!r}; {hint}")


def _type_error(name: str, text: str) -> Optional[TypeError]:
    """The operators' complaints about types in Python's words."""
    wrong = _EXPECTED.search(text)
    if wrong:
        wanted, key, found = wrong.groups()
        plain = wanted.removeprefix("Optional[").rstrip("]") if wanted.startswith("Optional") else wanted
        return TypeError(f"[{name}] {key} must be {_TYPES.get(plain, plain)} but got {found}")
    unknown = _UNKNOWN.search(text)
    return TypeError(f"{name}() got an unexpected keyword argument {unknown[1]!r}") if unknown else None


def require_tensors(scope: str, **values: Any) -> None:
    """A TypeError for the first that is none."""
    for name, value in values.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"[{scope}] {name} must be a tensor but got {type(value).__name__}; use torch.as_tensor({name})"
            )


is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def sizes(x: torch.Tensor) -> tuple[int, ...]:
    """The shape as numbers, also where torch.jit traces it."""
    if is_compiling() or not torch.jit.is_tracing():
        return x.shape
    with untraced():
        return tuple(x.shape)


def raises_errors(function: Function) -> Function:
    """Messages of the operators and of this package, which begin with a scope in brackets, as :class:`Error`, and
    arguments of wrong types as TypeError."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return function(*args, **kwargs)
        name = "Spec" if function.__name__.startswith("_") else function.__name__
        try:
            return function(*args, **kwargs)
        except Error as error:
            error._of(name)
            raise
        except TypeError as error:
            if error.args and str(error).startswith("[posenc] "):
                error.args = (str(error).replace("[posenc]", f"[{name}]", 1),)
            raise
        except (ValueError, RuntimeError) as error:
            text = str(error)
            wrong = _type_error(name, text)
            if wrong is not None:
                raise wrong from None
            if not text.startswith("[") or text.startswith("[enforce fail"):  # the latter is PyTorch's
                raise
            raise Error(text)._of(name) from None

    return checked  # type: ignore[return-value]

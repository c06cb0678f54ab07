"""The one kind of error that posenc raises for bad input."""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Callable, TypeVar

import torch

from posenc import _library  # noqa: F401  (registers the operators)

# "[scope] key rule but got value; hint": how every message of the library is put together.
_MESSAGE = re.compile(r"^\[(?P<scope>[^\]]*)\] (?P<rule>.*?)(?: but (?:got|has) (?P<value>.*?))?(?:; (?P<hint>.*))?$", re.S)
_KEY = re.compile(r"^(?P<key>[\w.\[\]'\"-]+) (?P<rule>(?:must|lacks|has|needs|is|are)\b.*)$", re.S)

Function = TypeVar("Function", bound=Callable[..., Any])


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
        super().__init__(message)
        known = _parts(message)
        known.update(parts)
        for name in ("kind", "scope", "key", "rule", "value", "hint"):
            setattr(self, name, known.get(name, ""))


def _parts(message: str) -> dict[str, str]:
    """From the library where it made the error, else read from the text."""
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


_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def raises_errors(function: Function) -> Function:
    """Messages of the operators and of this package, which begin with a scope in brackets, as :class:`Error`."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if _is_compiling():
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        except Error:
            raise
        except (ValueError, RuntimeError) as error:
            text = str(error)
            if not text.startswith("["):
                raise
            raise Error(text) from None

    return checked  # type: ignore[return-value]

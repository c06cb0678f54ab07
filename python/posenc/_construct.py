"""What the constructors of encodings, schedules and axes share."""

from __future__ import annotations

from typing import Any

from posenc.spec import Spec


class _Named:
    """A name with fields, which a spec holds as ``name(field=value)``."""

    def _construct(self, name: str, **fields: Any) -> None:
        self._value = {name: _given(fields)}

    @property
    def json(self) -> Any:
        """The name and all fields, as a value that :class:`posenc.Spec` reads."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and type(self) is type(other) and self._value == other._value

    def __hash__(self) -> int:
        return hash(repr(self._value))

    def __repr__(self) -> str:
        ((_, fields),) = self._value.items()
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in fields.items())})"


class Schedule(_Named):
    """How the frequencies of a rotation change with the length."""


class Axes(_Named):
    """Which coordinates of a position rotate which channels."""


class Encoding(Spec):
    """A spec of one encoding."""

    def _construct(self, name: str, **fields: Any) -> None:
        super().__init__([{name: _given(fields)}])

    # Pickled and copied as the spec that it is: a constructor takes fields.
    def __reduce__(self) -> tuple[Any, ...]:
        return Spec, (self.text,)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """An empty list is a field that was left out."""
    plain = {key: _plain(value) for key, value in fields.items()}
    return {key: value for key, value in plain.items() if value != []}


def _plain(value: Any) -> Any:
    if isinstance(value, _Named):
        return value.json
    return list(value) if isinstance(value, (tuple, range)) else value

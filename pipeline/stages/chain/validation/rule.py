"""The form of the rules, and the words that many have in common (apimachinery pkg/util/validation/field/errors.go)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from ....request import Json, Object


class Refused(NamedTuple):
    """One error of the validation: a field as the server names it, and the text behind it.

    Without `is_whole`, the server's text goes on with the value as its own code has it, which is not replayed.
    """

    path: str
    text: str
    is_whole: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


@dataclass(frozen=True, slots=True)
class Written:
    """An object as a mutation left it, the one without the mutation, and the stored one before an update."""

    before: Object
    after: Object
    old: Object | None


Check: TypeAlias = Callable[[Written], Iterator[Refused]]


class Rules(NamedTuple):
    """The rules of one resource: the fields that they know, as patterns of the paths of changes, and their checks in order."""

    known: tuple[re.Pattern[str], ...]
    checks: tuple[Check, ...]


def fields(*patterns: str) -> tuple[re.Pattern[str], ...]:
    """Patterns of whole paths. `[]` stands for an entry of a list or a map, and `*` for all that is below."""
    return tuple(re.compile(_pattern(each)) for each in patterns)


def _pattern(text: str) -> str:
    return re.escape(text).replace(re.escape("[]"), r"\[[^\]]*\]").replace(re.escape("*"), ".*")


def invalid(path: str, value: Json, why: str) -> Refused:
    """An invalid value, printed as the server prints texts and numbers."""
    return Refused(path, f"Invalid value: {json.dumps(value, ensure_ascii=False)}: {why}")


def unsupported(path: str, value: Json, wanted: Sequence[str]) -> Refused:
    """A value that the server does not support."""
    shown = ", ".join(json.dumps(each) for each in wanted)
    return Refused(path, f"Unsupported value: {json.dumps(value, ensure_ascii=False)}: supported values: {shown}")


def go_json(value: Any) -> str:
    """JSON as Go prints it: without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def at(value: Any, *path: str) -> Any:
    """A field of an object; None where it is not there."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


IMMUTABLE: Final = "field is immutable"
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_LABEL_CHARACTERS_MAX: Final = 63


def labels(written: Written, *path: str) -> Iterator[Refused]:
    """The values of labels (apimachinery pkg/apis/meta/v1/validation/validation.go, ValidateLabels). Keys are left open."""
    found, was = (at(each, *path) or {} for each in (written.after, written.before))
    for key, value in sorted(found.items()):
        if was.get(key) == value or not isinstance(value, str):
            continue
        if len(value) > _LABEL_CHARACTERS_MAX:
            yield invalid(".".join(path), value, f"must be no more than {_LABEL_CHARACTERS_MAX} bytes")
        if not _LABEL_VALUE.fullmatch(value):
            yield invalid(".".join(path), value, _LABEL_WORDS)

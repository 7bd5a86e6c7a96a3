"""How far a stage agrees with the record: found out once for the files of a lake, and read by commands, reports and pages alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from queries import LakeReader

from ..requests.kept.whole import value_about
from ..runs.apart import code_name

T = TypeVar("T")


def kept_agreement(reader: LakeReader, stage: str, asked: tuple[object, ...], form: type[T], ask: Callable[[], T]) -> T:
    """The agreement of a stage, of a form that JSON can hold; `asked` is what else it follows from, apart from lake and code."""
    return value_about(reader, f"agreement-{stage}", (code_name(), *map(repr, asked)), form, ask)

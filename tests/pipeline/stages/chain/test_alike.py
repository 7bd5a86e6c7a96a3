"""Requests that are alike share their rows, and only the name at the beginning of the server's words is theirs."""

from __future__ import annotations

import pytest

from pipeline.row import Row
from pipeline.stages.chain.alike import may_be_renamed, renamed


def row(message: str, why: str | None = None) -> Row:
    names = ("chain", None, None, None, None)
    return Row(*names, "deny", "deny", message, None, 403, why, "exact", [], [], False, "chain")


@pytest.mark.parametrize(
    ("message", "name", "may", "after"),
    [
        ('pods "web-1" is forbidden: labels are missing', "web-1", True, 'pods "web-2" is forbidden: labels are missing'),
        ('Pod "web-1" is invalid: spec: Required value', "web-1", True, 'Pod "web-2" is invalid: spec: Required value'),
        ("at most 3 replicas", "web-1", True, "at most 3 replicas"),
        # A name that is a part of other words, and one that a policy quotes.
        ("exceeds the maximum", "x", False, None),
        ('label "app" is missing', "app", False, None),
        ('pods "web-1" is forbidden: web-1 has no owner', "web-1", False, None),
    ],
)
def test_only_the_beginning_has_the_name(message: str, name: str, may: bool, after: str | None) -> None:
    assert may_be_renamed(row(message), name) == may
    if after is not None:
        assert renamed(row(message), name, "web-2").message == after


def test_a_name_in_another_column_is_not_shared() -> None:
    assert not may_be_renamed(row("text", "the object before web-1"), "web-1")

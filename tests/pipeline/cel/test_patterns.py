"""Patterns are RE2's, without what Go's regexp does not take, and quick on any text."""

from __future__ import annotations

import pytest

from pipeline.cel.evaluation.patterns import compiled, matches
from pipeline.cel.values import CelError


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"[\C]", r"invalid escape sequence: `\C`"),
        (r"a\QC\E\C", r"invalid escape sequence: `\C`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("(" * 1000 + "a" + ")" * 1000, "expression nests too deeply: `("),
        ("\ud800", "invalid UTF-8: `"),
    ],
)
def test_what_go_refuses_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(CelError) as raised:
        compiled(pattern)
    assert str(raised.value).startswith(f"error parsing regexp: {problem}")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\Q\C.\E", r"a\C.b", True),
        (r"\Q\C.\E", r"a\Cxb", False),
        (r"[\]\\C]", "C", True),
        (r"\\C", r"\C", True),
        ("(?i)\u212a", "k", True),
        (r"^\pL+$", "Grün", True),
        ("(?P<one>a)(?:b)", "ab", True),
        ("(" * 999 + "a" + ")" * 999, "a", True),
        ("a$", "a\n", False),
        ("a\ufffd", "a\ud800", True),
        ("(x+x?)+z", "x" * 20_000, False),
        ("a.*a.*a.*a.*b", "a" * 20_000, False),
    ],
)
def test_what_is_found(pattern: str, text: str, found: bool) -> None:
    assert matches(text, pattern) is found
    assert matches(text, pattern) is found  # also where the answer was kept


def test_a_pattern_that_needs_more_memory_is_a_pattern() -> None:
    assert matches("ä" * 300, r"^\pL{300}$")

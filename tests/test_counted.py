"""Numbers in sentences agree with their nouns: `1 request`, and not `1 requests`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.counted import counted

ROOT = Path(__file__).parents[1]
NOUNS = re.compile(
    r" (?:judged |audit |pod )?(requests|workloads|users|policies|events|writes|objects|clusters|webhooks|lines|rows|exemptions|"
    r"records|calls|denials|days|roles|rules|bindings)\b"
)
# A figure before one of these is a limit that is never 1, or part of `1 of 3 requests`.
_LIMITS = re.compile(r"_MAX|_max|_MIN|limit")


@pytest.mark.parametrize(("count", "expected"), [(0, "0 requests"), (1, "1 request"), (2, "2 requests"), (1200, "1,200 requests")])
def test_a_number_agrees_with_its_noun(count: int, expected: str) -> None:
    assert counted(count, "request") == expected
    assert counted(count, "policy", "policies") == expected.replace("requests", "policies").replace("request", "policy")
    assert counted(count, "line is", "lines are").split()[2] == ("is" if count == 1 else "are")


def figures_before_plurals(file: Path) -> Iterator[str]:
    """Each number of an f-string that stands right before a plural, so that 1 would be wrong there."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            for number, then in zip(node.values, node.values[1:], strict=False):
                if (
                    isinstance(number, ast.FormattedValue)
                    and isinstance(then, ast.Constant)
                    and (number.format_spec is not None and ast.unparse(number.format_spec) == "f','")
                    and (found := NOUNS.match(str(then.value)))
                    and not _LIMITS.search(text := ast.unparse(number.value))
                ):
                    yield f"{file.relative_to(ROOT)}:{node.lineno}: {text}{found[0]}"


def test_sentences_count_with_the_helper() -> None:
    files = [file for name in ("ingest", "queries", "pipeline", "api", "hindcast") for file in sorted((ROOT / name).rglob("*.py"))]
    assert [each for file in files for each in figures_before_plurals(file)] == []

"""Syntax errors in cel-go's words: every place, what stands there and what was expected (tests/cases/cel/syntax_errors.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.cel import CompileError, Environment
from pipeline.cel.syntax_errors import LENGTH_MAX, RECOVERIES_MAX, syntax_errors

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases" / "cel" / "syntax_errors.yaml").read_text(encoding="utf-8"))
NEWEST = Environment((1, 37))


def messages(text: str, environment: Environment = NEWEST) -> list[str]:
    """What is wrong with a text, as LINE:COLUMN MESSAGE."""
    with pytest.raises(CompileError) as problem:
        environment.compile(text)
    return [f"{issue.line}:{issue.column + 1} {issue.message}" for issue in problem.value.issues]


@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case["expression"]))
def test_case(case: dict[str, Any]) -> None:
    assert messages(case["expression"]) == case["errors"]


def test_the_grammar_before_1_33_has_no_identifiers_in_backquotes() -> None:
    assert (
        messages("a{.", Environment((1, 32)))[0] == "1:3 Syntax error: mismatched input '.' expecting {'}', ',', '?', IDENTIFIER}"
    )
    assert messages("a{.", Environment((1, 33)))[0].endswith("expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}")


def test_recovery_ends_as_cel_go_ends_it() -> None:
    found = messages("[" + "} " * 200 + "1 +")
    assert len(found) <= RECOVERIES_MAX + 1
    assert syntax_errors("(" * LENGTH_MAX + "1", True) == []
    assert messages("(" * LENGTH_MAX + "1")  # too long to look into: the first error alone


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.sampled_from([*"()[]{}.,:?+-!<>=&|'`\"\n ab1", "&&", "||", "==", " in ", "true", "0x", "'a'", ".a"]), max_size=12
    ).map("".join)
)
def test_a_text_is_refused_with_a_reason_or_is_right(text: str) -> None:
    found = [issue.message for issue in syntax_errors(text, True)]
    assert all(message.startswith(("Syntax error: ", "error recovery ")) for message in found)
    try:
        NEWEST.compile(text)
    except CompileError as problem:
        syntax = [issue.message for issue in problem.issues if issue.message.startswith("Syntax error: ")]
        assert sorted(syntax) == sorted(found)
    else:
        assert found == []

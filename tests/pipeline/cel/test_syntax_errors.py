"""Syntax errors in cel-go's words: every place, what stands there and what was expected (tests/cases/cel/syntax_errors.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.cel import CompileError, Environment
from pipeline.cel.syntax.automaton import adaptive_decisions, build_automaton
from pipeline.cel.syntax.error_grammar import rules
from pipeline.cel.syntax.errors import LENGTH_MAX, syntax_errors
from pipeline.cel.syntax.tokens import Vocabulary
from tests.drawing import MANY
from tests.yaml_text import load_yaml

WRONG = load_yaml((Path(__file__).parents[2] / "cases" / "cel" / "syntax_errors.yaml").read_text(encoding="utf-8"))
NEWEST = Environment((1, 37))


def messages(text: str, version: str = "1.37") -> list[str]:
    """What is wrong with a text, as LINE:COLUMN MESSAGE."""
    major, minor = version.split(".")
    with pytest.raises(CompileError) as problem:
        Environment((int(major), int(minor))).compile(text)
    assert all(issue.message.startswith(("Syntax error: ", "error recovery ")) for issue in problem.value.issues)
    found = [f"{issue.line}:{issue.column + 1} {issue.message.removeprefix('Syntax error: ')}" for issue in problem.value.issues]
    return [message.replace(WRONG["operand"], "OPERAND") for message in found]


@pytest.mark.parametrize("case", WRONG["cases"], ids=lambda case: f"{case['expression']!r} {case.get('version', '')}")
def test_every_error_has_its_place_and_its_text(case: dict[str, Any]) -> None:
    assert messages(case["expression"], case.get("version", "1.37")) == case["errors"]


@pytest.mark.parametrize("case", WRONG["limits"], ids=lambda case: case["says"])
def test_after_too_many_errors_the_parser_gives_up(case: dict[str, Any]) -> None:
    found = messages(case["before"] + case["again"] * case["times"])
    assert case["says"] in found
    assert len(found) == case["count"]


def test_what_is_too_long_or_too_deep_has_its_first_error_alone() -> None:
    assert syntax_errors("(" * LENGTH_MAX + "1", True) == []
    assert len(messages("(" * LENGTH_MAX + "1")) == 1


@pytest.mark.parametrize("escaped_selectors", [False, True])
def test_one_token_decides_unless_alternatives_begin_alike_or_ask_for_a_precedence(escaped_selectors: bool) -> None:
    named = rules(escaped_selectors)
    automaton = build_automaton(named, Vocabulary(escaped_selectors).types)
    states = [automaton.decisionToState[decision] for decision in adaptive_decisions(automaton)]
    # A sign begins a literal too, and a comma ends a list or goes on with it. `(` after a name is a call, or comes after a member.
    alike = {"unary", "literal", "elements", "fields", "entries", "primary"}
    assert {list(named)[state.ruleIndex] for state in states} == {"relation", "calc", "member"} | alike


@settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))
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

"""What the expressions of policies may use, and what type it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.cel import CompileError, Environment
from pipeline.cel.types import DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of, optional_of, type_of
from pipeline.policies.declarations import REQUEST, scope_for, variable_type
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[2] / "cases" / "typecheck" / "declarations.yaml").read_text())
VARIABLES = {"limit": INT, "names": list_of(STRING), "spec": REQUEST.type}


def outcome(expression: str, *, has_params: bool = True, has_authorizer: bool = True) -> str | list[str]:
    declared = scope_for(has_params=has_params, has_authorizer=has_authorizer, variables=VARIABLES)
    try:
        return str(Environment((1, 36), declared.variables, declared.object_types).compile(expression).result_type)
    except CompileError as refusal:
        return [f"{issue.line}:{issue.column + 1} {issue.message}" for issue in refusal.issues]


@pytest.mark.parametrize("expression", CASES)
def test_case(expression: str) -> None:
    assert outcome(expression) == CASES[expression]


def test_params_and_authorizer_are_only_there_where_they_are_declared() -> None:
    assert outcome("params.a", has_params=False) == ["1:1 undeclared reference to 'params' (in container '')"]
    undeclared = ["1:1 undeclared reference to 'authorizer' (in container '')"]
    assert outcome("authorizer.requestResource", has_authorizer=False) == undeclared


@pytest.mark.parametrize(
    ("type_", "wanted"),
    [
        (TIMESTAMP, TIMESTAMP),
        (map_of(STRING, REQUEST.type), map_of(STRING, DYN)),
        (list_of(list_of(INT)), list_of(list_of(INT))),
        (optional_of(INT), DYN),
        (type_of(INT), DYN),
        (Type("kubernetes.Quantity"), DYN),
    ],
    ids=str,
)
def test_types_that_variables_keep(type_: Type, wanted: Type) -> None:
    assert variable_type(type_) == wanted

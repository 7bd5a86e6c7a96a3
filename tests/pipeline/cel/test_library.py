"""The function libraries: results and errors as the API server words them, and which version has which function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.cel.environment import Environment
from pipeline.cel.library import LIBRARIES, authorizer
from pipeline.cel.library.authorizer import Answer, Attributes, Authorizer, ResourceCheck
from pipeline.cel.values import CelError, Optional, Unknown, Value
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[2] / "cases" / "cel" / "library"
VERSIONS = [(1, minor) for minor in range(26, 39)]
ANSWERS = {
    "get": Answer(True),
    "delete": Answer(False, reason="not yours"),
    "update": Answer(False, error="no answer"),
    "list": Answer(True, reason=None),
}


def parse_version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def load_cases() -> list[Any]:
    files = [path for path in sorted(CASES.glob("*.yaml")) if path.name != "versions.yaml"]
    return [
        pytest.param(case, id=f"{path.stem}:{case['expr']}{' @' + case['version'] if 'version' in case else ''}")
        for path in files
        for case in load_yaml(path.read_text())
    ]


def answer(attributes: Attributes) -> Answer:
    return ANSWERS.get(attributes.verb, Answer(None, reason="not recorded"))


def plain(value: Value) -> Any:
    """A result as YAML would write it."""
    if isinstance(value, Optional):
        return plain(value.value) if value.has_value else None
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


@pytest.fixture(scope="module")
def activation() -> dict[str, Value]:
    asked = Authorizer(answer)
    requested = authorizer.request_resource(asked, "", "pods", "exec", "default", "web")
    return {"authorizer": asked, "authorizer.requestResource": requested}


@pytest.mark.parametrize("case", load_cases())
def test_case(case: dict[str, Any], activation: dict[str, Value]) -> None:
    environment = Environment(
        parse_version(case.get("version", "1.36")),
        {"authorizer": Authorizer.cel_type, "authorizer.requestResource": ResourceCheck.cel_type},
    )
    result = environment.compile(case["expr"]).evaluate(activation)
    if "error" in case:
        assert isinstance(result, CelError), result
        assert result.message == case["error"]
    elif "unknown" in case:
        assert result == Unknown(case["unknown"])
    elif "text" in case:
        assert not isinstance(result, CelError), result
        assert str(result) == case["text"]
    else:
        assert not isinstance(result, CelError), result
        assert plain(result) == case["value"]
        assert type(plain(result)) is type(case["value"])


def functions_in(version: tuple[int, int]) -> set[str]:
    return {function.name for library in LIBRARIES if library.present_in(version) for function in library.functions}


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_each_version_has_its_functions(version: tuple[int, int]) -> None:
    table = load_yaml((CASES / "versions.yaml").read_text())
    expected = {name for added, names in table.items() if parse_version(added) <= version for name in names}
    assert functions_in(version) == expected


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_overloads_of_one_version_are_unique(version: tuple[int, int]) -> None:
    """A library and its successor are never there together."""
    ids = [
        overload.id
        for library in LIBRARIES
        if library.present_in(version)
        for function in library.functions
        for overload in function.overloads
    ]
    assert len(ids) == len(set(ids))


def test_functions_of_one_name_differ_in_their_first_argument() -> None:
    """That is what `merge` tells them apart by."""
    first_types: dict[str, list[set[str]]] = {}
    for library in (each for each in LIBRARIES if each.present_in((1, 37))):
        for function in library.functions:
            kinds = {overload.arguments[0].name for overload in function.overloads if overload.arguments}
            first_types.setdefault(function.name, []).append(kinds)
    for name, kinds_per_library in first_types.items():
        assert sum(map(len, kinds_per_library)) == len(set().union(*kinds_per_library)), name

"""The type checker: cases as data, and properties of what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.cel import CompileError, Environment, Program
from pipeline.cel.checking.unify import Bindings
from pipeline.cel.minors import NEWEST, OLDEST
from pipeline.cel.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    ObjectType,
    Type,
    list_of,
    map_of,
    optional_of,
    parameter,
)
from pipeline.cel.versions import release
from tests.drawing import MANY
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[2] / "cases" / "cel" / "check"
PERSON = ObjectType("Person", {"name": STRING, "age": INT, "born": TIMESTAMP, "tags": map_of(STRING, STRING), "__namespace__": INT})
VARIABLES = {"d": DYN, "b": BOOL, "person": PERSON.type, "people": list_of(PERSON.type), "dotted.name": INT}
RELEASES = [(1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)]


def environment(version: tuple[int, int] = (1, 36), *, for_new: bool = False) -> Environment:
    return Environment(version, VARIABLES, [PERSON], for_new=for_new)


def cases(*names: str) -> list[Any]:
    return [
        pytest.param(case, id=f"{case['expr']}{' @' + case['version'] if 'version' in case else ''}")
        for name in names
        for case in load_yaml((CASES / f"{name}.yaml").read_text())
    ]


def version_of(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def outcome(expression: str, version: tuple[int, int], *, for_new: bool = False) -> dict[str, Any]:
    try:
        return {"type": str(environment(version, for_new=for_new).compile(expression).result_type)}
    except CompileError as refusal:
        return {"issues": [f"{issue.line}:{issue.column + 1} {issue.message}" for issue in refusal.issues]}


@pytest.mark.parametrize("case", cases("types", "issues"))
def test_case(case: dict[str, Any]) -> None:
    wanted = {key: case[key] for key in ("type", "issues") if key in case}
    assert outcome(case["expr"], version_of(case.get("version", "1.36"))) == wanted


@pytest.mark.parametrize("case", cases("releases"))
def test_release(case: dict[str, Any]) -> None:
    accepting = [version for version in RELEASES if "type" in outcome(case["expr"], version)]
    wanted = [] if case["since"] == "never" else [version for version in RELEASES if version >= version_of(case["since"])]
    assert accepting == wanted


@pytest.mark.parametrize("case", cases("releases"))
def test_release_for_new_expressions(case: dict[str, Any]) -> None:
    accepting = [version for version in RELEASES if "type" in outcome(case["expr"], version, for_new=True)]
    first = case.get("new", case["since"])
    wanted = [] if first == "never" else [version for version in RELEASES if version >= version_of(first)]
    assert accepting == wanted


def test_text_of_a_refusal() -> None:
    with pytest.raises(CompileError) as refused:
        environment().compile("person.nme == 1 ||\n  'é' + 1 == d")
    assert str(refused.value) == (
        "ERROR: <input>:1:7: undefined field 'nme'\n | person.nme == 1 ||\n | ......^\n"
        "ERROR: <input>:2:7: found no matching overload for '_+_' applied to '(string, int)'\n"
        " |   'é' + 1 == d\n | ...．..^"
    )


def test_other_releases_are_the_nearest() -> None:
    assert release((1, 20)) is release(OLDEST)
    assert release((1, 99)) is release(NEWEST)


SIMPLE_TYPES = (INT, STRING, BOOL, DYN, TIMESTAMP, PERSON.type, Type("null_type"), Type("net.IP"), parameter("A"), parameter("B"))
TYPES = st.recursive(
    st.sampled_from(SIMPLE_TYPES),
    lambda inner: st.one_of(inner.map(list_of), inner.map(optional_of), st.tuples(inner, inner).map(lambda pair: map_of(*pair))),
    max_leaves=5,
)


@given(TYPES)
def test_a_type_agrees_with_itself(type_: Type) -> None:
    assert Bindings().assignable(type_, type_)


@given(TYPES, TYPES)
def test_what_does_not_agree_binds_nothing(left: Type, right: Type) -> None:
    bindings = Bindings()
    if not bindings.assignable(left, right):
        for name in ("A", "B"):
            assert bindings.resolve(parameter(name)) == parameter(name)


def has_parameter(type_: Type) -> bool:
    return type_.is_parameter or any(map(has_parameter, type_.parameters))


@given(TYPES, TYPES)
def test_no_type_contains_itself(left: Type, right: Type) -> None:
    """Otherwise resolving it would not end."""
    bindings = Bindings()
    bindings.assignable(left, right)
    assert not has_parameter(bindings.resolve(left, DYN))


DEEP = 249  # kube-apiserver's parser allows no more
DEEP_EXPRESSIONS = {
    "lists": "[" * DEEP + "1" + "]" * DEEP,
    "equal lists": "[" * (DEEP - 1) + "1" + "]" * (DEEP - 1) + " == " + "[" * (DEEP - 1) + "1" + "]" * (DEEP - 1),
    "quantifiers": "d.all(x, " * DEEP + "true" + ")" * DEEP,
    "maps": "d.map(x, " * DEEP + "x" + ")" * DEEP,
    "filtered maps": "d.map(x, true, " * DEEP + "x" + ")" * DEEP,
    "optionals": "d.optMap(x, " * DEEP + "x" + ")" * DEEP,
    "selections": "d" + ".a" * DEEP,
    "optionals of optionals": "d" + ".optMap(x, x)" * 200,
}


@pytest.mark.parametrize("name", DEEP_EXPRESSIONS)
def test_as_deep_as_the_parser_allows(name: str) -> None:
    assert environment().compile(DEEP_EXPRESSIONS[name]).result_type is not None


def test_repeated_issues_are_bounded() -> None:
    found = outcome("gone" + ".optMap(x, x)" * 100, (1, 36))
    assert 100 < len(found["issues"]) < 10_000


NAMES = st.sampled_from(["d", "b", "person", "people", "x", "gone", "dotted.name", "person.name", "person.tags", "int", "duration"])
LITERALS = st.sampled_from(["1", "1u", "1.5", "'a'", "b'a'", "true", "null", "[]", "{}", "'%s'", "'['", "-1"])
FUNCTIONS = ("size", "matches", "format", "quantity", "ip", "sum", "optional.of", "type", "duration", "first", "indexOf", "gone")
MACROS = ("all", "exists", "exists_one", "map", "filter", "sortBy", "optMap", "optFlatMap")


def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "==", "<", "&&", "||", "in", "%"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"),
        st.tuples(st.sampled_from(FUNCTIONS), inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
        st.tuples(inner, st.sampled_from(FUNCTIONS), inner).map(lambda parts: f"({parts[0]}).{parts[1]}({parts[2]})"),
        st.tuples(inner, st.sampled_from(MACROS), inner).map(lambda parts: f"({parts[0]}).{parts[1]}(x, {parts[2]})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]}).transformMap(x, y, {parts[1]})"),
        st.tuples(inner, st.sampled_from(["[", "[?"]), inner).map(lambda parts: f"({parts[0]}){parts[1]}{parts[2]}]"),
        st.tuples(inner, st.sampled_from([".", ".?"])).map(lambda parts: f"({parts[0]}){parts[1]}name"),
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.tuples(inner, inner).map(lambda parts: f"{{{parts[0]}: {parts[1]}, ?'b': {parts[1]}}}"),
        inner.map(lambda part: f"has(({part}).name)"),
        inner.map(lambda part: f"google.protobuf.Int32Value{{value: {part}}}"),
    )


EXPRESSIONS = st.recursive(st.one_of(NAMES, LITERALS), deeper, max_leaves=12)


def compiled(expression: str) -> Program | CompileError:
    try:
        return environment().compile(expression)
    except CompileError as refusal:
        return refusal


@settings(max_examples=MANY)
@given(EXPRESSIONS)
def test_every_expression_has_a_type_or_issues(expression: str) -> None:
    """Nothing but CompileError comes out, every issue points into the text, and nothing of a type is left open."""
    found = compiled(expression)
    if isinstance(found, CompileError):
        assert found.issues
        assert all(-1 <= issue.offset <= len(expression) for issue in found.issues)
    else:
        assert not has_parameter(found.result_type)


@settings(max_examples=MANY)
@given(st.text(max_size=30))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    found = compiled(text)
    assert isinstance(found, Program) or str(found)

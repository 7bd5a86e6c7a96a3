"""What must hold for every expression and all data: the tiers agree, read sets and cost bounds are sound, unknowns are monotone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pipeline.cel import CelError, CompileError, Environment, Program, Unknown
from pipeline.cel.projection import decoder
from pipeline.cel.types import DYN
from tests.drawing import MANY

ENVIRONMENT = Environment((1, 36), {"object": DYN, "params": DYN})
NEWEST = Environment((1, 37), {"object": DYN, "params": DYN})
RELAXED = settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))

# -- expressions, as text

PLAIN_PATHS = ("object", "object.a", "object.b", "object.a.b", "object.b.a", "object.list", "object.map", "object.a.list")
OTHER_PATHS = ("params.a", "params.list", "object.?a.?b.orValue(1)", "object.map['a']", "object['b']", "object.list[0]")
# What is not an optional may stand before `or` and `orValue` where the checker cannot tell.
OR_PATHS = (
    "object.a.orValue('a')",
    "object.list.orValue([])",
    "object.b.or(object.?a).orValue(1)",
    "object.?a.or(object.b).?b.orValue(2)",
)
PATHS = st.sampled_from([*PLAIN_PATHS, *OTHER_PATHS, *OR_PATHS, "object.list[?1].orValue('a')", "params.list[1].a"])
LITERALS = st.sampled_from(
    ["0", "1", "2", "-1", "1.5", "'a'", "'ab'", "''", "true", "false", "null", "[1, 2]", "['a']", "{'a': 1}"]
)


def _expressions(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return PATHS | LITERALS
    inner = _expressions(depth - 1)
    loops = st.tuples(PATHS, st.sampled_from(["all", "exists", "exists_one", "filter", "map"]), inner)
    pairs = st.tuples(PATHS, st.sampled_from(["all", "exists", "transformList", "transformMap"]), inner)
    return (
        st.tuples(inner, st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        )
        | st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda parts: f"(dyn({parts[0]}) {parts[1]} dyn({parts[2]}))")
        | inner.map(lambda part: f"!dyn({part})")
        | st.tuples(inner, inner, inner).map(lambda parts: f"(dyn({parts[0]}) ? dyn({parts[1]}) : dyn({parts[2]}))")
        | loops.map(lambda parts: f"{parts[0]}.{parts[1]}(x, {parts[2].replace('params', 'x')})")
        | pairs.map(lambda parts: f"{parts[0]}.{parts[1]}(k, v, {parts[2].replace('params.a', 'v').replace('object.b', 'k')})")
        | st.tuples(PATHS, st.sampled_from(["a", "b", "list"])).map(
            lambda parts: f"has({parts[0].removesuffix('.orValue(1)')}.{parts[1]})"
        )
        | inner.map(lambda part: f"size(dyn({part}))")
        | inner.map(lambda part: f"string(dyn({part}))")
        | st.tuples(inner, inner).map(lambda parts: f"dyn({parts[0]}).startsWith(dyn({parts[1]}))")
        | inner.map(lambda part: f"dyn({part}).matches('^a+$')")
        | st.tuples(inner, st.sampled_from(["''", "'a'"]), inner).map(
            lambda parts: f"dyn({parts[0]}).replace({parts[1]}, dyn({parts[2]}))"
        )
        | st.tuples(inner, inner).map(lambda parts: f"[dyn({parts[0]}), dyn({parts[1]})]")
        | inner.map(
            lambda part: (
                f"dyn({part}).optMap(y, y)" if part.startswith("optional") else f"optional.of({part}).optMap(y, y).orValue(0)"
            )
        )
        | inner
    )


EXPRESSIONS = _expressions(3)

# -- data

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 1.5, "", "a", "ab", "b", 2**62])
KEYS = st.sampled_from(["a", "b", "list", "map"])
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8)
OBJECTS = st.fixed_dictionaries(
    {}, optional={"a": JSON, "b": JSON, "list": st.lists(JSON, max_size=3), "map": st.dictionaries(KEYS, JSON)}
)
ACTIVATIONS = st.fixed_dictionaries({"object": OBJECTS | JSON, "params": OBJECTS})


def compiled(text: str, environment: Environment = ENVIRONMENT) -> Program:
    """The program, where the text happens to be well typed."""
    try:
        return environment.compile(text)
    except CompileError:
        assume(False)
        raise


def outcome(result: Any) -> str:
    """A result as text: kinds show, errors by their message."""
    return f"error: {result.message}" if isinstance(result, CelError) else repr(result)


@RELAXED
@given(EXPRESSIONS, ACTIVATIONS, st.sampled_from([ENVIRONMENT, NEWEST]))
def test_the_tiers_agree(text: str, activation: dict[str, Any], environment: Environment) -> None:
    program = compiled(text, environment)
    exact = outcome(program.evaluate_exactly(activation))
    assert outcome(program.evaluate(activation)) == exact
    assert outcome(program.evaluate_with_cost(activation, limit=10**9)[0]) == exact


@RELAXED
@given(EXPRESSIONS, ACTIVATIONS)
def test_nothing_outside_the_read_set_changes_the_result(text: str, activation: dict[str, Any]) -> None:
    program = compiled(text)
    assert outcome(program.evaluate_exactly(program.reads.project(activation))) == outcome(program.evaluate_exactly(activation))


@RELAXED
@given(EXPRESSIONS, ACTIVATIONS)
def test_decoding_only_what_is_read_changes_nothing(text: str, activation: dict[str, Any]) -> None:
    program = compiled(text)
    projected = {name: decoder(program.reads.of(name))(json.dumps(value).encode()) for name, value in activation.items()}
    assert outcome(program.evaluate(projected)) == outcome(program.evaluate(activation))


TEXTS = st.text(alphabet='ab"\\\u00e9', max_size=30)


@RELAXED
@given(TEXTS, st.sampled_from(["", "a", "ab"]), TEXTS, st.sampled_from(["", ", 2"]))
def test_no_replaced_text_is_larger_or_dearer_than_its_bound(text: str, old: str, new: str, limit: str) -> None:
    program = compiled(f"object.a.replace({json.dumps(old)}, object.b{limit}).replace('b', object.b)")
    activation = {"object": {"a": text, "b": new}}
    sizes = {f"object.{name}": len(json.dumps(value, ensure_ascii=False).encode()) for name, value in activation["object"].items()}
    result, cost = program.evaluate_with_cost(activation)
    bound, size = program.cost_bound(sizes), program.size_bound(sizes)
    assert bound is not None
    assert cost <= bound
    assert size is not None
    assert len(json.dumps(result, ensure_ascii=False).encode()) <= size


@RELAXED
@given(EXPRESSIONS, ACTIVATIONS)
def test_no_evaluation_costs_more_than_its_bound(text: str, activation: dict[str, Any]) -> None:
    program = compiled(text)
    sizes = {name: len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()) for name, value in activation.items()}
    result, cost = program.evaluate_with_cost(activation, limit=10**9)
    bound = program.cost_bound(sizes)
    assert bound is None or cost <= bound
    size = program.size_bound(sizes)
    if size is not None and not isinstance(result, CelError | Unknown) and json_like(result):
        assert len(json.dumps(result, separators=(",", ":"), ensure_ascii=False).encode()) <= size


def json_like(value: Any) -> bool:
    """Whether a result is a JSON value."""
    if isinstance(value, list):
        return all(map(json_like, value))
    if isinstance(value, dict):
        return all(map(json_like, value.values()))
    return value is None or isinstance(value, bool | int | float | str)


# -- unknowns


def with_unknowns(value: Any, mask: list[bool], name: str = "object") -> Any:
    """The value with some of its parts unknown, those where the mask says so."""
    if mask and mask.pop():
        return Unknown(name)
    if isinstance(value, dict):
        return {key: with_unknowns(each, mask, f"{name}.{key}") for key, each in value.items()}
    if isinstance(value, list):
        return [with_unknowns(each, mask, f"{name}[{at}]") for at, each in enumerate(value)]
    return value


MASKS = st.lists(st.sampled_from([False, False, True]), min_size=3, max_size=12)


@RELAXED
@given(EXPRESSIONS, ACTIVATIONS, MASKS)
def test_learning_an_unknown_never_contradicts_a_known_result(text: str, activation: dict[str, Any], mask: list[bool]) -> None:
    program = compiled(text)
    partial = {name: with_unknowns(value, mask, name) for name, value in activation.items()}
    before = program.evaluate(partial)
    assert outcome(before) == outcome(program.evaluate_exactly(partial))
    if has_unknown(before):
        return
    assert outcome(program.evaluate(activation)) == outcome(before)


def has_unknown(value: Any) -> bool:
    """Whether a result is unknown or holds something unknown."""
    if isinstance(value, list):
        return any(map(has_unknown, value))
    if isinstance(value, dict):
        return any(map(has_unknown, value.values()))
    return isinstance(value, Unknown)


@RELAXED
@given(st.sampled_from(["&&", "||"]), EXPRESSIONS, EXPRESSIONS, ACTIVATIONS, MASKS)
def test_logic_is_commutative(operator: str, left: str, right: str, activation: dict[str, Any], mask: list[bool]) -> None:
    partial = {name: with_unknowns(value, mask, name) for name, value in activation.items()}
    one = compiled(f"dyn({left}) {operator} dyn({right})").evaluate(partial)
    other = compiled(f"dyn({right}) {operator} dyn({left})").evaluate(partial)
    if isinstance(one, CelError):
        assert isinstance(other, CelError)  # The first error counts, so its text depends on the order.
    else:
        assert one == other


# -- robustness

WORDS = (
    "a",
    "object",
    "params",
    "true",
    "null",
    "1",
    "2u",
    "1.5",
    "'a'",
    "b'\\xff'",
    "r'\\'",
    "'\\u00e9'",
    "has(",
    ".all(",
    "x,",
    "in",
    "size",
)
ODDITIES = ("\ud800", "\x00", "é", "`a`", "\\", '"', "'''", "&&", "||", "==", ".?", "[?", " ", "\n")
TOKENS = st.sampled_from([*WORDS, *ODDITIES, *"+-*/%<>=!&|?:.,()[]{}"])


@settings(RELAXED, max_examples=MANY)
@given(st.lists(TOKENS, max_size=14).map("".join), JSON)
def test_no_text_breaks_the_compiler_or_the_evaluator(text: str, value: Any) -> None:
    try:
        program = ENVIRONMENT.compile(text)
    except CompileError as problem:
        if not str(problem):
            raise
        return
    program.evaluate({"object": value, "params": value})
    program.explain({"object": value, "params": value})
    assert program.reads.paths() is not None


@pytest.mark.parametrize(
    "text",
    [
        "(" * 240 + "1" + ")" * 240,
        "[" * 200 + "]" * 200,
        "!(" * 120 + "true" + ")" * 120,
        "object" + ".a" * 249,
        "1" + " + 1" * 249,
        "object.all(x, " * 60 + "true" + ")" * 60,
        " || ".join(f"object == {number}" for number in range(2000)),
        "object == '" + "a" * 99_000 + "'",
    ],
    ids=["parentheses", "lists", "negations", "selections", "sums", "loops", "alternatives", "length"],
)
def test_expressions_as_large_as_kubernetes_allows_evaluate(text: str) -> None:
    program = ENVIRONMENT.compile(text)
    for result in (program.evaluate({"object": []}), program.evaluate_with_cost({"object": []})[0]):
        assert not isinstance(result, CelError) or not result.message.startswith("internal error")
    assert program.reads.paths() is not None


@pytest.mark.parametrize(
    "text", ["(" * 251 + "1" + ")" * 251, "object" + ".a" * 251, "1" + " + 1" * 251, "'" + "a" * 100_000 + "'"]
)
def test_larger_expressions_are_refused(text: str) -> None:
    with pytest.raises(CompileError):
        ENVIRONMENT.compile(text)


def test_data_nested_deeper_than_python_can_walk_is_unknown_and_not_a_failure() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    result = ENVIRONMENT.compile("object == params").evaluate({"object": deep, "params": [deep]})
    assert isinstance(result, Unknown | CelError)

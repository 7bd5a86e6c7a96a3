"""What expressions evaluate to, by the cases in tests/cases/cel/evaluate.yaml, on every tier of the engine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.cel import CelError, CompileError, Environment, LazyMap, ResultTypeError, SparseMap, Unknown
from pipeline.cel.types import BOOL, DYN, STRING, ObjectType

CASES = Path(__file__).parents[2] / "cases" / "cel" / "evaluate.yaml"


class CaseLoader(yaml.SafeLoader):
    """YAML with `!unknown NAME`."""


CaseLoader.add_constructor("!unknown", lambda loader, node: Unknown(str(loader.construct_scalar(node))))


def cases() -> Iterator[Any]:
    for group in yaml.load(CASES.read_text(encoding="utf-8"), CaseLoader):
        for case in group["cases"]:
            wanted = {"expression": str(case[0]), "value": case[1]} if isinstance(case, list) else case
            yield pytest.param(group["data"], wanted, id=f"{group['group']}: {wanted['expression']}")


@pytest.fixture(scope="module")
def environment() -> Environment:
    return Environment((1, 36), {"object": DYN})


@pytest.mark.parametrize(("data", "case"), list(cases()))
def test_expression(environment: Environment, data: Any, case: dict[str, Any]) -> None:
    if "refused" in case:
        with pytest.raises(CompileError) as problem:
            environment.compile(case["expression"])
        assert case["refused"] in str(problem.value)
        return
    program = environment.compile(case["expression"])
    activation = {"object": data}
    for result in (program.evaluate(activation), program.evaluate_exactly(activation), program.evaluate_with_cost(activation)[0]):
        if "error" in case:
            assert isinstance(result, CelError), result
            assert result.message == case["error"]
        elif "unknown" in case:
            assert result == Unknown(*case["unknown"])
        else:
            assert repr(result) == repr(case["value"])


# -- the facade


def test_a_result_of_another_type_than_expected_is_refused(environment: Environment) -> None:
    assert environment.compile("object.a == 1", (BOOL,)).result_type == BOOL
    with pytest.raises(ResultTypeError, match=r"^must evaluate to bool but got dyn$"):
        environment.compile("object.a", (BOOL,))
    with pytest.raises(ResultTypeError, match=r"^must evaluate to one of \[bool string\] but got int$"):
        environment.compile("1", (BOOL, STRING))


def test_an_expression_is_compiled_once(environment: Environment) -> None:
    assert environment.compile("object.a == 1") is environment.compile("object.a == 1")


def test_issues_name_their_places(environment: Environment) -> None:
    with pytest.raises(CompileError) as problem:
        environment.compile("object.a == x &&\n  y")
    assert [(issue.line, issue.column) for issue in problem.value.issues] == [(1, 12), (2, 2)]
    assert str(problem.value).startswith(
        "ERROR: <input>:1:13: undeclared reference to 'x' (in container '')\n | object.a == x &&\n | ............^\n"
    )


def test_fields_of_declared_objects_are_checked() -> None:
    declared = ObjectType("kubernetes.Request", {"operation": STRING})
    environment = Environment((1, 36), {"request": declared.type}, [declared])
    assert environment.compile("request.operation == 'CREATE'").evaluate({"request": {"operation": "CREATE"}}) is True
    with pytest.raises(CompileError, match="undefined field 'operatoin'"):
        environment.compile("request.operatoin == 'CREATE'")


def test_versions_differ() -> None:
    two_variables = "{'a': 1}.all(k, v, v == 1)"
    assert Environment((1, 32)).compile(two_variables).evaluate({}) is True
    with pytest.raises(CompileError):
        Environment((1, 31)).compile(two_variables)


# -- lazily computed variables


def composed(names: dict[str, Any]) -> tuple[LazyMap, list[str]]:
    """A LazyMap over values and errors, and the names it was asked for."""
    asked: list[str] = []

    def resolve(name: str) -> Any:
        asked.append(name)
        if isinstance(names[name], Exception):
            raise names[name]
        return names[name]

    return LazyMap(names, resolve), asked


@pytest.fixture(scope="module")
def policy() -> Environment:
    declared = ObjectType("kubernetes.variables", dict.fromkeys(("a", "b", "broken", "missing"), DYN))
    return Environment((1, 36), {"variables": declared.type}, [declared])


def test_variables_are_computed_when_they_are_needed_and_once(policy: Environment) -> None:
    variables, asked = composed({"a": 1, "b": 2})
    program = policy.compile("variables.a == 1 || variables.b == 2")
    assert [program.evaluate({"variables": variables}) for _ in range(2)] == [True, True]
    assert asked == ["a"]


def test_a_variable_that_fails_is_an_error_each_time_it_is_used(policy: Environment) -> None:
    variables, asked = composed({"a": 1, "broken": CelError('composited variable "broken" fails to evaluate: no such key: x')})
    for _ in range(2):
        result = policy.compile("variables.broken == 1").evaluate({"variables": variables})
        assert isinstance(result, CelError)
        assert result.message == 'composited variable "broken" fails to evaluate: no such key: x'
    assert asked == ["broken"]
    assert policy.compile("variables.broken == 1 || variables.a == 1").evaluate({"variables": variables}) is True


def test_a_variable_may_be_unknown(policy: Environment) -> None:
    variables, _ = composed({"a": 1, "missing": Unknown("object.spec")})
    assert policy.compile("variables.missing == 1").evaluate({"variables": variables}) == Unknown("object.spec")
    assert policy.compile("has(variables.missing) && variables.a == 1").evaluate({"variables": variables}) is True


def test_whether_an_unknown_value_is_there_is_unknown_too(environment: Environment) -> None:
    missing = Unknown("object.groups")
    activation = {"object": {"user": SparseMap({"name": "web", "groups": missing})}}
    for text in (
        "has(object.user.groups)",
        "'groups' in object.user",
        "object.user.?groups.hasValue()",
        "object.user == {'name': 'web'}",
    ):
        assert environment.compile(text).evaluate(activation) == missing
    for text in ("has(object.user.name)", "'name' in object.user", "object.user.all(k, k != 'x')", "!has(object.user.absent)"):
        assert environment.compile(text).evaluate(activation) is True
    assert environment.compile("has(object.user.groups) || has(object.user.name)").evaluate(activation) is True


# -- cost


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("object.metadata.name", 3),
        ("has(object.metadata.name)", 2),
        ("1 + 1", 1),
        ("object.metadata.name.startsWith('ab')", 4),
        ("object.list.all(x, x > 0)", 18),
        ("object.list.map(x, x)", 2 + 13 * 3 + 1),
        ("object.?absent.orValue(1)", 1),
        ("object.metadata.name in ['a', 'b']", 3),
    ],
)
def test_cost(environment: Environment, text: str, cost: int) -> None:
    activation = {"object": {"metadata": {"name": "ab"}, "list": [1, 2, 3]}}
    assert environment.compile(text).evaluate_with_cost(activation)[1] == cost


def test_an_evaluation_stops_at_its_limit(environment: Environment) -> None:
    program = environment.compile("object.list.all(x, object.list.all(y, x + y > 0))")
    activation = {"object": {"list": list(range(1, 2000))}}
    result, cost = program.evaluate_with_cost(activation)
    assert isinstance(result, CelError)
    assert result.message == "operation cancelled: actual cost limit exceeded"
    assert cost > 1_000_000
    assert program.cost_may_exceed(1_000_000, {"object": 10_000})
    assert not program.cost_may_exceed(1_000_000, {"object": 100})


# -- explanations


def explained(environment: Environment, text: str, data: Any) -> list[tuple[str, Any, dict[str, Any], dict[str, Any]]]:
    findings = environment.compile(text).explain({"object": data})
    return [(each.expression, each.value, dict(each.operands), dict(each.bindings)) for each in findings]


def test_explain_names_the_term_that_failed(environment: Environment) -> None:
    assert explained(environment, "object.a == 1 && object.b <= 2 && object.c", {"a": 1, "b": 3, "c": True}) == [
        ("object.b <= 2", False, {"object.b": 3}, {})
    ]


def test_explain_names_the_element_that_failed(environment: Environment) -> None:
    data = {"list": [{"name": "a"}, {"name": "b"}]}
    assert explained(environment, "object.list.all(c, c.name == 'a' || c.name == 'c')", data) == [
        ('c.name == "a"', False, {"c.name": "b"}, {"c": {"name": "b"}}),
        ('c.name == "c"', False, {"c.name": "b"}, {"c": {"name": "b"}}),
    ]


def test_explain_names_the_fields_that_were_read(environment: Environment) -> None:
    data = {"a": {"k": 1}, "list": [{"ports": [1]}, {"ports": [2, 9]}], "key": "k"}
    text = "object.a[object.key] == 1 && object.list.all(c, c.ports.all(p, p < 5)) && object.list.filter(c, has(c.x)).size() == 0"
    (finding,) = environment.compile(text).explain({"object": data})
    assert finding.places == (("object", "list", 1, "ports", 1),)
    (finding,) = environment.compile("object.a[object.key] == 2").explain({"object": data})
    assert finding.places == (("object", "a", "k"), ("object", "key"))
    (finding,) = environment.compile("object.list.filter(c, has(c.x)).size() > 0").explain({"object": data})
    assert finding.places == (("object", "list"), ("object", "list", "*", "x"))
    assert dict(finding.operands)["object.list.filter(c, has(c.x))"] == []


def test_explain_leaves_out_what_only_names_a_function(environment: Environment) -> None:
    (finding,) = environment.compile("type(object.a) == int").explain({"object": {"a": "x"}})
    assert "int" not in dict(finding.operands)
    assert finding.places == (("object", "a"), ("int",))


def test_a_loop_over_computed_values_decides_by_the_fields_that_they_were_computed_from(environment: Environment) -> None:
    """Parts of an image name have no place in the object; the image has one."""
    latest = "c.image.findAll(':[a-z]+').exists(part, part == ':latest')"
    tree = environment.compile(f"object.list.all(c, !({latest}) || has(c.pull))")
    found = tree.explain({"object": {"list": [{"image": "a:v1"}, {"image": "b:latest"}]}})
    assert [finding.places for finding in found] == [
        (("object", "list", 1, "image"),),
        (("object", "list", 1, "pull"),),
    ]


# -- what is read


def test_read_sets_name_paths(environment: Environment) -> None:
    text = "has(object.a.b) && object.list.all(c, c.image.startsWith('x')) && 'k' in object.labels && size(object.items) > 0"
    assert environment.compile(text).reads.paths() == [
        "object.a.b{}",
        "object.items[*]{}",
        "object.labels[*]",
        "object.labels.k{}",
        "object.list[*].image",
    ]


def test_generated_python_says_nothing_on_stderr() -> None:
    """A warning that is an error would be caught like any other syntax error, so other tests miss it."""
    fresh = Environment((1, 36), {"object": DYN})
    texts = [case.values[1]["expression"] for case in cases()]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for text in texts:
            with suppress(CompileError):
                fresh.compile(text)
    assert [str(each.message) for each in found] == []

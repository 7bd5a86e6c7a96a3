"""Label and field selectors as the server parses them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.matching.field_text import FieldTerm, parse_field_selector
from pipeline.matching.label_text import is_label_key, is_label_value, parse_label_selector
from pipeline.matching.selectors import Requirement, SelectorError
from pipeline.stages.conditions.selection import requirement_text


def req(key: str, operator: str, *values: str) -> Requirement:
    return Requirement(key, operator, frozenset(values))


# The forms of apimachinery pkg/labels/selector_test.go, in words of our own.
PARSED = {
    "": [],
    "x": [req("x", "Exists")],
    "!x": [req("x", "DoesNotExist")],
    " ! x , y ": [req("x", "DoesNotExist"), req("y", "Exists")],
    "x=a": [req("x", "In", "a")],
    "x == a": [req("x", "In", "a")],
    "x!=a,y=b": [req("x", "NotIn", "a"), req("y", "In", "b")],
    "x=": [req("x", "In", "")],
    "x=,y": [req("x", "In", ""), req("y", "Exists")],
    "x in (a,b)": [req("x", "In", "a", "b")],
    "x in (a,,b)": [req("x", "In", "a", "", "b")],
    "x in (a,)": [req("x", "In", "a", "")],
    "x in (,a)": [req("x", "In", "", "a")],
    "x in ()": [req("x", "In", "")],
    "x notin ()": [req("x", "NotIn", "")],
    "x notin (a b)": None,
    "x in in": None,
    "x in (in,notin)": [req("x", "In", "in", "notin")],
    "in in (in)": [req("in", "In", "in")],
    "notin=in": [req("notin", "In", "in")],
    "x>1,z<5": [req("x", "Gt", "1"), req("z", "Lt", "5")],
    "x>a": None,
    "x=a=b": None,
    "x,": None,
    ",x": None,
    "!x=a": None,
    "x==,y": [req("x", "In", ""), req("y", "Exists")],
    "x=>1": None,
    "x in (a": None,
    "x(a)": None,
    "x && y": None,
    "example.com/x=a": [req("example.com/x", "In", "a")],
    "EXAMPLE.com/x=a": None,
    "x=-a": None,
    f"x={'a' * 64}": None,
    "x,\0(": [req("x", "Exists")],
}


@pytest.mark.parametrize("text", PARSED)
def test_a_label_selector_is_parsed_as_the_server_parses_it(text: str) -> None:
    wanted = PARSED[text]
    if text == "x,\0(":
        wanted = None  # the end after a comma
    if wanted is None:
        with pytest.raises(SelectorError):
            parse_label_selector(text)
    else:
        assert list(parse_label_selector(text).requirements) == wanted


NAMES = st.from_regex(r"[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,5}[a-zA-Z0-9])?", fullmatch=True)
VALUES = st.frozensets(st.one_of(NAMES, st.just("")), min_size=1, max_size=3)
NUMBERS = st.integers(-9, 9).map(lambda number: str(number).replace("-", "0"))
REQUIREMENTS = st.one_of(
    st.builds(Requirement, NAMES, st.sampled_from(["In", "NotIn"]), VALUES),
    st.builds(Requirement, NAMES, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Requirement, NAMES, st.sampled_from(["Gt", "Lt"]), NUMBERS.map(lambda number: frozenset([number]))),
)


@given(st.lists(REQUIREMENTS, max_size=4))
def test_a_written_label_selector_is_read_back(requirements: list[Requirement]) -> None:
    text = ",".join(requirement_text(each) for each in requirements)
    assert list(parse_label_selector(text).requirements) == requirements


@given(st.text(alphabet="ab!=(),<> in\t", max_size=12))
def test_every_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse_label_selector(text)
    except SelectorError:
        return
    for each in found.requirements:
        assert is_label_key(each.key)
        assert all(map(is_label_value, each.values))


def test_a_number_is_compared_and_nothing_else_is() -> None:
    above = req("x", "Gt", "5")
    assert [above.holds({"x": value}) for value in ("6", "06", "5", "six", "9223372036854775808")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert not above.holds({})


@given(st.lists(st.builds(FieldTerm, NAMES, st.text(max_size=6), st.booleans()), max_size=3))
def test_a_written_field_selector_is_read_back(terms: list[FieldTerm]) -> None:
    text = ",".join(map(str, terms))
    assert sorted(map(str, parse_field_selector(text))) == sorted(map(str, terms))


@pytest.mark.parametrize(
    ("text", "says"), [("a", "can't understand 'a'"), ("a=b=c", "unescaped"), ("a=\\d", "unescaped"), ("a=\\", "unescaped")]
)
def test_a_field_selector_that_the_server_rejects_is_refused(text: str, says: str) -> None:
    with pytest.raises(SelectorError, match=says):
        parse_field_selector(text)


def test_a_field_that_an_object_lacks_is_empty() -> None:
    terms = parse_field_selector("a=,b!=x")
    assert all(term.holds({}) for term in terms)

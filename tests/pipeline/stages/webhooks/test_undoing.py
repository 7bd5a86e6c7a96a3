"""The object without the changes of one webhook: known only where recorded patches explain what it changed."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.request import Known, Unknown
from pipeline.stages.webhooks.trace import Attempt, Patch, Trace
from pipeline.stages.webhooks.undoing import undo

OWN, OTHER = "own.example.com", "other.example.com"
START = {"metadata": {"name": "a"}, "spec": {"list": [{"name": "app"}]}}


def trace(*told: tuple[int, int, str, list[dict[str, Any]] | None]) -> Trace:
    """Attempts in order: round, place, webhook, and its patch (None: it changed nothing)."""
    attempts = [Attempt(round_number, place, "all", webhook, patch is not None) for round_number, place, webhook, patch in told]
    patches = [Patch(round_number, place, "all", webhook, patch) for round_number, place, webhook, patch in told if patch]
    return Trace(tuple(attempts), tuple(patches))


def add(path: str, value: Any) -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": value}]


LABEL = add("/metadata/labels", {"team": "a"})
SIDECAR = add("/spec/list/-", {"name": "sidecar"})


@pytest.mark.parametrize(
    ("told", "seen", "expected", "asked"),
    [
        # Defaults fill what the webhook added, and other fields stay.
        (
            trace((0, 0, OWN, SIDECAR)),
            {"metadata": {"name": "a", "uid": "1"}, "spec": {"list": [{"name": "app", "d": 1}, {"name": "sidecar", "d": 1}]}},
            {"metadata": {"name": "a", "uid": "1"}, "spec": {"list": [{"name": "app", "d": 1}]}},
            (),
        ),
        # A webhook after it saw the change; its own change stays.
        (
            trace((0, 0, OWN, LABEL), (0, 1, OTHER, add("/metadata/labels/x", "1"))),
            {"metadata": {"name": "a", "labels": {"team": "a", "x": "1"}}, "spec": START["spec"]},
            "the recorded patches do not fit",
            (),
        ),
        (
            trace((0, 0, OWN, LABEL), (0, 1, OTHER, add("/spec/n", 1))),
            {"metadata": {"name": "a", "labels": {"team": "a"}}, "spec": {**START["spec"], "n": 1}},
            {"metadata": {"name": "a"}, "spec": {**START["spec"], "n": 1}},
            (OTHER,),
        ),
        # The second round began only because of the change.
        (
            trace((0, 0, OTHER, None), (0, 1, OWN, LABEL), (1, 0, OTHER, None)),
            {"metadata": {"name": "a", "labels": {"team": "a"}}, "spec": START["spec"]},
            START,
            (),
        ),
        # Something without a trace changed the label again.
        (
            trace((0, 0, OWN, LABEL)),
            {"metadata": {"name": "a", "labels": {"team": "b"}}, "spec": START["spec"]},
            "something else than recorded patches changed",
            (),
        ),
        (trace((0, 0, OWN, [])), START, "patches of webhooks were not recorded", ()),
    ],
)
def test_the_changes_are_undone_where_the_record_explains_them(
    told: Trace, seen: dict[str, Any], expected: dict[str, Any] | str, asked: tuple[str, ...]
) -> None:
    found = undo(told, OWN, None, Known(START, "requestObject"), seen)
    if isinstance(expected, str):
        assert isinstance(found, Unknown)
        assert found.reason.startswith(expected)
    else:
        assert not isinstance(found, Unknown)
        assert (found.object.value, found.asked) == (expected, asked)


def test_an_object_that_is_not_known_stays_unknown() -> None:
    found = undo(trace((0, 0, OWN, LABEL)), OWN, "all", Unknown("the requested object was not recorded"), START)
    assert isinstance(found, Unknown)
    assert found.reason == "the object before the webhook: the requested object was not recorded"


def test_true_is_not_one() -> None:
    start, seen = {"spec": {"flag": 1}}, {"spec": {"flag": True}}
    found = undo(trace((0, 0, OWN, add("/spec/flag", True))), OWN, None, Known(start, "the body"), seen)
    assert not isinstance(found, Unknown)
    assert found.object.value["spec"]["flag"] is start["spec"]["flag"]

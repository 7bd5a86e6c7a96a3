"""What a snapshot tells of the time before it, and where the log lets it say nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.history.event import Event
from pipeline.history.listings import Span
from pipeline.history.old_object import version_met
from pipeline.history.version import object_key
from pipeline.history.versions import LogVersions
from pipeline.history.world import LogHistory
from pipeline.history.writes import record
from pipeline.request import Grade, Known, Unknown
from tests.drawing import MANY

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SUCCESS = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
Rows = Sequence[Any]
Write = Callable[..., Any]


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


def config(name: str, version: int, value: str = "", namespace: str = "shop", uid: str = "", born: float = -1000) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{namespace}-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": f"{second(born):%Y-%m-%dT%H:%M:%SZ}",
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


def listed(at: float, *values: dict[str, Any], kind: str = "ConfigMap", source: str = "configmaps.json") -> list[dict[str, Any]]:
    """A list as rows of `objects`; one without a name where it is empty."""
    fixed = {"cluster": "c", "observed_ts": second(at), "list_rv": None, "api_version": "v1", "kind": kind, "source": source}
    empty = {**fixed, "namespace": None, "name": "", "uid": None, "resource_version": None, "object": '{"items":[]}'}
    rows = [
        {
            **fixed,
            "namespace": value["metadata"].get("namespace"),
            "name": value["metadata"]["name"],
            "uid": value["metadata"]["uid"],
            "resource_version": value["metadata"]["resourceVersion"],
            "object": json.dumps(value),
        }
        for value in values
    ]
    return rows or [empty]


@pytest.fixture
def write(build: Any) -> Write:
    """A builder of rows: a write of a ConfigMap in `shop`, by default a create."""

    def row(at: float, name: str | None = "a", **columns: Any) -> Any:
        place = {"resource": "configmaps", "request_uri": "/api/v1/namespaces/shop/configmaps"}
        return build(at=at, name=name, **{**place, **columns})

    return row


def values_at(history: LogHistory, at: float, namespace: str = "shop") -> Any:
    """What the ConfigMaps of a namespace held, by name; or why that is not known."""
    found = history.at("c", second(at)).params("v1", "ConfigMap", namespace)
    if isinstance(found, Unknown):
        return found.reason
    return {item["metadata"]["name"]: item["data"]["value"] for item in found.value}


def test_a_later_list_and_the_log_tell_what_there_was(write: Write) -> None:
    events = [
        write(10, "a", response=config("a", 10, "one", born=10)),
        write(20, "b", verb="update", response=config("b", 11, "two")),
        write(30, "a", verb="delete", response=SUCCESS),
    ]
    history = LogHistory.from_rows(events, listed(100, config("b", 11, "two"), config("c", 3, "three")))
    assert values_at(history, 25) == {"a": "one", "b": "two", "c": "three"}
    assert values_at(history, 50) == {"b": "two", "c": "three"}
    assert "configmaps shop/b was there before it was written, but what it was is not recorded" in values_at(history, 5)


def test_how_sure_it_is(write: Write) -> None:
    events = [write(10, response=config("a", 10, "one", born=10)), write(200, verb="update", response=config("a", 12))]
    found = LogHistory.from_rows(events, listed(100, config("a", 10, "one", born=10))).at("c", second(50))
    several = found.params("v1", "ConfigMap", "shop")
    assert isinstance(several, Known)
    assert several.grade is Grade.INFERRED


@pytest.mark.parametrize(("taken", "expected"), [(3000, Grade.PARTIAL), (9000, None)])
def test_after_the_end_of_the_log_a_list_says_less(write: Write, taken: float, expected: Grade | None) -> None:
    events = [write(10, response=config("a", 10, "one", born=10))]
    spans = {"c": Span(second(0), second(60))}
    found = LogHistory.from_rows(events, listed(taken, config("a", 10, "one", born=10)), spans).at("c", second(50))
    several = found.params("v1", "ConfigMap", "shop")
    assert (several.grade if isinstance(several, Known) else None) is expected
    if isinstance(several, Unknown):
        assert "was taken long after the log ends" in several.reason


def test_what_was_deleted_with_its_body_in_the_answer_is_known(write: Write) -> None:
    items = {"kind": "ConfigMapList", "apiVersion": "v1", "items": [_without_kind(config("b", 3, "two"))]}
    events = [
        write(10, "a", verb="delete", response=config("a", 12, "one")),
        write(20, None, verb="deletecollection", response=items),
        write(30, "d", response=config("d", 20, born=30)),
    ]
    history = LogHistory.from_rows(events, listed(100, config("c", 3, "three"), config("d", 20, born=30)))
    assert values_at(history, 5) == {"a": "one", "b": "two", "c": "three"}
    assert values_at(history, 15) == {"b": "two", "c": "three"}
    assert values_at(history, 25) == {"c": "three"}
    found = history.at("c", second(5)).param("v1", "ConfigMap", "shop", "b")
    assert isinstance(found, Known)
    assert found.value is not None
    assert (found.value["kind"], found.value["apiVersion"], found.grade) == ("ConfigMap", "v1", Grade.PARTIAL)
    assert "resourceVersion" not in found.value["metadata"]


def _without_kind(value: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name not in ("kind", "apiVersion")}


def test_what_was_deleted_without_a_body_is_unknown_before(write: Write) -> None:
    events = [write(10, "a", verb="delete", response=SUCCESS)]
    history = LogHistory.from_rows(events, listed(100, config("b", 3, "two")))
    assert "configmaps shop/a was there before it was written, but what it was is not recorded" in values_at(history, 5)
    assert values_at(history, 15) == {"b": "two"}


def test_the_marks_of_a_deletion_are_taken_back(build: Any) -> None:
    meta = {
        "name": "shop",
        "uid": "u",
        "resourceVersion": "9",
        "labels": {"env": "dev"},
        "creationTimestamp": "2025-01-01T00:00:00Z",
    }
    marked = {**meta, "deletionTimestamp": f"{second(10):%Y-%m-%dT%H:%M:%SZ}"}
    gone = {"apiVersion": "v1", "kind": "Namespace", "metadata": marked, "status": {"phase": "Terminating"}}
    place = {"resource": "namespaces", "namespace": "shop", "name": "shop", "request_uri": "/api/v1/namespaces/shop"}
    history = LogHistory.from_rows([build(at=10, verb="delete", response=gone, **place)])
    found = history.at("c", second(5)).namespace("shop")
    assert isinstance(found, Known)
    assert found.value is not None
    assert "deletionTimestamp" not in found.value["metadata"]
    assert found.value["metadata"]["labels"]["env"] == "dev"
    assert found.value["status"]["phase"] == "Active"


def test_without_any_recorded_write_a_later_list_says_nothing_of_what_was_deleted(write: Write) -> None:
    history = LogHistory.from_rows([], listed(100, config("a", 3, "one")))
    assert "no write of them is recorded" in values_at(history, 50)
    assert values_at(history, 150) == {"a": "one"}
    found = history.at("c", second(50)).param("v1", "ConfigMap", "shop", "a")
    assert isinstance(found, Known), "what is listed itself was there"


def _unmade(write: Write) -> tuple[Rows, Rows]:
    events = [write(10, "a", response=config("a", 10, born=10)), write(60, "a", verb="update", response=config("a", 20, born=10))]
    return events, listed(100, config("a", 20, born=10), config("b", 15, "two"))


def _unlisted(write: Write) -> tuple[Rows, Rows]:
    return [write(10, "a", response=config("a", 10, born=10))], listed(100, config("b", 3, "two"))


def _again(write: Write) -> tuple[Rows, Rows]:
    events = [write(10, "a", response=config("a", 10, born=10)), write(20, "a", response=config("a", 12, uid="other", born=20))]
    return events, listed(100, config("a", 12, uid="other", born=20))


def _created(write: Write) -> tuple[Rows, Rows]:
    events = [write(10, "a", response=config("a", 30, born=10)), write(60, "a", verb="update", response=config("a", 40, born=10))]
    return events, listed(50, config("a", 30, born=10), config("b", 20, "two", born=30))


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        (_unmade, "configmaps shop/b is listed with resourceVersion 15, which no recorded write made"),
        (_unlisted, "configmaps shop/a is not listed, and its deletion is not recorded"),
        (_again, "configmaps shop/a was created again, and its deletion is not recorded"),
        (_created, "configmaps shop/b was created at 2026-01-01T12:00:30Z, which is not recorded"),
    ],
)
def test_one_write_that_the_log_lacks_and_a_later_list_says_nothing(write: Write, story: Any, reason: str) -> None:
    events, objects = story(write)
    assert f"the log lacks some of their writes: {reason}" in values_at(LogHistory.from_rows(events, objects), 15)


def test_an_object_written_later_without_a_record_is_unknown_before(write: Write) -> None:
    events, objects = _unmade(write)
    found = LogHistory.from_rows(events, objects).at("c", second(5)).param("v1", "ConfigMap", "shop", "b")
    assert isinstance(found, Unknown)


def test_a_write_without_a_body_is_told_by_the_list_after_it(write: Write) -> None:
    events = [write(10, "a", level="Metadata"), write(60, "z", response=config("z", 20, born=60))]
    history = LogHistory.from_rows(events, listed(50, config("a", 10, "one", born=10)))
    assert values_at(history, 20) == {"a": "one"}


def test_a_list_of_one_namespace_says_nothing_of_another(write: Write, build: Any) -> None:
    shop, other = ({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}} for name in ("shop", "other"))
    spaces = [{**space, "apiVersion": "v1", "kind": "Namespace"} for space in (shop, other)]
    events = [write(10, "a", response=config("a", 10, "one", born=10))]
    objects = [*listed(100, config("a", 10, "one", born=10)), *listed(100, *spaces, kind="Namespace", source="namespaces.json")]
    history = LogHistory.from_rows(events, objects)
    assert values_at(history, 50) == values_at(history, 150) == {"a": "one"}
    for moment in (50, 150):
        assert "no snapshot lists ConfigMap" in values_at(history, moment, "other")


def test_an_empty_list_says_that_there_were_none_before_either(write: Write) -> None:
    items = {"kind": "ConfigMapList", "apiVersion": "v1", "items": [config("a", 3, "one")]}
    history = LogHistory.from_rows([write(10, None, verb="deletecollection", response=items)], listed(100))
    assert values_at(history, 5) == {"a": "one"}
    assert values_at(history, 50) == {}


@pytest.mark.parametrize("is_swept", [True, False])
def test_a_namespace_that_went_took_what_was_in_it_along(write: Write, build: Any, is_swept: bool) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "n", "resourceVersion": "30"}}
    space["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:30Z"  # type: ignore[index]
    place = {"resource": "namespaces", "namespace": "shop", "name": "shop", "request_uri": "/api/v1/namespaces/shop"}
    nothing = {"kind": "ConfigMapList", "apiVersion": "v1", "items": []}
    events = [
        write(10, "a", namespace="x", response=config("a", 10, namespace="x", born=10)),
        *([write(35, None, verb="deletecollection", response=nothing)] if is_swept else []),
        build(at=40, verb="update", subresource="finalize", response=space, **place),
    ]
    history = LogHistory.from_rows(events, listed(100, config("a", 10, namespace="x", born=10), config("b", 3, namespace="y")))
    found = values_at(history, 20)
    assert found == {} if is_swept else "namespace shop was deleted before" in found


def test_a_deletecollection_that_was_refused_halfway_took_what_is_no_longer_listed(write: Write, build: Any) -> None:
    refusal = "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
    failed = {"verb": "deletecollection", "code": 422, "status_reason": "Invalid", "status_message": refusal}
    events = [write(10, "a", response=config("a", 10, "one", born=10)), write(50, None, **failed)]
    history = LogHistory.from_rows(events, listed(200, config("b", 3, "two")))
    assert "deletions before the snapshot of 2026-01-01T12:03:20Z are not recorded" in values_at(history, 20)
    assert values_at(history, 60) == values_at(history, 250) == {"b": "two"}
    # Where the namespace was created in the log, so was all that it held.
    place = {"resource": "namespaces", "namespace": "shop", "name": "shop", "request_uri": "/api/v1/namespaces"}
    created = build(at=1, response={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "n"}}, **place)
    history = LogHistory.from_rows([created, *events], listed(200, config("b", 3, "two")))
    assert values_at(history, 20) == {"a": "one", "b": "two"}
    assert values_at(history, 60) == values_at(history, 250) == {"b": "two"}


def test_the_old_object_of_a_refused_delete_is_what_a_later_delete_found(write: Write) -> None:
    refused = write(10, "a", verb="delete", code=422, status_message="denied")
    versions = LogVersions()
    for row in (refused, write(20, "a", verb="delete", response=config("a", 12, "one"))):
        record(Event.from_row(row), versions)
    met = version_met(Event.from_row(refused), object_key("c", "", "configmaps", "shop", "a"), versions)
    assert met.version is not None
    assert met.version.form == "found"


@dataclass
class Story:
    """A cluster that runs: writes with their records, and the true state after each."""

    write: Write
    number: int = 100
    now: float = 0.0
    state: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)
    truth: list[tuple[float, dict[tuple[str, str], str]]] = field(default_factory=list)

    def step(self, verb: str, namespace: str, name: str, level: str) -> None:
        self.now += 10
        self.number += 1
        key, place = (namespace, name), {"namespace": namespace, "level": level}
        answer: Any = None
        if verb == "deletecollection":
            gone = [key for key in self.state if key[0] == namespace]
            answer = {"kind": "ConfigMapList", "apiVersion": "v1", "items": [self.state.pop(key) for key in gone]}
            self.events.append(self._row(verb, None, answer, place))
        elif verb == "delete" and key in self.state:
            value = self.state.pop(key)
            self.events.append(self._row(verb, name, value if self.number % 2 else SUCCESS, place))
        elif verb == "write":
            old = self.state.get(key)
            born = old["metadata"] if old else None
            value = config(name, self.number, f"v{self.number}", namespace, f"uid-{self.number}", self.now)
            if born:
                value["metadata"].update(uid=born["uid"], creationTimestamp=born["creationTimestamp"])
            self.state[key] = value
            self.events.append(self._row("update" if born else "create", name, value, place))
        self.truth.append((self.now + 5, {key: value["data"]["value"] for key, value in self.state.items()}))

    def _row(self, verb: str, name: str | None, answer: Any, place: dict[str, str]) -> Any:
        return self.write(self.now, name, verb=verb, response=None if place["level"] == "Metadata" else answer, **place)

    def snapshot(self) -> Rows:
        return listed(self.now + 3, *self.state.values())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "delete", "deletecollection"]),
        st.sampled_from(["shop", "pay"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["RequestResponse", "RequestResponse", "Metadata"]),
    ),
    max_size=14,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=MANY, deadline=None)
@given(before=STEPS, during=STEPS)
def test_a_first_and_a_last_snapshot_never_contradict_each_other_nor_the_truth(write: Write, before: Any, during: Any) -> None:
    story = Story(write)
    for step in before:
        story.step(*step)
    story.events.clear()
    story.truth.clear()
    first = story.snapshot()
    for step in during:
        story.step(*step)
    worlds = [LogHistory.from_rows(story.events, rows) for rows in (first, story.snapshot())]
    for moment, state in story.truth:
        for namespace in ("shop", "pay"):
            true = {name: value for (place, name), value in state.items() if place == namespace}
            for world in worlds:
                found = values_at(world, moment, namespace)
                assert isinstance(found, str) or found == true
                for name in ("a", "b", "c"):
                    single = world.at("c", second(moment)).param("v1", "ConfigMap", namespace, name)
                    told = single.value and single.value["data"]["value"] if isinstance(single, Known) else "unknown"
                    assert told in ("unknown", true.get(name))

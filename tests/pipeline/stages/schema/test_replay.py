"""Recorded writes of custom resources under other definitions: tests/cases/schema/replay.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from api.cli import run
from ingest.errors import InputError
from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind, RunStore
from pipeline.runs.window import Window
from pipeline.stages.registry import SCHEMA
from pipeline.stages.schema.replay.definitions import Given, given_of, served_of
from pipeline.stages.schema.replay.figures import figures
from pipeline.stages.schema.replay.rows import row_of
from pipeline.stages.schema.replay.walk import Judged, Walk
from pipeline.stages.stage import Asked
from queries import LakeReader, open_lake
from tests.recording import START, take_in
from tests.yaml_text import load_yaml

CASES: list[dict[str, Any]] = load_yaml((Path(__file__).parents[3] / "cases" / "schema" / "replay.yaml").read_text())
GROUP = "lab.example.com"
# The metadata that a client sends with a create.
_SENT = ("name", "namespace", "annotations", "finalizers")


class Story:
    """One case as a kind of its own, with its events."""

    def __init__(self, number: int) -> None:
        self.case = CASES[number]
        self.number = number
        self.kind = f"Thing{number}"
        self.plural = f"thing{number}s"
        self.events: list[dict[str, Any]] = []
        if self.case["old"] is not None:
            self.events.append(self._event("definition", self._defining(self.definition(self.case["old"]))))
        for place, write in enumerate(self.case["writes"]):
            self.events.append(self._event(str(place), self._writing(place, write)))

    def definition(self, written: Mapping[str, Any]) -> dict[str, Any]:
        versions = written.get("versions") or [{"name": "v1", "storage": True, "schema": written}]
        conversion: dict[str, Any] = {"strategy": written.get("conversion", "None")}
        if conversion["strategy"] == "Webhook":
            conversion["webhook"] = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://converter.example.com"}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": written.get("scope", "Namespaced"),
                "names": {"plural": self.plural, "singular": self.kind.lower(), "kind": self.kind, "listKind": f"{self.kind}List"},
                "conversion": conversion,
                "versions": [self._version(each) for each in versions],
            },
        }

    def given(self, written: Mapping[str, Any]) -> Given:
        return given_of(manifests_of([("new.yaml", yaml.safe_dump(self.definition(written)))]))

    def _version(self, written: Mapping[str, Any]) -> dict[str, Any]:
        subresources: dict[str, Any] = {"status": {}} if written.get("status") else {}
        if "scale" in written:
            subresources["scale"] = {"specReplicasPath": written["scale"], "statusReplicasPath": ".status.count"}
        more = {"subresources": subresources} if subresources else {}
        schema = {"openAPIV3Schema": written["schema"]}
        served, storage = written.get("served", True), written.get("storage", False)
        return {"name": written["name"], "served": served, "storage": storage, "schema": schema, **more}

    def _defining(self, definition: dict[str, Any]) -> dict[str, Any]:
        reference = {
            "resource": "customresourcedefinitions",
            "apiGroup": "apiextensions.k8s.io",
            "apiVersion": "v1",
            "name": definition["metadata"]["name"],
        }
        return {"verb": "create", "objectRef": reference, "code": 201, "requestObject": definition, "responseObject": definition}

    def _writing(self, place: int, write: Mapping[str, Any]) -> dict[str, Any]:
        if "defines" in write:
            return self._defining(self.definition(write["defines"])) | {"verb": write["verb"], "code": 200}
        version, verb = write.get("version", "v1"), write["verb"]
        creates = verb == "create" or write.get("code") == 201
        name = f"o{place}" if creates else f"o{write.get('of', self._last_created(place))}"
        head = {"apiVersion": f"{GROUP}/{version}", "kind": self.kind}
        metadata = {"name": name, "namespace": "shop", "uid": f"{self.kind}-{name}", "resourceVersion": str(100 + place)}
        metadata |= {"generation": self._generation(place), **self._filled(write.get("meta", {}), name)}
        code = write.get("code", 201 if verb == "create" else 200)
        body = self._filled(write.get("body"), name)
        if verb in ("create", "update") and body is not None:
            body = {**head, "metadata": metadata, **body}
            if creates:
                body["metadata"] = {key: value for key, value in metadata.items() if key in _SENT}
            else:
                body["metadata"] = {**metadata, "resourceVersion": str(99 + place)}
        answer: dict[str, Any] | None = None
        if code < 300 and verb not in ("get", "deletecollection"):
            content = write.get("stored", write.get("body"))
            answer = {**head, "metadata": metadata, **content} if "scale" not in write else self._scale(name, write["scale"], place)
        message = self._filled(write.get("message", ""), name)
        found: dict[str, Any] = {
            "verb": verb,
            "code": code,
            "query": write.get("query", ""),
            "level": write.get("level", "RequestResponse"),
            "message": message,
            "reason": write.get("reason", {400: "BadRequest", 422: "Invalid"}.get(code, "")),
            "objectRef": {
                "resource": self.plural,
                "namespace": "shop",
                **({"name": name} if verb != "deletecollection" else {}),
                "apiGroup": GROUP,
                "apiVersion": version,
                **({"subresource": write["subresource"]} if "subresource" in write else {}),
            },
            "annotations": write.get("note", {}),
        }
        if body is not None:
            found["requestObject"] = body
        if answer is not None:
            found["responseObject"] = answer
        return found

    def _scale(self, name: str, replicas: int, place: int) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "shop", "uid": f"{self.kind}-{name}", "resourceVersion": str(100 + place)}
        scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata}
        return {**scale, "spec": {"replicas": replicas}, "status": {"replicas": 0}}

    def _last_created(self, place: int) -> int:
        writes = self.case["writes"][:place]
        made = [at for at, each in enumerate(writes) if each["verb"] == "create" or each.get("code") == 201]
        return made[-1] if made else 0

    def _generation(self, place: int) -> int:
        """The generation of an object whose body each update of the object itself changes."""
        first = self._last_created(place + 1)
        later = self.case["writes"][first + 1 : place + 1]
        return 1 + sum(
            each["verb"] in ("update", "patch")
            and not {"subresource", "defines"} & each.keys()
            and list(each.get("body") or ()) != ["metadata"]
            for each in later
        )

    def _filled(self, value: Any, name: str) -> Any:
        text = json.dumps(value).replace('"apiVersion": "KIND"', f'"apiVersion": "{GROUP}/v1"')
        text = text.replace('\\"apiVersion\\":\\"KIND\\"', f'\\"apiVersion\\":\\"{GROUP}/v1\\"')
        return json.loads(text.replace("KIND", self.kind).replace("GROUP", GROUP).replace("NAME", name))

    def _event(self, name: str, told: dict[str, Any]) -> dict[str, Any]:
        at = START + timedelta(hours=self.number, minutes=len(self.events))
        status: dict[str, Any] = {"metadata": {}, "code": told["code"]}
        if told["code"] >= 300:
            status |= {"status": "Failure", "reason": told["reason"], "message": told["message"]}
        level = told.get("level", "RequestResponse")
        reference = told["objectRef"]
        within = "namespaces/shop/" if "namespace" in reference else ""
        place = f"{reference['apiGroup']}/{reference['apiVersion']}/{within}{reference['resource']}"
        bodies = {key: told[key] for key in ("requestObject", "responseObject") if key in told and level != "Metadata"}
        if level == "Request":
            bodies.pop("responseObject", None)
        return {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": level,
            "auditID": f"{self.number}-{name}",
            "stage": "ResponseComplete",
            **({} if told.get("query", "") is None else {"requestURI": f"/apis/{place}?{told.get('query', '')}"}),
            "verb": told["verb"],
            "user": {"username": "alice", "groups": ["system:authenticated"]},
            "objectRef": reference,
            "responseStatus": status,
            "requestReceivedTimestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
            "stageTimestamp": f"{at + timedelta(milliseconds=4):%Y-%m-%dT%H:%M:%S.%f}Z",
            "annotations": {"authorization.k8s.io/decision": "allow", **told.get("annotations", {})},
            **bodies,
        }


STORIES = [Story(number) for number in range(len(CASES))]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return take_in(tmp_path_factory.mktemp("schema") / "lake", (event for story in STORIES for event in story.events))


@pytest.fixture(scope="module")
def reader(lake: Path) -> Iterator[LakeReader]:
    with closing(open_lake(lake)) as opened:
        yield opened


def walk_of(reader: LakeReader, story: Story) -> Walk:
    major, minor = story.case.get("kubernetes_version", (1, 36))
    version = (major, minor)
    given = served_of(story.given(story.case["new"]).definitions, version)
    before = served_of(story.given(story.case["against"]).definitions, version) if "against" in story.case else {}
    return Walk(reader, Window(), given, before, version)


def judged(reader: LakeReader, story: Story) -> dict[str, Judged]:
    return {each.event.audit_id: each for each in walk_of(reader, story).judged()}


def told(found: Judged, story: Story) -> dict[str, Any]:
    """What a case may say of a verdict."""
    outcome, row = found.outcome, row_of(found)
    detail = json.loads(row.detail or "{}")
    follows = found.follows
    return {
        "decision": row.decision,
        "flip": row.flip,
        "code": row.code,
        "why": row.why,
        "message": row.message,
        "rule_ref": row.rule_ref,
        "result": detail["result"],
        "errors": [f"{each['field']}: {each['message']}" for each in detail.get("errors", ())],
        "warnings": [str(each) for each in outcome.warnings],
        "changes": [f"{each.kind} {each.path}" for each in outcome.changes],
        "hidden": detail.get("hidden"),
        "otherwise": detail.get("if_nothing_was_dropped"),
        "further_errors": detail.get("further_errors", False),
        "cascade_of": int(follows.cascade_of.partition("-")[2]) if follows.cascade_of else None,
        "diverged_by": int(follows.diverged_by.partition("-")[2]) if follows.diverged_by else None,
    }


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.case["name"])
def test_a_recorded_write_under_a_new_definition(reader: LakeReader, story: Story) -> None:
    found = judged(reader, story)
    for place, wanted in enumerate(story.case["verdicts"]):
        verdict = found.get(f"{story.number}-{place}")
        if wanted is None:
            assert verdict is None
            continue
        assert verdict is not None
        said = told(verdict, story)
        for name, value in wanted.items():
            if name in ("why", "message", "rule_ref"):
                assert value in (said[name] or ""), said
            elif name in ("errors", "warnings", "changes"):
                assert sorted(said[name]) == sorted(value), said
            else:
                assert said[name] == value, said


def test_shares_hold_what_one_walk_judges(reader: LakeReader) -> None:
    """A share has whole objects, so that a verdict names the earlier ones that it follows from."""
    used, following = set(), 0
    for story in STORIES:
        walk = walk_of(reader, story)
        shares = [[(each.event.audit_id, row_of(each)) for each in walk.judged((number, 3))] for number in range(3)]
        whole = [(each.event.audit_id, row_of(each)) for each in walk.judged()]
        assert sorted((each for share in shares for each in share), key=lambda each: each[0]) == sorted(
            whole, key=lambda each: each[0]
        )
        used |= {number for number, share in enumerate(shares) if share}
        following += sum('"cascade_of": "' in (row.detail or "") for _, row in whole)
    assert used == {0, 1, 2}
    assert following


def test_a_replay_writes_verdicts_and_figures(lake: Path) -> None:
    story = STORIES[0]
    rules = story.given(story.case["new"])
    with closing(open_lake(lake)) as reader:
        plan = SCHEMA.plan(reader, rules, Asked())
        assert (plan.requests, plan.excluded) == (3, ())
        SCHEMA.run(plan, lake, 1, None, RunKind.REPLAY)
        verdicts = RunStore(lake).run(plan.run_id).verdicts
        found = figures(reader, verdicts)
    assert [(each.requests, each.newly_refused, each.ratcheted, each.admitted) for each in found.results] == [(3, 1, 1, 1)]
    assert [(each.field, each.requests) for each in found.fields] == [("spec.shell", 1)]
    assert [(each.user_name, each.requests, each.of_requests) for each in found.writers] == [("alice", 1, 3)]
    again = SCHEMA.plan(open_lake(lake), rules, Asked())
    assert again.run_id == plan.run_id


def test_a_definition_that_an_api_server_refuses_is_named_with_its_line() -> None:
    definition = STORIES[0].definition({"type": "object", "properties": {"spec": {}}})
    given = given_of(manifests_of([("crd.yaml", yaml.safe_dump(definition))]))
    with pytest.raises(InputError, match=r"crd\.yaml:1: the API server refuses thing0s\.lab\.example\.com: .*must not be empty"):
        served_of(given.definitions, (1, 36))


def test_one_kind_is_defined_once() -> None:
    text = yaml.safe_dump(STORIES[0].definition({"type": "object"}))
    with pytest.raises(InputError, match=r"defines thing0s\.lab\.example\.com again"):
        given_of(manifests_of([("a.yaml", text), ("b.yaml", text)]))


def test_readiness_names_the_keyword_that_would_have_to_go(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = STORIES[0]
    files = [tmp_path / "old.yaml", tmp_path / "new.yaml"]
    for file, schema in zip(files, (story.case["old"], story.case["new"]), strict=True):
        file.write_text(yaml.safe_dump(story.definition(schema)))
    assert run(["-q", "--lake", str(lake), "readiness", "-f", str(files[1]), "-o", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    assert (entry["stage"], entry["policy"], entry["status"]) == ("schema", "thing0s.lab.example.com", "NOT READY")
    assert "v1, spec.shell: minLength: it refuses recorded requests (1)" in entry["reasons"]
    assert "without this, no request is newly refused" in entry["reasons"]
    gate = ["-q", "--lake", str(lake), "gate", "-o", "json", "--against"]
    assert run([*gate, str(files[0]), "-f", str(files[1])]) == 1
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    assert (entry["status"], entry["change"]["new"]["requests"]) == ("NEW DENIALS", 1)
    assert run([*gate, str(files[1]), "-f", str(files[1])]) in (0, 3)
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    assert entry["status"] == "NO NEW DENIALS"


def exported(lake: Path, story: Story, folder: Path, *options: str) -> list[dict[str, Any]]:
    file = folder / "new.yaml"
    file.write_text(yaml.safe_dump(story.definition(story.case["new"])))
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(file), "--export", str(folder / "v.parquet"), *options]) == 0
    return sorted(pq.read_table(folder / "v.parquet").to_pylist(), key=lambda row: row["ts"])


def test_an_export_has_the_predicted_objects(lake: Path, tmp_path: Path) -> None:
    story = next(each for each in STORIES if each.case["name"].startswith("a field that the new schema does not know is dropped"))
    changed, same = exported(lake, story, tmp_path, "--with-objects")
    assert json.loads(changed["object"])["spec"] == {"shell": "ls", "retries": 2}
    assert (changed["decision"], same["decision"], same["object"]) == ("change", "admit", None)
    assert [row["object"] for row in exported(lake, story, tmp_path)] == [None, None]


def test_an_export_has_the_warnings_that_the_client_would_get(lake: Path, tmp_path: Path) -> None:
    story = next(
        each for each in STORIES if each.case["name"] == "a rule that is false for an unchanged value is ratcheted with a warning"
    )
    refused, warned = exported(lake, story, tmp_path)
    assert (refused["warnings"], warned["warnings"]) == ([], ["spec.replicas: Invalid value: 9: too many"])


def test_every_request_is_in_one_column_of_the_figures(lake: Path, reader: LakeReader) -> None:
    """Columns that the table shows: a request that the record refuses is not among the admitted or the newly refused ones."""
    story = next(each for each in STORIES if each.case["name"] == "a request that was refused before or after the schema")
    plan = SCHEMA.plan(reader, story.given(story.case["new"]), Asked())
    SCHEMA.run(plan, lake, 1, None, RunKind.REPLAY)
    (found,) = figures(reader, RunStore(lake).run(plan.run_id).verdicts).results
    assert (found.requests, found.still_refused, found.newly_refused, found.admitted) == (9, 9, 0, 0)

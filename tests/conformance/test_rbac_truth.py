"""Every decision that a live server recorded about a request, predicted from its roles and bindings; and roles of the wild.

`../shared/data/control-plane-a`: the audit log and the first snapshot, as in recorded_lake. `../shared/data/rbac-a`: the log of a
story in which roles and bindings change, and the same server's answers under seven sets of roles. The authorizers of both servers
were Node and RBAC. Decisions and reasons are annotations of each event. Where the server's order is not defined, a reason must be
one of the possible ones.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
import zstandard

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.authorization import (
    GivenRbac,
    OtherAuthorizers,
    RbacObjects,
    RecordedRbac,
    answer,
    authorize,
)
from pipeline.authorization.attributes import Recorded as RecordedQuestion
from pipeline.authorization.attributes import RequestInfo, info_of
from pipeline.authorization.recorded import CHANGE_DELAY
from pipeline.cel.library.authorizer import Answer, Attributes
from pipeline.history.event import effective_user
from pipeline.request import GroupVersionResource, UserInfo
from pipeline.requests.past import load_history
from pipeline.runs import RunStore
from pipeline.runs.window import Window
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.recorded import plan_replay_from_log
from queries import open_lake
from tests.recorded_files import rows_of as recorded_rows
from tests.yaml_text import load_yaml

pytestmark = pytest.mark.conformance

DISAGREEMENTS = Path(__file__).parent / "rbac_truth_disagreements.yaml"
DECISION, REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
RESULTS = ("agreed", "one of several reasons", "reason open", "unknown", "listed", "disagreed")
COLUMNS = """
    cluster, audit_id, stage, ts, verb, request_uri, user_name, user_uid, user_groups, user_extra, impersonated_user,
    coalesce(api_group, '') AS api_group, coalesce(api_version, '') AS api_version,
    coalesce(resource, '') AS resource, coalesce(subresource, '') AS subresource,
    coalesce(namespace, '') AS namespace, coalesce(name, '') AS name, annotations
"""


def rows_of(lake: Path) -> list[dict[str, Any]]:
    reader = open_lake(lake)
    rows = reader.arrow(f"SELECT {COLUMNS} FROM events ORDER BY ts, stage").to_pylist()
    reader.close()
    return rows


def asked_by(row: dict[str, Any], has_uri: bool = True) -> Attributes:
    """The question of an event; without its URI, from its objectRef."""
    resource = GroupVersionResource(row["api_group"], row["api_version"], row["resource"])
    place = resource, row["subresource"], row["namespace"], row["name"], dict(row["annotations"]).get(DECISION) == "forbid"
    info = info_of(RecordedQuestion(row["verb"], row["request_uri"] if has_uri else "", *place))
    assert isinstance(info, RequestInfo)
    return info.attributes


def kind_of(user: UserInfo, is_impersonated: bool) -> str:
    if "system:masters" in user.groups:
        kind = "superuser"
    elif user.username.startswith("system:node:"):
        kind = "node"
    elif user.username.startswith("system:serviceaccount:"):
        kind = "service account"
    else:
        kind = "component" if user.username.startswith("system:") else "person"
    return f"{kind}, impersonated" if is_impersonated else kind


class Recorded(NamedTuple):
    """A recorded decision with what it was about."""

    audit_id: str
    ts: datetime
    user: UserInfo
    kind: str
    asked: Attributes
    decision: str
    reason: str

    @classmethod
    def all(cls, lake: Path) -> Iterator[Recorded]:
        for row in rows_of(lake):
            notes = dict(row["annotations"])
            asked, user = asked_by(row), effective_user(row)
            if DECISION in notes:
                kind = kind_of(user, row["impersonated_user"] is not None)
                yield cls(row["audit_id"], row["ts"], user, kind, asked, notes[DECISION], notes[REASON])


def judge(rbac: RecordedRbac, recorded: Recorded, found: Answer) -> str:
    objects = rbac.at("lab", recorded.ts)
    is_node = recorded.kind == "node"
    return compare(objects, recorded.user, recorded.asked, found, recorded.decision == "allow", [recorded.reason], is_node)


def compare(
    objects: RbacObjects, user: UserInfo, asked: Attributes, found: Answer, allowed: bool, reasons: Sequence[str], is_node: bool
) -> str:
    """How an answer of ours compares with the server's, which gave any of these reasons."""
    if found.allowed is None:
        return "unknown"
    if found.allowed != allowed:
        return "disagreed"
    if found.reason is not None:
        return "agreed" if {found.reason} == {*reasons} else "disagreed"
    possible = authorize(objects, user, asked).reasons
    if possible.issuperset(reasons):
        return "one of several reasons"
    return "reason open" if None in possible or is_node else "disagreed"


def history_of(lake: Path, delay: timedelta) -> RecordedRbac:
    reader = open_lake(lake)
    history = load_history(reader, (), Window())
    reader.close()
    return RecordedRbac(history, {"lab": OtherAuthorizers.NODE}, delay)


@pytest.mark.parametrize(("lake", "decisions"), [("recorded_lake", 14_000), ("story_lake", 3_400)])
def test_decisions_and_reasons_are_those_of_the_server(
    lake: str, decisions: int, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    path: Path = request.getfixturevalue(lake)
    rbac = history_of(path, CHANGE_DELAY)
    listed = {entry["audit_id"]: entry["reason"] for entry in load_yaml(DISAGREEMENTS.read_text()) or ()}
    table: dict[str, Counter[str]] = defaultdict(Counter)
    unknown: Counter[str | None] = Counter()
    problems, seen = [], set()
    for recorded in Recorded.all(path):
        found = rbac.authorize("lab", recorded.ts, recorded.user, recorded.asked)
        result = judge(rbac, recorded, found)
        if result == "disagreed" and recorded.audit_id in listed:
            result = "listed"
            seen.add(recorded.audit_id)
        elif result == "disagreed":
            problems.append(f"{recorded}: {found}")
        elif result == "unknown":
            unknown[found.reason] += 1
        table[f"{recorded.kind}, {recorded.decision}"][result] += 1
    with capsys.disabled():
        show(f"recorded decisions, {lake}", table, unknown)
    assert not problems, f"{len(problems)} disagreements:\n" + "\n".join(problems[:10])
    assert seen == listed.keys(), f"these agree although they are listed; take them from {DISAGREEMENTS.name}"
    # No record shows how the Node authorizer decides; few other answers may be unknown.
    others = Counter[str]()
    for kind, counts in table.items():
        others.update({} if kind.startswith("node") else counts)
    assert others.total() > decisions
    assert others["unknown"] + others["reason open"] < 0.01 * others.total()


def show(title: str, table: dict[str, Counter[str]], unknown: Counter[str | None]) -> None:
    print(f"\n{title}\n{'kind of user, decision':40}" + "".join(f"{name:>24}" for name in RESULTS))
    for kind, counts in sorted(table.items()):
        print(f"{kind:40}" + "".join(f"{counts[name]:24}" for name in RESULTS))
    for why, count in unknown.most_common():
        print(f"{count:6} unknown: {why}")


@pytest.mark.parametrize(("lake", "decisions"), [("recorded_lake", 14_000), ("story_lake", 3_400)])
def test_without_a_delay_nothing_is_unknown_and_everything_agrees(
    lake: str, decisions: int, request: pytest.FixtureRequest
) -> None:
    """These servers saw every change at once. The delay is there for those that do not."""
    path: Path = request.getfixturevalue(lake)
    rbac = history_of(path, timedelta())
    found = Counter(
        judge(rbac, recorded, rbac.authorize("lab", recorded.ts, recorded.user, recorded.asked))
        for recorded in Recorded.all(path)
        if not recorded.kind.startswith("node")
    )
    assert (found["unknown"], found["disagreed"], found["reason open"]) == (0, 0, 0)
    assert found["agreed"] > decisions


def test_every_set_of_roles_is_answered_as_the_server_answered(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each question was asked once or three times; then all reasons must be possible."""
    source = shared / "data" / "rbac-a"
    questions = {row["id"]: question(row["spec"]) for row in recorded_rows(source / "tuples.jsonl.zst")}
    sets = {path.name.partition(".")[0]: GivenRbac(json.loads(content(path))["items"]) for path in (source / "sets").iterdir()}
    table: dict[str, Counter[str]] = defaultdict(Counter)
    unknown: Counter[str | None] = Counter()
    problems = []
    for row in recorded_rows(source / "truth.jsonl.zst"):
        user, asked = questions[row["tuple"]]
        objects, is_node = sets[row["set"]], "system:nodes" in user.groups
        found = answer(objects, OtherAuthorizers.NODE, user, asked)
        result = compare(objects, user, asked, found, row["allowed"], row.get("reasons") or [row["reason"]], is_node)
        if result == "disagreed":
            problems.append(f"{row}: {user} {asked}: {found}")
        elif result == "unknown":
            unknown[found.reason] += 1
        table[row["set"]][result] += 1
    with capsys.disabled():
        show("answers under other sets of roles", table, unknown)
    assert not problems, f"{len(problems)} disagreements:\n" + "\n".join(problems[:10])
    counts = sum(table.values(), Counter[str]())
    assert counts.total() == 10_065
    assert len(table) == 7
    assert counts["reason open"] == 0
    assert set(unknown) == {"RBAC does not allow it, and the Node authorizer may"}
    assert counts["unknown"] <= 4 * 26


def content(path: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompress(path.read_bytes(), max_output_size=1 << 28)


def question(spec: dict[str, Any]) -> tuple[UserInfo, Attributes]:
    """The question of a SubjectAccessReview."""
    user = UserInfo(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), spec.get("extra") or {})
    if (path := spec.get("nonResourceAttributes")) is not None:
        return user, Attributes(path.get("verb", ""), path.get("path", ""))
    names = ("group", "resource", "subresource", "namespace", "name")
    asked = spec["resourceAttributes"]
    return user, Attributes(asked.get("verb", ""), "", *(asked.get(name, "") for name in names))


def test_attributes_are_what_the_server_recorded(recorded_lake: Path) -> None:
    """objectRef is filled from the URL; only its name and namespace may come from a body."""
    named_later = 0
    for row in rows_of(recorded_lake):
        asked = asked_by(row)
        assert (asked.group, asked.resource, asked.subresource) == (row["api_group"], row["resource"], row["subresource"])
        assert asked.verb == row["verb"]
        assert asked.namespace in (row["namespace"], "")
        assert asked.name in (row["name"], "")
        assert asked.namespace == row["namespace"] or row["verb"] == "create"
        named_later += asked.name != row["name"]
        assert asked.name == row["name"] or row["verb"] == "create"
    assert named_later > 1000


def test_the_questions_of_the_story_are_those_that_the_server_asked(story_lake: Path, shared: Path) -> None:
    """The user and the attributes of each request, from its event alone; those on resources without the URI, too."""
    source = shared / "data" / "rbac-a"
    questions = {row["id"]: question(row["spec"]) for row in recorded_rows(source / "tuples.jsonl.zst")}
    primary = {row["auditID"]: row["primary"] for row in recorded_rows(source / "events.jsonl.zst") if row["primary"] is not None}
    seen, referring = set(), set()
    for row in rows_of(story_lake):
        if row["audit_id"] in primary and DECISION in dict(row["annotations"]):
            theirs, wanted = questions[primary[row["audit_id"]]]
            asked, user = asked_by(row), effective_user(row)
            assert (user.username, {*user.groups}) == (theirs.username, {*theirs.groups})
            assert asked._replace(field_selector="", label_selector="") == wanted
            seen.add(row["audit_id"])
            if row["resource"]:
                referred = asked_by(row, has_uri=False)
                assert referred._replace(field_selector="", label_selector="") == wanted
                assert (referred.field_selector is None) is (row["verb"] in ("list", "watch", "deletecollection"))
                referring.add(row["audit_id"])
    assert len(seen) > 3_300
    assert len(referring) > 3_000


def test_the_log_tells_that_there_were_no_other_authorizers(recorded_lake: Path) -> None:
    reader = open_lake(recorded_lake)
    plan = plan_replay_from_log(reader)
    assert plan.other_authorizers == (("lab", OtherAuthorizers.NODE),)
    told = plan_replay_from_log(reader, other_authorizers=OtherAuthorizers.ANY)
    reader.close()
    assert told.other_authorizers == (("lab", OtherAuthorizers.ANY),)
    assert told.run_id != plan.run_id


def test_a_policy_that_asks_the_authorizer_is_decided(
    recorded_lake: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = open_lake(recorded_lake)
    plan = plan_replay_from_log(reader)
    reader.close()
    run = run_replay(plan, recorded_lake)
    truth: dict[tuple[str, int | None], set[str]] = defaultdict(set)
    source = shared / "data" / "control-plane-a" / "truth.jsonl.zst"
    for row in recorded_rows(source):
        if row["policy"] == "authz-check":
            truth[row["auditID"], row["expressionIndex"]].add(row["decision"])
    counts: dict[int | None, Counter[str]] = defaultdict(Counter)
    verdicts = pq.read_table(RunStore(recorded_lake).run(run.run_id).verdicts).to_pylist()
    for row in (row for row in verdicts if row["policy"] == "authz-check" and row["binding"] is not None):
        index, decision = row["expression_index"], row["decision"]
        theirs = truth.get((row["audit_id"], index), {"nomatch"})
        is_unknown = decision == "unknown"
        assert is_unknown or decision in theirs, row
        assert "authorizer" not in (row["why"] or ""), "what is unknown is not who was allowed what"
        counts[index]["unknown" if is_unknown else decision] += 1
    with capsys.disabled():
        print("\nauthz-check " + "; ".join(f"{index}: {dict(found)}" for index, found in sorted(counts.items(), key=str)))
    total = sum(counts.values(), Counter[str]())
    assert total["deny"] >= 2
    assert total["admit"] > 700
    assert total["unknown"] < 0.05 * total.total()


def test_roles_of_the_wild_are_read(shared: Path) -> None:
    """From 16 projects. Whoever is bound to a role may do the first thing that its first rule says."""
    lines = (shared / "corpora" / "rbac" / "roles.jsonl").read_text(encoding="utf-8").splitlines()
    objects = [json.loads(line)["object"] for line in lines]
    assert len(objects) == 1014
    GivenRbac(objects)
    tried = 0
    for role in (value for value in objects if value["kind"] == "ClusterRole" and value.get("rules")):
        rule, name = role["rules"][0], role["metadata"]["name"] or ""
        if not all(rule.get(part) for part in ("verbs", "apiGroups", "resources")):
            continue
        reference = {"kind": "ClusterRole", "name": name}
        binding = {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "b"},
            "roleRef": reference,
            "subjects": [{"kind": "User", "name": "u"}],
        }
        resource, _, subresource = rule["resources"][0].partition("/")
        first = (rule.get("resourceNames") or [""])[0]
        asked = Attributes(rule["verbs"][0], "", rule["apiGroups"][0], resource, subresource, "", first)
        found = answer(GivenRbac([role, binding]), OtherAuthorizers.NONE, UserInfo("u"), asked)
        assert found == Answer(True, f'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "{name}" to User "u"')
        assert not answer(GivenRbac([role]), OtherAuthorizers.NONE, UserInfo("u"), asked).allowed
        tried += 1
    assert tried > 400


def test_old_events_without_decisions_are_read(shared: Path, tmp_path: Path) -> None:
    """Of 2017: no annotations, so that nothing is known of the cluster's authorizers, nor of its roles."""
    lake = Lake.create(tmp_path / "lake")
    ingest_files(lake, [shared / "corpora" / "audit2rbac" / "testdata" / "demo.log"], "old", received_ts=0.0)
    lake.close()
    rows = rows_of(lake.path)
    assert len(rows) == 37
    reader = open_lake(lake.path)
    rbac = RecordedRbac(load_history(reader, (), Window()))
    reader.close()
    for row in rows:
        asked, user = asked_by(row), effective_user(row)
        found = rbac.authorize("old", row["ts"], user, asked)
        assert found.allowed is (True if "system:masters" in user.groups else None)

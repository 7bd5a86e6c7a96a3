"""Role changes over the recorded story of `../shared/data/rbac-a`, held against the answers of the live server.

The server answered the question of each request under other sets of roles. So a replay of these sets must refuse exactly the
requests that the server says it would refuse. Further permissions of a request show in its outcome and in a refusal's message.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
import zstandard

from pipeline.authorization import OtherAuthorizers, RecordedRbac, attributes_of
from pipeline.authorization.covering import atoms
from pipeline.authorization.documents import rules_from_object
from pipeline.authorization.rbac import Rule
from pipeline.authorization.recorded import RbacAt
from pipeline.cel.library.authorizer import Attributes
from pipeline.history.event import Event
from pipeline.requests.past import load_history
from pipeline.runs.verdict import Flip
from pipeline.runs.window import Window
from pipeline.stages.authorization import Need, NeedKind, identity_of, meet, needs_of, refusal_of
from pipeline.stages.authorization.asked import asked_questions
from pipeline.stages.authorization.judging import Recorded, judge, recorded_of
from pipeline.stages.authorization.least import LeastOptions, least_rules
from pipeline.stages.authorization.overlay import Proposal
from pipeline.stages.authorization.stacks import Stack, isolation
from pipeline.stages.authorization.used_rights import was_allowed
from queries import open_lake
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance

SETS = ("after", "least", "mistakes", "tightened")
VERSION = (1, 36)


class Judgeable(NamedTuple):
    """A recorded request with what judging it needs."""

    event: Event
    recorded: Recorded
    needs: tuple[Need, ...]
    ground: RbacAt


@pytest.fixture(scope="module")
def requests(story_lake: Path) -> list[Judgeable]:
    """Every request of the story. The server saw each change at once, so no delay is assumed."""
    reader = open_lake(story_lake)
    rows = reader.arrow("SELECT * FROM events WHERE stage IN ('ResponseComplete', 'Panic') ORDER BY ts, stage_ts").to_pylist()
    history = load_history(reader, (), Window())
    reader.close()
    rbac = RecordedRbac(history, {"lab": OtherAuthorizers.NODE}, timedelta())
    found = []
    for row in rows:
        event = Event.from_row(row)
        needs = needs_of(event, identity_of(row), history.versions, VERSION)
        found.append(Judgeable(event, recorded_of(event), needs, rbac.at("lab", event.ts)))
    return found


def test_further_permissions_are_those_of_the_record(requests: list[Judgeable], capsys: pytest.CaptureFixture[str]) -> None:
    table: dict[NeedKind, Counter[str]] = defaultdict(Counter)
    problems = []
    for request in requests:
        refused = refusal_of(request.event)
        for need in request.needs:
            if refused is not None and refused.precedes(need.kind):
                continue  # the server did not come to ask
            met = meet(need, request.ground, OtherAuthorizers.NODE)
            wanted = refused is not need.kind
            result = "unknown" if met.allowed is None else "agreed" if met.allowed == wanted else "disagreed"
            if need.kind is NeedKind.GRANT and met.allowed is False and not request.event.message.endswith(f": {met.reason}"):
                result = "disagreed"
            table[need.kind][f"{'given' if wanted else 'refused'}, {result}"] += 1
            if result == "disagreed":
                problems.append(f"{request.event.audit_id} {need.kind}: {met}; {request.event.message}")
    with capsys.disabled():
        print("\npermissions of recorded requests")
        for kind, counts in table.items():
            print(f"{kind:14}" + "; ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    assert not problems, f"{len(problems)} disagreements:\n" + "\n".join(problems[:10])
    assert table[NeedKind.GRANT] == {"given, agreed": 292, "refused, agreed": 23}
    assert table[NeedKind.CONNECT]["refused, agreed"] == 5
    assert table[NeedKind.SIGNER]["refused, agreed"] == 26
    assert table[NeedKind.IMPERSONATION]["given, agreed"] >= 15
    assert table[NeedKind.IMPERSONATION]["refused, agreed"] >= 140


@pytest.mark.parametrize("name", SETS)
def test_a_set_of_roles_refuses_what_the_server_would_refuse(name: str, requests: list[Judgeable], shared: Path) -> None:
    source = shared / "data" / "rbac-a"
    truth = {row["tuple"]: row["allowed"] for row in rows_of(source / "truth.jsonl.zst") if row["set"] == name}
    primary = {row["auditID"]: row["primary"] for row in rows_of(source / "events.jsonl.zst") if row["primary"] is not None}
    packed = (source / "sets" / f"{name}.json.zst").read_bytes()
    items = json.loads(zstandard.ZstdDecompressor().decompress(packed, max_output_size=1 << 28))["items"]
    proposal = Proposal.from_objects(((value, name) for value in items), is_only=True)
    found: Counter[tuple[bool, bool | None]] = Counter()
    for request in requests:
        if request.event.audit_id not in primary:
            continue
        own = [need for need in request.needs if need.kind is NeedKind.REQUEST]
        recorded = request.recorded
        if recorded.refused not in (None, NeedKind.REQUEST):
            recorded = Recorded(True, recorded.reason)  # the request itself was allowed
        judged = judge(own, recorded, proposal.over(request.ground), OtherAuthorizers.NODE)
        found[truth[primary[request.event.audit_id]], judged.allowed] += 1
    assert set(found) == {(True, True), (False, False)}, "nothing is unknown, because every request has a recorded decision"
    assert found.total() > 3_300


def test_no_files_change_nothing(requests: list[Judgeable]) -> None:
    nothing = Proposal.from_objects(())
    flips = Counter(
        judge(request.needs, request.recorded, nothing.over(request.ground), OtherAuthorizers.NODE).flip for request in requests
    )
    assert set(flips) == {Flip.SAME, Flip.STILL_DENIED}
    assert flips.total() == len(requests)


def test_the_least_roles_are_those_of_the_recording(story_lake: Path, shared: Path) -> None:
    """The set `least` holds the exact rights of 25 subjects, but no names for lists, watches and creates. Ours have names there."""
    source = shared / "data" / "rbac-a"
    packed = (source / "sets" / "least.json.zst").read_bytes()
    items = json.loads(zstandard.ZstdDecompressor().decompress(packed, max_output_size=1 << 28))["items"]
    subjects = json.loads((source / "counts.json").read_text())["leastSubjects"]
    assert len(subjects) == 25
    options = LeastOptions(names_max=10**6, counts_on_defaults=False)
    reader = open_lake(story_lake)
    for subject in subjects:
        found = [each for each in asked_questions(reader, user=subject) if each.identity.user.username == subject]
        used = [attributes_of(each.event) for each in found if was_allowed(each)]
        ours = least_rules((asked for asked in used if isinstance(asked, Attributes)), options)
        theirs = [
            (item["metadata"].get("namespace", ""), rules_from_object(item))
            for item in items
            if item["metadata"]["name"] == f"least-{subject.replace(':', '-')}" and "rules" in item
        ]
        assert unnamed(ours.items()) == unnamed(theirs), subject
    reader.close()


def unnamed(rules: Iterable[tuple[str, Iterable[Rule]]]) -> set[tuple[str, Rule]]:
    """The rights with their namespaces, without the names of reads and creates, and without rights that others cover."""
    found = {
        (namespace, atom._replace(names=() if atom.verbs[0] in ("list", "watch", "create") else atom.names))
        for namespace, own in rules
        for atom in atoms(own)
    }
    return {
        (namespace, atom)
        for namespace, atom in found
        if not (namespace and ("", atom) in found) and not (atom.names and (namespace, atom._replace(names=())) in found)
    }


def test_requests_of_stacks_go_where_the_recording_says(story_lake: Path, shared: Path) -> None:
    """Each request of the three stack controllers: inside, attempt, breach, exempt, or of a stack of the whole cluster."""
    source = shared / "data" / "rbac-a" / "stacks"
    truth = Counter((row["serviceAccount"], row["class"]) for row in rows_of(source / "truth.jsonl.zst"))
    found: Counter[tuple[str, str]] = Counter()
    reader = open_lake(story_lake)
    for profile in json.loads((source / "profiles.json").read_text()).values():
        if profile["serviceAccount"] is None:
            continue
        stack = Stack("", profile["permissionScope"], (), (), profile["namespace"], profile["serviceAccount"])
        for each in isolation(asked_questions(reader, user=stack.user), stack):
            found[stack.user, str(each.place)] += each.question.requests
    reader.close()
    assert found == truth
    assert found.total() == 480

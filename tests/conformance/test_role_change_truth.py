"""Role changes over the recorded story of `../shared/data/rbac-a`, held against the answers of the live server.

The server answered the question of each request under other sets of roles. So a replay of these sets must refuse exactly the
requests that the server says it would refuse. Further permissions of a request show in its outcome and in a refusal's message.
"""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard

from pipeline.authorization import OtherAuthorizers, RecordedRbac
from pipeline.authorization.recorded import RbacAt
from pipeline.history.event import Event
from pipeline.replay import Window
from pipeline.replay.past import load_history
from pipeline.stages.authorization import Need, NeedKind, identity_of, meet, needs_of, refusal_of
from pipeline.stages.authorization.judging import Flip, Recorded, judge, recorded_of
from pipeline.stages.authorization.overlay import Proposal
from queries import open_lake

pytestmark = pytest.mark.conformance

SETS = ("after", "least", "mistakes", "tightened")
VERSION = (1, 36)


class Judgeable(NamedTuple):
    """A recorded request with what judging it needs."""

    event: Event
    recorded: Recorded
    needs: tuple[Need, ...]
    ground: RbacAt


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        yield from map(json.loads, io.TextIOWrapper(stream, "utf-8"))


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
    problems, order = [], list(NeedKind)
    for request in requests:
        refused = refusal_of(request.event)
        for need in request.needs:
            if refused is not None and order.index(refused) < order.index(need.kind):
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


@pytest.mark.parametrize("name", SETS)
def test_a_set_of_roles_refuses_what_the_server_would_refuse(name: str, requests: list[Judgeable], shared: Path) -> None:
    source = shared / "data" / "rbac-a"
    truth = {row["tuple"]: row["allowed"] for row in lines_of(source / "truth.jsonl.zst") if row["set"] == name}
    primary = {row["auditID"]: row["primary"] for row in lines_of(source / "events.jsonl.zst") if row["primary"] is not None}
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
    assert set(flips) == {Flip.STILL_ALLOWED, Flip.STILL_DENIED}
    assert flips.total() == len(requests)

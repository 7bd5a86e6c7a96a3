"""A watch over a lake that grows: it counts and reports nothing twice, and compaction changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from api.commands.demo import stretched
from ingest.errors import InputError
from ingest.lake import Lake
from ingest.maintain import compact
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline.manifests.writing import to_yaml
from pipeline.readiness import ledger, readiness
from pipeline.readiness.ledger import STRETCH
from pipeline.readiness.model import Fidelity, Status
from pipeline.readiness.rules import ReadinessRules
from pipeline.readiness.watching import Cursor, FirstDenial, Watch, watched_digest
from pipeline.stages.registry import VALIDATING
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import load_policy_set, parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from pipeline.stages.validating.written import read_of
from queries import open_lake
from tests.recording import START, deployment, recorded, take_in

DEMO = Path(__file__).parents[3] / "api" / "demo"
BUNDLED = ("image-registry", "deny-external-ips")
EXPOSED = ("requests_matched", "requests_excused", "units_judged", "users_judged", "weekdays", "first_ts", "last_ts")
DENIED = ("requests", "units", "users", "namespaces", "unit_rate_upper", "user_rate_upper")
RULES = ReadinessRules(matched_units_min=3, days_min=0, weekdays_min=1)
POLICIES = parse_policy_set(
    [
        (
            "limit",
            """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: object.spec.replicas <= 5, message: too many}]
""",
        )
    ]
)
KEY = ("limit", None)


class Growing:
    """A lake, a watch over it, and what the watch has told; `arrive` adds Deployments, one per (minute, name, replicas)."""

    def __init__(self, folder: Path) -> None:
        self._batches = 0
        Lake.create(folder / "lake").close()
        self.path = folder / "lake"
        self.told: list[FirstDenial] = []
        self.kept: list[str] = []
        self.reader = open_lake(self.path, threads=1)
        self.watch = Watch(self.reader, self.path, [(VALIDATING, POLICIES)], (1, 36), RULES)
        self.digest = watched_digest(to_yaml(read_of(POLICIES)), (1, 36))
        self.cursor = Cursor(self.digest)

    def arrive(self, *requests: tuple[float, str, int]) -> None:
        self._batches += 1
        events = [
            recorded(f"{self._batches}-{number}", START + timedelta(minutes=minute), "create", deployment(name, replicas))
            for number, (minute, name, replicas) in enumerate(requests)
        ]
        take_in(self.path, events, f"{self._batches}.jsonl")

    def look(self) -> list[str]:
        """The audit IDs of the first denials that this look told."""
        before = len(self.told)
        assert self.watch.look(self.cursor, self.told.append, lambda cursor: self.kept.append(cursor.to_json()))
        return [news.audit_id for news in self.told[before:]]

    @property
    def status(self) -> Status:
        return self.watch.status(self.cursor, KEY)[0]

    @property
    def requests(self) -> dict[str, int]:
        return dict(self.cursor.accounts[KEY].total.requests)

    def resume(self) -> None:
        """Go on from the kept cursor, as after a restart."""
        self.cursor = Cursor.of_json(self.kept[-1], "kept", self.digest)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Growing]:
    growing = Growing(tmp_path)
    yield growing
    growing.reader.close()


def test_the_first_denial_of_a_clean_policy_is_told_once(lake: Growing) -> None:
    assert lake.look() == []
    assert lake.status is Status.INSUFFICIENT_EVIDENCE
    lake.arrive((0, "a", 1), (1, "b", 1), (2, "c", 1))
    assert lake.look() == []
    assert lake.status is Status.READY
    lake.arrive((30, "d", 9), (31, "e", 9))
    assert lake.look() == ["2-0"]
    (news,) = lake.told
    assert (news.was, news.workload, news.user, news.message) == (Status.READY, "Deployment/d", "alice", "too many")
    assert lake.status is Status.NOT_READY
    lake.arrive((40, "f", 9))
    assert lake.look() == []
    assert lake.requests == {"admit": 3, "deny": 3}
    reason = lake.watch.status(lake.cursor, KEY)[1][0]
    assert reason == "3 of 6 judged requests (50.0%) would have been denied, from 3 workloads, 1 user and 1 namespace"
    assert lake.look() == []
    # The replays of single stretches leave nothing behind.
    assert list((lake.path / "runs").iterdir()) == []


def test_denials_of_the_first_look_are_no_news(lake: Growing) -> None:
    lake.arrive((0, "a", 9))
    assert lake.look() == []
    assert lake.status is Status.NOT_READY


def test_a_stretch_that_grows_is_counted_once(lake: Growing) -> None:
    for number in range(4):
        lake.arrive((number, f"n{number}", 1), (5 - number / 2, f"m{number}", 1))
        lake.look()
    assert lake.requests == {"admit": 8}
    assert len(lake.cursor.digests) == 1


def test_a_request_without_a_time_of_receipt_has_that_of_its_stage(lake: Growing) -> None:
    event = recorded("timeless", START, "create", deployment("a", 9))
    del event["requestReceivedTimestamp"]
    take_in(lake.path, [event], "timeless.jsonl")
    lake.look()
    assert lake.requests == {"deny": 1}
    lake.arrive((1, "a", 9))
    lake.look()
    assert lake.requests == {"deny": 2}


def test_late_events_are_taken_in_where_they_belong(lake: Growing) -> None:
    lake.arrive((0, "a", 1), (100, "b", 1))
    lake.look()
    lake.arrive((50, "late", 9))
    assert lake.look() == ["2-0"]
    assert lake.requests == {"admit": 2, "deny": 1}


def test_a_denial_that_late_events_take_back_is_none(lake: Growing) -> None:
    """The counts and names of a stretch go when it is judged again."""
    lake.arrive((0, "a", 1), (5, "d", 9))
    lake.look()
    assert lake.watch.figures(lake.cursor, KEY).denials.units == 1
    lake.cursor.accounts[KEY].forget([START.isoformat()])
    denials = lake.watch.figures(lake.cursor, KEY).denials
    assert (denials.requests, denials.units, denials.users, denials.namespaces) == (0, 0, 0, 0)


def test_a_rule_on_releases_is_beyond_a_watch(lake: Growing) -> None:
    lake.arrive((0, "a", 1), (1, "b", 1), (2, "c", 1))
    lake.look()
    figures = lake.watch.figures(lake.cursor, KEY)
    status, reasons = figures.decide(Fidelity(), replace(RULES, release_cycles_min=1))
    assert (status, reasons) == (Status.INSUFFICIENT_EVIDENCE, (ledger.NO_RELEASES,))


def test_critical_subjects_count_as_in_a_report(lake: Growing) -> None:
    lenient = replace(RULES, denied_units_max=9, break_glass_users=("alice",))
    lake.watch = replace(lake.watch, rules=lenient)
    lake.arrive((0, "a", 1), (1, "b", 1), (2, "c", 9))
    lake.look()
    status, reasons = lake.watch.status(lake.cursor, KEY)
    assert (status, reasons[0]) == (
        Status.NOT_READY,
        "critical subjects would have been denied: break-glass user alice (1 request)",
    )


def test_a_watch_counts_what_a_report_counts(tmp_path: Path) -> None:
    """Three weeks of the bundled log in two parts: in the end as many of all as a report finds at once."""
    path, policies = tmp_path / "lake", load_policy_set([DEMO / "policies" / f"{name}.yaml" for name in BUNDLED])
    store = Lake.create(path)
    ingest_snapshot(store, [DEMO / "snapshot"], "demo", START - timedelta(weeks=12))
    reader, cursor = open_lake(path), Cursor("digest")
    watch = Watch(reader, path, [(VALIDATING, policies)], (1, 36), ReadinessRules())
    lines = list(stretched(DEMO / "audit.jsonl.zst", 6_520.0))
    for number in range(2):
        piece = tmp_path / f"{number}.jsonl"
        piece.write_bytes(b"".join(lines[number * len(lines) // 2 : (number + 1) * len(lines) // 2]))
        ingest_files(store, [piece], "demo", received_ts=0.0)
        assert watch.look(cursor, lambda news: None, lambda cursor: None)
    store.close()
    plan = plan_replay(reader, policies)
    report = readiness(path, plan, run_replay(plan, path), calibrate=False, exemptions=False)
    for entry in report.policies:
        counted = watch.figures(cursor, (entry.policy, entry.binding))
        assert _of(counted.exposure, EXPOSED) == _of(entry.exposure, EXPOSED)
        # A watch does not judge earlier requests again when later events tell more about them.
        assert 0 <= counted.exposure.requests_unknown - entry.exposure.requests_unknown < 10
        assert _of(counted.denials, DENIED) == _of(entry.denials, DENIED)
        assert counted.critical == {(row.kind, row.subject): row.denied for row in entry.critical if row.denied}
    reader.close()


def _of(figures: object, names: tuple[str, ...]) -> dict[str, object]:
    return {name: getattr(figures, name) for name in names}


def test_compaction_is_no_news(lake: Growing) -> None:
    for number in range(3):
        lake.arrive((number, f"n{number}", 1))
        lake.look()
    kept = lake.cursor.digests.copy()
    files = lake.cursor.files.copy()
    store = Lake.open(lake.path)
    with store.writer() as writer:
        compact(writer, now_ts=2e9, files_min=2)
    store.close()
    assert lake.look() == []
    assert lake.cursor.files != files
    assert (lake.cursor.digests, lake.requests) == (kept, {"admit": 3})


def test_a_watch_goes_on_where_it_stopped(lake: Growing) -> None:
    lake.arrive((0, "a", 1), (1, "b", 1), (2, "c", 1))
    lake.look()
    lake.resume()
    lake.arrive((60, "d", 9))
    assert lake.look() == ["2-0"]
    lake.resume()
    assert lake.look() == []
    assert (lake.requests, lake.status) == ({"admit": 3, "deny": 1}, Status.NOT_READY)


def test_what_was_interrupted_is_told_again_and_counted_once(lake: Growing) -> None:
    lake.arrive((0, "a", 1))
    lake.look()
    lake.arrive((60, "d", 9), (120, "e", 1))

    def interrupt(news: FirstDenial) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.watch.look(lake.cursor, interrupt, lambda cursor: None)
    lake.resume()
    assert lake.look() == ["2-0"]
    assert lake.requests == {"admit": 2, "deny": 1}


def test_old_stretches_are_only_summed_up(lake: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.readiness.watching.STRETCHES_MAX", 2)
    minutes = STRETCH.total_seconds() / 60
    lake.arrive(*((number * minutes, f"n{number}", 1) for number in range(5)))
    lake.look()
    assert len(lake.cursor.digests) == 2
    assert lake.requests == {"admit": 5}
    lake.arrive((1, "too-late", 9), (4 * minutes + 1, "new", 1))
    assert lake.look() == []
    assert lake.requests == {"admit": 6}


def test_workloads_are_kept_up_to_a_number(lake: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "NAMES_MAX", 2)
    lake.arrive(*((number, f"n{number}", 1) for number in range(5)))
    lake.look()
    assert len(lake.cursor.accounts[KEY].units) == 2


@pytest.mark.parametrize("text", ["", "[]", '{"format": 3, "policies": "x"}'])
def test_a_file_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a cursor of a watch"):
        Cursor.of_json(text, "here", "x")


def test_a_cursor_of_other_policies_begins_anew(lake: Growing) -> None:
    lake.arrive((0, "a", 1))
    lake.look()
    assert Cursor.of_json(lake.kept[-1], "here", "others").is_new

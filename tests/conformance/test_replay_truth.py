"""The policies that were bound at the time, replayed from the log and one snapshot at most, against what the server decided.

`../shared/data/control-plane-a`: audit.jsonl.zst and snapshots/1-before-policies go into a lake, once the log with only the last
snapshot, and once the log without any; truth.jsonl.zst has what the live control plane decided. Every row that the replay does not
call unknown is compared: decision, effect, message, reason and audit annotations. How many true rows are judged is asserted too,
and the test prints the others with their reasons.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.runs import RunStore, RunSummary
from pipeline.stages.validating.compare import compare_with_log, disagreements
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.recorded import plan_replay_from_log
from queries import open_lake
from tests.recorded_files import rows_of
from tests.yaml_text import load_yaml

pytestmark = pytest.mark.conformance

DISAGREEMENTS = Path(__file__).parent / "replay_truth_disagreements.yaml"

Key = tuple[str, str | None, str | None, str | None, int | None]
Facts = dict[str, Any]
# What a row says, by pass: most requests have one.
Passes = dict[int, dict[Key, Facts]]


def recorded(folder: Path) -> dict[str, Passes]:
    """What the server decided, by auditID and pass."""
    found: dict[str, Passes] = defaultdict(lambda: defaultdict(dict))
    for row in rows_of(folder / "truth.jsonl.zst"):
        param = row["param"] or {}
        key = (row["policy"], row["binding"], param.get("namespace"), param.get("name"), row["expressionIndex"])
        facts = {name: row.get(name) or None for name in ("decision", "effect", "message", "reason")}
        found[row["auditID"]][row["pass"]][key] = {**facts, "annotations": row.get("auditAnnotations") or {}}
    return found


def replayed(verdicts: Path) -> dict[str, Passes]:
    """What the replay says, in the form of the truth.

    That gives a decision which stands for all expressions to the expression 0, as the server's annotation does, and keeps errors of
    audit annotations apart from the decision on the whole.
    """
    found: dict[str, Passes] = defaultdict(lambda: defaultdict(dict))
    for row in pq.read_table(verdicts).to_pylist():
        whole = (row["policy"], row["binding"], row["param_namespace"], row["param_name"])
        facts = {name: row[name] for name in ("decision", "effect", "message", "reason", "why", "evidence")}
        facts["annotations"] = dict(row["audit_annotations"])
        rows = found[row["audit_id"]][row["pass"]]
        rows[(*whole, row["expression_index"])] = facts
        why = row["why"] or ""
        if row["expression_index"] is None and row["decision"] == "error":
            if why.startswith("auditAnnotation "):
                facts["is_annotation_error"] = True
            elif why.startswith(("matchConditions", "validations")):
                rows[(*whole, 0)] = dict(facts)
                facts["message"] = None
    return found


def replay_of(lake: Path) -> RunSummary:
    reader = open_lake(lake)
    plan = plan_replay_from_log(reader)
    reader.close()
    return run_replay(plan, lake)


@pytest.fixture(scope="module")
def run(recorded_lake: Path) -> RunSummary:
    return replay_of(recorded_lake)


@pytest.fixture(scope="module")
def truth(shared: Path) -> dict[str, Passes]:
    return recorded(shared / "data" / "control-plane-a")


class Listed:
    """The disagreements that are known, each with its reason. One that is no longer there fails the run."""

    def __init__(self) -> None:
        entries = load_yaml(DISAGREEMENTS.read_text())
        self._reasons = {
            (entry["policy"], expression, audit_id): str(entry["reason"])
            for entry in entries
            for expression in entry["expressions"]
            for audit_id in entry["audit_ids"]
        }
        self.found: Counter[str] = Counter()
        self._seen: set[tuple[str, int | None, str]] = set()

    def explains(self, audit_id: str, key: Key) -> bool:
        place = (key[0], key[4], audit_id)
        if place not in self._reasons:
            return False
        self._seen.add(place)
        self.found[self._reasons[place]] += 1
        return True

    def unused(self) -> set[tuple[str, int | None, str]]:
        return self._reasons.keys() - self._seen


class Comparison:
    """Rows agreed, disagreed and unknown, by policy and operation; and of the true rows how many are judged."""

    def __init__(self, requests: Mapping[str, tuple[str, str]], listed: Listed) -> None:
        self.requests = requests  # by audit_id: the operation, and why the plan is not sure of it
        self.listed = listed
        self.counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.evidence: Counter[str] = Counter()
        self.judged = 0
        self.unjudged: Counter[str] = Counter()
        self.problems: list[str] = []

    def all(self, ours: Mapping[str, Passes], theirs: Mapping[str, Passes]) -> Comparison:
        for audit_id, passes in ours.items():
            self.request(audit_id, passes, theirs.get(audit_id, {}))
        for audit_id, true_passes in theirs.items():
            for key in (key for rows in true_passes.values() for key in rows):
                why = self._why_unjudged(audit_id, key, ours.get(audit_id))
                self.judged += why is None
                self.unjudged.update([] if why is None else [why])
        return self

    def _why_unjudged(self, audit_id: str, key: Key, passes: Passes | None) -> str | None:
        if passes is None:
            operation, why = self.requests.get(audit_id, ("?", "the log has no such event"))
            return f"{operation}: {why}"
        rows = [rows[found] for rows in passes.values() for found in rows if _covers(found, key)]
        unknown = next((facts for facts in rows if facts["decision"] == "unknown"), None)
        if any(facts["decision"] != "unknown" for facts in rows) or unknown is None:
            return None
        return _shape(unknown["why"])

    def request(self, audit_id: str, ours: Passes, theirs: Passes) -> None:
        """The server's passes of one request replace each other: any is taken. Ours are the objects of a deletecollection."""
        candidates = list(theirs.values()) or [{}]
        for rows in ours.values():
            undecided = [key for key, facts in rows.items() if facts["decision"] == "unknown"]
            missing = set().union(*candidates) - rows.keys() if len(ours) == 1 else set()
            for key in sorted(rows.keys() | missing, key=str):
                if key in rows or not any(_covers(other, key) for other in undecided):
                    self._row(audit_id, key, rows.get(key), [candidate.get(key) for candidate in candidates])

    def _row(self, audit_id: str, key: Key, ours: Facts | None, theirs: list[Facts | None]) -> None:
        counts = self.counts[key[0], self.requests.get(audit_id, ("?", ""))[0]]
        if ours is not None and ours["decision"] == "unknown":
            counts["unknown"] += 1
        elif any(_agrees(ours, their) for their in theirs):
            counts["agreed"] += 1
            self.evidence.update([ours["evidence"]] if ours else [])
        elif self.listed.explains(audit_id, key):
            counts["listed"] += 1
        else:
            counts["disagreed"] += 1
            self.problems.append(f"{audit_id} {key}: {ours} and not {theirs}")


def _covers(ours: Key, theirs: Key) -> bool:
    """Whether a row of ours speaks of what a row of the truth does: one without param or expression speaks for all of them."""
    if ours[0] != theirs[0] or (ours[1] != theirs[1] and None not in (ours[1], theirs[1])):
        return False
    return ours == theirs or ours[4] is None


def _agrees(ours: Facts | None, theirs: Facts | None) -> bool:
    if ours is None or theirs is None:
        # The replay has rows for what no selector or binding meant, the truth only for some of these.
        return (ours or theirs or {"decision": "nomatch"})["decision"] == "nomatch"
    if ours.get("is_annotation_error"):
        # The truth keeps these apart from the decision on the whole, which the rows of the expressions show.
        return True
    if not (ours["why"] or "").startswith("auditAnnotation ") and ours["annotations"] != theirs["annotations"]:
        return False
    return all(ours[name] == theirs[name] for name in ("decision", "effect", "message", "reason"))


def _shape(why: str) -> str:
    """A reason without what is particular to one request."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z|(?<=example\.com )[a-z-]+|(?<=configmaps )\S+", "...", why)


def test_log_and_snapshot_give_the_decisions_of_the_server(
    run: RunSummary, recorded_lake: Path, truth: dict[str, Passes], capsys: pytest.CaptureFixture[str]
) -> None:
    listed = Listed()
    result = compared(recorded_lake, run, truth, listed)
    with capsys.disabled():
        _print("log and first snapshot", result)
    assert not result.problems, f"{len(result.problems)} disagreements:\n" + "\n".join(result.problems[:10])
    assert not listed.unused(), f"these agree although they are listed; take them from {DISAGREEMENTS.name}"
    assert result.judged >= 0.99 * (result.judged + result.unjudged.total())


def test_the_log_alone_gives_no_wrong_decision(
    log_alone_lake: Path, truth: dict[str, Passes], capsys: pytest.CaptureFixture[str]
) -> None:
    result = compared(log_alone_lake, replay_of(log_alone_lake), truth, Listed())
    with capsys.disabled():
        _print("log alone", result)
    assert not result.problems, f"{len(result.problems)} disagreements:\n" + "\n".join(result.problems[:10])
    assert result.judged >= 0.95 * (result.judged + result.unjudged.total())


def test_the_last_snapshot_tells_nearly_as_much_as_the_first(
    run: RunSummary,
    recorded_lake: Path,
    last_snapshot_lake: Path,
    truth: dict[str, Passes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = compared(last_snapshot_lake, replay_of(last_snapshot_lake), truth, Listed())
    with capsys.disabled():
        _print("log and last snapshot", result)
    assert not result.problems, f"{len(result.problems)} disagreements:\n" + "\n".join(result.problems[:10])
    first = compared(recorded_lake, run, truth, Listed())
    rows = result.judged + result.unjudged.total()
    assert 100 * (first.judged - result.judged) < 0.5 * rows


def compared(lake: Path, run: RunSummary, truth: dict[str, Passes], listed: Listed) -> Comparison:
    reader = open_lake(lake)
    rows = reader.sql("SELECT audit_id, operation, ran_reason FROM admission_writes").fetchall()
    reader.close()
    requests = {audit_id: (operation, why) for audit_id, operation, why in rows}
    return Comparison(requests, listed).all(replayed(RunStore(lake).run(run.run_id).verdicts), truth)


def test_the_replay_agrees_with_what_the_log_recorded(run: RunSummary, recorded_lake: Path) -> None:
    reader = open_lake(recorded_lake)
    agreements = compare_with_log(reader, RunStore(recorded_lake).run(run.run_id).verdicts)
    assert disagreements(reader).fetchall() == []
    assert sum(item.compared for item in agreements) > 6_500
    notes = {item.policy: (item.annotations_agreed, item.annotations_compared) for item in agreements}
    assert all(agreed == compared for agreed, compared in notes.values())
    assert sum(compared for _, compared in notes.values()) > 1_600


def _print(title: str, result: Comparison) -> None:
    total: Counter[str] = Counter()
    columns = ("agreed", "listed", "disagreed", "unknown")
    print(f"\ncontrol-plane-a, {title}\n{'policy':24} {'operation':10}" + "".join(f"{name:>11}" for name in columns))
    for (policy, operation), counts in sorted(result.counts.items()):
        print(f"{policy:24} {operation:10}" + "".join(f"{counts[name]:11}" for name in columns))
        total.update(counts)
    print(f"{'all':24} {'':10}" + "".join(f"{total[name]:11}" for name in columns))
    print("agreed, by evidence: " + ", ".join(f"{name} {count:,}" for name, count in sorted(result.evidence.items())))
    rows = result.judged + result.unjudged.total()
    print(f"true rows judged: {result.judged:,} of {rows:,}, {100 * result.judged / rows:.2f} %; the others:")
    for reason, count in result.unjudged.most_common():
        print(f"{count:6} {reason[:150]}")
    for reason, count in result.listed.found.most_common():
        print(f"{count:6} listed: {reason}")

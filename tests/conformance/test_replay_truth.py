"""The policies that were bound at the time, replayed from the log and the first snapshot alone, against what the server decided.

`../shared/data/control-plane-a`: audit.jsonl.zst and snapshots/1-before-policies go into a lake; truth.jsonl.zst has what the live
control plane decided. Every row that the replay does not call unknown is compared: decision, effect, message and reason.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
import zstandard

from pipeline.replay import RunSummary, compare_with_log, disagreements, plan_replay_from_log, run_replay, runs_folder
from queries import open_lake

pytestmark = pytest.mark.conformance

DISAGREEMENTS = Path(__file__).parent / "replay_truth_disagreements.yaml"

Key = tuple[str, str | None, str | None, str | None, int | None]
Facts = dict[str, Any]
# What a row says, by pass: most requests have one.
Passes = dict[int, dict[Key, Facts]]


def read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        for line in io.TextIOWrapper(stream, "utf-8"):
            yield json.loads(line)


def recorded(folder: Path) -> dict[str, Passes]:
    """What the server decided, by auditID and pass."""
    found: dict[str, Passes] = defaultdict(lambda: defaultdict(dict))
    for row in read(folder / "truth.jsonl.zst"):
        param = row["param"] or {}
        key = (row["policy"], row["binding"], param.get("namespace"), param.get("name"), row["expressionIndex"])
        found[row["auditID"]][row["pass"]][key] = {
            name: row.get(name) or None for name in ("decision", "effect", "message", "reason")
        }
    return found


def replayed(verdicts: Path) -> dict[str, Passes]:
    """What the replay says, in the form of the truth.

    That gives a decision which stands for all expressions to the expression 0, as the server's annotation does, and keeps errors of
    audit annotations apart from the decision on the whole.
    """
    found: dict[str, Passes] = defaultdict(lambda: defaultdict(dict))
    for row in pq.read_table(verdicts).to_pylist():
        whole = (row["policy"], row["binding"], row["param_namespace"], row["param_name"])
        facts = {name: row[name] for name in ("decision", "effect", "message", "reason", "why")}
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


@pytest.fixture(scope="module")
def run(recorded_lake: Path) -> RunSummary:
    reader = open_lake(recorded_lake)
    plan = plan_replay_from_log(reader)
    reader.close()
    return run_replay(plan, recorded_lake)


class Listed:
    """The disagreements that are known, each with its reason. One that is no longer there fails the run."""

    def __init__(self) -> None:
        entries = yaml.safe_load(DISAGREEMENTS.read_text())
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
    """Rows agreed, disagreed and unknown, by policy and operation."""

    def __init__(self, operations: Mapping[str, str], listed: Listed) -> None:
        self.operations = operations
        self.listed = listed
        self.counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.unknown: Counter[str] = Counter()
        self.problems: list[str] = []

    def request(self, audit_id: str, ours: Passes, theirs: Passes) -> None:
        """The server's passes of one request replace each other: any is taken. Ours are the objects of a deletecollection."""
        candidates = list(theirs.values()) or [{}]
        for rows in ours.values():
            undecided = {key[:2] for key, facts in rows.items() if facts["decision"] == "unknown"}
            missing = set().union(*candidates) - rows.keys() if len(ours) == 1 else set()
            for key in sorted(rows.keys() | missing, key=str):
                if key in rows or not ({key[:2], (key[0], None)} & undecided):
                    self._row(audit_id, key, rows.get(key), [candidate.get(key) for candidate in candidates])

    def _row(self, audit_id: str, key: Key, ours: Facts | None, theirs: list[Facts | None]) -> None:
        counts = self.counts[key[0], self.operations.get(audit_id, "?")]
        if ours is not None and ours["decision"] == "unknown":
            counts["unknown"] += 1
            self.unknown[_shape(ours["why"])] += 1
        elif any(_agrees(ours, their) for their in theirs):
            counts["agreed"] += 1
        elif self.listed.explains(audit_id, key):
            counts["listed"] += 1
        else:
            counts["disagreed"] += 1
            self.problems.append(f"{audit_id} {key}: {ours} and not {theirs}")


def _agrees(ours: Facts | None, theirs: Facts | None) -> bool:
    if ours is None or theirs is None:
        # The replay has rows for what no selector or binding meant, the truth only for some of these.
        return (ours or theirs or {"decision": "nomatch"})["decision"] == "nomatch"
    if ours.get("is_annotation_error"):
        # The truth keeps these apart from the decision on the whole, which the rows of the expressions show.
        return True
    return all(ours[name] == theirs[name] for name in ("decision", "effect", "message", "reason"))


def _shape(why: str) -> str:
    """A reason without what is particular to one request."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z|(?<=example\.com )[a-z-]+", "...", why)


def test_the_log_alone_gives_the_decisions_of_the_server(
    run: RunSummary, recorded_lake: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = recorded(shared / "data" / "control-plane-a")
    ours = replayed(runs_folder(recorded_lake) / run.run_id / "verdicts.parquet")
    operations = dict(open_lake(recorded_lake).sql("SELECT audit_id, operation FROM admission_writes").fetchall())
    result = Comparison(operations, Listed())
    for audit_id, passes in ours.items():
        result.request(audit_id, passes, truth.get(audit_id, {}))
    with capsys.disabled():
        _print(result, sum(len(rows) for audit_id in truth.keys() - ours.keys() for rows in truth[audit_id].values()))
    assert not result.problems, f"{len(result.problems)} disagreements:\n" + "\n".join(result.problems[:10])
    assert not result.listed.unused(), f"these agree although they are listed; take them from {DISAGREEMENTS.name}"
    agreed = sum(counts["agreed"] for counts in result.counts.values())
    assert agreed > 0.9 * sum(sum(counts.values()) for counts in result.counts.values())


def test_the_replay_agrees_with_what_the_log_recorded(run: RunSummary, recorded_lake: Path) -> None:
    reader = open_lake(recorded_lake)
    agreements = compare_with_log(reader, runs_folder(recorded_lake) / run.run_id / "verdicts.parquet")
    assert disagreements(reader).fetchall() == []
    assert sum(item.compared for item in agreements) > 6_500
    notes = {item.policy: (item.annotations_agreed, item.annotations_compared) for item in agreements}
    assert all(agreed == compared for agreed, compared in notes.values())
    assert sum(compared for _, compared in notes.values()) > 1_600


def _print(result: Comparison, not_evaluated: int) -> None:
    total: Counter[str] = Counter()
    columns = ("agreed", "listed", "disagreed", "unknown")
    print(f"\ncontrol-plane-a from its log\n{'policy':24} {'operation':10}" + "".join(f"{name:>11}" for name in columns))
    for (policy, operation), counts in sorted(result.counts.items()):
        print(f"{policy:24} {operation:10}" + "".join(f"{counts[name]:11}" for name in columns))
        total.update(counts)
    print(f"{'all':24} {'':10}" + "".join(f"{total[name]:11}" for name in columns))
    print(f"rows of requests that were not evaluated: {not_evaluated}")
    for reason, count in result.listed.found.most_common():
        print(f"{count:6} listed: {reason}")
    for why, count in result.unknown.most_common(10):
        print(f"{count:6} unknown: {why[:140]}")

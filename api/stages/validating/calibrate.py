"""The calibration of policies: how far the replay of the bound policies agrees with the recorded outcomes, as tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from api.context import Context

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.authorization import OtherAuthorizers
    from pipeline.readiness.model import Fidelity
    from pipeline.runs import RunSummary
    from pipeline.runs.window import Window
    from pipeline.stages.validating.compare import Agreement, Confusion
    from queries import LakeReader
    from queries.catalog import LakeFiles


@dataclass(frozen=True)
class Calibration:
    """A finished comparison: the run, agreement by (policy, binding), outcomes by (policy, resource), and the disagreements."""

    summary: RunSummary
    agreements: tuple[Agreement, ...]
    confusion: tuple[Confusion, ...]
    disagreements: tuple[dict[str, Any], ...]
    fidelity: dict[str, Fidelity]  # by policy, where the log recorded an outcome
    hint: str  # names another version of Kubernetes that would fit the record better
    window: str  # the window of the requests, in words
    files: LakeFiles | None = None  # the lake's files that were compared


def calibrate(
    own: Context,
    window: Window,
    version: tuple[int, int],
    workers: int,
    change_delay: timedelta | None = None,
    other_authorizers: OtherAuthorizers | None = None,
    files: LakeFiles | None = None,
) -> Calibration:
    """Replay the policies in force and compare, over the whole lake or these files of it. Raises LakeError."""
    from api.given import use_until_end
    from pipeline.history.in_force import CHANGE_DELAY
    from pipeline.readiness.counting.fidelity import fidelity_of
    from pipeline.runs import RunStore
    from pipeline.runs.processes import start_processes
    from pipeline.stages.validating.agreement import recorded_agreement
    from pipeline.stages.validating.compare import compare_with_log, confusion, version_hint
    from pipeline.stages.validating.execute import run_replay
    from pipeline.stages.validating.recorded import plan_replay_from_log
    from queries import open_lake

    start_processes(own.lake, workers)
    reader = open_lake(own.lake, files=files)
    try:
        plan = plan_replay_from_log(
            reader, window, version, CHANGE_DELAY if change_delay is None else change_delay, other_authorizers
        )
        stored = RunStore(own.lake).run(plan.run_id)
        with own.progress("replaying the bound policies") as step, stored.owned():
            summary = run_replay(plan, own.lake, workers, step)
            use_until_end(stored)
        own.note_defects(summary.defects)
        agreements = compare_with_log(reader, stored.verdicts, version)
        hint = version_hint(reader, version)
        by_resource = fidelity_of(recorded_agreement(reader.connection))
        rows = tuple(_rows(reader))
        return Calibration(summary, agreements, confusion(reader), rows, by_resource, hint, plan.words_of_window, plan.files)
    finally:
        reader.close()


def _rows(reader: LakeReader) -> Iterable[dict[str, Any]]:
    from pipeline.stages.validating.compare import disagreements

    relation = disagreements(reader)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def _worst_first(item: Agreement) -> tuple[int, int, int]:
    return -item.disagreed, item.annotations_agreed - item.annotations_compared, -item.unknown


def agreement_table(agreements: Iterable[Agreement], hint: str = "") -> Table:
    """One row per (policy, binding), and the sum; `hint` is the next step to try."""
    from api.printing.output import Column, Table

    names = ("agreed", "disagreed", "unknown", "silent", "annotations_compared", "annotations_agreed")
    columns = [
        Column("policy", may_shorten=True),
        Column("binding", may_shorten=True),
        *(Column(name, number=True, may_go=int(name.startswith("annotations"))) for name in names),
    ]
    agreements = sorted(agreements, key=_worst_first)
    rows = [[item.policy, item.binding, *(getattr(item, name) for name in names)] for item in agreements]
    agreed, compared = sum(item.agreed for item in agreements), sum(item.compared for item in agreements)
    record = f"{agreed:,} of {compared:,} recorded outcomes agree" if compared else "the log recorded no outcome to compare with"
    # The annotations of a policy are counted once, though each of its bindings has a row.
    annotations = {item.policy: (item.annotations_agreed, item.annotations_compared) for item in agreements}
    kept, expected = (sum(counts) for counts in zip(*annotations.values(), strict=True)) if annotations else (0, 0)
    if expected:
        record += f", and {kept:,} of {expected:,} audit annotations"
    silent = "silent: the log could not record an outcome; annotations are counted by policy, once for each of its bindings"
    return Table(
        "agreement", columns, rows, f"Replay of the bound policies, compared with the record: {record}", (silent, *_given(hint))
    )


def _given(hint: str) -> tuple[str, ...]:
    return (hint,) if hint else ()


def confusion_table(rows: Iterable[Confusion]) -> Table:
    """One row per (policy, resource, recorded outcome), with a column for each replayed outcome."""
    from api.printing.output import Column, Table
    from pipeline.stages.validating.compare import Outcome

    columns = [
        Column("policy", may_shorten=True),
        Column("resource", may_shorten=True),
        Column("recorded"),
        *(Column(f"as_{each}", number=True) for each in Outcome),
    ]
    cells = [
        [row.policy, row.resource, str(recorded), *(row.requests[recorded, replayed] for replayed in Outcome)]
        for row in rows
        for recorded in Outcome
        if any(row.requests[recorded, replayed] for replayed in Outcome)
    ]
    one = "deny: this binding rejected the request; a cluster reports one denial, so a second one is a failure or missing"
    unknown = (
        "recorded unknown: the log cannot have recorded it; as unknown: the replay cannot judge, or knows it from the record alone"
    )
    return Table("confusion", columns, cells, "Recorded outcomes and their replay", (one, unknown))


def disagreement_table(rows: Iterable[dict[str, Any]], shown: int | None) -> Table:
    """The requests that disagree, with both outcomes; only the first `shown`, unless that is None."""
    from api.printing.output import Column, Table
    from ingest.counted import counted
    from pipeline.policies.params import NOT_FOUND

    found = list(rows)
    names = ("ts", "policy", "binding", "about", "recorded", "replayed", "recorded_messages", "replayed_messages", "audit_id")
    leaving = {"ts": 4, "binding": 3, "recorded": 2, "replayed": 1}
    columns = [
        Column(
            name,
            wide=name.endswith("_messages"),
            prose=name == "about" or name.endswith("_messages"),
            may_go=leaving.get(name, 0),
            may_shorten=name == "policy",
        )
        for name in names
    ]
    cells = [[row[name] for name in names] for row in found[:shown]]
    more = len(found) - len(cells)
    notes = [f"{more} more: -o json has all"] if more > 0 else []
    if missed := sum(any(NOT_FOUND in text for text in row["recorded_messages"] or ()) for row in found):
        notes.append(
            f"{counted(missed, 'request')}: the API server found no params where the log shows some. That is a known defect of API "
            "servers (kubernetes/kubernetes#130887), and no error of the policy"
        )
    return Table("disagreements", columns, cells, "Disagreements", tuple(notes))

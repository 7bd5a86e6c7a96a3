"""Files next to a run, in its folder: its manifests, and the reports on it.

A run is complete without them. With them, a process without the policies' files can show a report at once, and make it again under
other rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from pipeline.manifests.files import manifests_of
from pipeline.manifests.writing import to_yaml
from pipeline.readiness.flow import Made
from pipeline.request import Object
from pipeline.runs import RunStore, StoredRun
from pipeline.stages.assign import kind_of
from pipeline.stages.stage import Stage

_MADE, _COSTS, _MANIFESTS, _CLUSTER = "report.json", "costs.json", "manifests.yaml", "cluster"
_POLICIES = "policies.yaml"  # the former name of the manifests of policies
_LABEL = "label.json"
_NAME_MAX = 80


def keep_rules(lake: Path, run_id: str, stage: Stage[Any, Any], rules: Any, texts: Iterable[tuple[str, str]]) -> None:
    """Keep what a run of a stage judged by: its rules as manifests, or else those of the stage among the given texts."""
    kept = stage.readiness.kept(rules)
    if found := of_stage(texts, stage) if kept is None else kept:
        keep_manifests(lake, run_id, found)


def of_stage(texts: Iterable[tuple[str, str]], stage: Stage[Any, Any]) -> list[Object]:
    """The objects among manifests by whose kinds a stage judges, as they were given."""
    return [document.value for document in manifests_of(texts) if kind_of(document) in stage.kinds]


def keep_manifests(lake: Path, run_id: str, manifests: Sequence[Object]) -> None:
    """Keep the manifests of a run."""
    RunStore(lake).run(run_id).keep(_MANIFESTS, to_yaml(manifests).encode())


def kept_manifests(lake: Path, run_id: str) -> str | None:
    """The manifests of a run as YAML, or None where they are not kept."""
    stored = RunStore(lake).run(run_id)
    text = stored.kept(_MANIFESTS) or stored.kept(_POLICIES)
    return text.decode("utf-8") if text is not None else None


def kept_rules(lake: Path, run_id: str, stage: Stage[Any, Any]) -> Any:
    """The rules of a run of this stage, or None where its manifests are not kept."""
    text = kept_manifests(lake, run_id)
    return stage.read(manifests_of([("manifests", text)])) if text is not None else None


class Label(msgspec.Struct, frozen=True):
    """What a person says of a run: its name, and whether a removal by age leaves it."""

    name: str = ""
    is_kept: bool = False


def keep_label(lake: Path, run_id: str, label: Label) -> None:
    """Keep the label of a run. Of its name, the first 80 printable characters count."""
    name = "".join(sign for sign in " ".join(label.name.split()) if sign.isprintable())[:_NAME_MAX]
    RunStore(lake).run(run_id).keep(_LABEL, msgspec.json.encode(Label(name, label.is_kept)))


def label_of(stored: StoredRun) -> Label:
    """The label of a run; without one, it has no name and may go."""
    body = stored.kept(_LABEL)
    try:
        return msgspec.json.decode(body, type=Label) if body is not None else Label()
    except msgspec.DecodeError:
        return Label()


class _Kept(msgspec.Struct, frozen=True):
    made: Made
    question: str


def keep_made(lake: Path, made: Made, question: str = "") -> None:
    """Keep a report of a run, with what reports under other rules need. With a question, the same question has this answer."""
    RunStore(lake).run(made.report.run_id).keep(_MADE, msgspec.json.encode(_Kept(made, question)))


def kept_made(lake: Path, run_id: str, question: str | None = None) -> Made | None:
    """The report of a run, or None: if a question is given, only its answer. One of another version of Hindcast does not count."""
    body = RunStore(lake).run(run_id).kept(_MADE)
    try:
        found = msgspec.json.decode(body, type=_Kept) if body is not None else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return found.made if found is not None and question in (None, found.question) else None


def keep_cluster(lake: Path, run_id: str, cluster: str) -> None:
    """Keep the name of the one cluster that a run is about, so that later reports on the run do not look at others."""
    RunStore(lake).run(run_id).keep(_CLUSTER, cluster.encode())


def kept_cluster(lake: Path, run_id: str) -> str:
    """The one cluster that a run is about; empty for a run over all clusters of the lake."""
    name = RunStore(lake).run(run_id).kept(_CLUSTER)
    return name.decode("utf-8") if name is not None else ""


def keep_gate(lake: Path, run_id: str, digest: str, answer: bytes) -> None:
    """Keep the answer to a gate that a server ran."""
    RunStore(lake).run(run_id).keep(f"gate-{digest}.json", answer)


def kept_gate(lake: Path, run_id: str, digest: str) -> bytes | None:
    """The answer to a gate, or None where the run was removed meanwhile."""
    return RunStore(lake).run(run_id).kept(f"gate-{digest}.json")


def keep_costs(lake: Path, run_id: str, costs: bytes) -> None:
    """Keep the costs of a run's policies (stages/costs.RunCosts as JSON)."""
    RunStore(lake).run(run_id).keep(_COSTS, costs)


def kept_costs(lake: Path, run_id: str) -> bytes | None:
    """The kept costs of a run; None where they were not counted."""
    return RunStore(lake).run(run_id).kept(_COSTS)


@dataclass(frozen=True, slots=True)
class MomentCount:
    """The requests of a stretch of time, which begins at `start`: those that matched, would be denied, or are unknown."""

    start: datetime
    matched: int
    denied: int
    unknown: int


# Policy, binding, and its counts in the order of time.
ChartCounts: TypeAlias = tuple[str, str | None, list[MomentCount]]


def keep_charts(lake: Path, run_id: str, seconds: int, counts: list[ChartCounts]) -> None:
    """Keep the counts behind the charts of a run, in stretches of so many seconds. Raises OSError."""
    RunStore(lake).run(run_id).keep(f"charts-{seconds}.json", msgspec.json.encode(counts))


def kept_charts(lake: Path, run_id: str, seconds: int) -> list[ChartCounts] | None:
    """The kept counts; None without any, or for the file of another version of Hindcast."""
    kept = RunStore(lake).run(run_id).kept(f"charts-{seconds}.json")
    try:
        return msgspec.json.decode(kept, type=list[ChartCounts]) if kept is not None else None
    except msgspec.DecodeError:
        return None

"""A log that lacks fields of its events says less, and never something else.

GKE exports neither URIs nor groups, and shippers keep the fields that somebody chose. The recorded log of the demonstration is
judged whole and trimmed, by every stage that asks who did what. The verdict on a request of the trimmed log is that of the whole
log, or unknown.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard

from pipeline.authorization import OtherAuthorizers
from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind, RunStore
from pipeline.stages.assign import assign
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.conftest import DATA
from tests.recording import Object, take_in

MANIFESTS = Path(__file__).parents[2] / "cases" / "authorization" / "trimmed.yaml"
EVENTS_MAX = 2500
TRIMS: Mapping[str, tuple[str, ...]] = {
    "uri": ("requestURI",),
    "groups": ("groups",),
    "uri and groups": ("requestURI", "groups"),
    "uri and object": ("requestURI", "objectRef"),
    "answer": ("responseStatus",),
    "text": ("message",),
}


def recorded() -> Iterator[Object]:
    with zstandard.open(DATA / "audit.jsonl.zst", "rt", encoding="utf-8") as lines:
        for _, line in zip(range(EVENTS_MAX), lines, strict=False):
            yield json.loads(line)


def trimmed(events: Iterable[Object], lacks: tuple[str, ...]) -> Iterator[Object]:
    for event in events:
        kept = {name: value for name, value in event.items() if name not in lacks}
        for part in ("user", "impersonatedUser", "responseStatus"):
            if part in kept:
                kept[part] = {name: value for name, value in kept[part].items() if name not in lacks}
        yield kept


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The lake of the whole log under an empty name, and one for each trim."""
    folder, events = tmp_path_factory.mktemp("trimmed"), list(recorded())
    every: Mapping[str, tuple[str, ...]] = {"": (), **TRIMS}
    return {name: take_in(folder / name / "lake", trimmed(events, lacks)) for name, lacks in every.items()}


def judged(lake: Path, stage_name: str, only: bool) -> Mapping[tuple[Any, ...], str]:
    """The decision on each pass of each request, by policy."""
    given = assign(manifests_of([("trimmed.yaml", MANIFESTS.read_text(encoding="utf-8"))]))
    stage, rules = next((stage, rules) for stage, rules in given.rules if stage.name == stage_name)
    asked = Asked(replaces_all=only, other_authorizers=OtherAuthorizers.NODE, kubernetes_version=(1, 36))
    with closing(open_lake(lake)) as reader:
        plan = stage.plan(reader, rules, asked)
    stage.run(plan, lake, 1, None, RunKind.REPLAY)
    rows = pq.read_table(RunStore(lake).run(plan.run_id).verdicts).to_pylist()
    keys = ("audit_id", "ts", "pass", "policy", "expression_index")
    # A webhook that a request did not reach is not called, as one whose conditions did not match.
    return {tuple(row[key] for key in keys): row["decision"].replace("unreached", "nomatch") for row in rows}


@pytest.mark.parametrize(
    ("stage", "only"),
    [("authorization", False), ("authorization", True), ("conditions", False), ("validating", False), ("webhooks", False)],
)
def test_less_evidence_never_turns_a_verdict(stage: str, only: bool, lakes: Mapping[str, Path]) -> None:
    whole = judged(lakes[""], stage, only)
    assert len(set(whole.values()) - {"unknown"}) > 1, "the manifests decide nothing"
    for name in TRIMS:
        found = judged(lakes[name], stage, only)
        turned = Counter(
            (whole.get(key), decision) for key, decision in found.items() if decision not in ("unknown", whole.get(key, "unknown"))
        )
        assert not turned, f"{stage} without {name}: {turned}"

"""What mutating policies of the same folder do to the requests that another stage judges: they come first.

The verdict on an object that they change would be about another object, so it is unknown until stages are replayed one after the
other. Where they change nothing, it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq

from queries import open_lake

from ..admission.policies.decode import is_mutating
from ..manifests.documents import Document
from ..matching import Target
from ..runs.executors import Executor
from ..runs.kinds import RunKind
from ..runs.plan import RunPlan
from ..runs.running import Doubts
from ..runs.store import RunStore
from ..runs.verdicts import Pass
from .mutating.chain import Chain
from .mutating.decode import rules_of
from .mutating.stage import Mutating
from .mutating.verdicts import STAGE
from .stage import Asked

FIRST = "mutating policies given with it change the object first, and stages are not replayed one after the other"
_COLUMNS = ["cluster", "audit_id", "ts", "pass", "policy", "decision", "effect", "why"]


def concerned_by(documents: Sequence[Document], version: tuple[int, int]) -> Callable[[Target], bool]:
    """Whether a mutating policy among some manifests may be for a target."""
    chain = Chain(rules_of(documents), version)
    return lambda target: bool(chain.set.candidates(target))


def doubts_of(
    documents: Sequence[Document], plan: RunPlan, lake: Path, workers: int, executor: Executor | None = None
) -> Doubts | None:
    """The passes of a plan that the mutating policies among some manifests decide on; None without such policies."""
    if not any(is_mutating(each.value) for each in documents):
        return None
    return lambda: _doubts(documents, plan, lake, workers, executor)


def _doubts(
    documents: Sequence[Document], plan: RunPlan, lake: Path, workers: int, executor: Executor | None
) -> Mapping[Pass, str]:
    stage = Mutating()
    with closing(open_lake(lake, files=plan.files)) as reader:
        own = stage.plan(reader, stage.read(documents), Asked(plan.window, plan.kubernetes_version))
    stage.run(own, lake, workers, kind=RunKind.TRIAL, executor=executor)
    rows = pq.read_table(RunStore(lake).run(own.run_id).verdicts, columns=_COLUMNS, filters=[("policy", "=", STAGE)])
    found = {}
    for row in rows.to_pylist():
        if why := _why(row["decision"], row["effect"], row["why"] or ""):
            found[row["cluster"], row["audit_id"], row["ts"], row["pass"]] = why
    return found


def _why(decision: str, effect: str | None, why: str) -> str:
    if decision == "changed":
        return FIRST
    if effect == "deny":
        return "mutating policies given with it refuse the request first"
    return f"mutating policies given with it come first, and what they do is unknown: {why}" if decision == "unknown" else ""

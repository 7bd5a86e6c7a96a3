"""What mutating policies of the same folder do to the requests that another stage judges: they come first.

The verdict on an object that they change would be about another object, so the rules of the stage are asked about what is left of
it. Where nothing is known of that, the verdict is unknown. Where they change nothing, it stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..admission.policies.decode import is_mutating
from ..admission.policies.model import PolicySet
from ..manifests.documents import Document
from ..matching import Target
from ..runs.executors import Executor
from ..runs.plan import RunPlan
from ..runs.revision import Replaced, Revision, Withdrawn
from ..runs.running import Doubts
from ..runs.verdicts import Pass
from .mutating.chain import Chain
from .mutating.decode import rules_of

FIRST = "mutating policies given with it change the object first, and this rule is not asked about what is left of it"


def concerned_by(documents: Sequence[Document], version: tuple[int, int]) -> Callable[[Target], bool]:
    """Whether a mutating policy among some manifests may be for a target."""
    chain = Chain(rules_of(documents), version)
    return lambda target: bool(chain.set.candidates(target))


def doubts_of(
    documents: Sequence[Document],
    plan: RunPlan,
    lake: Path,
    workers: int,
    executor: Executor | None = None,
    policies: PolicySet | None = None,
) -> Doubts | None:
    """The passes of a plan that the mutating policies among some manifests decide on; None without such policies.

    `policies` are the validating ones, where the manifests do not hold them.
    """
    if not any(is_mutating(each.value) for each in documents):
        return None
    return lambda merged: _doubts(documents, plan, lake, workers, executor, policies)


def _doubts(
    documents: Sequence[Document],
    plan: RunPlan,
    lake: Path,
    workers: int,
    executor: Executor | None,
    policies: PolicySet | None,
) -> Mapping[Pass, Revision]:
    # Imported late: the chain asks the stages that ask for this.
    from .chain.behind import left_of
    from .chain.rules import chain_rules

    rules = chain_rules(documents)
    if policies is not None:
        rules = replace(rules, mutating=replace(rules.mutating, later=policies))
    found = left_of(rules, plan, lake, workers, executor)
    return {place: _revised(rows) for place, rows in found.items()}


def _revised(rows: Sequence[Mapping[str, Any]]) -> Revision:
    """The verdicts of a stage on one pass, whose first row is that of the request as a whole."""
    own = rows[1:]
    detail = json.loads(rows[0]["detail"] or "{}")
    lost = detail.get("lost", "")
    return Replaced.of(own, detail["by"]) if own and not lost else Withdrawn(lost or FIRST)

"""What mutating policies of the same folder do to the requests that another stage judges: they come first.

A verdict on the object that the client sent would be about another object, so the stage judges the changed one. Where Hindcast does
not know that, the verdict is unknown. Where they change nothing, the verdict stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queries import LakeReader

from ..explaining.asked import Asked
from ..manifests.documents import Document
from ..matching import Target
from ..policies.model import PolicySet
from ..request import AdmissionRequest
from ..runs.executors import Executor
from ..runs.plan import RunPlan
from ..runs.revision import Replaced, Revision, Withdrawn
from ..runs.running import Doubts
from ..runs.verdicts import Pass
from .mutating.chain import Chain
from .mutating.decode import rules_of
from .validating.decode import is_mutating

if TYPE_CHECKING:
    from .chain.rules import ChainRules

FIRST = "mutating policies of the same folder change the object first"
_NOT_ASKED = f"{FIRST}, and Hindcast does not judge the changed object by this rule"


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
    from .chain.behind import judged_behind

    found = judged_behind(_rules(documents, policies), plan, lake, workers, executor)
    return {place: _revised(rows) for place, rows in found.items()}


def changed_first(
    documents: Sequence[Document], reader: LakeReader, asked: Asked, policies: PolicySet | None = None
) -> Mapping[int, AdmissionRequest | str]:
    """What the mutating policies among some manifests make of one request, by its pass, or why that is not known.

    Empty where they change nothing. It may leave tables in the reader's connection.
    """
    if not any(is_mutating(each.value) for each in documents):
        return {}
    from .chain.behind import changed_requests

    return changed_requests(reader, _rules(documents, policies), asked)


def _rules(documents: Sequence[Document], policies: PolicySet | None) -> ChainRules:
    from .chain.rules import chain_rules

    rules = chain_rules(documents)
    return rules if policies is None else replace(rules, mutating=replace(rules.mutating, later=policies))


def _revised(rows: Sequence[Mapping[str, Any]]) -> Revision:
    """The verdicts of a stage on one pass, whose first row is that of the request as a whole."""
    own = rows[1:]
    detail = json.loads(rows[0]["detail"] or "{}")
    lost = detail.get("lost", "")
    return Replaced.of(own, detail["by"]) if own and not lost else Withdrawn(lost or _NOT_ASKED)

"""A stage of the API server's request pipeline, as replays see it. docs/stages.md says how to add one.

A stage reads the manifests of some kinds, plans which recorded requests they concern, and judges these requests. The result is a
run: see pipeline/runs. One run is of one stage; what one command asks of several stages is several runs over the same requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from queries import LakeReader

from ..authorization import OtherAuthorizers
from ..cel.minors import DEFAULT
from ..manifests.documents import Document
from ..runs import RunKind, RunSummary
from ..runs.executors import Executor
from ..runs.plan import RunPlan
from ..runs.running import Progress
from ..runs.window import Window
from .readiness import StageReadiness


class Kind(NamedTuple):
    """A kind of manifests, in all its versions."""

    group: str
    kind: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks of a plan.

    `replaces_all`: the given manifests replace all others of their stage; else they are laid over those of the cluster.
    `with_objects`: a stage that changes objects keeps the objects that it predicts. `other_authorizers` are the clusters'
    authorizers other than RBAC; None takes what the log shows.
    """

    window: Window = field(default_factory=Window)
    kubernetes_version: tuple[int, int] = DEFAULT
    other_authorizers: OtherAuthorizers | None = None
    replaces_all: bool = False
    with_objects: bool = False


RulesT = TypeVar("RulesT")
PlanT = TypeVar("PlanT", bound=RunPlan)


class Stage(Protocol[RulesT, PlanT]):
    """One stage. It reads no clock and no environment, and two runs of one plan give equal bytes."""

    @property
    def name(self) -> str:
        """The value of the column `stage`."""
        ...

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of the manifests that this stage judges requests by."""
        ...

    @property
    def readiness(self) -> StageReadiness[RulesT, PlanT]:
        """What reports on a run of this stage need to know of it."""
        ...

    def read(self, documents: Sequence[Document]) -> RulesT:
        """The rules of this stage among all given manifests, and the inputs that they need of the others.

        Raises InputError with file and line.
        """
        ...

    def uses(self, rules: RulesT, document: Document) -> bool:
        """Whether the rules take a manifest of another kind for an input, such as a param."""
        ...

    def plan(self, reader: LakeReader, rules: RulesT, asked: Asked) -> PlanT:
        """Count the requests that the rules concern, and name the run."""
        ...

    def run(
        self,
        plan: PlanT,
        lake: Path,
        workers: int,
        progress: Progress | None,
        kind: RunKind,
        executor: Executor | None = None,
    ) -> RunSummary:
        """Judge the requests of a plan, or return the summary of the same run if it is complete: see runs/running.py.

        `executor` does the work; by default so many `workers` of this machine. Raises LakeError.
        """
        ...

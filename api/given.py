"""Manifests that a user gave, by the stage that judges by them, and the walk of a command over the plan of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import click

from ingest.errors import InputError
from pipeline.manifests.files import manifests_of
from pipeline.policies.model import PolicySet
from pipeline.policies.refusing import refuse_errors
from pipeline.readiness.run import StageWalk
from pipeline.runs import RunKind, RunStore, RunSummary, StoredRun
from pipeline.runs.executors import Executor
from pipeline.runs.plan import RunPlan
from pipeline.stages.assign import assign, kind_of
from pipeline.stages.registry import CHAIN, VALIDATING
from pipeline.stages.stage import Stage
from pipeline.stages.validating.plan import ReplayPlan

from .beside_runs import keep_manifests, keep_policies
from .context import Context

Texts = Sequence[tuple[str, str]]
# A stage, and its rules.
Judged: TypeAlias = tuple[Stage[Any, Any], Any]
_MISTAKES_SHOWN = 10


@dataclass(frozen=True)
class Given:
    """The rules of each stage among given manifests, without those of policies, which have a flow of their own.

    `has_policies`: some manifest is a policy or a binding of one. `left` is a sentence on manifests that change nothing, `notes`
    are sentences on keys that YAML reads as true or false, and on what a server of the version does not have.
    """

    texts: Texts
    stages: tuple[Judged, ...]
    has_policies: bool
    left: str
    notes: tuple[str, ...] = ()

    @property
    def judges_policies(self) -> bool:
        """Whether policies are asked about; also where no stage reads anything, so that the mistake is named."""
        return self.has_policies or not self.stages

    def with_policies(self, policies: PolicySet | None) -> list[Judged]:
        """The rules of every stage, where the policies were read apart."""
        return [*([(VALIDATING, policies)] if policies is not None else ()), *self.stages]

    def rules_of(self, stage: Stage[Any, Any]) -> Any:
        """The rules of a stage; without any among the manifests, those of no manifest."""
        return next((rules for found, rules in self.stages if found is stage), stage.read(()))


def given_of(texts: Texts, version: tuple[int, int] | None = None) -> Given:
    """Read manifests. Raises InputError with file and line.

    With a `version`, it raises also for manifests that an API server of this minor version rejects because of an expression. The
    flow of policies does so itself.
    """
    documents = manifests_of(texts)
    assigned = assign(documents)
    notes = tuple(dict.fromkeys(note for document in documents for note in document.notes))
    if version is not None:
        told = (remark for stage, rules in assigned.rules for remark in stage.readiness.remarks(rules, version))
        notes = (*notes, *dict.fromkeys(told))
    others = tuple((stage, rules) for stage, rules in assigned.rules if stage is not VALIDATING)
    if version is not None:
        refuse_errors([error for stage, rules in others for error in stage.readiness.uncompilable(rules, version)])
    return Given(texts, others, len(others) < len(assigned.rules), assigned.words_of_left, notes)


def chain_of(texts: Texts, version: tuple[int, int]) -> Judged:
    """What judges by all stages of admission together, and their rules in manifests.

    Raises InputError without any, and for expressions that an API server of this minor version rejects.
    """
    rules = CHAIN.read(manifests_of(texts))
    refuse_errors(list(CHAIN.readiness.uncompilable(rules, version)))
    if not rules:
        kinds = "mutating and validating policies, their bindings, and Namespaces with labels of Pod Security"
        raise InputError("--chain found no rule of admission in the manifests", f"give with -f: {kinds}")
    return CHAIN, rules


def warn_of(own: Context, given: Given) -> None:
    """Say which manifests change nothing, and which keys YAML reads as true or false."""
    for sentence in (given.left, *given.notes):
        if sentence:
            own.warn(sentence)


def of_stage(texts: Texts, stage: Stage[Any, Any]) -> list[Any]:
    """The objects among manifests by whose kinds a stage judges, as they were given."""
    return [document.value for document in manifests_of(texts) if kind_of(document) in stage.kinds]


def say_mistakes(own: Context, stage: Stage[Any, Any], rules: Any, replaces_all: bool) -> None:
    """Say which manifests do not do what they seem to do."""
    found = stage.readiness.mistakes(rules, replaces_all)
    for sentence in found[:_MISTAKES_SHOWN]:
        own.warn(sentence)
    if len(found) > _MISTAKES_SHOWN:
        own.warn(f"and {len(found) - _MISTAKES_SHOWN:,} more mistakes in {stage.readiness.words.things}")


def use_until_end(stored: StoredRun) -> None:
    """Keep a run from being removed until the command ends."""
    if (command := click.get_current_context(silent=True)) is not None:
        command.with_resource(stored.in_use())


def walk(own: Context, texts: Texts, workers: int, executor: Executor | None = None) -> StageWalk:
    """The function with which a command walks the plans of stages.

    It shows progress, keeps the given manifests next to a replay, and the run counts as in use until the command ends.
    """

    def walked(stage: Stage[Any, Any], plan: RunPlan, kind: RunKind) -> RunSummary:
        stored = RunStore(own.lake).run(plan.run_id)
        in_force = " in force" if kind is RunKind.CALIBRATION else ""
        with own.progress(f"replaying {stage.readiness.words.things}{in_force}") as step, stored.owned():
            summary = stage.run(plan, own.lake, workers, step, kind, executor)
            if kind is not RunKind.TRIAL:
                use_until_end(stored)
        if kind is RunKind.TRIAL:
            return summary
        own.note_defects(summary.defects)
        if isinstance(plan, ReplayPlan):
            keep_policies(own.lake, summary.run_id, plan.policies)
        elif kind is RunKind.REPLAY:
            keep_manifests(own.lake, summary.run_id, of_stage(texts, stage))
        return summary

    return walked

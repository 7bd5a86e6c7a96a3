"""Manifests that a user gave, by the stage that judges by them, and the walk of a command over the plan of a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import click

from ingest.errors import InputError
from pipeline.cel.minors import NEWEST
from pipeline.manifests.documents import Document
from pipeline.manifests.files import manifests_of
from pipeline.policies.refusing import refuse_errors
from pipeline.readiness.run import StageWalk
from pipeline.runs import RunKind, RunStore, RunSummary, StoredRun
from pipeline.runs.executors import Executor
from pipeline.runs.plan import RunPlan
from pipeline.stages.assign import assign, kind_of, kind_words
from pipeline.stages.registry import CHAIN, STAGES
from pipeline.stages.stage import Stage

from .beside_runs import keep_rules
from .context import Context

Texts = Sequence[tuple[str, str]]
# A stage, and its rules.
Judged: TypeAlias = tuple[Stage[Any, Any], Any]
# Completes the rules of a stage.
Complete: TypeAlias = Callable[[Stage[Any, Any], Any], Any]
_MISTAKES_SHOWN = 10
_KINDS_SHOWN = 3
_NAMES_SHOWN = 3


@dataclass(frozen=True)
class Given:
    """The rules of each stage among given manifests.

    `left` is a sentence on manifests that change nothing, `notes` are sentences on keys that YAML reads as true or false, and on
    what a server of the version does not have.
    """

    texts: Texts
    stages: tuple[Judged, ...]
    left: str = ""
    notes: tuple[str, ...] = ()

    def rules_of(self, stage: Stage[Any, Any]) -> Any:
        """The rules of a stage; without any among the manifests, those of no manifest."""
        return next((rules for found, rules in self.stages if found is stage), stage.read(()))

    def needed(self, stage: Stage[Any, Any]) -> Any:
        """The rules of a stage, for a command of this stage alone. Raises InputError where the manifests have none."""
        rules = self.rules_of(stage)
        if lacking := stage.readiness.lacks(rules):
            raise _nothing(self.texts, manifests_of(self.texts), lacking)
        return rules


def given_of(
    texts: Texts,
    version: tuple[int, int] | None = None,
    lake: Path | None = None,
    *,
    are_stored: bool = False,
    complete: Complete = lambda stage, rules: rules,
    needs_all: bool = True,
) -> Given:
    """Read manifests. Raises InputError with file and line, and where no stage judges by them.

    With a `version`, it raises also for manifests that an API server of this minor version rejects because of an expression. It
    takes expressions that a cluster of the lake has stored, and all that some version takes where the manifests `are_stored`, such
    as the version before a change. `complete` completes the rules of a stage, for example from the log. Unless it `needs_all`,
    manifests may lack what their stage needs.
    """
    documents = manifests_of(texts)
    assigned = assign(documents)
    notes = tuple(dict.fromkeys(note for document in documents for note in document.notes))
    stages = tuple((stage, complete(stage, rules)) for stage, rules in assigned.rules)
    lacking = next((kind for stage, rules in stages if (kind := stage.readiness.lacks(rules))), "")
    if needs_all and (not stages or lacking):
        raise _nothing(texts, documents, lacking or next(kind for each in STAGES if (kind := each.readiness.lacks(each.read(())))))
    if version is not None and are_stored:
        refuse_errors([error for stage, rules in stages for error in stage.readiness.unusable(rules, version)])
    elif version is not None:
        refuse_errors([error for stage, rules in stages for error in stage.readiness.refused(rules, version, lake)])
        notes = (*notes, *_remarks(stages, version))
    return Given(texts, stages, assigned.words_of_left, notes)


def given_for_any(texts: Texts) -> Given:
    """Read manifests for clusters of any version. Raises InputError as given_of, for expressions that no server takes."""
    given = given_of(texts, NEWEST, are_stored=True)
    refuse_errors([error for stage, rules in given.stages for error in stage.readiness.uncompilable(rules, NEWEST)])
    return replace(given, notes=(*given.notes, *_remarks(given.stages, NEWEST)))


def _remarks(stages: Sequence[Judged], version: tuple[int, int]) -> Sequence[str]:
    """What a server of a version makes of the manifests, once each."""
    return tuple(dict.fromkeys(remark for stage, rules in stages for remark in stage.readiness.remarks(rules, version)))


def _nothing(texts: Texts, documents: Sequence[Document], lacking: str) -> InputError:
    """The error for manifests that have nothing to judge by; `lacking` is a kind that would have been judged."""
    names = [name for name, _ in texts]
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    kinds = Counter(map(kind_words, documents)).most_common(_KINDS_SHOWN)
    there = f", but {', '.join(f'{count} {kind}' for kind, count in kinds)}" if kinds else ""
    return InputError(f"{', '.join(names[:_NAMES_SHOWN])}{more}: found no {lacking}{there}", _instead(documents, lacking))


def _instead(documents: Sequence[Document], lacking: str) -> str:
    """What to do with manifests that have nothing to judge by: stages that read their kinds, or all kinds that Hindcast replays."""
    kinds = set(map(kind_of, documents))
    others = [each for each in STAGES if each.kinds & kinds and lacking not in {kind.kind for kind in each.kinds}]
    if others:
        things = " and ".join(stage.readiness.words.things for stage in others)
        return f"`hindcast replay -f` and `hindcast readiness -f` judge {things}"
    return f"Hindcast replays {', '.join(sorted({kind.kind for stage in STAGES for kind in stage.kinds}))}"


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
        keep_rules(own.lake, summary.run_id, stage, plan.judged_by, texts if kind is RunKind.REPLAY else ())
        return summary

    return walked

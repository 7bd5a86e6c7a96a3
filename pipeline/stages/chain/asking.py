"""The requests of a window, and the judge that answers them under the policies in force and a folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...history.world import LogHistory
from ...runs.window import Window
from ..mutating.walk import Walk
from ..pod_security.given import Given
from ..pod_security.judging import Judge as LevelJudge
from ..pod_security.labels import LabelsInForce
from ..pod_security.noted import noted_configuration
from ..pod_security.reading import PodReader
from . import webhooks as behind
from .judging import ChainJudge
from .plugins import KINDS
from .policies import ValidatingPolicies
from .rules import ChainRules


def judging_of(
    reader: LakeReader,
    rules: ChainRules,
    window: Window,
    version: tuple[int, int],
    others: Mapping[str, OtherAuthorizers] | None = None,
    only: Collection[str] = (),
) -> tuple[Walk, ChainJudge]:
    """The walk over the writes of a window, and the judge of each. It leaves tables in the connection of the reader.

    `only` are the audit IDs of the requests; empty: all.
    """
    params = [each.param_kind for each in rules.mutating.later.policies if each.param_kind is not None]
    walk = Walk(
        reader,
        window,
        None,
        version,
        others,
        reads_all=True,
        reads_unreached=True,
        over=rules.mutating,
        further=(*KINDS, *behind.KINDS, *params),
        only=only,
        may_change=rules.may_change,
    )
    levels = _levels(reader, rules, walk.history, window, version[1])
    policies = ValidatingPolicies(rules.mutating.later, walk.validating, walk.met_by, version)
    return walk, ChainJudge(rules, levels, policies, behind.WebhooksBehind(walk.history, version), walk.recorded.at)


def _levels(reader: LakeReader, rules: ChainRules, history: LogHistory, window: Window, minor: int) -> LevelJudge:
    """What judges Pods by the given levels, or by those of the log."""
    given = rules.levels
    known = given.configuration or noted_configuration(reader, LabelsInForce(Given({}), history), window)
    unnoted: frozenset[str] = frozenset()
    is_given = given.configuration is not None
    return LevelJudge(LabelsInForce(given, history), PodReader(minor, unnoted), known, minor, unnoted, is_given=is_given)

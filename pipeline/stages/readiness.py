"""What a stage tells readiness of itself. Reports, gates, watches, the HTTP API and the pages work for each stage of the registry.

The defaults fit a stage whose verdicts have `effect` (deny or admit) and `flip`. A stage overrides what differs, in
`pipeline/stages/NAME/readiness.py`, and names its object in the attribute `readiness`. Nothing here knows of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import duckdb

from queries import LakeReader

from ..authorization import OtherAuthorizers
from ..cel import ReadSet
from ..explaining.asked import Asked
from ..explaining.explanation import Told
from ..request import Object
from ..requests.lanes import Lane, LaneName
from ..runs.flips import flips, flips_tables
from ..runs.plan import RunPlan
from ..runs.summary import RunSummary
from ..runs.window import Window
from ..tables import Table
from .actions import Actions
from .exempting import Exemptions
from .flips_over_time import flips_over_time
from .judging import Judges
from .over_time import OverTime
from .reading import StageReading
from .waves import Rollout

RulesT = TypeVar("RulesT")
PlanT = TypeVar("PlanT")
AS_GIVEN = "FROM given"
# Stages judge dry runs, too, but no report counts them: nothing comes of them.
_GIVEN = "FROM read_parquet($path) ANTI JOIN dry_runs USING (cluster, audit_id, ts)"


def keep_counted(connection: duckdb.DuckDBPyConnection, table: str, counted: str, verdicts: str) -> None:
    """Make a temporary table of the verdicts that count of a run. `counted` is the query of its stage over the table `given`."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS WITH given AS ({_GIVEN}) FROM ({counted})", {"path": verdicts})


@dataclass(frozen=True, slots=True)
class StageWords:
    """How reports and pages name the manifests of a stage and what becomes of them."""

    things: str = "manifests"  # in the plural, as in `these roles may be put into force`
    title: str = "Readiness"
    examples: str = ""  # the kinds that a user may give, for a hint
    may: str = "be put into force"  # what a user wants to know: may they do so?
    thing: str = "manifest"  # in the singular
    part: str = "binding"  # what the verdict table calls a binding
    passes: tuple[str, str] = ("admits it", "admit it")  # what one thing, and several, do that let a request pass
    goes_to_deny: bool = False  # whether their bindings warn or audit first, and later deny
    remedy: str = "Give the clients below what they need"  # what to do where they would newly deny requests

    @property
    def question(self) -> str:
        """What a user asks about them: `Can these roles be put into force?`."""
        return f"Can these {self.things} {self.may}?"


class Agreed(NamedTuple):
    """How far the manifests of that time agree with the record, on one resource: `compared` requests, `agreed` of them.

    `policy` is the judged thing, as in the verdict table; `unknown` requests were not compared.
    """

    policy: str
    resource: str
    compared: int
    agreed: int
    unknown: int = 0


class Place(NamedTuple):
    """Where a judged thing is written, as `file:line`, and its parts that the verdict table numbers."""

    name: str
    source: str
    parts: tuple[str, ...] = ()


class RemedyPart(NamedTuple):
    """One thing that would keep requests working: for whom and what, in words, and its manifests.

    `policy` is the judged thing that denies these requests.
    """

    policy: str
    subject: str
    manifests: tuple[Object, ...]
    requests: int
    reason: str


class Objection(NamedTuple):
    """What speaks against one (policy, binding) apart from denials, in words.

    `decides`: it makes the verdict NOT READY; else it is one more reason.
    """

    policy: str
    binding: str | None
    text: str
    decides: bool


@dataclass(frozen=True)
class Remedy(Generic[RulesT]):
    """Manifests with which newly denied requests might pass; the caller replays `rules`, which hold them, to prove it.

    `relaxes`: they take the place of given manifests, and are advice; else they are additions, under which these may be put into
    force. Parts of advice may lack manifests.
    """

    parts: tuple[RemedyPart, ...]
    rules: RulesT
    relaxes: bool = False

    @property
    def manifests(self) -> list[Object]:
        """All manifests of the remedy."""
        return [manifest for part in self.parts for manifest in part.manifests]


class StageReadiness(StageReading[RulesT], Generic[RulesT, PlanT]):
    """The answers of a stage to the questions of readiness."""

    words = StageWords()
    # An SQL query over the run's verdict table `given`, without dry runs: the verdicts that count. A row with effect `deny` is a
    # denial, decision `unknown` is unknown with its `why`, and decision `nomatch` does not concern the request.
    counted = AS_GIVEN
    # Whether `flip` says how verdicts differ from the record; otherwise only `effect` counts.
    has_flips = True
    # What a reader of any report on these manifests has to know of their evidence.
    caveats: Sequence[str] = ()
    # Whether what the server recorded of these manifests belongs in a report on them.
    shows_recorded = False
    # Whether verdicts say at which step a request was left out. Then a report says why a thing matched nothing.
    tells_steps = False
    # Whether `flip` compares with the version before, where there is one, so that one run of `over` says what a change does.
    flips_against_base = False

    def calibration(
        self, reader: LakeReader, plan: PlanT, others: OtherAuthorizers | None, change_delay: timedelta
    ) -> PlanT | None:
        """The plan of a run of the manifests of that time, where `agreement` compares such a run with the record.

        `others` are the authorizers other than RBAC that a user named. `change_delay` is the time after its write in which a
        manifest may not be in force yet.
        """
        return None

    def agreement(self, reader: LakeReader, plan: PlanT) -> Sequence[Agreed] | None:
        """How far the stage agrees with the record under the manifests of that time; None if it cannot compare.

        `plan` is that of `calibration` where there is one, and its run is finished. May leave tables in the reader's connection.
        """
        return None

    def judges(self, reader: LakeReader, plan: PlanT) -> Judges | None:
        """What judges requests that were not sent by the rules of a plan; None if the stage needs recorded requests."""
        return None

    def stored_plan(self, document: Mapping[str, Any], rules: RulesT | None) -> PlanT | None:
        """The plan that a run kept as this document; None where a report on a kept run needs no plan."""
        return None

    def usual_lane(self, name: LaneName) -> Lane | None:
        """What the stage reads of a class of plain requests, whatever it is asked: this is kept when files are merged."""
        return None

    def prepare(self, reader: LakeReader) -> None:
        """Find out, and keep, what no manifest decides about the present files of a lake, so that no question waits for it later.

        May leave tables in the reader's connection.
        """

    def remedy(self, reader: LakeReader, plan: PlanT, verdicts: Path) -> Remedy[RulesT] | None:
        """Manifests that would keep newly denied requests working; None if the stage proposes none.

        `verdicts` is the verdict table of the run. May leave tables in the reader's connection.
        """
        return None

    def over_time(self, reader: LakeReader, verdicts: Path, window: Window, rules: RulesT | None) -> Sequence[OverTime]:
        """Counts over the time of a run, for the charts of its report.

        `verdicts` is the verdict table of the run; `rules` are None where they are not kept. May leave tables in the connection.
        """
        found = flips_over_time(reader, verdicts)
        return [found] if found is not None else []

    def objections(self, reader: LakeReader, verdicts: Path, rules: RulesT | None) -> Sequence[Objection]:
        """What speaks against the manifests apart from denials. `verdicts` and `rules` are as for over_time."""
        return ()

    # Whether the log shows which rules were in force. Then `explain` answers without rules, too.
    in_log = False

    def explain(self, reader: LakeReader, rules: RulesT | None, asked: Asked) -> Sequence[Told] | None:
        """Why the stage decides as it does about one request, pass by pass; None if its verdicts hold their own reasons.

        Without `rules` it is by those in force at the time. May leave tables in the reader's connection.
        """
        return None

    def explainable(self, reader: LakeReader, rules: RulesT | None, asked: Asked) -> frozenset[str] | None:
        """The names of the things that the request could meet, for an error about another name; None if they are not listed."""
        return None

    def expression_reads(self, rules: RulesT, version: tuple[int, int]) -> Callable[[str, int | None], ReadSet] | None:
        """What an expression of a thing reads, by the names of things and the numbers of their expressions.

        Without a number it is what the thing reads. It is None where expressions do not decide, or what they read is not known.
        """
        return None

    def steps_of(self, rules: RulesT) -> Mapping[str, str]:
        """The requests that each judged thing is for, in words, where the stage tells steps."""
        return {}

    def asks_about(self, rules: RulesT, policy: str, binding: str | None) -> bool:
        """Whether a report on these rules has an entry for a (policy, binding) of the run."""
        return True

    # What the search for exemptions asks, where the stage knows any.
    exemptions: Exemptions[RulesT] | None = None

    # What a rollout asks, where bindings have actions: then a report has steps to Deny.
    actions: Actions | None = None
    # Whether the stage plans waves of namespaces itself, where bindings have no actions.
    plans_waves = False

    def rollouts(
        self, reader: LakeReader, rules: RulesT, window: Window, version: tuple[int, int], spared: Collection[str]
    ) -> Sequence[Rollout]:
        """The waves in which the rules can be enforced, where the stage plans them. `spared` are namespaces that come last.

        May leave tables in the reader's connection.
        """
        return ()

    def names(self, rules: RulesT | None, plan: RunPlan) -> Sequence[str]:
        """The names of the judged things of a version."""
        return list(dict.fromkeys(item.policy for item in plan.bindings))

    def is_same(self, rules: RulesT, before: RulesT, name: str) -> bool | None:
        """Whether two versions of one thing are equal; None where equal plans alone prove that."""
        return None

    def alike(self, rules: RulesT, before: RulesT, name: str, taken: Collection[str]) -> str:
        """A thing of the version before that has the same content and another name; empty unless exactly one fits.

        `taken` are names that the new version has, or that something is named after.
        """
        return ""

    def tables(self, reader: LakeReader, title: str, verdicts: Path) -> Sequence[Table]:
        """What `hindcast replay` prints of a run, the first table under this title. `verdicts` is the verdict table of the run."""
        return flips_tables(title, flips(reader, verdicts))

    def change_tables(self, reader: LakeReader, rules: RulesT, before: RulesT, asked: Any) -> Sequence[Table]:
        """What only this stage can say of a change from the rules `before`; `asked` are the wishes for the plans."""
        return ()

    def run_tables(self, reader: LakeReader, plan: PlanT, summary: RunSummary, title: str, verdicts: Path) -> Sequence[Table]:
        """The same of a whole run."""
        return self.tables(reader, title, verdicts)

    def changes(self, before: Path, after: Path) -> Sequence[Table]:
        """What only this stage can say of the difference between two verdict tables, apart from requests that are newly denied."""
        return ()

    def compared(self, reader: LakeReader, verdicts: Mapping[str, Path]) -> Sequence[Table]:
        """What only this stage can say of its verdicts next to those of others; `verdicts` are those of each replayed stage."""
        return ()

    def places(self, rules: RulesT) -> Sequence[Place]:
        """Where each judged thing is written. SARIF points there."""
        return ()


DEFAULT: StageReadiness[Any, Any] = StageReadiness()

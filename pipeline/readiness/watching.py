"""Watching a lake: each look replays new events, and reports the first would-be denial of a policy without one so far.

A look finds the new files, the stretches of time they touch, and whether these hold other requests than before: files that
were only merged change nothing. It replays the touched stretches as a whole, with all the history before them.
It does not judge earlier requests again when later events tell more about them. So a report over the whole time may leave fewer of
them unknown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from ingest.errors import InputError, LakeError
from queries import LakeReader

from ..runs import RunKind, RunSummary
from ..runs.plan import RunPlan
from ..runs.window import Window
from ..stages.stage import Asked, Stage
from .assess import judge_units
from .counting.fidelity import NOT_COMPARED
from .ledger import STRETCH, STRETCHES_MAX, Account, Figures, Row
from .model import Fidelity, Status
from .rules import ReadinessRules
from .run import Note, ignored, trial
from .sql import rows_of, statement

FORMAT = 3
_STRETCH_US = int(STRETCH.total_seconds() * 1_000_000)
# A lake with constant writes may change between planning and running. After these attempts the next look tries again.
_ATTEMPTS = 5
# For fewer requests, one process finishes before others have started.
_REQUESTS_FOR_WORKERS = 20_000
# Each window has a replay of its own. Above this number it is cheaper to replay the time between windows too.
_WINDOWS_MAX = 8
_NO_TIME = Window(datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC))

Key = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class FirstDenial:
    """The first would-be denial of a policy that had none so far. `was` is its verdict before."""

    policy: str
    binding: str | None
    was: Status
    ts: datetime
    audit_id: str
    user: str
    namespace: str
    workload: str  # its root owner, as in a report
    message: str


@dataclass
class Cursor:
    """The progress of a watch, kept between looks and between runs of the program."""

    policies: str
    files: set[str] = field(default_factory=set)
    digests: dict[str, str] = field(default_factory=dict)  # by stretch of time
    folded_until: str = ""
    accounts: dict[Key, Account] = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        """Whether nothing has been looked at yet."""
        return not self.files

    def to_json(self) -> str:
        """The cursor as text, for storage."""
        accounts = [
            {"policy": policy, "binding": binding, **account.document()}
            for (policy, binding), account in sorted(self.accounts.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        ]
        document = {
            "format": FORMAT,
            "policies": self.policies,
            "files": sorted(self.files),
            "digests": self.digests,
            "folded_until": self.folded_until,
            "accounts": accounts,
        }
        return json.dumps(document) + "\n"

    @classmethod
    def of_json(cls, text: str, source: str, policies: str) -> Cursor:
        """Read the output of `to_json`; a new cursor if that was for other policies. Raises InputError if it is not a cursor."""
        try:
            document = json.loads(text)
            if document["format"] != FORMAT or document["policies"] != policies:
                return cls(policies)
            accounts = {(item["policy"], item["binding"]): Account.of_document(item) for item in document["accounts"]}
            return cls(policies, set(document["files"]), document["digests"], document["folded_until"], accounts)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{source}: this is not a cursor of a watch: {error}", "delete it to start again") from error


@dataclass(frozen=True)
class Watch:
    """Manifests that are watched over a lake, as rules by stage. With `replaces_all` roles replace all others of the cluster."""

    reader: LakeReader
    lake: Path
    stages: Sequence[tuple[Stage[Any, Any], Any]]
    kubernetes_version: tuple[int, int]
    rules: ReadinessRules
    fidelity: Mapping[str, Fidelity] | None = None  # None: the replay was not compared with the log
    workers: int = 1
    note: Note = ignored  # gets the policies that Hindcast failed to judge
    replaces_all: bool = False

    def status(self, cursor: Cursor, key: Key) -> tuple[Status, tuple[str, ...]]:
        """The verdict on one (policy, binding) as of the last look, with its reasons."""
        return self.figures(cursor, key).decide(self.fidelity_of(key), self.rules)

    def fidelity_of(self, key: Key) -> Fidelity:
        """How far the replay agrees with the log's record of the policy."""
        return NOT_COMPARED if self.fidelity is None else self.fidelity.get(key[0], Fidelity())

    def figures(self, cursor: Cursor, key: Key) -> Figures:
        """The figures of one (policy, binding) up to the last look."""
        return (cursor.accounts.get(key) or Account()).figures(self.rules.confidence)

    @cached_property
    def watched(self) -> Sequence[Key]:
        """Every (policy, binding), in the order in which they were given."""
        return [key for stage, rules in self.stages for key in self._keys(stage, rules)]

    def _keys(self, stage: Stage[Any, Any], rules: Any) -> list[Key]:
        # A plan over no time names all that a stage judges by, and counts nothing.
        return [(item.policy, item.binding) for item in self._plan(stage, rules, _NO_TIME).bindings]

    def _plan(self, stage: Stage[Any, Any], rules: Any, window: Window) -> RunPlan:
        plan: RunPlan = stage.plan(self.reader, rules, Asked(window, self.kubernetes_version, replaces_all=self.replaces_all))
        return plan

    def look(self, cursor: Cursor, tell: Callable[[FirstDenial], None], keep: Callable[[Cursor], None]) -> bool:
        """Replay the events since the last look; False if the lake changed during every attempt.

        It calls `tell` with each first denial, and then `keep` with the cursor that has it. After an interruption in between,
        `tell` gets the denial again. The very first look does not call `tell`, because denials of that time are not new.
        """
        self.reader.refresh()
        files, is_first = set(self.reader.files.events), cursor.is_new
        windows = list(_windows(self._touched(cursor, files - cursor.files), is_first))
        for window, digests in windows:
            judged = self._judge(window)
            if judged is None:
                # Its files stay new. Windows that were replayed are not replayed again.
                return False
            for news in self._account(cursor, digests, *judged):
                if not is_first:
                    tell(news)
            if window == windows[-1][0]:
                cursor.files = files
                _fold(cursor)
            keep(cursor)
        if cursor.files != files:
            cursor.files = files
            keep(cursor)
        return True

    def _touched(self, cursor: Cursor, files: Iterable[str]) -> dict[datetime, str]:
        """The stretches of time that hold other requests than at the last look, with digests of their present content."""
        new = sorted(files)
        if not new:
            return {}
        rows = self.reader.connection.execute(statement("watch_touched"), {"files": new, "stretch_us": _STRETCH_US}).fetchall()
        stretches = [stretch for (stretch,) in rows if stretch.isoformat() >= cursor.folded_until]
        if not stretches:
            return {}
        parameters = {"since": stretches[0], "until": stretches[-1] + STRETCH, "stretch_us": _STRETCH_US}
        found = dict(self.reader.connection.execute(statement("watch_digests"), parameters).fetchall())
        return {stretch: found[stretch] for stretch in stretches if cursor.digests.get(stretch.isoformat()) != found[stretch]}

    def _judge(self, window: Window) -> tuple[Sequence[Row], Sequence[Row]] | None:
        """The judged requests of a window, and those over a cost limit; None if the lake changes meanwhile. Raises LakeError."""
        for _ in range(_ATTEMPTS):
            try:
                found = [self._judge_stage(stage, rules, window) for stage, rules in self.stages]
                return [row for rows, _ in found for row in rows], [row for _, rows in found for row in rows]
            except LakeError:
                if not self.reader.refresh():
                    raise
        return None

    def _judge_stage(self, stage: Stage[Any, Any], rules: Any, window: Window) -> tuple[Sequence[Row], Sequence[Row]]:
        plan = self._plan(stage, rules, window)

        def walk(stage: Stage[Any, Any], plan: RunPlan, kind: RunKind) -> RunSummary:
            workers = self.workers if plan.requests > _REQUESTS_FOR_WORKERS else 1
            return stage.run(plan, self.lake, workers, None, kind)

        # A run over ten minutes of requests has no further use, so it is not kept.
        with trial(self.lake, stage, plan, walk, self.note) as verdicts:
            kind = stage.readiness
            judge_units(self.reader, str(verdicts), self.rules, kind.counted, is_change=kind.has_flips)
        parameters = {"stretch_us": _STRETCH_US}
        names = ("watch_judged", "watch_over_cost")
        judged, over_cost = ([*rows_of(self.reader.connection, name, parameters)] for name in names)
        return judged, over_cost

    def _account(
        self, cursor: Cursor, digests: Mapping[datetime, str], judged: Iterable[Row], over_cost: Iterable[Row]
    ) -> list[FirstDenial]:
        stretches = {stretch.isoformat(): digest for stretch, digest in digests.items()}
        before = {key: (self.status(cursor, key)[0], account.total.requests["deny"]) for key, account in cursor.accounts.items()}
        for account in cursor.accounts.values():
            account.forget(stretches)
        told: dict[Key, FirstDenial] = {}
        for row in judged:
            if row["stretch"].isoformat() in stretches:
                key = (row["policy"], row["binding"])
                was, denied = before.get(key, (Status.INSUFFICIENT_EVIDENCE, 0))
                if row["outcome"] == "deny" and not denied and key not in told:
                    told[key] = _first_denial(row, was)
                cursor.accounts.setdefault(key, Account()).add(row)
        for row in over_cost:
            if row["stretch"].isoformat() in stretches:
                cursor.accounts.setdefault((row["policy"], row["binding"]), Account()).add_over_cost(row)
        cursor.digests |= stretches
        return list(told.values())


def _first_denial(row: Row, was: Status) -> FirstDenial:
    return FirstDenial(
        policy=row["policy"],
        binding=row["binding"],
        was=was,
        ts=row["first_ts"],
        audit_id=row["audit_id"],
        user=row["user_name"],
        namespace=row["namespace"],
        workload=row["unit"],
        message=row["message"],
    )


def _windows(touched: Mapping[datetime, str], together: bool) -> Iterator[tuple[Window, dict[datetime, str]]]:
    """Stretches merged into few windows: adjacent ones, then the closest; all into one if `together`."""
    stretches = sorted(touched)
    gaps = sorted((later - earlier for earlier, later in pairwise(stretches) if later - earlier > STRETCH), reverse=True)
    bridged = gaps[_WINDOWS_MAX - 1] if len(gaps) >= _WINDOWS_MAX else STRETCH
    ends = [at for at, (earlier, later) in enumerate(pairwise(stretches), start=1) if not together and later - earlier > bridged]
    for first, end in pairwise((0, *ends, len(stretches))):
        if group := stretches[first:end]:
            yield Window(group[0], group[-1] + STRETCH), {stretch: touched[stretch] for stretch in group}


def _fold(cursor: Cursor) -> None:
    """Merge stretches beyond STRETCHES_MAX, the oldest first, into the sum of the time before."""
    old = sorted(cursor.digests)[: max(len(cursor.digests) - STRETCHES_MAX, 0)]
    for stretch in old:
        del cursor.digests[stretch]
        cursor.folded_until = max(cursor.folded_until, _after(stretch))
    for account in cursor.accounts.values():
        account.fold(old)


def _after(stretch: str) -> str:
    return (datetime.fromisoformat(stretch) + STRETCH).isoformat()


def watched_digest(manifests: str, kubernetes_version: tuple[int, int]) -> str:
    """A digest of the watched manifests: a cursor is valid only for these."""
    text = f"{kubernetes_version} {manifests}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]

"""The requests of one run that are judged by their own records, shared out to processes of this machine.

Each process judges a share of the objects, with all requests about them, so that no process needs what another one reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ingest.errors import LakeError
from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..replay.processes import end, submit
from ..runs.verdict import Row
from .grouped import GroupedPlan


class Share(NamedTuple):
    """One of `of` shares of all objects."""

    number: int
    of: int

    @property
    def parameters(self) -> dict[str, int]:
        """As named SQL parameters."""
        return {"share": self.number, "shares": self.of}


WHOLE = Share(0, 1)


class JudgedShare(NamedTuple):
    """Judged passes: the values of grouped.PASS_COLUMNS, and the number of the answer. `answers` are the verdicts by number."""

    passes: list[tuple[Any, ...]]
    answers: list[tuple[Row, ...]]


JudgeShare: TypeAlias = Callable[[LakeReader, GroupedPlan[Any], Share], JudgedShare]
Own: TypeAlias = Callable[[Share], JudgedShare]


def in_shares(judge: JudgeShare, own: Own, reader: LakeReader, plan: GroupedPlan[Any], processes: int) -> JudgedShare:
    """Judge all requests of a plan, by so many processes together with this one.

    `own` judges a share in this process, and `judge`, a function of a module, in the others. Raises LakeError if one of them dies.
    """
    if processes < 2 or not reader.files.lake:
        return own(WHOLE)
    files = reader.files.absolute()
    shares = [Share(number, processes) for number in range(processes)]
    others = submit(processes - 1, _judged_apart, [(judge, plan, files, share) for share in shares[1:]])
    try:
        first = own(shares[0])
        return _joined([first, *(other.result() for other in others)])
    except BrokenProcessPool as error:
        end()
        hint = "it may have run out of memory: run it again with fewer workers or a larger memory limit"
        raise LakeError(f"{files.lake}: a process of the replay ended before its share was judged", hint) from error
    except BaseException:
        end()
        raise


def _judged_apart(judge: JudgeShare, plan: GroupedPlan[Any], files: LakeFiles, share: Share) -> JudgedShare:
    reader = open_lake(Path(files.lake), threads=1, files=files)
    try:
        return judge(reader, plan, share)
    finally:
        reader.close()


def _joined(found: Sequence[JudgedShare]) -> JudgedShare:
    """The passes of all shares in the order of arrival, as one process would have judged them."""
    numbers: dict[str, int] = {}
    answers: list[tuple[Row, ...]] = []
    passes: list[tuple[Any, ...]] = []
    for share in found:
        renumbered = []
        for answer in share.answers:
            number = numbers.setdefault(repr(answer), len(answers))
            if number == len(answers):
                answers.append(answer)
            renumbered.append(number)
        passes += [(*each[:-1], renumbered[each[-1]]) for each in share.passes]
    # cluster, audit_id, ts, stage_ts, pass
    passes.sort(key=lambda each: (each[2], each[3], each[1], each[0], each[4]))
    return JudgedShare(passes, answers)

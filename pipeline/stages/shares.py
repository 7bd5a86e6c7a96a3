"""The requests of one run that are judged by their own records, shared out to processes of this machine.

Each process judges a share of the objects, with all requests about them, so that no process needs what another one reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from ingest.errors import LakeError
from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..replay.processes import end, submit
from ..runs.verdicts import Judged, numbered


class Share(NamedTuple):
    """One of `of` shares of all objects."""

    number: int
    of: int

    @property
    def parameters(self) -> dict[str, int]:
        """As named SQL parameters."""
        return {"share": self.number, "shares": self.of}


WHOLE = Share(0, 1)


def in_shares(stage: Any, plan: Any, judging: Any, reader: LakeReader, processes: int) -> Iterator[tuple[Judged, int]]:
    """Judge all requests of a plan, by so many processes together with this one, which has `judging`.

    Yields the verdicts of each share, and how many requests it has. Raises LakeError if a process dies.
    """
    if processes < 2 or not reader.files.lake:
        yield numbered(judging.records(WHOLE))
        return
    files = reader.files.absolute()
    shares = [Share(number, processes) for number in range(processes)]
    others = submit(processes - 1, _judged_apart, [(stage, plan, files, share) for share in shares[1:]])
    try:
        yield numbered(judging.records(shares[0]))
        for other in others:
            yield other.result()
    except BrokenProcessPool as error:
        end()
        hint = "it may have run out of memory: run it again with fewer workers or a larger memory limit"
        raise LakeError(f"{files.lake}: a process of the replay ended before its share was judged", hint) from error
    except BaseException:
        end()
        raise


def _judged_apart(stage: Any, plan: Any, files: LakeFiles, share: Share) -> tuple[Judged, int]:
    with closing(open_lake(Path(files.lake), threads=1, files=files)) as reader:
        return numbered(stage.judging(reader, plan).records(share))

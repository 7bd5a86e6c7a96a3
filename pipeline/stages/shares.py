"""The requests of one run that are judged by their own records, shared out to processes of this machine.

Each process judges the requests of a stretch of time. The history of their objects is that of the whole lake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import Any

from ingest.errors import LakeError
from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..replay.processes import end, submit
from ..runs.verdicts import Judged, numbered
from ..runs.window import Window


def in_shares(stage: Any, plan: Any, judging: Any, reader: LakeReader, workers: int) -> Iterator[tuple[Judged, int]]:
    """Judge all requests of a plan, by so many processes together with this one, which has `judging`.

    Yields the verdicts of each share, and how many requests it has. Raises LakeError if a process dies.
    """
    shares: Sequence[Window] = judging.shares(workers if reader.files.lake else 1)
    if len(shares) < 2:
        for share in shares:
            yield numbered(judging.records(share))
        return
    files = reader.files.absolute()
    others = submit(len(shares) - 1, _judged_apart, [(stage, plan, files, share) for share in shares[1:]])
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


def _judged_apart(stage: Any, plan: Any, files: LakeFiles, share: Window) -> tuple[Judged, int]:
    with closing(open_lake(Path(files.lake), threads=1, files=files)) as reader:
        return numbered(stage.judging(reader, plan).records(share))

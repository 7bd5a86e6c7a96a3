"""Events of container logs that rotation cut: the first part ends one file, and the rest begins the next (fluent-bit#10041, #1055).

A runtime writes a long line in parts, and rotates between two of them. Which file is the next one follows from no name that all
runtimes share, so each end is tried with each beginning of the same folder: only the right two make a whole event.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from ..store import EventStore
from .envelopes import holds_event, is_whole
from .finder import has_trace
from .logfile import LogFile

WITHOUT_BEGINNING = "the end of an event that another file of this container begins: give both files to one ingest"
# Members near the end of an event, which no other log has.
_ENDINGS = (b'"stageTimestamp"', b'"requestReceivedTimestamp"', b'"authorization.k8s.io/')


def put_together(logs: Sequence[LogFile], store: EventStore) -> None:
    """Store the events that two files of a folder make together. An end without its beginning goes into quarantine."""
    ends = [log for log in logs if log.unfinished]
    for later in logs:
        if not later.beginning:
            continue
        for earlier in ends:
            if earlier is later or PurePosixPath(earlier.entry.path).parent != PurePosixPath(later.entry.path).parent:
                continue
            event = earlier.unfinished + later.beginning
            if is_whole(event) and holds_event(event):
                earlier.take_finished(store, event)
                ends.remove(earlier)
                later.entry.passed_over -= 1
                break
        else:
            if has_trace(later.beginning) or any(each in later.beginning for each in _ENDINGS):
                later.set_beginning_aside(store, WITHOUT_BEGINNING)

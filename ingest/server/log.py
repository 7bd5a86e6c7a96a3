"""Reads the log of a kube-apiserver for audit events that a backend failed to keep.

HandlePluginError writes one line `Error in audit plugin 'P' affecting N audit events: WHY`, then one line for each event, at every
verbosity (kubernetes/apiserver pkg/audit/metrics.go, format.go). A log proves losses. It never proves that there were no others: it
may be rotated, or come from one server of several.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InputError
from ..sources.compressed import DamagedError, blocks

_ERROR = re.compile(r"Error in audit plugin '([^']{1,100})' affecting (\d{1,9}) audit events?: (.*)")
# In logs of --logging-format=json, quotes are escaped, and one log line holds all lines of a message.
_EVENT = re.compile(r'AUDIT: id=\\?"([^"\\]{1,200})\\?" stage=\\?"([A-Za-z]+)\\?"')
_REASON_CHARACTERS = 200
_LINE_BYTES_MAX = 16 * 1024 * 1024


@dataclass(slots=True)
class PluginFailure:
    """The events that one plugin (buffered, webhook, truncate, log) failed to keep, according to one log; `reason` is the last one
    logged.

    `named` are the (auditID, stage) of events that the log names; `listed` counts their lines, `events` all lost events.
    """

    source: str
    plugin: str
    events: int = 0
    listed: int = 0
    reason: str = ""
    named: set[tuple[str, str]] = field(default_factory=set)


def read_server_log(path: Path) -> list[PluginFailure]:
    """The failures of each plugin in one log, plain or compressed, from a file, journald or a container runtime.

    Raises InputError when it cannot be read.
    """
    found: dict[str, PluginFailure] = {}
    current: PluginFailure | None = None
    try:
        with path.open("rb") as handle:
            pending = b""
            for block in blocks(handle):
                *lines, pending = (pending + block).split(b"\n")
                for line in lines:
                    current = _read(line, str(path), found, current)
                pending = pending[-_LINE_BYTES_MAX:]
            _read(pending, str(path), found, current)
    except (OSError, DamagedError) as error:
        raise InputError(f"{path}: the log cannot be read: {error}", "give the log of kube-apiserver, whole") from None
    return list(found.values())


def _read(line: bytes, source: str, found: dict[str, PluginFailure], current: PluginFailure | None) -> PluginFailure | None:
    """Count one line; returns the failure to which the events of the next lines belong."""
    if b"audit" not in line and b"AUDIT" not in line:
        return current
    text = line.decode("utf-8", "replace")
    if (error := _ERROR.search(text)) is not None:
        plugin, events, reason = error.groups()
        current = found.setdefault(plugin, PluginFailure(source, plugin))
        current.events += int(events)
        current.reason = reason.partition("\\nImpacted")[0].strip()[:_REASON_CHARACTERS]
    if current is not None:
        # Where the audit log itself is written here (--audit-log-format=legacy), more lines of this form follow; their events are
        # not lost.
        names = _EVENT.findall(text)[: current.events - current.listed]
        current.listed += len(names)
        current.named.update(names)
    return current

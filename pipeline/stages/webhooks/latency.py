"""How long webhooks took, where the log says so.

The server notes the time in webhooks only on requests that took longer than 500 ms in all (kubernetes/apiserver
pkg/endpoints/filters/audit.go). So the sample is of slow requests, and its figures are no estimate for all requests.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from queries import LakeReader

from ...runs.window import Window
from .sql import statement

_PARTS = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)")
_MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}


class Latency(NamedTuple):
    """The time of all webhooks of a phase in one request, over the requests that show it, in milliseconds."""

    phase: str
    requests: int
    p50_ms: float
    p99_ms: float
    most_ms: float


def latencies(reader: LakeReader, window: Window) -> tuple[Latency, ...]:
    """The recorded latency of each phase; phases without any are left out."""
    found: dict[str, list[float]] = {}
    for phase, text, count in reader.connection.execute(statement("latency"), window.parameters).fetchall():
        if (milliseconds := duration_ms(text)) is not None:
            found.setdefault(phase, []).extend([milliseconds] * count)
    return tuple(_latency(phase, sorted(values)) for phase, values in sorted(found.items()))


def duration_ms(text: str) -> float | None:
    """A duration as Go writes it (`1m2.5s`), in milliseconds; None if the text is not one."""
    parts = _PARTS.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _MILLISECONDS[unit] for number, unit in parts)


def _latency(phase: str, values: list[float]) -> Latency:
    p50, p99 = (values[max(0, math.ceil(share * len(values)) - 1)] for share in (0.5, 0.99))
    return Latency(phase, len(values), round(p50, 3), round(p99, 3), round(values[-1], 3))

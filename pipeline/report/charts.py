"""Charts as static SVG, so that a report opens without a network and prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import vl_convert

from pipeline.readiness.model import DayCount

# Mid tones that keep their contrast on the light and on the dark page.
_TEXT, _GRID = "#7a8594", "#8b95a355"
_JUDGED, _DENIED, _UNKNOWN = "#5b8def", "#e5484d", "#f5a524"


def timeline(days: Sequence[DayCount]) -> str:
    """An SVG of requests per UTC day, stacked by outcome (admitted, denied, unknown); empty without days."""
    if not days:
        return ""
    values = []
    for day in days:
        admitted = day.matched - day.denied - day.unknown
        for order, (outcome, count) in enumerate((("denied", day.denied), ("unknown", day.unknown), ("admitted", admitted))):
            values.append({"day": day.day.isoformat(), "outcome": outcome, "requests": count, "order": order})
    spec: dict[str, Any] = {
        "data": {"values": values},
        "width": 640,
        "height": 140,
        "background": None,
        "mark": {"type": "bar", "cornerRadiusEnd": 1},
        "encoding": {
            "x": {"field": "day", "type": "ordinal", "timeUnit": "utcyearmonthdate", "title": None, "axis": {"format": "%b %d"}},
            "y": {"field": "requests", "type": "quantitative", "title": "requests per day"},
            "order": {"field": "order", "type": "quantitative"},
            "color": {
                "field": "outcome",
                "type": "nominal",
                "scale": {"domain": ["admitted", "denied", "unknown"], "range": [_JUDGED, _DENIED, _UNKNOWN]},
                "legend": {"orient": "top", "title": None},
            },
        },
        "config": {
            "axis": {"labelColor": _TEXT, "titleColor": _TEXT, "gridColor": _GRID, "domainColor": _GRID, "tickColor": _GRID},
            "legend": {"labelColor": _TEXT},
            "view": {"stroke": None},
            "font": "system-ui, sans-serif",
        },
    }
    return vl_convert.vegalite_to_svg(spec)

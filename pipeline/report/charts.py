"""Charts as static SVG, so that a report opens without a script or a network, and prints.

Colours are variables of the page's style, so one drawing serves light and dark. Each chart is drawn for two widths: text in an SVG
shrinks with it, and on a phone it could not be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import vl_convert

from pipeline.readiness.model import DayCount, Owner, PolicyReadiness
from pipeline.stages.over_time import OverTime, Tone

from .words import policy_name

WIDE, NARROW = 860, 318
# A heat map or a list of owners with more rows is hard to read; the tables have all rows.
ROWS_MAX = 24
# Vega needs real colours; each stands for the variable of the page that replaces it.
_VARIABLES = {
    "#000001": "var(--soft)",
    "#000002": "var(--line)",
    "#000003": "var(--bar)",
    "#000004": "var(--bar-denied)",
    "#000005": "var(--bar-unknown)",
    "#000006": "var(--ink)",
    "#000007": "var(--card)",
    "#000008": "var(--raised)",
}
_TEXT, _GRID, _ADMITTED, _DENIED, _UNKNOWN, _INK, _CARD, _EMPTY = _VARIABLES
_OUTCOMES = {"domain": ["would be denied", "unknown", "admitted"], "range": [_DENIED, _UNKNOWN, _ADMITTED]}
_TONES = {Tone.DENIED: _DENIED, Tone.UNKNOWN: _UNKNOWN, Tone.ADMITTED: _ADMITTED}
_LABEL_MAX = 100
_STRONGEST_MIN = 10
_SUBTITLE = {"anchor": "start", "color": _TEXT, "fontSize": 12, "fontWeight": "normal"}
_DECIMALS = re.compile(r"(\d\.\d\d)\d+")
_ID = re.compile(r"\b(?:clip|gradient_)\d+\b")
_CONFIG: dict[str, Any] = {
    # The page says in words what each chart shows; marks one by one would only be noise to a screen reader.
    "aria": False,
    "axis": {
        "labelColor": _TEXT,
        "titleColor": _TEXT,
        "titleFontWeight": "normal",
        "gridColor": _GRID,
        "domainColor": _GRID,
        "tickColor": _GRID,
        "labelFontSize": 12,
        "titleFontSize": 12,
    },
    "legend": {"labelColor": _TEXT, "labelFontSize": 12, "symbolType": "square", "columnPadding": 26},
    # Vega measures text with fonts of its own; the reader's may be wider.
    "padding": {"left": 18, "right": 6, "top": 5, "bottom": 5},
    "view": {"stroke": None},
    "font": "system-ui, sans-serif",
}


def timeline(name: str, days: Sequence[DayCount], width: int = WIDE) -> str:
    """Would-be denials and unknowns per UTC day, above all matched requests; empty without days.

    `name` begins the identifiers within, and must be the chart's own on its page.
    """
    if not days:
        return ""
    stacked = [
        {"day": _midnight(entry), "requests": count, "outcome": outcome}
        for entry in days
        for outcome, count in (("would be denied", entry.denied), ("unknown", entry.unknown))
    ]
    matched = [{"day": _midnight(entry), "requests": entry.matched} for entry in days]
    x = _day_axis((days[-1].day - days[0].day).days + 1, 12 if width == WIDE else 5)
    y = {"field": "requests", "type": "quantitative", "title": None}
    axis = {"tickMinStep": 1, "minExtent": 40, "maxExtent": 40}
    legend = {"orient": "top", "title": None, "values": _OUTCOMES["domain"][:2]}
    bar = {"type": "bar", "binSpacing": 2}
    upper = {
        "data": {"values": stacked},
        "width": width - 80,
        "height": 110,
        "mark": bar,
        "encoding": {
            "x": {**x, "axis": {**x["axis"], "labels": False, "ticks": False}},
            "y": {**y, "stack": "zero", "axis": {**axis, "tickCount": 3}},
            "color": {"field": "outcome", "type": "nominal", "scale": _OUTCOMES, "legend": legend},
        },
    }
    lower = {
        "data": {"values": matched},
        "width": width - 80,
        "height": 46,
        "mark": {**bar, "color": _ADMITTED},
        "encoding": {"x": x, "y": {**y, "axis": {**axis, "tickCount": 2}}},
        "title": {"text": "all requests that the policy matched", **_SUBTITLE},
    }
    return _drawn(name, {"vconcat": [upper, lower], "spacing": 14})


def _midnight(entry: DayCount) -> str:
    return f"{entry.day.isoformat()}T00:00:00Z"


def _day_axis(days: int, ticks_max: int) -> dict[str, Any]:
    """UTC days from left to right, with no more ticks than there is room for."""
    ticks = {"interval": "day", "step": -(-days // ticks_max)}
    axis = {"format": "%b %d", "grid": False, "labelOverlap": True, "tickCount": ticks}
    return {
        "field": "day",
        "type": "temporal",
        "timeUnit": "utcyearmonthdate",
        "title": None,
        "axis": axis,
        "scale": {"type": "utc"},
    }


def heat_map(name: str, policies: Sequence[PolicyReadiness], width: int = WIDE) -> str:
    """Would-be denied requests by namespace and policy, the more, the stronger the colour; empty without any."""
    cells = list(_cells(policies))
    totals = Counter[str]()
    for cell in cells:
        totals[cell["namespace"]] += cell["denied"]
    if not totals.total():
        return ""
    rows = sorted(totals, key=lambda namespace: (-totals[namespace], namespace))[:ROWS_MAX]
    columns = [_label(policy_name(entry)) for entry in policies]
    step = min(190, (width - 130) // len(columns))
    # The strongest colour stands for at least so many requests, so that one denial in a quiet log does not look like an emergency.
    most = max(_STRONGEST_MIN, *(cell["denied"] for cell in cells))
    scale = {"type": "sqrt", "domain": [0, most], "range": [0.14, 1]}
    strength = {"field": "denied", "type": "quantitative", "scale": scale, "legend": None}
    color = {"condition": {"test": f"datum.denied > {0.4 * most}", "value": _CARD}, "value": _INK}
    denied = [{"filter": "datum.denied > 0"}]
    rect = {"type": "rect", "stroke": _CARD, "strokeWidth": 2, "cornerRadius": 3}
    text = {"type": "text", "fontSize": 12}
    return _drawn(
        name,
        {
            "data": {"values": [cell for cell in cells if cell["namespace"] in rows]},
            "width": {"step": step},
            "height": {"step": 26},
            "encoding": _grid(rows, columns, step, width),
            "layer": [
                {"mark": {**rect, "color": _EMPTY}},
                {"transform": denied, "mark": {**rect, "color": _DENIED}, "encoding": {"fillOpacity": strength}},
                {"transform": denied, "mark": text, "encoding": {"text": {"field": "words", "type": "nominal"}, "color": color}},
            ],
        },
    )


def _cells(policies: Sequence[PolicyReadiness]) -> Iterator[dict[str, Any]]:
    """One for each policy and namespace with matched requests."""
    for entry in policies:
        for row in entry.namespaces:
            if row.matched:
                yield {
                    "policy": _label(policy_name(entry)),
                    "namespace": _label(row.namespace or "(cluster)"),
                    "denied": row.denied,
                    "words": f"{row.denied:,}",
                }


def _grid(rows: list[str], columns: list[str], step: int, width: int) -> dict[str, Any]:
    """Namespaces downwards, policies to the right; their names stand upright only where they fit above their column."""
    above = {
        "orient": "top",
        "labelAngle": 0 if step > 7 * max(map(len, columns)) else -40,
        "labelLimit": 200 if width == WIDE else 130,
        "ticks": False,
    }
    axis = {"labelLimit": 190 if width == WIDE else 100, "ticks": False, "domain": False}
    return {
        "x": {"field": "policy", "type": "nominal", "sort": columns, "title": None, "axis": above},
        "y": {"field": "namespace", "type": "nominal", "sort": rows, "title": None, "axis": axis},
    }


def exposure(name: str, policies: Sequence[PolicyReadiness], width: int = WIDE) -> str:
    """The outcomes of the matched requests of each policy, as shares; empty if nothing matched."""
    values = []
    for entry in policies:
        admitted = entry.exposure.requests_judged - entry.denials.requests
        counts = (entry.denials.requests, entry.exposure.requests_unknown, admitted)
        for order, (outcome, count) in enumerate(zip(_OUTCOMES["domain"], counts, strict=True)):
            values.append({"policy": _label(policy_name(entry)), "outcome": outcome, "requests": count, "order": order})
    if not any(value["requests"] for value in values):
        return ""
    spec = {
        "data": {"values": values},
        "width": width - (270 if width == WIDE else 150),
        "height": {"step": 26},
        "mark": {"type": "bar", "cornerRadius": 1},
        "encoding": {
            "y": {
                "field": "policy",
                "type": "nominal",
                "sort": [_label(policy_name(entry)) for entry in policies],
                "title": None,
                "axis": {"labelLimit": 230 if width == WIDE else 110, "ticks": False, "domain": False},
            },
            "x": {
                "field": "requests",
                "type": "quantitative",
                "stack": "normalize",
                "title": None,
                "axis": {"format": "%", "tickCount": 4, "domain": False},
            },
            "order": {"field": "order", "type": "quantitative"},
            "color": {
                "field": "outcome",
                "type": "nominal",
                "scale": _OUTCOMES,
                "legend": {"orient": "top", "title": None, "columns": 3, "labelLimit": 110},
            },
        },
    }
    return _drawn(name, spec)


def owners(name: str, found: Sequence[Owner], width: int = WIDE) -> str:
    """The workloads with the most would-be denied requests, by acting identity; empty for fewer than two."""
    totals = Counter[str]()
    for owner in found:
        totals[_label(f"{owner.namespace}/{owner.unit}".strip("/"))] += owner.requests
    rows = sorted(totals, key=lambda label: (-totals[label], label))[:12]
    if len(rows) < 2:
        return ""
    values = [{"workload": label, "requests": totals[label], "words": f"{totals[label]:,}"} for label in rows]
    axis = {"labelLimit": 300 if width == WIDE else 170, "ticks": False, "domain": False}
    spec = {
        "data": {"values": values},
        "width": width - (380 if width == WIDE else 230),
        "height": {"step": 22},
        "encoding": {
            "y": {"field": "workload", "type": "nominal", "sort": rows, "title": None, "axis": axis},
            "x": {"field": "requests", "type": "quantitative", "axis": None},
        },
        "layer": [
            {"mark": {"type": "bar", "color": _DENIED, "cornerRadiusEnd": 2, "height": {"band": 0.62}}},
            {
                "mark": {"type": "text", "align": "left", "dx": 5, "color": _TEXT, "fontSize": 12},
                "encoding": {"text": {"field": "words", "type": "nominal"}},
            },
        ],
    }
    return _drawn(name, spec)


def over_time(name: str, found: OverTime, width: int = WIDE) -> str:
    """Counts of a stage over time, one row of bars for each thing, each with a scale of its own."""
    slots = found.slots
    span = [found.first.isoformat(), (found.last + timedelta(seconds=found.slot_seconds)).isoformat()]
    several_days = found.first.date() != found.last.date()
    axis = {
        "format": "%b %d %H:%M" if several_days else "%H:%M:%S",
        "grid": False,
        "labelOverlap": True,
        "tickCount": 8 if width == WIDE else 3,
    }
    scale = {"type": "utc", "domain": span, "nice": False}
    x = {"field": "start", "type": "temporal", "title": None, "scale": scale}
    panels = []
    for number, row in enumerate(found.bars, 1):
        is_last = number == len(found.bars)
        panels.append(
            {
                "data": {"values": [{"start": each.start.isoformat(), "count": each.count} for each in row.moments]},
                "width": width - 80,
                "height": 90 if number == 1 else 40,
                "mark": {"type": "bar", "align": "left", "size": max(1, 0.82 * (width - 80) / slots), "color": _TONES[row.tone]},
                "encoding": {
                    "x": {**x, "axis": axis if is_last else {**axis, "labels": False, "ticks": False}},
                    "y": {
                        "field": "count",
                        "type": "quantitative",
                        "title": None,
                        "axis": {"tickMinStep": 1, "tickCount": 2, "minExtent": 40, "maxExtent": 40},
                    },
                },
                "title": {"text": f"{_label(row.what, (width - 66) // 7)}: {row.total:,}", **_SUBTITLE},
            }
        )
    return _drawn(name, {"vconcat": panels, "spacing": 12})


def _label(text: str, most: int = _LABEL_MAX) -> str:
    """A name as a chart can hold it: Vega rejects line separators, and a very long name cannot be read."""
    shown = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text[:most])
    return shown if len(text) <= most else f"{shown}…"


def _drawn(name: str, spec: dict[str, Any]) -> str:
    """The SVG of a chart. vl-convert counts identifiers through the life of the process; here they start again with each chart."""
    svg: str = vl_convert.vegalite_to_svg({"background": None, "config": _CONFIG, **spec})
    svg = _DECIMALS.sub(r"\1", svg)
    numbers = {found: f"{name}-{number}" for number, found in enumerate(dict.fromkeys(_ID.findall(svg)))}
    svg = _ID.sub(lambda match: numbers[match[0]], svg)
    for color, variable in _VARIABLES.items():
        svg = svg.replace(f'"{color}"', f'"{variable}"')
    return svg

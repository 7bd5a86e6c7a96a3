"""A report on a fleet as JSON, YAML, Markdown and HTML. It chooses layout, never numbers.

`fleet_schema` describes the JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from ingest.counted import counted
from ingest.errors import InputError
from pipeline.fleet.model import MODEL_VERSION, FleetCell, FleetCluster, FleetPolicy, FleetReport
from pipeline.readiness.model import Status

from .cells import visible, visible_value
from .data import plain
from .schema import schema_of_record
from .texts import json_text, yaml_text

API_VERSION = f"hindcast.fleet/v{MODEL_VERSION}"
KIND = "FleetReport"
# One character for each verdict, which stands for it where there is no room for words.
SIGNS: Mapping[Status, str] = {
    Status.READY: "+",
    Status.READY_WITH_EXEMPTIONS: "e",
    Status.NOT_READY: "X",
    Status.INSUFFICIENT_EVIDENCE: "?",
}
_TONES = {Status.READY: "good", Status.READY_WITH_EXEMPTIONS: "good", Status.NOT_READY: "bad"}


def fleet_answer(report: FleetReport) -> str:
    """The report in one sentence."""
    apart = f"; {len(report.apart):,} cannot be judged" if report.apart else ""
    if not report.clusters_ready:
        return f"No cluster of {report.clusters_total:,} is ready for {_all(len(report.policies))}{apart}."
    return (
        f"{report.clusters_ready:,} of {counted(report.clusters_total, 'cluster')} "
        f"{_are(report.clusters_ready)} ready for {_all(len(report.policies))}{apart}."
    )


def _all(manifests: int) -> str:
    return "the manifest" if manifests == 1 else "both manifests" if manifests == 2 else f"all {manifests:,} manifests"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def ready_in(each: FleetPolicy) -> str:
    """`37 of 40`."""
    return f"{each.ready:,} of {each.clusters:,}"


def fleet_document(report: FleetReport) -> dict[str, Any]:
    """The report as JSON values."""
    return {"apiVersion": API_VERSION, "kind": KIND, **plain(report)}


def fleet_schema() -> dict[str, Any]:
    """The schema (2020-12) of the JSON; it follows from the classes of the model."""
    return schema_of_record(FleetReport, API_VERSION, KIND, f"urn:hindcast:fleet:v{MODEL_VERSION}")


def _json(report: FleetReport) -> str:
    return json_text(fleet_document(report), indent=2) + "\n"


def _yaml(report: FleetReport) -> str:
    return yaml_text([fleet_document(report)], width=120)


def _html(report: FleetReport) -> str:
    return _template("fleet.html.j2").render(report=report, style=_style(), matrix=matrix(report)) + "\n"


def _markdown(report: FleetReport) -> str:
    return visible(_template("fleet.md.j2").render(report=report, matrix=matrix(report))) + "\n"


FLEET_FORMATS: dict[str, Callable[[FleetReport], str]] = {"json": _json, "yaml": _yaml, "markdown": _markdown, "html": _html}
_ENDINGS = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".md": "markdown", ".html": "html"}


def fleet_format_of(file_name: str) -> str:
    """The format that the ending of a file's name asks for. Raises InputError."""
    for ending, name in _ENDINGS.items():
        if file_name.endswith(ending):
            return name
    raise InputError(f"--report-file: {file_name} has no ending of a format", f"use one of {', '.join(_ENDINGS)}")


def matrix(report: FleetReport) -> list[tuple[FleetCluster, list[FleetCell | None]]]:
    """One row for each cluster, those that cannot be judged last, with a cell for each manifest of the report, in its order."""
    keys = [(each.policy, each.binding, each.stage) for each in report.policies]
    rows = []
    for cluster in (*report.clusters, *report.apart):
        cells = {(cell.policy, cell.binding, cell.stage): cell for cell in cluster.cells}
        rows.append((cluster, [cells.get(key) for key in keys]))
    return rows


def first_reason(cells: Sequence[FleetCell]) -> str:
    """Why no manifest could be judged: the first reason of the manifest with the most requests."""
    best = max(cells, key=lambda cell: cell.requests_matched, default=None)
    return best.reasons[0] if best is not None and best.reasons else "no manifest matched a request"


def _words(cell: FleetCell) -> str:
    """A cell in words."""
    return (
        f"{cell.status}: {cell.requests_judged:,} judged, {cell.requests_denied:,} denied, {cell.requests_unknown:,} unknown, "
        f"{counted(cell.units_judged, 'workload')}, at most {cell.unit_rate_upper:.1%} of them denied"
    )


def _style() -> Markup:
    folder = files("pipeline.report").joinpath("templates")
    return Markup("".join(folder.joinpath(name).read_text(encoding="utf-8") for name in ("report.css", "fleet.css")))


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("pipeline.report"),
        autoescape=True,  # Markdown holds HTML, too
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible_value,
    )
    environment.filters.update(
        answer=fleet_answer,
        ready_in=ready_in,
        sign=lambda cell: SIGNS.get(cell.status, "?"),
        tone=lambda cell: _TONES.get(cell.status, "unsure"),
        words=_words,
    )
    return environment.get_template(name)

"""The report as one HTML file: no script, no font, no picture from elsewhere. It opens offline, in light and dark, and prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from pipeline.explaining.missing import SHOWN_MAX
from pipeline.readiness.counting.figures import figures_by_group
from pipeline.readiness.model import PolicyReadiness
from pipeline.readiness.report import Report
from pipeline.readiness.rules import ReadinessRules
from pipeline.readiness.words import day, percent

from . import charts, over_time
from .cells import visible_value
from .data import API_VERSION, plain
from .markup import coded, soft, user
from .outcomes import OUTCOMES, Outcome, next_step
from .texts import yaml_text
from .words import answer, exemptions_title, fates, policy_name, step, workload
from .workloads import denied_workloads


@dataclass(frozen=True, slots=True)
class Drawing:
    """One chart for wide and for narrow pages; both are empty where there is nothing to draw."""

    wide: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True)
class PolicyDrawings:
    timeline: Drawing
    owners: Drawing


@dataclass(frozen=True, slots=True)
class Drawings:
    exposure: Drawing
    heat_map: Drawing
    policies: list[PolicyDrawings]
    over_time: list[Markup]


def to_html(report: Report) -> str:
    """The whole page. Every text from the log is escaped: by the template, and in charts by their drawer."""
    drawn = Drawings(
        _drawing("exposure", charts.exposure, report.policies),
        _drawing("heat-map", charts.heat_map, report.policies),
        [
            PolicyDrawings(
                _drawing(f"days-{number}", charts.timeline, entry.days), _drawing(f"owners-{number}", charts.owners, entry.owners)
            )
            for number, entry in enumerate(report.policies)
        ],
        # Safe: the other file escapes every text.
        [Markup(over_time.section(f"over-time-{number}", found)) for number, found in enumerate(report.over_time)],
    )
    return _template().render(report=report, charts=drawn, style=_style(), version=API_VERSION) + "\n"


def _drawing(name: str, draw: Callable[[str, Any, int], str], data: Any) -> Drawing:
    # Safe: Vega made this SVG from data, and escapes the text in it.
    return Drawing(Markup(draw(f"{name}-wide", data, charts.WIDE)), Markup(draw(f"{name}-narrow", data, charts.NARROW)))


def _style() -> Markup:
    return Markup(files("pipeline.report").joinpath("templates", "report.css").read_text(encoding="utf-8"))


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("pipeline.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible_value,
    )
    environment.filters.update(
        answer=answer,
        coded=coded,
        day=day,
        fates=fates,
        figures=figures_by_group,
        outcome=_outcome,
        next_step=next_step,
        percent=percent,
        policy_name=policy_name,
        rules=_rules,
        soft=soft,
        step=step,
        exemptions_title=exemptions_title,
        user=user,
        workload=workload,
        denied_workloads=denied_workloads,
        yaml=_yaml,
    )
    # So many reasons for unknown are among those of the verdict.
    environment.globals["shown_reasons"] = SHOWN_MAX
    return environment.get_template("report.html.j2")


def _outcome(entry: PolicyReadiness) -> Outcome:
    return OUTCOMES[entry.status]


def _rules(rules: ReadinessRules) -> list[tuple[str, str]]:
    values = plain(rules).items()
    return [(name, ", ".join(value) or "none" if isinstance(value, list) else f"{value:g}") for name, value in values]


def _yaml(value: Any) -> str:
    return yaml_text([plain(value)])

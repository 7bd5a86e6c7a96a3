"""The report as one HTML file: no script, no font, no picture from elsewhere. It opens offline, in light and dark, and prints."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape
from markupsafe import Markup

from .charts import timeline
from .model import Report
from .words import day, percent, policy_name, workload


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("pipeline.report"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(day=day, percent=percent, policy_name=policy_name, workload=workload)
    return environment.get_template("report.html.j2")


def to_html(report: Report) -> str:
    """The whole page. Every text from the log is escaped; only our own charts are inserted as markup."""
    # Safe: the charts hold dates and counts only, no text from the log.
    charts = [Markup(timeline(entry.days)) for entry in report.policies]
    return _template().render(report=report, charts=charts)

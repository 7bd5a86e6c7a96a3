"""The options that say how a report leaves a command."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pipeline.report.endings import ENDINGS


class ReportFormat(StrEnum):
    """The formats of every command that prints a report."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    CSV = "csv"
    HTML = "html"
    JUNIT = "junit"
    SARIF = "sarif"
    OPENREPORTS = "openreports"
    POLICYREPORT = "policyreport"
    OWNERS = "owners"


EVERY_ENDING = ", ".join(ending for endings in ENDINGS.values() for ending in endings)
Output = Annotated[ReportFormat, typer.Option("-o", "--output", help="How to print the report.")]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--report-file", help=f"Also write the report to this file. The ending decides the format ({EVERY_ENDING}); repeatable."
    ),
]
Export = Annotated[
    Path | None, typer.Option("--export", help="Write the report's tables, and the rows behind them, into this folder.")
]

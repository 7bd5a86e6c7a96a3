"""The formats of a report as text, in one table: name, renderer, file endings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.readiness.report import Report

from .data import to_json, to_yaml
from .html import to_html
from .junit import to_junit
from .markdown import to_markdown
from .openreports import to_openreports, to_policyreport
from .sarif import to_sarif


@dataclass(frozen=True, slots=True)
class TextFormat:
    """`endings` are those of file names that mean this format."""

    render: Callable[[Report], str]
    endings: tuple[str, ...] = ()


TEXT_FORMATS: dict[str, TextFormat] = {
    "json": TextFormat(to_json, (".json",)),
    "yaml": TextFormat(to_yaml, (".yaml", ".yml")),
    "markdown": TextFormat(to_markdown, (".md",)),
    "html": TextFormat(to_html, (".html",)),
    "junit": TextFormat(to_junit, (".xml",)),
    "sarif": TextFormat(to_sarif, (".sarif", ".sarif.json")),
    "openreports": TextFormat(to_openreports, (".openreports.yaml",)),
    "policyreport": TextFormat(to_policyreport, (".policyreport.yaml",)),
}


def format_of(file_name: str) -> str | None:
    """The format that a file's name asks for by its ending, the longest first; None if no format has that ending."""
    endings = {ending: name for name, found in TEXT_FORMATS.items() for ending in found.endings}
    return next((endings[ending] for ending in sorted(endings, key=len, reverse=True) if file_name.endswith(ending)), None)

"""The formats of a report as text: name, renderer, file endings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.readiness.report import Report

from .data import to_json, to_yaml
from .endings import ENDINGS
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
    name: TextFormat(render, ENDINGS[name])
    for name, render in {
        "json": to_json,
        "yaml": to_yaml,
        "markdown": to_markdown,
        "html": to_html,
        "junit": to_junit,
        "sarif": to_sarif,
        "openreports": to_openreports,
        "policyreport": to_policyreport,
    }.items()
}


def format_of(file_name: str) -> str | None:
    """The format that a file's name asks for by its ending, the longest first; None if no format has that ending."""
    endings = {ending: name for name, found in TEXT_FORMATS.items() for ending in found.endings}
    return next((endings[ending] for ending in sorted(endings, key=len, reverse=True) if file_name.endswith(ending)), None)

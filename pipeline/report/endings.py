"""The endings of file names that mean a format of a report. To read them here loads no renderer."""

from __future__ import annotations

ENDINGS: dict[str, tuple[str, ...]] = {
    "json": (".json",),
    "yaml": (".yaml", ".yml"),
    "markdown": (".md",),
    "html": (".html",),
    "junit": (".xml",),
    "sarif": (".sarif", ".sarif.json"),
    "openreports": (".openreports.yaml",),
    "policyreport": (".policyreport.yaml",),
}

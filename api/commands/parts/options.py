"""Options that several commands share, and the function that reads each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from api.printing.output import Format
from pipeline.cel.minors import DEFAULT, NEWEST, OLDEST, words_of
from pipeline.other_authorizers import OtherAuthorizers

Output = Annotated[Format, typer.Option("-o", "--output", help="How to print the result.")]
Zone = Annotated[str, typer.Option(help="The time zone of times that name none, such as UTC or Europe/Berlin.")]
Since = Annotated[str | None, typer.Option(help="Only requests from this time on: 30d (30 days ago), 12h, or a time in RFC 3339.")]
Until = Annotated[str | None, typer.Option(help="Only requests before this time, written as in --since.")]
Rules = Annotated[Path | None, typer.Option(help="A YAML file that overrides single readiness rules.")]
Limit = Annotated[
    int | None,
    typer.Option(min=0, help="Rows to print of each table; 0: all. Default: 40 on a terminal, else all."),
]
Policies = Annotated[
    list[Path] | None,
    typer.Option(
        "-f",
        "--filename",
        help="Manifests, such as policies with their bindings and params: a file, a folder, or - for standard input.",
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one for 20,000 events, at most one per core.")]
OtherAuthorizersOption = Annotated[
    OtherAuthorizers | None,
    typer.Option(
        "--other-authorizers",
        help="Authorizers of the clusters other than RBAC: none, node, or any (then a permission that RBAC lacks is unknown). "
        "Default: as the log shows.",
    ),
]
Expires = Annotated[
    str,
    typer.Option(
        "--review-by",
        help="The day by which to review the exemptions: YYYY-MM-DD, or 90d (in 90 days). No cluster enforces it.",
    ),
]


def _told_version(context: typer.Context, text: str) -> str:
    """The given text. Warns if Hindcast does not know the CEL of that version and uses another version's."""
    from api.asked_values import parse_version

    version = parse_version(text)
    taken = min(max(version, OLDEST), NEWEST)
    if taken != version and not context.resilient_parsing:
        known = f"{words_of(OLDEST)} to {words_of(NEWEST)}"
        sys.stderr.write(
            f"--kubernetes-version {words_of(version)}: Hindcast knows the CEL of {known}, and takes that of {words_of(taken)}\n"
        )
    return text


DEFAULT_VERSION = words_of(DEFAULT)
KubernetesVersion = Annotated[
    str,
    typer.Option(
        "--kubernetes-version", callback=_told_version, help="The API server's minor version; it decides which CEL libraries exist."
    ),
]

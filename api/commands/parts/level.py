"""The options `--level` and `--namespace` of replays: a level of Pod Security, as if manifests gave the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.errors import InputError
from pipeline.stages.pod_security.checks.table import Level as PodSecurityLevel

if TYPE_CHECKING:
    from api.given import Texts


Level = Annotated[
    PodSecurityLevel | None,
    typer.Option(help="Replay this level of Pod Security, for all namespaces or those of --namespace, as if -f gave their labels."),
]
LevelNamespaces = Annotated[list[str] | None, typer.Option("--namespace", help="With --level: this namespace; repeatable.")]


def labels_of(level: PodSecurityLevel | None, namespaces: Sequence[str] | None) -> Texts:
    """Namespaces with the labels of a level."""
    from pipeline.stages.pod_security.given import labelled

    if namespaces and level is None:
        raise InputError("--namespace is for --level", "say with --level which level these namespaces are to have")
    return [("--level", labelled(level, namespaces or ()))] if level is not None else []

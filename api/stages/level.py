"""The options `--level` and `--namespace` of replays: a level of Pod Security, as if manifests gave the labels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.errors import InputError
from pipeline.stages.pod_security.checks.table import Level as PodSecurityLevel

if TYPE_CHECKING:
    from api.context import Context
    from api.given import Texts


Level = Annotated[
    PodSecurityLevel | None,
    typer.Option(help="Replay this level of Pod Security, for all namespaces or those of --namespace, as if -f gave their labels."),
]
LevelNamespaces = Annotated[list[str] | None, typer.Option("--namespace", help="With --level: this namespace; repeatable.")]


def check_namespaces(own: Context, namespaces: Sequence[str] | None) -> None:
    """Raise InputError for a namespace that the lake does not show: a replay of its level would say that nothing changes."""
    from pipeline.history.world import NAMESPACES
    from pipeline.requests.past import load_history
    from pipeline.runs.window import Window
    from queries import open_lake

    if not namespaces:
        return
    with closing(open_lake(own.lake)) as reader:
        history = load_history(reader, (), Window())
        clusters = [cluster for (cluster,) in reader.sql("SELECT DISTINCT cluster FROM events").fetchall()]
        shown = {key.name for cluster in clusters for key in history.keys(cluster, NAMESPACES)}
        shown |= {name for (name,) in reader.sql("SELECT DISTINCT namespace FROM requests").fetchall() if name}
    for name in namespaces:
        if name not in shown:
            raise InputError(f"the log shows no namespace {name!r}", f"it shows {', '.join(sorted(shown)) or 'none'}")


def labels_of(level: PodSecurityLevel | None, namespaces: Sequence[str] | None) -> Texts:
    """Namespaces with the labels of a level."""
    from pipeline.stages.pod_security.given import labelled

    if namespaces and level is None:
        raise InputError("--namespace is for --level", "say with --level which level these namespaces are to have")
    return [("--level", labelled(level, namespaces or ()))] if level is not None else []

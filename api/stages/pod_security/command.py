"""`hindcast pod-security`: the level that each namespace can enforce, and what stands in the way of the next one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.commands.parts import options
from api.context import Context
from ingest.acting import visible
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.stages.pod_security.levels import NamespaceLevel, Obstacle


_ODD_SHOWN = 3


class LevelFormat(StrEnum):
    """Tables, and the labels to apply."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    CSV = "csv"
    MANIFESTS = "manifests"
    KUBECTL = "kubectl"


def command(
    context: typer.Context,
    configuration: Annotated[
        list[Path] | None,
        typer.Option("-f", "--filename", help="The PodSecurityConfiguration of the API server: its defaults and exemptions."),
    ] = None,
    namespaces: Annotated[list[str] | None, typer.Option("-n", "--namespace", help="Only this namespace; repeatable.")] = None,
    cluster: Annotated[
        str, typer.Option(help="Only this cluster of the lake. [default: each cluster apart]", show_default=False)
    ] = "",
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    limit: options.Limit = None,
    output: Annotated[
        LevelFormat, typer.Option("-o", "--output", help="Print tables, or the labels as manifests or kubectl commands.")
    ] = LevelFormat.TABLE,
) -> int:
    """Print for each namespace the strictest Pod Security level that would have refused nothing, and what the next would refuse."""
    from api import asked_values
    from api.commands.parts.clusters import cluster_files, known_clusters
    from api.commands.parts.texts import read_texts
    from api.commands.parts.window import check_window
    from api.printing.output import Format, render
    from pipeline.manifests.files import manifests_of
    from pipeline.runs.window import Window
    from pipeline.stages.pod_security.given import given_of
    from pipeline.stages.pod_security.levels import levels_of
    from queries import open_lake

    own: Context = context.obj
    window, version = Window(*asked_values.parse_window(since, until)), asked_values.parse_version(kubernetes_version)
    check_window(own, window)
    given = given_of(manifests_of(read_texts(configuration))).configuration if configuration else None
    if configuration and given is None:
        raise InputError(
            f"{', '.join(map(str, configuration))}: found no PodSecurityConfiguration",
            "`hindcast replay -f` judges labels of given namespaces",
        )
    with closing(open_lake(own.lake, files=cluster_files(own, cluster))) as reader:
        found = levels_of(reader, given, window, version[1])
    if namespaces:
        known = {each.namespace for each in found}
        if missing := [name for name in namespaces if name not in known]:
            raise InputError(f"the log shows no namespace {missing[0]!r}", f"it shows {', '.join(sorted(known)) or 'none'}")
        found = [each for each in found if each.namespace in namespaces]
    if output is LevelFormat.MANIFESTS or output is LevelFormat.KUBECTL:
        _write_labels(found, output)
    else:
        are_several = not cluster and len(known_clusters(own)) > 1
        obstacles = workloads_table if output is LevelFormat.TABLE else obstacles_table
        render([levels_table(found, are_several), obstacles(found, are_several)], Format(output), limit=limit)
    for sentence in _remarks(found, given is not None):
        own.tell(sentence)
    return 0


def levels_table(found: Sequence[NamespaceLevel], are_several: bool) -> Table:
    """One row per namespace."""
    from api.printing.output import Column, Table

    columns = [
        Column("cluster", wide=not are_several),
        Column("namespace", may_shorten=True),
        Column("enforced", may_go=1),
        Column("level", "REFUSES NOTHING"),
        Column("next", "NEXT LEVEL", may_go=4),
        Column("obstacles", "IN ITS WAY", number=True, may_go=2),
        Column("requests", number=True, may_go=7),
        Column("existing", number=True, may_go=6),
        Column("exempt", number=True, wide=True),
        Column("unknown", number=True, may_go=5),
        Column("labels", "LABELS THAT REFUSE NOTHING"),
        Column("why", prose=True, wide=True),
    ]
    rows = [
        [
            each.cluster,
            each.namespace,
            str(each.current) if each.current else "unknown",
            str(each.level or "unknown"),
            str(each.next or ""),
            len(each.obstacles),
            each.requests,
            each.existing,
            each.exempt,
            each.unknown,
            _in_short(each.labels),
            each.why,
        ]
        for each in found
    ]
    notes = (
        "requests: recorded creates and updates of Pods and templates; existing: Pods and templates that a snapshot lists",
        "a level with unknown requests is not sure: the log does not show their Pods",
        "-o kubectl prints the labels as commands, -o manifests as Namespaces; -o wide says why a namespace enforces no more",
    )
    return Table("levels", columns, rows, "The strictest level that would have refused nothing", notes if rows else ())


def _in_short(labels: Mapping[str, str]) -> str:
    """Labels on one line: `enforce=baseline, audit/warn=restricted`."""
    from pipeline.stages.pod_security.policy import PREFIX

    levels = {key.removeprefix(PREFIX): level for key, level in labels.items() if not key.endswith("-version")}
    modes: dict[str, list[str]] = {}
    for mode, level in levels.items():
        modes.setdefault(level, []).append(mode)
    return ", ".join(f"{'/'.join(each)}={level}" for level, each in modes.items()) or "those that it has"


def workloads_table(found: Sequence[NamespaceLevel], are_several: bool) -> Table:
    """One row per workload that stands in the way of the next level, with the checks that its Pods fail."""
    from api.printing.output import Column, Table

    columns = [
        Column("cluster", wide=not are_several),
        Column("namespace", may_shorten=True),
        Column("level", may_go=3),
        Column("workload", may_shorten=True),
        Column("checks"),
        Column("requests", number=True, may_go=1),
        Column("existing", number=True, may_go=2),
    ]
    grouped: dict[tuple[str, str, str, str], list[Obstacle]] = {}
    for each in found:
        for row in each.obstacles:
            grouped.setdefault((row.cluster, row.namespace, str(row.level), row.workload), []).append(row)
    # Requests of a workload fail several checks, and each check has all that fail it.
    rows = [
        [*place, _few([row.check for row in own]), max(row.requests for row in own), max(row.existing for row in own)]
        for place, own in grouped.items()
    ]
    notes = ("-o wide has each check with its field, and the change that lets the Pods pass",) if rows else ()
    return Table("obstacles", columns, rows, "What the next level would refuse", notes)


def _few(checks: Sequence[str]) -> str:
    """The first of some checks, and how many more there are: one line per workload."""
    return checks[0] if len(checks) == 1 else f"{checks[0]} +{len(checks) - 1}"


def obstacles_table(found: Sequence[NamespaceLevel], are_several: bool) -> Table:
    """One row per workload and check that stand in the way of the next level."""
    from api.printing.output import Column, Table

    columns = [
        Column("cluster", wide=not are_several),
        Column("namespace", may_shorten=True),
        Column("level"),
        Column("workload", may_shorten=True),
        Column("check"),
        Column("detail", prose=True, wide=True),
        Column("field", wide=True),
        Column("change", prose=True),
        Column("requests", number=True),
        Column("existing", number=True),
    ]
    rows = [
        [
            row.cluster,
            row.namespace,
            str(row.level),
            row.workload,
            row.check,
            row.detail,
            row.field,
            row.change,
            row.requests,
            row.existing,
        ]
        for each in found
        for row in each.obstacles
    ]
    return Table("obstacles", columns, rows, "What the next level would refuse")


def _write_labels(found: Sequence[NamespaceLevel], output: LevelFormat) -> None:
    from pipeline.manifests.shell import command_line
    from pipeline.manifests.writing import to_yaml
    from pipeline.stages.authorization.role_objects import may_be_namespace

    for each in found:
        if not each.labels or not may_be_namespace(each.namespace):
            continue
        if output is LevelFormat.KUBECTL:
            labels = [f"{key}={value}" for key, value in each.labels.items()]
            sys.stdout.write(command_line(["kubectl", "label", "--overwrite", "namespace", "--", each.namespace, *labels]) + "\n")
        else:
            if not each.written:
                continue
            metadata = {"name": each.namespace, "labels": each.written}
            sys.stdout.write(f"---\n{to_yaml([{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': metadata}])}")


def _remarks(found: Sequence[NamespaceLevel], is_configured: bool) -> list[str]:
    """What a reader of the levels has to know, as sentences."""
    from ingest.counted import counted
    from pipeline.stages.authorization.role_objects import may_be_namespace

    told = []
    if not is_configured:
        told.append(
            "no log holds the PodSecurityConfiguration: without -f, defaults and exemptions count as far as the log shows them"
        )
    if nothing := [each for each in found if each.level is None]:
        told.append(f"{counted(len(nothing), 'namespace')} without a known Pod: their level is unknown")
    if odd := [visible(each.namespace) for each in found if not may_be_namespace(each.namespace)]:
        more = f" and {len(odd) - _ODD_SHOWN:,} more" if len(odd) > _ODD_SHOWN else ""
        told.append(f"no namespace can have these names, so they have no labels: {', '.join(odd[:_ODD_SHOWN])}{more}")
    if unsure := [each for each in found if each.level is not None and each.unknown]:
        told.append(f"{counted(len(unsure), 'namespace')} with unknown Pods: -o manifests and -o kubectl leave them out")
    return told

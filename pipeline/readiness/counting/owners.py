"""Whom would-be denials hit: the root owner, its team and the acting client, with an example and a change that lets it pass."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa

from queries import LakeReader

from ...history.event import Event, decode_json
from ...history.fitness import fit_requests
from ...history.reconstruct import NotReplayed
from ...history.versions import LogVersions
from ...history.writes import record
from ...request import AdmissionRequest
from ...stages.judging import Judges
from ..model import Owner
from ..rules import ReadinessRules
from ..sql import rows_of
from .clients import acting_tool, applying_tool, identity_of
from .figures import OWNERS_MAX

# For how many owners of one policy the smallest difference is searched.
DIFFERENCES_MAX = 40

Key: TypeAlias = tuple[str, str | None]
RequestKey: TypeAlias = tuple[str, str, datetime]
Row: TypeAlias = Mapping[str, Any]
_Place: TypeAlias = tuple[str, Mapping[str, Any]]


def find_owners(reader: LakeReader, rules: ReadinessRules, judges: Judges | None) -> dict[Key, tuple[Owner, ...]]:
    """The owners of would-be denials by (policy, binding), most requests first. Needs the tables of judge_units.

    Without `judges` it does not look for differences.
    """
    rows = rows_of(reader.connection, "owners", {"listed_max": OWNERS_MAX})
    register_examples(reader, map(_example, rows))
    steps: defaultdict[RequestKey, list[Row]] = defaultdict(list)
    for row in rows_of(reader.connection, "examples"):
        steps[row["cluster"], row["audit_id"], row["ts"]].append(row)
    differences = _differences(reader, rows, judges) if judges else {}
    found: defaultdict[Key, list[Owner]] = defaultdict(list)
    for row in rows:
        key, example = (row["policy"], row["binding"]), _example(row)
        found[key].append(_owner(row, steps[example], rules, differences.get((key, example), "")))
    return {key: tuple(owners) for key, owners in found.items()}


def _example(row: Row) -> RequestKey:
    # The example is the last denied request.
    return row["cluster"], row["audit_id"], row["last_ts"]


def register_examples(reader: LakeReader, requests: Iterable[RequestKey]) -> None:
    """Make the table `examples` of the requests that stand for owners."""
    keys = sorted(set(requests))
    types = (pa.string(), pa.string(), pa.timestamp("us", tz="UTC"))
    columns = [pa.array([key[position] for key in keys], kind) for position, kind in enumerate(types)]
    reader.put_table("examples", pa.Table.from_arrays(columns, names=["cluster", "audit_id", "ts"]))


def _owner(row: Row, steps: Sequence[Row], rules: ReadinessRules, difference: str) -> Owner:
    chain, namespace = _places(steps)
    user_agent = steps[0]["user_agent"] if steps else ""
    tool = acting_tool(row["user_name"], user_agent) or applying_tool(chain)
    team, team_source = _team([*chain, *namespace], rules.team_labels)
    parent = (tool.parent,) if tool and tool.parent else ()
    names = (*(name for name, _ in chain), *parent)
    return Owner(
        namespace=row["namespace"],
        resource=row["resource"],
        unit=row["unit"],
        user=row["user_name"],
        requests=row["requests"],
        first_ts=row["first_ts"],
        last_ts=row["last_ts"],
        message=row["message"] or "",
        audit_id=row["audit_id"],
        chain=names,
        team=team,
        team_source=team_source,
        identity=identity_of(row["user_name"], user_agent, rules.gitops_users),
        tool=tool.name if tool else "",
        tool_source=tool.source if tool else "",
        user_agent=user_agent,
        difference=at_root(difference, names[0] if names else "", row["unit"]),
        expression_index=row["expression_index"],
    )


def team_of(steps: Sequence[Row], labels: Sequence[str]) -> tuple[str, str]:
    """The team of a request, and where it is written; both empty where no label tells. `steps` are the rows of examples.sql."""
    chain, namespace = _places(steps)
    return _team([*chain, *namespace], labels)


def _places(steps: Sequence[Row]) -> tuple[list[_Place], list[_Place]]:
    """The objects of a chain, and then its namespace, each with its metadata."""
    places = [(step["step"], _metadata(step["metadata"])) for step in steps]
    chain = [place for step, place in zip(steps, places, strict=True) if step["position"] >= 0]
    return chain, [place for step, place in zip(steps, places, strict=True) if step["position"] < 0]


def at_root(difference: str, example: str, root: str) -> str:
    """A change of an example, such as `Pod/web-x`, as one of its root owner: whoever writes a Deployment edits its template."""
    kind, owner = example.partition("/")[0], root.partition("/")[0]
    prefix = _TEMPLATES.get((kind, owner)) or (_TEMPLATES.get((kind, "")) if owner in _WITH_TEMPLATE else None)
    if kind == owner or prefix is None:
        return difference
    return _PLACE.sub(lambda found: f"{found[1]} {prefix[found[2]]}", difference)


# How the parts of an object that a controller made are called in the object that its owner writes, by both kinds.
_TEMPLATES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("Pod", ""): {"spec": "spec.template.spec", "metadata": "spec.template.metadata"},
    ("Pod", "CronJob"): {"spec": "spec.jobTemplate.spec.template.spec", "metadata": "spec.jobTemplate.spec.template.metadata"},
    ("Job", "CronJob"): {"spec": "spec.jobTemplate.spec", "metadata": "spec.jobTemplate.metadata"},
    ("ReplicaSet", "Deployment"): {"spec": "spec", "metadata": "spec.template.metadata"},
}
_WITH_TEMPLATE = frozenset(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"))
_PLACE = re.compile(r"^(set|add|remove) (spec|metadata)(?![^.\[ ,])")


def _metadata(text: str | None) -> Mapping[str, Any]:
    """The metadata of an object or an owner of it; empty for a text that is not metadata of Kubernetes."""
    try:
        found = decode_json(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _team(places: Sequence[tuple[str, Mapping[str, Any]]], labels: Sequence[str]) -> tuple[str, str]:
    """The team, and where it is written. The surest label wins in any place; for one label, the place nearest the object wins."""
    for label in labels:
        for step, metadata in places:
            for kind in ("labels", "annotations"):
                told = metadata.get(kind)
                if isinstance(told, dict) and (value := told.get(label)):
                    return str(value), f"{step}: {label}"
    return "", ""


def _differences(reader: LakeReader, rows: Sequence[Row], judges: Judges) -> dict[tuple[Key, RequestKey], str]:
    """The smallest difference for the example of each of the first owners of each policy."""
    by_key: defaultdict[Key, list[RequestKey]] = defaultdict(list)
    for row in rows:
        by_key[row["policy"], row["binding"]].append(_example(row))
    requests = _requests(reader, judges)
    found: dict[tuple[Key, RequestKey], str] = {}
    for key, examples in by_key.items():
        judge = judges.judge_of(*key)
        if judge is None:
            continue
        for example in examples[:DIFFERENCES_MAX]:
            if example in requests:
                found[key, example] = judge.smallest_change(requests[example])
    return found


def _requests(reader: LakeReader, judges: Judges) -> dict[RequestKey, AdmissionRequest]:
    """The requests in `examples` as admission saw them; those with several passes are left out."""
    rows = rows_of(reader.connection, "example_events")
    versions = LogVersions()
    for row in rows:
        record(Event.from_row(row), versions)
    found: dict[RequestKey, AdmissionRequest] = {}
    for row in rows:
        passes = fit_requests(Event.from_row(row), versions, judges.history) if row["is_example"] else ()
        if not isinstance(passes, NotReplayed) and len(passes) == 1:
            found[row["cluster"], row["audit_id"], row["ts"]] = passes[0]
    return found

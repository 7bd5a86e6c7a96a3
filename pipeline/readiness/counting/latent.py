"""Objects that exist but were not written in the window, and pod templates from which no Pod was made.

An object is judged as if its last writer wrote it again unchanged (UPDATE; for a policy on CREATE alone, as if created again).
A template is judged by the Pod that its controller would make (see projection.py). `notes` say how a real request might differ
from the assumed one. Unrecorded facts stay unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from queries import LakeReader

from ...history.event import TOO_DEEP, Event, decode_json
from ...history.kinds import by_resource
from ...history.objects import object_of
from ...history.version import object_key
from ...history.versions import LogVersions
from ...history.writes import record
from ...matching import is_excluded
from ...request import (
    AdmissionRequest,
    Evidence,
    Grade,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    Unknown,
    UserInfo,
    worst,
)
from ...runs.plan import RunPlan
from ...stages.judging import Judge, Judgement, Judges
from ..change import Fate
from ..model import Latent, LatentViolation, TemplateProjection
from ..sql import rows_of, statement
from .projection import PODS, has_template, project

# How many objects are judged per (policy, binding), and how many of the hits a report lists. The others are only counted.
OBJECTS_MAX = 20_000
LISTED_MAX = 100

_NO_WRITER = "no writer of it is recorded, and the policy asks who writes"
_ASSUMED_OPTIONS = Unknown("the request is assumed")
_SAME = ("the last version is written again as it is; a real update changes something, and the status may have changed since",)
_AGAIN = ("the object is created again as it is stored, with what defaulting and mutation had added",)
_TEMPLATE_RESOURCES = frozenset(
    [("apps", name) for name in ("deployments", "statefulsets", "daemonsets", "replicasets")]
    + [("batch", "jobs"), ("batch", "cronjobs"), ("", "replicationcontrollers")]
)

Row = Mapping[str, Any]


class Existing:
    """The objects that exist at the end of a window, of every resource that a policy concerns. Needs the tables of judge_units."""

    def __init__(self, reader: LakeReader, judges: Sequence[Judge], until: datetime | None, moment: datetime) -> None:
        """Reads one body of each object. `moment` is the end of the evidence: assumed requests are received then."""
        self._connection = reader.connection
        self._moment = moment
        parameters = {"until": until}
        served = [row for row in rows_of(self._connection, "served", parameters) if _is_wanted(row, judges)]
        names = ("cluster", "api_group", "resource", "kind")
        wanted = pa.table({name: pa.array([row[name] for row in served], pa.string()) for name in names})
        self._connection.register("given_wanted", wanted)
        self._connection.execute("CREATE OR REPLACE TEMP TABLE wanted AS SELECT DISTINCT * FROM given_wanted")
        self._connection.unregister("given_wanted")
        self._connection.execute(statement("existing"), parameters)
        self._connection.execute(statement("templated"))
        kinds = "SELECT DISTINCT api_group, api_version, resource, namespace <> '' AS is_namespaced FROM existing ORDER BY ALL"
        self._kinds = self._connection.execute(kinds).fetchall()
        # For a few objects the last write's answer does not show them; earlier versions may still lead to their state.
        self._changed = LogVersions()
        for row in rows_of(self._connection, "opaque_writes", parameters):
            record(Event.from_row(row), self._changed)

    def latent(self, policy: str, binding: str | None, judge: Judge, before: Sequence[Judge] | None = None) -> Latent:
        """The judgement of one (policy, binding) on the objects and templates that the window did not try.

        `before` are the judges of the version before that enforce their denials; None without a version before.
        """
        names = {"policy": policy, "binding": binding}
        self._ask(judge)
        untried = rows_of(self._connection, "untried", names)
        objects = [*self._objects(untried[:OBJECTS_MAX], judge, before)]
        templates: list[TemplateProjection] = []
        tried = 0
        if judge.concerns("CREATE", PODS, True):
            rows = rows_of(self._connection, "templates", names)
            found = [self._template(row, judge, before) for row in rows[:OBJECTS_MAX]]
            tried = sum(each is not None for each in found)
            templates = [each for each in found if each is not None and each.outcome != "admit"]
        return Latent(
            objects=len([each for each in objects if each is not None]),
            objects_denied=sum(each.outcome == "deny" for each in objects if each),
            objects_unknown=sum(each.outcome == "unknown" for each in objects if each),
            templates=tried,
            templates_denied=sum(each.outcome == "deny" for each in templates),
            templates_unknown=sum(each.outcome == "unknown" for each in templates),
            violations=tuple(_listed(each for each in objects if each and each.outcome != "admit")),
            projections=tuple(_listed(templates)),
            not_looked_at=max(0, len(untried) - OBJECTS_MAX),
            is_assessed=True,
            fates=Counter(each.fate for each in (*objects, *templates) if each and each.fate),
        )

    def _ask(self, judge: Judge) -> None:
        """Make the table `asked` of the resources that a policy matches: the bodies of other objects are not read."""
        names = ("api_group", "api_version", "resource", "is_namespaced")
        found = [dict(zip(names, kind, strict=True)) for kind in self._kinds]
        asked = [row for row in found if _operation({**row, "namespace": row["is_namespaced"]}, judge) is not None]
        columns = {name: pa.array([row[name] for row in asked], pa.string()) for name in names[:3]}
        is_namespaced = pa.array([row["is_namespaced"] for row in asked], pa.bool_())
        self._connection.register("given_asked", pa.table({**columns, "is_namespaced": is_namespaced}))
        self._connection.execute("CREATE OR REPLACE TEMP TABLE asked AS FROM given_asked")
        self._connection.unregister("given_asked")

    def _objects(
        self, rows: Sequence[Row], judge: Judge, before: Sequence[Judge] | None = None
    ) -> Iterator[LatentViolation | None]:
        """The judgement on each object; None if the policy does not match it, or if it was deleted."""
        for row in rows:
            operation = _operation(row, judge)
            assert operation is not None
            found = self._judge(row, operation, judge)
            if found is None:
                yield None
                continue
            who = f"by {row['writer']}" if row["writer"] else "by somebody"
            yield LatentViolation(
                namespace=row["namespace"],
                resource=_label(row),
                name=row["name"],
                unit=row["unit"],
                assumed=f"{operation} {who}",
                outcome=found.outcome,
                message=found.text,
                source=row["source"],
                version_ts=row["version_ts"],
                evidence=found.evidence,
                notes=_SAME if operation is Operation.UPDATE else _AGAIN,
                fate=_fate(found, [self._judge(row, operation, each) for each in before]) if before is not None else "",
            )

    def _stored(self, row: Row) -> Evidence[Object] | None:
        """The object as it is at the end of the window; None if it was deleted or is being deleted."""
        if row["object"] is not None:
            try:
                return Known(decode_json(row["object"]), row["source"], Grade.INFERRED)
            except RecursionError:
                return Unknown(TOO_DEEP)
        key = object_key(row["cluster"], row["api_group"], row["resource"], row["namespace"], row["name"])
        version = self._changed.current(key, self._moment)
        found = object_of(version) if version else None
        if not isinstance(found, Known):
            return Unknown(row["unknown"])
        if found.value is None or found.value.get("metadata", {}).get("deletionTimestamp"):
            return None
        return Known(found.value, found.source, worst(found.grade, Grade.INFERRED))

    def _judge(self, row: Row, operation: Operation, judge: Judge) -> Judgement | None:
        stored = self._stored(row)
        if stored is None:
            return None
        if isinstance(stored, Unknown):
            return Judgement("unknown", f"object: {stored.reason}", "insufficient")
        if row["writer"] is None and judge.reads_user:
            return Judgement("unknown", f"request.userInfo: {_NO_WRITER}", "insufficient")
        return judge.judge(self._request(row, operation, stored))

    def _request(self, row: Row, operation: Operation, stored: Known[Object]) -> AdmissionRequest:
        value, resource = stored.value, _resource(row)
        value.setdefault("kind", row["kind"])
        value.setdefault("apiVersion", f"{resource.group}/{resource.version}".lstrip("/"))
        old: Known[Object | None] = stored
        if operation is Operation.CREATE:
            value["metadata"].pop("resourceVersion", None)
            old = Known(None, "nothing is stored before a CREATE")
        return AdmissionRequest(
            cluster=row["cluster"],
            audit_id="",
            pass_index=0,
            ts=self._moment,
            operation=operation,
            kind=Known(GroupVersionKind(resource.group, resource.version, row["kind"]), row["source"], Grade.INFERRED),
            resource=resource,
            subresource="",
            namespace=row["name"] if resource.resource == "namespaces" and not resource.group else row["namespace"],
            name=Known(row["name"], row["source"]),
            user=UserInfo(row["writer"] or "", "", tuple(row["writer_groups"] or ())),
            dry_run=False,
            options=_ASSUMED_OPTIONS,
            object=stored,
            old_object=old,
        )

    def _template(self, row: Row, judge: Judge, before: Sequence[Judge] | None = None) -> TemplateProjection | None:
        """The judgement on the next Pod of a template; None if the policy does not match that Pod."""
        stored = self._stored(row)
        if stored is None:
            return None
        user, fate = "", ""
        notes: tuple[str, ...] = ()
        if isinstance(stored, Unknown):
            found: Judgement | None = Judgement("unknown", f"object: {stored.reason}", "insufficient")
        elif not has_template(stored.value, row["kind"]):
            found = Judgement("unknown", "object: there is no pod template in it", "insufficient")
        else:
            made = project(row, stored, self._moment)
            found, user, notes = judge.judge(made.request), made.request.user.username, made.notes
            if found is not None and before is not None:
                fate = _fate(found, [each.judge(made.request) for each in before])
        if found is None:
            return None
        operation = _operation(row, judge)
        own = self._judge(row, operation, judge) if operation else None
        return TemplateProjection(
            namespace=row["namespace"],
            owner=f"{row['kind']}/{row['name']}",
            resource=_label(row),
            user=user,
            outcome=found.outcome,
            message=found.text,
            source=row["source"],
            version_ts=row["version_ts"],
            owner_passes=None if own is None or own.outcome == "unknown" else own.outcome == "admit",
            evidence="inferred" if found.outcome != "unknown" else "insufficient",
            notes=notes,
            fate=fate,
        )


def find_latent(
    reader: LakeReader, judges: Judges, plan: RunPlan, moment: datetime, before: Mapping[str, Sequence[Judge]] | None = None
) -> dict[tuple[str, str | None], Latent]:
    """The untried objects and templates, for every (policy, binding) of a plan. Needs the tables of judge_units.

    `before` has the judges of the version before by policy; with it each would-be denial gets its fate.
    """
    found = {(item.policy, item.binding): judges.judge_of(item.policy, item.binding) for item in plan.bindings}
    known = {key: judge for key, judge in found.items() if judge is not None}
    existing = Existing(reader, [*known.values()], plan.window.until, moment)
    return {
        (policy, binding): existing.latent(policy, binding, judge, None if before is None else before.get(policy, ()))
        for (policy, binding), judge in known.items()
    }


def _fate(found: Judgement, before: Sequence[Judgement | None]) -> str:
    """The fate of a would-be denial, given the judgements of the version before on the same request; empty without a denial."""
    if found.outcome != "deny":
        return ""
    if not found.is_enforced:
        return Fate.UNENFORCED
    outcomes = {each.outcome for each in before if each is not None}
    return Fate.KEPT if "deny" in outcomes else Fate.UNSURE if "unknown" in outcomes else Fate.NEW


def _is_wanted(row: Row, judges: Sequence[Judge]) -> bool:
    """Whether some policy may match writes of such objects, or of the Pods that they make."""
    makes_pods = (row["api_group"], row["resource"]) in _TEMPLATE_RESOURCES
    return any(_operation(row, judge) or (makes_pods and judge.concerns("CREATE", PODS, True)) for judge in judges)


def _operation(row: Row, judge: Judge) -> Operation | None:
    """The assumed write of an existing object, UPDATE or CREATE; None if the policy matches neither."""
    resource = _resource(row)
    if is_excluded(resource):
        return None
    built_in = by_resource(resource.group, resource.resource)
    # The rows of `served` do not say this of a custom resource, but its objects do.
    namespaced = [built_in.namespaced] if built_in else [bool(row["namespace"])] if "namespace" in row else [True, False]
    for operation in (Operation.UPDATE, Operation.CREATE):
        if any(judge.concerns(operation, resource, each) for each in namespaced):
            return operation
    return None


def _resource(row: Row) -> GroupVersionResource:
    return GroupVersionResource(row["api_group"], row["api_version"], row["resource"])


def _label(row: Row) -> str:
    return f"{row['resource']}.{row['api_group']}".rstrip(".")


def _listed(found: Iterable[Any]) -> list[Any]:
    """As many as a report lists, the denied ones first."""
    return sorted(found, key=lambda each: each.outcome != "deny")[:LISTED_MAX]

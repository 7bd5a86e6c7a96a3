"""Derived tables in advance: the history and the fields that most policies read, before any policy asks for them.

Compaction ends with this, so that the first replay of a lake reads few events. It is a run without policies, which keeps what the
run of policies would keep. A replay makes whatever is missing, so nothing is lost if this comes late or is stopped.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from os.path import samestat
from pathlib import Path
from typing import Any, TypeAlias

from ingest.derived import derived_folder
from queries import LakeReader, open_lake

from ..authorization import AuthorizeUser
from ..cel.minors import DEFAULT
from ..cel.readset import Reads, ReadSet
from ..history.event import Event
from ..history.world import LogHistory
from ..request import AdmissionRequest
from ..runs.executors import Executor
from ..runs.kinds import unused
from ..runs.local import LocalProcesses
from ..runs.running import collecting_seldom
from ..runs.verdict import Verdict
from ..runs.window import Window
from ..world import World
from .classes import RequestClass
from .crew import RecordsCrew
from .kept.facts import facts_of
from .kept.records import Store
from .kept.told import SELDOM_JUDGED
from .lanes import Lane, LaneName
from .past import load_history
from .plan import RecordsPlan

_FOLDER = "unfinished"
# The writes that most policies judge.
_VERBS = frozenset(("create", "update", "patch"))
_SUBRESOURCES = frozenset(("", "scale", "ephemeralcontainers"))
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
# Fields that hold few distinct values, and are not nested deeper than a projected decoder reads (projection.py).
_OF_CONTAINER = ("name", "image", "imagePullPolicy", "resources", "securityContext", "ports")
_OF_POD = (
    "hostNetwork", "hostPID", "hostIPC", "securityContext", "serviceAccountName", "automountServiceAccountToken",
    "runtimeClassName", "priorityClassName", "restartPolicy",
)  # fmt: skip
_OF_SPEC = (
    "replicas", "maxReplicas", "minReplicas", "type", "externalIPs", "externalName", "loadBalancerSourceRanges",
    "ingressClassName", "suspend", "storageClassName", "accessModes", "targetCPUUtilizationPercentage",
)  # fmt: skip
_OF_OBJECT = ("kind", "apiVersion", "data", "rules", "roleRef", "subjects", "immutable")
_OF_METADATA = ("name", "labels", "deletionTimestamp", "generateName")
# Annotations configure these. Those of other objects often repeat the whole object, and few policies read them.
_ANNOTATED = frozenset(("services", "ingresses"))
_POD_SPECS = (("spec",), ("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec"))
# The lanes of others than policies, by the class of requests.
Further: TypeAlias = Callable[[LaneName], Sequence[Lane]]


def _none(name: LaneName) -> Sequence[Lane]:
    return ()


def prefill(
    lake: Path,
    stopped: Callable[[], bool] = lambda: False,
    *,
    grown: float = 0.0,
    executor: Executor | None = None,
    further: Further = _none,
) -> bool:
    """Make the derived tables of a lake that are missing; returns whether they are there now.

    To find the history of touched objects costs one reading of the lake. So the next replay finds it, unless the lake has grown by
    this share of its events since the last time.

    `further` gives lanes of other stages, whose fields are kept, too. `stopped` is asked after each of many small steps. A later
    call goes on from there if the lake is still the same. Raises LakeError if the lake does not exist or one of its files cannot
    be read.
    """
    with closing(open_lake(lake, threads=1)) as reader:
        parts = derived_folder(lake) / _FOLDER
        with suppress(OSError):
            parts.mkdir(parents=True, exist_ok=True)
        if not reader.files.events or not parts.is_dir():
            return True  # nothing to do, or a lake that may only be read
        with unused(parts.parent) as is_alone, collecting_seldom():
            return is_alone and _prefill(reader, lake, parts, stopped, grown, executor or LocalProcesses(), further)


def _prefill(
    reader: LakeReader, lake: Path, parts: Path, stopped: Callable[[], bool], grown: float, executor: Executor, further: Further
) -> bool:
    def has_grown(store: Store) -> bool:
        return facts_of(reader).events >= (1 + grown) * store.kept_events

    derived = parts.parent.stat()
    try:
        with closing(RecordsCrew(_plan(reader, further), reader, lake, parts, executor)) as crew:
            for _ in crew.keep(has_grown):
                if stopped():
                    return False
    except FileNotFoundError:
        if parts.is_dir() and samestat(derived, parts.parent.stat()):
            raise
        return False  # retention has deleted all that is derived meanwhile
    shutil.rmtree(parts, ignore_errors=True)
    return True


def _plan(reader: LakeReader, further: Further) -> RecordsPlan:
    """A plan for the requests that most policies judge, without policies."""
    facts = facts_of(reader)
    requests: Counter[LaneName] = Counter()
    for file in facts.files.values():
        for row in file.classes:
            name = LaneName(*(row[part] or "" for part in LaneName._fields))
            if row["is_final"] and name.api_version and name.verb in _VERBS and name.subresource in _SUBRESOURCES:
                requests[name] += row["requests"]
    classes = tuple(
        RequestClass(*name, "", is_namespaced=False, refused=False, requests=count, reads_old_object=name.subresource == "scale")
        for name, count in sorted(requests.items())
        if name.resource not in SELDOM_JUDGED
    )
    return _KeepingPlan(
        stage="",
        kubernetes_version=DEFAULT,  # decides nothing here
        window=Window(),
        lake_digest=facts.state,
        classes=classes,
        excluded=(),
        bindings=(),
        requests=requests.total(),
        files=reader.files,
        further=further,
    )


@dataclass(frozen=True, kw_only=True)
class _KeepingPlan(RecordsPlan):
    """A plan that only reads requests, to keep what they hold for the usual lanes."""

    FORMAT = 1

    further: Further = field(compare=False, repr=False)

    def judge(self, reader: LakeReader) -> tuple[LogHistory, _NoJudge]:
        """See RecordsPlan."""
        return load_history(reader, (), self.window), _NoJudge(self.further)

    @property
    def judges(self) -> bool:
        """See RecordsPlan."""
        return False


class _NoJudge:
    """The lanes of the fields that most policies and other stages read. It is asked for no verdict."""

    def __init__(self, further: Further) -> None:
        self._further = further

    def lane(self, name: LaneName) -> Lane | None:
        """See RecordJudge. Namespaces have none: policies ask the history for them.

        A policy for a scale compares it with the one before, so that the history of its object is kept.
        """
        if name.resource == "namespaces" or name.subresource == "scale" or (name.verb == "create" and name.subresource):
            return None
        others, reads = self._further(name), _usual_reads(name.resource)
        for each in others:
            reads.at("object").merge(each.reads)
        own = Lane(name, ReadSet(reads), False)
        missing = dict.fromkeys(column for each in others for column in each.columns if column not in own.columns)
        return Lane(name, ReadSet(reads), False, tuple(missing)) if missing else own

    def apart(self) -> Sequence[_NoJudge]:
        """See RecordJudge."""
        return (self,)

    def answer_alike(
        self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, row: Mapping[str, Any]
    ) -> Sequence[Verdict] | None:
        """See RecordJudge."""
        raise NotImplementedError

    def answer(self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, event: Event) -> Sequence[Verdict]:
        """See RecordJudge."""
        raise NotImplementedError

    def has_failed(self, verdicts: Sequence[Verdict]) -> bool:
        """See RecordJudge."""
        raise NotImplementedError

    def is_open(self, verdicts: Sequence[Verdict]) -> bool:
        """See RecordJudge."""
        raise NotImplementedError


def _usual_reads(resource: str) -> Reads:
    root = Reads()
    root.at("request").whole = True
    seen = root.at("object")
    for name in _OF_METADATA:
        seen.at("metadata").at(name).whole = True
    if resource in _ANNOTATED:
        seen.at("metadata").at("annotations").whole = True
    for name in _OF_OBJECT:
        seen.at(name).whole = True
    for name in _OF_SPEC:
        seen.at("spec").at(name).whole = True
    seen.at("binaryData")
    seen.at("spec").at("template").at("metadata").at("labels").whole = True
    seen.at("spec").at("rules").each().at("host").whole = True
    seen.at("spec").at("resources").at("requests").whole = True
    for path in _POD_SPECS:
        _read_pod(_below(seen, path))
    return root


def _below(node: Reads, path: tuple[str, ...]) -> Reads:
    for name in path:
        node = node.at(name)
    return node


def _read_pod(spec: Reads) -> None:
    for name in _OF_POD:
        spec.at(name).whole = True
    for containers in _CONTAINERS:
        for name in _OF_CONTAINER:
            spec.at(containers).each().at(name).whole = True
    spec.at("volumes").each().at("hostPath").whole = True

"""New objects that no policy can tell apart: one is judged, and the others have its rows.

The Pods of a controller differ in their names and owners, and each answer shows its own Pod. Where no expression reads a name or an
owner, and no mutation touches one, the rows are about the rest alone. Of the answer they depend on whether it has the changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ...cel.readset import Reads
from ...history.event import Event, decode_json
from ...history.json_values import json_equal
from ...matching import Target
from ...policies.dispatch import CompiledSet
from ...policies.due import Entry
from ...request import Evidence, Known, Object, Operation, Unknown
from ...row import Row
from .chain import Chain
from .changes import has_changes
from .compiled import CompiledMutating, CompiledMutation
from .invocation import Invocation, Ran
from .model import PatchType
from .nil_lists import has_nil
from .orders import Outcomes
from .walk import Met

# What differs from one object of an owner to the next. Each is known by its path in the object.
OWN: Final = ("name", "generateName", "ownerReferences")
# Validating policies see these of the finished object, too. They differ from object to object.
_READ_OF_OWN: Final = (*OWN, "uid", "creationTimestamp")
_READ_OF_REQUEST: Final = ("name", "uid")
# These operations read the object without an expression.
_READS: Final = re.compile(r"test|copy|move")
_SETTLED: Final = frozenset((Ran.APPLIED, Ran.NOMATCH, Ran.SKIPPED))
# Annotations that no stage of admission reads.
_NOT_READ: Final = ("authorization.k8s.io/", "apiserver.latency.k8s.io/")
_OF_WEBHOOKS: Final = "webhook.admission.k8s.io/"
# Distinct objects that are remembered.
_REMEMBERED_MAX: Final = 20_000

_encode = msgspec.json.Encoder().encode


class Judged(NamedTuple):
    """The rows of a request, and what they follow from where its object is known."""

    rows: Sequence[Row]
    outcomes: Outcomes | None = None
    entered: Evidence[Object | None] | None = None


class _Changed(NamedTuple):
    """The places that the policies changed, in the object before and after them; the rest is left out."""

    before: Any
    after: Any


class AlikeTargets:
    """Tells for which targets no policy reads the name or the owners of an object."""

    def __init__(self, policies: Sequence[CompiledSet]) -> None:
        self._policies = policies
        self._found: dict[Target, bool] = {}

    def holds(self, met: Met) -> bool:
        """Whether this is so for the policies that may be for a request; it must be known."""
        assert not isinstance(met.request, Unknown)
        target = Target.of(met.request)
        if target not in self._found:
            entries = [each.entry for one in self._policies for each in one.candidates(target)]
            mutations = [each for entry in entries if isinstance(entry.policy, CompiledMutating) for each in entry.policy.mutations]
            self._found[target] = not _tells_apart(entries, mutations)
        return self._found[target]


class AlikeCreates:
    """Judges requests, each kind of new object once."""

    def __init__(self, judge: Callable[[Met], Judged], chain: Chain, later: Iterable[CompiledSet], *, shares: bool) -> None:
        """`later` are the validating policies that look at the objects afterwards. Without `shares` each request is judged."""
        self._judge = judge
        self._shares = shares
        self._alike = AlikeTargets((chain.set, *later))
        self._changed: dict[Hashable, _Changed] = {}
        self._rows: dict[tuple[Hashable, bool], Sequence[Row]] = {}

    def rows(self, met: Met) -> Sequence[Row]:
        """The rows of a request."""
        key = key_of(met) if self._shares else None
        if key is None or not self._alike.holds(met):
            return self._judge(met).rows
        changed = self._changed.get(key)
        if changed is not None and (found := self._rows.get((key, _is_shown(changed, met.event)))) is not None:
            return found
        judged = self._judge(met)
        changed = _changed(judged)
        if changed is not None:
            if len(self._changed) >= _REMEMBERED_MAX:
                self._changed.clear()
                self._rows.clear()
            self._changed[key] = changed
            self._rows[key, _is_shown(changed, met.event)] = judged.rows
        return judged.rows


def _tells_apart(entries: Sequence[Entry], mutations: Iterable[CompiledMutation]) -> bool:
    """Whether some policy may read a field that is an object's own, such as its name or its owners."""
    if any(matcher.has_resource_names for each in entries for matcher in each.matchers):
        return True
    reads = [each.policy.reads for each in entries]
    every = list(mutations)
    reads += [each.reads for each in every]
    if any("authorizer" in each.variables() for each in reads):
        return True
    if any(each.mutation.patch_type is PatchType.JSON_PATCH and _READS.search(each.expression.source) for each in every):
        return True
    return any(
        _has_read(each.of("object"), ("metadata",), _READ_OF_OWN) or _has_read(each.of("request"), (), _READ_OF_REQUEST)
        for each in reads
    )


def _has_read(reads: Reads, path: Sequence[str], names: Collection[str]) -> bool:
    """Whether one of the fields with these names may be read, below a path."""
    if reads.whole or reads.members or reads.keys or reads.elements is not None:
        return True
    if not path:
        return any(name in reads.fields for name in names)
    below = reads.fields.get(path[0])
    return below is not None and _has_read(below, path[1:], names)


def key_of(met: Met) -> Hashable | None:
    """Equal for requests with equal rows, apart from whether their answers show the changes. None: the request is judged itself."""
    event, request, kind = met.event, met.request, met.kind
    if isinstance(request, Unknown) or isinstance(kind, Unknown) or isinstance(met.chains, Unknown) or met.unreached:
        return None
    found = request.object
    if request.operation is not Operation.CREATE or request.subresource or not isinstance(found, Known) or found.value is None:
        return None
    is_redacted = event.is_redacted or found.is_redacted or "redacted" in event.flags
    if event.written_raw is None or is_redacted or kind.custom is not None or len(met.chains) != 1:
        return None
    notes = {name: text for name, text in event.annotations.items() if not name.startswith(_NOT_READ)}
    metadata = found.value.get("metadata")
    if not isinstance(metadata, dict) or any(_OF_WEBHOOKS in name for name in notes):
        return None
    user, options = request.user, request.options
    shared = {
        "object": {**found.value, "metadata": {name: each for name, each in metadata.items() if name not in OWN}},
        "user": [user.username, user.uid, user.groups, user.extra, user.is_whole],
        "options": options.reason if isinstance(options, Unknown) else options.value,
        "notes": notes,
        "flags": sorted(event.flags),
        "answer": [event.verb, event.code, event.message],
        "name": request.name.reason if isinstance(request.name, Unknown) else [request.name.value],
        "found": [found.source, found.grade],
        "dry": request.dry_run.reason if isinstance(request.dry_run, Unknown) else [request.dry_run],
    }
    # A world stands for one state of the cluster; it stays as long as the walk.
    return request.cluster, request.namespace, request.resource, kind.kind, id(met.world), id(met.chains[0]), _encode(shared)


def _changed(judged: Judged) -> _Changed | None:
    """What the policies changed in the object; None where the rows may be about this object alone."""
    if judged.outcomes is None or not isinstance(judged.entered, Known) or len(judged.outcomes.distinct) != 1:
        return None
    before, after = judged.entered.value, judged.outcomes.first.object
    if not isinstance(after, Known) or before is None or after.value is None or has_nil(after.value):
        return None
    if any(touches_own(each) for each in judged.outcomes.first.invocations):
        return None
    was, now = before.get("metadata") or {}, after.value.get("metadata") or {}
    if any(was.get(name) != now.get(name) for name in OWN):
        return None
    return _Changed(*_differing(before, after.value))


def touches_own(invocation: Invocation) -> bool:
    """Whether a policy may have changed a field that is an object's own."""
    if invocation.ran not in _SETTLED or not invocation.is_settled or invocation.is_converted:
        return True
    return any(
        _of_operations(patch) if isinstance(patch, list) else not _OWN_SET.isdisjoint(patch.get("metadata") or ())
        for patch in invocation.patches
    )


_OWN_SET: Final = frozenset(OWN)


def _of_operations(operations: Iterable[Mapping[str, Any]]) -> bool:
    for each in operations:
        parts = str(each.get("path", "")).split("/")[1:]
        if each.get("op") not in ("add", "replace", "remove") or len(parts) < 2:
            return True
        if parts[0] == "metadata" and parts[1] in OWN:
            return True
    return False


def _differing(before: Object, after: Object) -> tuple[Object, Object]:
    """The fields that differ of two objects."""
    left: Object = {}
    right: Object = {}
    for name in before.keys() | after.keys():
        if name not in after:
            left[name] = before[name]
        elif name not in before:
            right[name] = after[name]
        elif isinstance(before[name], dict) and isinstance(after[name], dict):
            old, new = _differing(before[name], after[name])
            if old or new:
                left[name], right[name] = old, new
        elif not json_equal(before[name], after[name]):
            left[name], right[name] = before[name], after[name]
    return left, right


def _is_shown(changed: _Changed, event: Event) -> bool:
    """Whether the recorded answer has the changes."""
    assert event.response_raw is not None
    return not (changed.before or changed.after) or has_changes(changed.before, changed.after, decode_json(event.response_raw))

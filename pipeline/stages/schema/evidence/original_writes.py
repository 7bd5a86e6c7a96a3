"""What policies say of a stored field if its writer wrote it again: would today's rules have stopped the original write?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ....policies.model import PolicySet
from ....request import AdmissionRequest, Grade, GroupVersionKind, GroupVersionResource, Known, Object, Operation, Unknown, UserInfo
from ...validating.judges import Judge, Judges
from ..formats import Version
from ..writing import ObjectKind, decode
from .definitions import KnownDefinition
from .dormant import DormantField
from .stored import Origin
from .stuck import kinds_of

_OPTIONS = Unknown("the request is assumed")
_NO_WRITER = "request.userInfo: no writer of the field is recorded, and the policy asks who writes"


@dataclass(frozen=True, slots=True)
class PolicyAnswer:
    """The answer of one policy with one binding: deny, unknown or admit, with the message or the missing evidence."""

    policy: str
    binding: str | None
    outcome: str
    text: str = ""


class OriginalWrites:
    """Judges objects as if the writers of their fields created them at a moment, under the policies of that moment."""

    def __init__(self, judges: Judges, policies: PolicySet, known: KnownDefinition, version: Version, moment: datetime) -> None:
        """`known` is the definition under which the fields are alive, and `version` the minor version of Kubernetes."""
        self._known = known
        self._kinds = kinds_of(known, version)
        self._moment = moment
        pairs = [
            (policy.name, binding.name if binding is not None else None)
            for policy in policies.policies
            for binding in (policies.bindings_of(policy) or (None,))
        ]
        self._judges = [(policy, binding, judge) for policy, binding in pairs if (judge := judges.judge_of(policy, binding))]

    def answers(self, field: DormantField) -> list[PolicyAnswer]:
        """The answers of the policies that match the create of the object with the field alive."""
        kind, raw = self._kinds.get(field.stored.api_version), field.stored.value
        if not isinstance(kind, ObjectKind) or raw is None:
            return []
        value = decode(kind, raw, is_stored=True).value
        return [
            PolicyAnswer(policy, binding, *answer)
            for policy, binding, judge in self._judges
            if (answer := self._answer(judge, field, value)) is not None
        ]

    def _answer(self, judge: Judge, field: DormantField, value: Object) -> tuple[str, str] | None:
        request = _request(field, value, self._known, self._moment)
        if not judge.concerns(request.operation, request.resource, self._known.definition.is_namespaced):
            return None
        if field.carried.origin.user is None and judge.reads_user:
            return "unknown", _NO_WRITER
        found = judge.judge(request)
        return None if found is None else (found.outcome, found.text)


def _request(field: DormantField, value: Object, known: KnownDefinition, moment: datetime) -> AdmissionRequest:
    """The assumed create of the object by the writer of the field."""
    own, origin = known.definition, field.carried.origin
    group, _, version = field.stored.api_version.rpartition("/")
    metadata: dict[str, Any] = {name: item for name, item in value["metadata"].items() if name != "resourceVersion"}
    return AdmissionRequest(
        cluster=field.stored.key.cluster,
        audit_id="",
        pass_index=0,
        ts=moment,
        operation=Operation.CREATE,
        kind=Known(GroupVersionKind(group, version, own.kind), known.source, Grade.INFERRED),
        resource=GroupVersionResource(group, version, own.plural),
        subresource="",
        namespace=field.stored.key.namespace,
        name=Known(field.stored.key.name, "stored object"),
        user=_user(origin),
        dry_run=False,
        options=_OPTIONS,
        object=Known({**value, "metadata": metadata}, "stored object", Grade.INFERRED),
        old_object=Known(None, "nothing is stored before a CREATE"),
    )


def _user(origin: Origin) -> UserInfo:
    return origin.user if origin.user is not None else UserInfo(is_whole=False)

"""What a cluster of a fleet has recorded of policies, bindings and params by name, each as a digest of its content.

Only names and contents compare between clusters: uids, resource versions and times are those of one cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from ...history.kinds import by_kind
from ...history.snapshots import ResourceName
from ...history.version import ObjectKey
from ...history.world import BINDINGS, POLICIES, LogHistory
from ...matching.selectors import labels_of
from ...policies.model import Binding, ParamKind, PolicySet
from ...request import Known

_UNKNOWN = "unknown"
_POLICY, _BINDING, _PARAM = "policy", "binding", "param"


def recorded_objects(history: LogHistory, cluster: str, moment: datetime, given: PolicySet) -> dict[str, str]:
    """The digests of the policies and bindings that a cluster has at a moment, and of the params that the given bindings use.

    A key is `policy NAME`, `binding NAME`, or `param KIND NAMESPACE/NAME`. An object that was not recorded whole is `unknown`.
    """
    found: dict[str, str] = {}
    for kind, resource in ((_POLICY, POLICIES), (_BINDING, BINDINGS)):
        for key in history.keys(cluster, resource):
            _add(found, f"{kind} {key.name}", history, key, moment)
    for policy in given.policies:
        if policy.param_kind is not None:
            for binding in given.bindings_of(policy):
                for key in _params(history, cluster, policy.param_kind, binding, moment):
                    name = f"{key.namespace}/{key.name}" if key.namespace else key.name
                    _add(found, f"{_PARAM} {policy.param_kind.kind} {name}", history, key, moment)
    return found


def _add(found: dict[str, str], name: str, history: LogHistory, key: ObjectKey, moment: datetime) -> None:
    known = history.object_at(key, moment)
    if not isinstance(known, Known):
        found[name] = _UNKNOWN
    elif known.value is not None:
        found[name] = _digest(known.value)


def _digest(obj: Mapping[str, Any]) -> str:
    """A digest of the content without metadata and status."""
    content = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata", "status")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _params(history: LogHistory, cluster: str, kind: ParamKind, binding: Binding, moment: datetime) -> Iterator[ObjectKey]:
    """The recorded objects that the paramRef of a binding may choose, in any namespace if it names none."""
    reference = binding.param_ref
    if reference is None:
        return
    group = kind.api_version.rpartition("/")[0]
    built_in = by_kind(group, kind.kind)
    if built_in is not None:
        keys: Iterable[ObjectKey] = history.keys(cluster, ResourceName(built_in.group, built_in.resource))
    else:
        keys = [key for key in history.versions.objects() if key.cluster == cluster and key.group == group]
    for key in keys:
        known = history.object_at(key, moment)
        obj = known.value if isinstance(known, Known) else None
        if built_in is None and (obj is None or obj.get("kind") != kind.kind):
            continue
        if reference.namespace not in ("", key.namespace):
            continue
        if key.name == reference.name if reference.name else _is_selected(binding, obj):
            yield key


def _is_selected(binding: Binding, obj: Mapping[str, Any] | None) -> bool:
    selector = binding.param_ref.selector if binding.param_ref else None
    return selector is not None and obj is not None and selector.failed(labels_of(dict(obj)) or {}) is None

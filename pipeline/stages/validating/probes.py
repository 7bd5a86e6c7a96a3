"""Probes: policies that deny what exclusions take out, and no request that these spare.

So one replay says of each would-be denial which exclusions take it out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...manifests.documents import Document
from ...matching.namespaces import NAME_LABEL
from ...policies.model import PolicySet
from ...request import Object
from ..exempting import Excluded, Probed, Probes
from .decode import BINDING, POLICY
from .load import policy_set_of
from .written import Key, narrowed, new_binding, written_of

_SOURCE = "probes of exemptions"


def probes_of(policies: PolicySet, excluded: Sequence[Excluded]) -> Probes[PolicySet]:
    """The probes of some exclusions of these policies."""
    making = _Making(policies)
    for number, policy in enumerate(dict.fromkeys(each.policy for each in excluded)):
        making.add(policy, f"probe-{number}.hindcast", [(at, each) for at, each in enumerate(excluded) if each.policy == policy])
    read = policy_set_of([Document(each, _SOURCE) for each in making.objects])
    return Probes(PolicySet(read.policies, read.bindings, policies.objects, written=read.written), making.rows)


class _Making:
    def __init__(self, policies: PolicySet) -> None:
        self.objects: list[Object] = []
        self.rows: list[Probed] = []
        self._written = written_of(policies)

    def add(self, policy: str, name: str, items: Sequence[tuple[int, Excluded]]) -> None:
        """Add the probes of the exclusions of one policy."""
        own = self._bindings(policy)
        # A policy without bindings gets one with the first exclusion of a namespace, and counts as bound everywhere.
        bound = own or {"": new_binding(policy, "")}
        conditions = [(item, each) for item, each in items if not each.namespace]
        if conditions:
            self._policy(policy, name, [each.expression for _, each in conditions])
            for place, (binding, obj) in enumerate(bound.items()):
                self._bind(name, f"{place}.{name}", obj)
                rows = (Probed(name, f"{place}.{name}", policy, binding, at, item) for at, (item, _) in enumerate(conditions))
                self.rows.extend(rows)
        inside = [(item, each) for item, each in items if each.namespace]
        if inside:
            self._policy(policy, f"in-{name}", ["false"])
        for item, each in inside:
            binding = str(each.binding) if own else ""
            self._bind(f"in-{name}", f"{item}.in-{name}", bound[binding], each.namespace)
            self.rows.append(Probed(f"in-{name}", f"{item}.in-{name}", policy, binding, None, item))

    def _bindings(self, policy: str) -> dict[str, Object]:
        found = {name: obj for (kind, name), obj in self._written.items() if kind == BINDING}
        return {name: obj for name, obj in found.items() if obj["spec"].get("policyName") == policy}

    def _policy(self, policy: str, name: str, expressions: Sequence[str]) -> None:
        key: Key = (POLICY, policy)
        obj = self._written[key]
        kept = {field: obj["spec"][field] for field in ("matchConstraints",) if field in obj["spec"]}
        spec = {**kept, "failurePolicy": "Fail", "validations": [{"expression": each} for each in expressions]}
        self.objects.append({**obj, "metadata": {"name": name}, "spec": spec})

    def _bind(self, policy: str, name: str, binding: Object, namespace: str = "") -> None:
        around = binding["spec"].get("matchResources")
        if namespace:
            around = narrowed(around, {"key": NAME_LABEL, "operator": "In", "values": [namespace]})
        spec = {"policyName": policy, "validationActions": ["Deny"], **({"matchResources": around} if around else {})}
        self.objects.append({**new_binding(policy, name), "spec": spec})

"""The manifests of policies and bindings: as they were given, or made from the model; and new bindings."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeAlias

from ...matching.namespaces import NAME_LABEL
from ...policies.model import PolicySet
from ...request import Object
from ..actions import Actions, Label
from .decode import BINDING, POLICY, VERSIONS
from .encode import binding_to_object, policy_to_object

# Kind and name.
Key: TypeAlias = tuple[str, str]


def written_of(policies: PolicySet) -> dict[Key, Object]:
    """The policies and then the bindings of a set, by kind and name: as they were given, where they were."""
    given = {(each["kind"], each["metadata"]["name"]): each for each in policies.written}
    own = {(POLICY, each.name): given.get((POLICY, each.name)) or policy_to_object(each) for each in policies.policies}
    bound = {(BINDING, each.name): given.get((BINDING, each.name)) or binding_to_object(each) for each in policies.bindings}
    return own | bound


def read_of(policies: PolicySet) -> list[Object]:
    """The same as Hindcast read them, which says nothing of comments, labels and order, and the objects given with them."""
    own = [policy_to_object(each) for each in policies.policies]
    return [*own, *map(binding_to_object, policies.bindings), *(given.object for given in policies.objects)]


def new_binding(policy: str, name: str) -> Object:
    """A binding that audits a policy everywhere."""
    spec = {"policyName": policy, "validationActions": ["Audit"]}
    return {"apiVersion": VERSIONS[0], "kind": BINDING, "metadata": {"name": name}, "spec": spec}


class PolicyActions(Actions):
    """See Actions."""

    def bound(
        self,
        own: Object | None,
        policy: str,
        name: str,
        actions: Sequence[str],
        namespaces: Sequence[str],
        label: Label | None = None,
    ) -> Object:
        """See Actions."""
        binding: Object = copy.deepcopy(own or new_binding(policy, name))
        binding["spec"]["validationActions"] = list(actions)
        if namespaces:
            binding["metadata"] = {**binding["metadata"], "name": f"{name}-deny-first"}
            key, values = label or (NAME_LABEL, namespaces)
            inside = {"key": key, "operator": "In", "values": sorted(values)}
            binding["spec"]["matchResources"] = narrowed(binding["spec"].get("matchResources"), inside)
        return binding


def narrowed(around: dict[str, Any] | None, requirement: Object) -> dict[str, Any]:
    """The `matchResources` of a binding with one more requirement on namespaces."""
    resources = dict(around or {})
    selector = dict(resources.get("namespaceSelector") or {})
    selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), requirement]
    return {**resources, "namespaceSelector": selector}

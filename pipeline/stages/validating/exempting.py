"""Exemptions of validating policies: a namespace that a binding leaves out, or a match condition of the policy."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ...manifests.documents import Document
from ...manifests.exempting import add_condition, below, leave_out_namespace
from ...policies.model import PolicySet
from ...request import Object
from ..exempting import Excluded, Exemptions, Probes
from .decode import BINDING, POLICY
from .load import policy_set_of
from .probes import probes_of
from .written import new_binding, written_of

_SOURCE = "policies with exemptions"


class PolicyExemptions(Exemptions[PolicySet]):
    """See Exemptions."""

    def written(self, rules: PolicySet) -> Sequence[Object]:
        """See Exemptions."""
        return [*written_of(rules).values(), *(given.object for given in rules.objects)]

    def excluding(self, rules: PolicySet, excluded: Iterable[Excluded]) -> PolicySet:
        """See Exemptions. A policy without a binding gets one that audits, if a namespace is left out of it.

        Raises InputError if that policy needs params, because only its owner can choose the paramRef of a binding.
        """
        objects, changed = written_of(rules), set()
        for exclusion in excluded:
            key = (BINDING, str(exclusion.binding)) if exclusion.namespace else (POLICY, exclusion.policy)
            if key not in changed:
                changed.add(key)
                objects[key] = copy.deepcopy(objects.get(key) or new_binding(exclusion.policy, key[1]))
            if exclusion.namespace:
                leave_out_namespace(below(objects[key]["spec"], "matchResources", dict), exclusion.namespace)
            else:
                add_condition(objects[key]["spec"], exclusion.expression)
        read = policy_set_of([Document(each, _SOURCE) for each in objects.values()])
        return replace(rules, policies=read.policies, bindings=read.bindings, written=read.written)

    def narrowed(self, rules: PolicySet, names: Collection[str]) -> PolicySet:
        """See Exemptions."""
        policies = tuple(each for each in rules.policies if each.name in names)
        return replace(rules, policies=policies, bindings=tuple(each for each in rules.bindings if each.policy_name in names))

    def unbound(self, rules: PolicySet) -> Mapping[str, str]:
        """See Exemptions: it has the policy's name, unless another has it."""
        taken = {binding.name for binding in rules.bindings}
        # A binding of a policy with params needs a paramRef, which only its owner can choose.
        free = [each.name for each in rules.policies if not rules.bindings_of(each) and each.param_kind is None]
        return {name: name if name not in taken else f"{name}-hindcast" for name in free}

    def probes(self, rules: PolicySet, excluded: Sequence[Excluded]) -> Probes[PolicySet]:
        """See Exemptions."""
        return probes_of(rules, excluded)

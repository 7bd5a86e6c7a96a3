"""Exemptions of mutating policies: a namespace that a binding leaves out, or a match condition of the policy."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence

from ...manifests.documents import Document
from ...manifests.exempting import add_condition, below, leave_out_namespace
from ...request import Object
from ..exempting import Excluded, Exemptions
from .decode import BINDING, POLICY, rules_of
from .model import MutatingRules

_SOURCE = "mutating policies with exemptions"


class MutatingExemptions(Exemptions[MutatingRules]):
    """See Exemptions."""

    def written(self, rules: MutatingRules) -> Sequence[Object]:
        """See Exemptions."""
        return rules.written

    def excluding(self, rules: MutatingRules, excluded: Sequence[Excluded]) -> MutatingRules:
        """See Exemptions."""
        objects = {(each["kind"], each["metadata"]["name"]): copy.deepcopy(each) for each in rules.written}
        for exclusion in excluded:
            if exclusion.namespace:
                spec = objects[BINDING, str(exclusion.binding)]["spec"]
                leave_out_namespace(below(spec, "matchResources", dict), exclusion.namespace)
            else:
                add_condition(objects[POLICY, exclusion.policy]["spec"], exclusion.expression)
        read = rules_of([Document(each, _SOURCE) for each in objects.values()])
        return dataclasses.replace(rules, policies=read.policies, bindings=read.bindings, written=read.written)

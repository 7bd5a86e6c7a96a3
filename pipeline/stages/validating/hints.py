"""Hints on policies that do what they say, and perhaps not what their writer wants. None of them changes a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...history.kinds import by_resource
from ...matching.match import MatchResources
from ...matching.rules import Rule
from ...policies.model import Policy, PolicySet

# What has the subresource `scale`, by API group.
_SCALED = {("apps", "deployments"), ("apps", "replicasets"), ("apps", "statefulsets"), ("", "replicationcontrollers")}
_REPLICAS = re.compile(r"\breplicas\b")
# How schemas of custom resources write names that CEL cannot. Policies read objects without a schema, so that the names of fields
# stay as they are (kubernetes/kubernetes#118230).
_ESCAPED = re.compile(r"\.\??(\w*__(?:dot|dash|slash|underscores)__\w*)")


def hints_on(rules: PolicySet) -> Iterator[str]:
    """The hints on some policies and their bindings, as sentences with the place of each."""
    for policy in rules.policies:
        texts = [*(each.expression for each in policy.validations), *(each.expression for each in policy.variables)]
        texts += [each.expression for each in policy.match_conditions]
        yield from _scale(policy, texts, rules)
        yield from _escaped(policy, texts)
        yield from _unnarrowed(policy, rules)


def _scale(policy: Policy, texts: list[str], rules: PolicySet) -> Iterator[str]:
    """A limit of replicas that `kubectl scale` goes around (kubernetes/kubernetes#84530), unless another policy guards that way."""
    written = _resources(policy.match_constraints, writes=True)
    guarded = {resource for each in rules.policies for _, resource in _resources(each.match_constraints, writes=True)}
    found = sorted(resource for group, resource in _SCALED if (group, resource) in written)
    open_ways = [f"{each}/scale" for each in found if not guarded & {f"{each}/scale", f"{each}/*", "*/scale", "*/*"}]
    if open_ways and any(map(_REPLICAS.search, texts)):
        ways = ", ".join(open_ways)
        yield f"{policy.source}: {policy.name} reads replicas, and no rule is for {ways}: `kubectl scale` goes around it"


def _escaped(policy: Policy, texts: list[str]) -> Iterator[str]:
    names = sorted({found[1] for text in texts for found in _ESCAPED.finditer(text)})
    if names:
        yield (
            f"{policy.source}: {policy.name} reads the field {names[0]}, which no object has: policies read names as they are, "
            "as in object.metadata.labels['a.b']"
        )


def _unnarrowed(policy: Policy, rules: PolicySet) -> Iterator[str]:
    """A selector of namespaces next to rules for objects that are in none."""
    outside = sorted(
        resource
        for group, resource in _resources(policy.match_constraints, writes=False)
        if (known := by_resource(group, resource)) is not None and not known.namespaced and (group, resource) != ("", "namespaces")
    )
    criteria = [(policy.source, policy.name, policy.match_constraints)]
    criteria += [(each.source, each.name, each.match_resources) for each in rules.bindings if each.policy_name == policy.name]
    for source, name, found in criteria:
        selects = found is not None and found.namespace_selector is not None and found.namespace_selector.requirements
        if outside and selects:
            are = "are" if len(outside) > 1 else "is"
            yield f"{source}: {name} selects namespaces, and {', '.join(outside)} {are} in none: it does not leave them out"


def _resources(constraints: MatchResources | None, *, writes: bool) -> set[tuple[str, str]]:
    """The (API group, resource) pairs that rules name; with `writes` of those that match an UPDATE."""
    rules: tuple[Rule, ...] = constraints.resource_rules if constraints is not None else ()
    return {
        (group, resource)
        for rule in rules
        if not writes or {"UPDATE", "*"} & set(rule.operations)
        for group in rule.api_groups
        for resource in rule.resources
    }

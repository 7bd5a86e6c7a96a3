"""The requests that an audit policy must record so that given policies can be replayed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ingest.server.recommended import Coverage
from pipeline.history.kinds import by_kind
from pipeline.policies.model import ParamKind, Policy, PolicySet
from queries.reach_rules import CONNECT_SUBRESOURCES

# Two resources with one storage: a rule on either also matches the other (see pipeline/matching/equivalence.py).
_EVENTS = ("", "events.k8s.io")


def coverage_of(policies: PolicySet) -> Coverage:
    """The resources that the policies match, with their params. Bindings and exclusions only narrow the match, so they are ignored.

    Audit rules cannot say `every resource but no subresource`, so a rule on `*` covers the whole group.
    """
    groups: dict[str, set[str] | None] = {}
    for policy in policies.policies:
        for group, resource in (*_matched(policy), *_params(policy.param_kind)):
            known = groups.setdefault(group, set())
            if resource == "*":
                groups[group] = None
            elif known is not None:
                known.update((resource, f"{resource}/*"))
    return Coverage(
        tuple((group, tuple(sorted(members or ()))) for group, members in sorted(groups.items())),
        tuple(policy.name for policy in policies.policies),
        any("managedFields" in text for policy in policies.policies for text in _expressions(policy)),
    )


def _matched(policy: Policy) -> Iterator[tuple[str, str]]:
    """(group, resource or `*`) of the policy's rules. Resources that only a CONNECT can match have no bodies and need no rule of
    their own."""
    if policy.match_constraints is None:
        return
    for rule in policy.match_constraints.resource_rules:
        if set(rule.operations) == {"CONNECT"}:
            continue
        for group in rule.api_groups:
            for entry in rule.resources:
                resource, _, subresource = entry.partition("/")
                if group == "*":
                    yield "*", "*"
                elif subresource in CONNECT_SUBRESOURCES:
                    continue
                elif resource == "events" and group in _EVENTS:
                    yield from ((name, resource) for name in _EVENTS)
                else:
                    yield group, resource


def _params(kind: ParamKind | None) -> Iterator[tuple[str, str]]:
    """A param's resource; for a kind that is not built in, only the group is certain."""
    if kind is not None:
        group = kind.api_version.rpartition("/")[0]
        found = by_kind(group, kind.kind)
        yield group, found.resource if found else "*"


def _expressions(policy: Policy) -> Iterable[str]:
    yield from (validation.expression for validation in policy.validations)
    yield from (validation.message_expression for validation in policy.validations)
    yield from (item.expression for item in (*policy.variables, *policy.match_conditions, *policy.audit_annotations))

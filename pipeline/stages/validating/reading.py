"""What validating policies say of given manifests, and of those that the log shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from ingest.errors import EvidenceError
from queries import LakeReader, open_if_there

from ...manifests.documents import Document
from ...manifests.stored import stored_versions
from ...policies.model import Policy, PolicySet
from ...policies.refusing import refused_expressions
from ...request import Object
from ...requests.past import load_history
from ...runs.window import Window
from ..reading import StageReading
from .decode import GROUP, POLICY, policy_from_object
from .hints import hints_on
from .in_fleets import recorded_objects
from .load import policy_set_of
from .recorded import policies_as_of
from .written import read_of


class PolicyReading(StageReading[PolicySet]):
    """See StageReading."""

    def lacks(self, rules: PolicySet) -> str:
        """See StageReading: bindings alone judge nothing."""
        return "" if rules.policies else POLICY

    def refused(self, rules: PolicySet, version: tuple[int, int], lake: Path | None) -> Sequence[tuple[str, str]]:
        """See StageReading."""
        found = (refused_expressions(each, version, partial(_stored, lake, each.name)) for each in rules.policies)
        return [(each.source, each.error) for errors in found for each in errors]

    def unusable(self, rules: PolicySet, version: tuple[int, int]) -> Sequence[tuple[str, str]]:
        """See StageReading: each policy counts as the stored version of itself."""
        found = (refused_expressions(each, version, partial(_itself, each)) for each in rules.policies)
        return [(each.source, each.error) for errors in found for each in errors]

    def remarks(self, rules: PolicySet, version: tuple[int, int]) -> Sequence[str]:
        """See StageReading: bindings of policies that are not there."""
        names = {policy.name for policy in rules.policies}
        return [
            f"{binding.source}: {binding.name} binds {binding.policy_name}, which -f does not give: it has no effect"
            for binding in rules.bindings
            if binding.policy_name not in names
        ]

    def hints(self, rules: PolicySet) -> Sequence[str]:
        """See StageReading."""
        return [*hints_on(rules)]

    def with_recorded(self, reader: LakeReader, cluster: str, moment: datetime, rules: PolicySet | None) -> PolicySet:
        """See StageReading: given policies take bindings from the log, and given bindings take policies."""
        found = policies_as_of(reader, cluster, moment)
        return _joined(rules, found) if rules is not None else _in_force(found, moment)

    def as_of(self, reader: LakeReader, cluster: str, moment: datetime, rules: PolicySet, replaces_all: bool) -> PolicySet:
        """See StageReading: the other policies of the cluster do not change."""
        found = _in_force(policies_as_of(reader, cluster, moment), moment)
        names = {policy.name for policy in rules.policies}
        policies = tuple(policy for policy in found.policies if policy.name in names)
        return replace(found, policies=policies, bindings=tuple(each for each in found.bindings if each.policy_name in names))

    def in_fleets(
        self, reader: LakeReader, cluster: str, documents: Sequence[Document], window: Window, moment: datetime
    ) -> Mapping[str, str]:
        """See StageReading: policies, bindings, and the params that given bindings use."""
        given = policy_set_of(documents)
        return recorded_objects(load_history(reader, given.param_kinds, window), cluster, moment, given)

    def unpaired(self, rules: PolicySet, before: PolicySet) -> Sequence[str]:
        """See StageReading."""
        old, new = ([policy.name for policy in each.policies] for each in (before, rules))
        added = [f"no version before: the other version has no policy named {name}" for name in new if name not in old]
        return [*added, *(f"no version now: only the other version has a policy named {name}" for name in old if name not in new)]

    def kept(self, rules: PolicySet | None) -> Sequence[Object] | None:
        """See StageReading: the policies as they were read, with their bindings and params; those of the log are not kept."""
        return read_of(rules.without_secrets()) if rules is not None else ()


def _joined(given: PolicySet, recorded: PolicySet) -> PolicySet:
    named, bound = {policy.name for policy in given.policies}, {binding.policy_name for binding in given.bindings}
    policies = tuple(policy for policy in recorded.policies if policy.name in bound - named)
    bindings = tuple(binding for binding in recorded.bindings if binding.policy_name in named - bound)
    return replace(given, policies=given.policies + policies, bindings=given.bindings + bindings)


def _in_force(found: PolicySet, moment: datetime) -> PolicySet:
    """The policies that were in force: one that nothing bound did nothing. Raises EvidenceError if none was bound."""
    bound = {binding.policy_name for binding in found.bindings}
    policies = tuple(policy for policy in found.policies if policy.name in bound)
    if not policies:
        names = ", ".join(policy.name for policy in found.policies)
        raise EvidenceError(
            f"no policy was bound at {moment.isoformat()}, and a policy without a binding does nothing: {names}",
            "give another time, or give the policies as files with -f",
        )
    return replace(found, policies=policies)


def _itself(policy: Policy) -> tuple[Policy, ...]:
    return (policy,)


def _stored(lake: Path | None, name: str) -> tuple[Policy, ...]:
    """The versions of a policy that answers of API servers or snapshots show; none without a lake."""
    with open_if_there(lake) as reader:
        return () if reader is None else tuple(stored_versions(reader, GROUP, POLICY, name, policy_from_object))

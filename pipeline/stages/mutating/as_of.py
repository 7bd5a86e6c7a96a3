"""The mutating policies and bindings of a cluster as of one moment, from its log and snapshots."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from queries import LakeReader

from ...history.in_force import CHANGE_DELAY
from ...manifests.documents import Document
from ..as_of import AsOf, rules_as_of
from .decode import BINDING, rules_of
from .in_force import KINDS
from .model import MutatingRules

_RESOURCES = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")


def policies_as_of(reader: LakeReader, cluster: str, moment: datetime) -> AsOf[Document]:
    """The manifests of the policies and bindings that were in force at a moment. A policy that nothing bound was not.

    Those that the API server would reject today are left out.
    """
    found = rules_as_of(reader, dict(zip(_RESOURCES, KINDS, strict=True)), cluster, moment, CHANGE_DELAY, _checked)
    bound = {_policy_of(each) for each in found.rules if each.value["kind"] == BINDING}
    return replace(found, rules=tuple(each for each in found.rules if _policy_of(each) in bound))


def policies_before(reader: LakeReader, cluster: str, moment: datetime, given: MutatingRules, replaces_all: bool) -> MutatingRules:
    """The versions at a moment of the policies that `given` has, with the bindings of that time; with `replaces_all`, all of them.

    A policy that did not exist then changes nothing. Raises EvidenceError where the log cannot tell, also for a binding: it may be
    one of such a policy.
    """
    found = policies_as_of(reader, cluster, moment)
    names = {policy.name for policy in given.policies}
    found.refuse(lambda left: replaces_all or left.kind == BINDING or left.name in names)
    return rules_of([each for each in found.rules if replaces_all or _policy_of(each) in names])


def _checked(document: Document) -> Document:
    rules_of([document])
    return document


def _policy_of(document: Document) -> str:
    value = document.value
    name = value["metadata"]["name"] if value["kind"] == KINDS[0].kind else value["spec"]["policyName"]
    return str(name)

"""The mutating policies and bindings of a cluster as of one moment, from its log and snapshots."""

from __future__ import annotations

from datetime import datetime

from queries import LakeReader

from ...history.in_force import CHANGE_DELAY
from ...manifests.documents import Document
from ..as_of import documents_as_of
from .decode import rules_of
from .in_force import KINDS
from .model import MutatingRules

_RESOURCES = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")


def policies_as_of(reader: LakeReader, cluster: str, moment: datetime) -> list[Document]:
    """The manifests of the policies and bindings that were in force at a moment. A policy that nothing bound was not.

    Raises EvidenceError where the log cannot tell.
    """
    found = documents_as_of(reader, dict(zip(_RESOURCES, KINDS, strict=True)), cluster, moment, CHANGE_DELAY)
    bound = {_policy_of(each) for each in found if each.value["kind"] == KINDS[1].kind}
    return [each for each in found if _policy_of(each) in bound]


def policies_before(reader: LakeReader, cluster: str, moment: datetime, given: MutatingRules, replaces_all: bool) -> MutatingRules:
    """The versions at a moment of the policies that `given` has, with the bindings of that time; with `replaces_all`, all of them.

    A policy that did not exist then changes nothing. Raises EvidenceError where the log cannot tell, and InputError for an object
    that the API server would reject today.
    """
    found = policies_as_of(reader, cluster, moment)
    names = {policy.name for policy in given.policies}
    return rules_of([each for each in found if replaces_all or _policy_of(each) in names])


def _policy_of(document: Document) -> str:
    value = document.value
    name = value["metadata"]["name"] if value["kind"] == KINDS[0].kind else value["spec"]["policyName"]
    return str(name)

"""Policies, bindings and params from files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ingest.errors import InputError

from ...given import GivenObject
from ...manifests.documents import Document
from ...manifests.fields import Fields
from ...manifests.files import manifests_of, texts_of
from ...policies.model import Binding, Policy, PolicySet
from ...request import Object
from .decode import BINDING, GROUP, POLICY, VERSIONS, binding_from_document, policy_from_document


def load_policy_set(paths: Iterable[Path]) -> PolicySet:
    """The policies, bindings and other objects of YAML and JSON files; folders are searched for such files in order of name.

    Raises InputError with `file:line` for unreadable files, for two objects of one name, and for everything that the API server
    would reject.
    """
    return parse_policy_set(texts_of(paths))


def parse_policy_set(texts: Iterable[tuple[str, str]]) -> PolicySet:
    """The same from (source, text) pairs, such as standard input."""
    return policy_set_of(manifests_of(texts))


def policy_set_of(manifests: Iterable[Document]) -> PolicySet:
    """The policies and bindings among some manifests; all others are candidates for params."""
    policies: list[Policy] = []
    bindings: list[Binding] = []
    objects: list[GivenObject] = []
    written: list[Object] = []
    for item in manifests:
        kind = _kind(item)
        if kind == POLICY:
            policies.append(policy_from_document(item))
        elif kind == BINDING:
            bindings.append(binding_from_document(item))
        else:
            objects.append(given_object(item))
            continue
        written.append(item.value)
    check_unique("ValidatingAdmissionPolicy", policies)
    check_unique("ValidatingAdmissionPolicyBinding", bindings)
    return PolicySet(tuple(policies), tuple(bindings), tuple(objects), written=tuple(written))


def given_object(document: Document) -> GivenObject:
    """An object given with policies. Raises InputError for a name or labels that no object can have: later code reads them."""
    metadata = Fields(document).object("metadata")
    if metadata is not None:
        for field in ("name", "namespace"):
            metadata.text(field, "")
        if labels := metadata.object("labels"):
            for label in labels.value:
                labels.text(label, "")
    return GivenObject(document.value, document.where())


def _kind(document: Document) -> str | None:
    """The kind, if this module reads it as a policy or binding; None for any other object."""
    root = Fields(document)
    kind, api_version = root.text("kind"), root.text("apiVersion")
    if kind not in (POLICY, BINDING) or api_version.partition("/")[0] != GROUP:
        return None
    if api_version not in VERSIONS:
        raise root.error(f" must be one of {', '.join(VERSIONS)}, not {api_version!r}", "apiVersion")
    return kind


def check_unique(kind: str, named: Iterable[Policy | Binding]) -> None:
    """Raises InputError for the second of two objects of one name."""
    seen: dict[str, str] = {}
    for item in named:
        if item.name in seen:
            raise InputError(f"{item.source}: {kind} {item.name!r} is also in {seen[item.name]}; give one of them")
        seen[item.name] = item.source

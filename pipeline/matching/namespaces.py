"""namespaceSelector. Follows kubernetes/apiserver pkg/admission/plugin/webhook/predicates/namespace/matcher.go."""

from __future__ import annotations

from collections.abc import Mapping

from ..request import AdmissionRequest, Evidence, Grade, Known, Object, Operation, Unknown
from ..world import World
from .objects import LABELS_REDACTED
from .selectors import LabelSelector, Requirement, is_doubtful, labels_of

# The server puts every namespace's own name under this label, and prevents any change to it (KEP-2161).
NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceMissingError(Exception):
    """The namespace of the request did not exist: the API server answers 404, with this text."""


def namespace_selected(selector: LabelSelector, request: AdmissionRequest, world: World) -> tuple[str | None, Evidence[object]]:
    """Why a request's namespace is not selected (None: it is selected), and the evidence that was read.

    Raises NamespaceMissingError. The evidence is Unknown if the labels were not recorded; the first part then has no meaning.
    """
    if not request.namespace and request.resource.resource != "namespaces":
        # A cluster-scoped request is never exempt, even from a selector that could select nothing.
        return None, NOTHING_READ
    if not selector.requirements:
        return None, NOTHING_READ
    evidence = _namespace(request, world)
    if isinstance(evidence, Unknown):
        return _by_name(selector, request, evidence)
    if evidence.is_redacted and is_doubtful(selector, evidence.value):
        return _by_name(selector, request, LABELS_REDACTED)
    labels = labels_of(evidence.value)
    if labels is None:
        if evidence.value is None:
            raise NamespaceMissingError(f'namespaces "{request.namespace}" not found')
        labels = {}
    failed = selector.failed(labels)
    return (None if failed is None else _why(failed, labels, request)), evidence


def _by_name(selector: LabelSelector, request: AdmissionRequest, missing: Unknown) -> tuple[str | None, Evidence[object]]:
    """The result that follows from the namespace's name alone, where its labels were not recorded."""
    if request.namespace:
        labels = {NAME_LABEL: request.namespace}
        known = Known(labels, "the name of the namespace", Grade.INFERRED)
        about_name = [requirement for requirement in selector.requirements if requirement.key == NAME_LABEL]
        failed = LabelSelector(tuple(about_name)).failed(labels)
        if failed is not None:
            return _why(failed, labels, request), known
        if len(about_name) == len(selector.requirements):
            return None, known
    return None, missing


def _why(failed: Requirement, labels: Mapping[str, str], request: AdmissionRequest) -> str:
    found = f"{failed.key}={labels[failed.key]}" if failed.key in labels else f"no label {failed.key}"
    return f"namespaceSelector: {failed} does not select namespace {request.namespace!r} ({found})"


NOTHING_READ: Evidence[object] = Known(None, "not needed")


def _namespace(request: AdmissionRequest, world: World) -> Evidence[Object | None]:
    is_namespace_itself = request.resource.resource == "namespaces" and not request.subresource
    if is_namespace_itself and request.operation in (Operation.CREATE, Operation.UPDATE):
        # The informer does not have the new labels yet, so the server reads them from the object of the request.
        return request.object
    return world.namespace(request.namespace)

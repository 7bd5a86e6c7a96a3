"""namespaceSelector. Follows kubernetes/apiserver pkg/admission/plugin/webhook/predicates/namespace/matcher.go."""

from __future__ import annotations

from ..request import AdmissionRequest, Evidence, Known, Object, Operation, Unknown
from ..world import World
from .selectors import LabelSelector, labels_of


class NamespaceMissingError(Exception):
    """The namespace of the request did not exist: the API server answers 404, in these words."""


def namespace_selected(selector: LabelSelector, request: AdmissionRequest, world: World) -> tuple[str | None, Evidence[object]]:
    """Why a request's namespace is not selected (None: it is), and the evidence that was read.

    Raises NamespaceMissingError. The evidence is Unknown if nobody recorded the labels; the first part then means nothing.
    """
    if not request.namespace and request.resource.resource != "namespaces":
        # A cluster-scoped request is never exempted, even by a selector that could select nothing.
        return None, NOTHING_READ
    if not selector.requirements:
        return None, NOTHING_READ
    evidence = _namespace(request, world)
    if isinstance(evidence, Unknown):
        return None, evidence
    labels = labels_of(evidence.value)
    if labels is None:
        if evidence.value is None:
            raise NamespaceMissingError(f'namespaces "{request.namespace}" not found')
        labels = {}
    failed = selector.failed(labels)
    if failed is None:
        return None, evidence
    found = f"{failed.key}={labels[failed.key]}" if failed.key in labels else f"no label {failed.key}"
    return f"namespaceSelector: {failed} does not select namespace {request.namespace!r} ({found})", evidence


NOTHING_READ: Evidence[object] = Known(None, "not needed")


def _namespace(request: AdmissionRequest, world: World) -> Evidence[Object | None]:
    is_namespace_itself = request.resource.resource == "namespaces" and not request.subresource
    if is_namespace_itself and request.operation in (Operation.CREATE, Operation.UPDATE):
        # The informer does not have the new labels yet, so the object of the request is asked.
        return request.object
    return world.namespace(request.namespace)

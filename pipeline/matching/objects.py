"""objectSelector. Follows kubernetes/apiserver pkg/admission/plugin/webhook/predicates/object/matcher.go."""

from __future__ import annotations

from ..request import AdmissionRequest, Evidence, Known, Object, Unknown
from .selectors import LabelSelector, is_doubtful, labels_of

LABELS_REDACTED = Unknown("a label that the selector reads was redacted")


def object_selected(selector: LabelSelector, request: AdmissionRequest) -> tuple[bool, tuple[Evidence[Object | None], ...]]:
    """Whether the labels of the new or of the old object are selected, and the evidence that was read.

    If one of the two is Unknown and the other is not selected, the evidence holds that Unknown and the answer has no meaning.
    """
    if not selector.requirements:
        return True, ()
    read: list[Evidence[Object | None]] = []
    for evidence in (request.object, request.old_object):
        if isinstance(evidence, Known):
            if evidence.is_redacted and is_doubtful(selector, evidence.value):
                read.append(LABELS_REDACTED)
                continue
            labels = labels_of(evidence.value)
            if labels is not None and selector.selects(labels):
                return True, (evidence,)
        read.append(evidence)
    return False, tuple(read)


def missing(evidence: tuple[Evidence[Object | None], ...]) -> Unknown | None:
    """The first missing piece of evidence."""
    return next((piece for piece in evidence if isinstance(piece, Unknown)), None)

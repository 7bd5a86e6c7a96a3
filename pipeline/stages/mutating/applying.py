"""One mutation of one object: evaluate the expression, apply the patch, decode and default the result.

Follows dispatchOne of kubernetes/apiserver pkg/admission/plugin/policy/mutating/dispatcher.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ...cel import CelError
from ...cel import Unknown as CelUnknown
from ...history import json_patch
from ...matching.equivalence import BUILT_IN_GROUPS
from ...policies.evaluate import OUT_OF_BUDGET, Case, OutOfBudgetError
from ...policies.inputs import NamespaceNotFoundError
from ...policies.limits import BUDGET
from ...request import AdmissionRequest, Known, Object
from ...withheld import has_withheld
from .compiled import CompiledMutation
from .decoding import DecodeError, decode_strictly, defaulted, written
from .kinds import KnownKind
from .merging import DuplicateError, MergeError, merge
from .model import PatchType
from .nil_lists import as_json
from .results import PanicError, ResultError, UnknownResultError, check_size, configuration_of, is_part_of, operations_of

Patch: TypeAlias = list[dict[str, Any]] | dict[str, Any]

_REDACTED = "object: values in it were redacted"


@dataclass(frozen=True)
class Refusal:
    """An answer of the API server that ends a request. Without a `code` the client gets no answer at all."""

    code: int | None
    reason: str
    message: str | None
    causes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Applied:
    """The object after a mutation, which a failed test leaves as it was. `patch` has the operations or the configuration."""

    object: Object
    patch: Patch


@dataclass(frozen=True)
class Failed:
    """A mutation with an error, which failurePolicy ignores or turns into a refusal."""

    message: str


@dataclass(frozen=True)
class Undecided:
    """A mutation whose result is not known."""

    why: str


def mutate(
    case: Case, mutation: CompiledMutation, current: Object, kind: KnownKind, request: AdmissionRequest
) -> Applied | Failed | Undecided | Refusal:
    """The outcome of one mutation of an object that `case` sees as `object`. It does not change the object."""
    if mutation.expression.program is None:
        return Failed(mutation.expression.error)
    names = mutation.roots - {"authorizer"}
    try:
        budget = BUDGET if case.is_counted(mutation.limits, names) else None
        step = case.step(names, budget, has_authorizer=True)
        value = step.run(mutation.expression)
    except OutOfBudgetError:
        return Failed(OUT_OF_BUDGET)
    except NamespaceNotFoundError as problem:
        return Refusal(404, "NotFound", str(problem))
    if value.__class__ is CelError:
        return Failed(value.message)
    if value.__class__ is CelUnknown:
        return Undecided(", ".join(sorted(value.attributes)))
    is_data = is_part_of([step.roots[name] for name in step.roots if name != "variables"])
    patch: Patch = []
    try:
        check_size(value)
        if mutation.mutation.patch_type is PatchType.JSON_PATCH:
            patch = operations_of(value, is_data, mutation.takes_lists)
            if _is_custom_scale(request):
                # The patched Scale is converted by the converter of the custom resource.
                return Failed(f"request to convert CR to an invalid group/version: {current.get('apiVersion')}")
            changed = _patched(patch, current, kind)
        else:
            patch = configuration_of(value, is_data)
            changed = _merged(patch, current, kind, mutation.takes_duplicates)
        check_size(changed)
    except json_patch.TestFailedError:
        if _is_redacted(request):
            return Undecided(_REDACTED)
        changed = current
    except json_patch.JsonPatchError as problem:
        return Failed(f"JSON Patch: {problem}")
    except MergeError as problem:
        return Failed(f"error applying patch: {problem}")
    except ResultError as problem:
        return Failed(str(problem))
    except DecodeError as problem:
        if _is_redacted(request):
            return Undecided(_REDACTED)
        return Refusal(500, "InternalError", f"Internal error occurred: {problem}")
    except PanicError:
        return Refusal(None, "", None)
    except UnknownResultError as problem:
        return Undecided(str(problem))
    return Applied(defaulted(changed, request.resource, kind.custom) if not request.subresource else changed, patch)


def _is_redacted(request: AdmissionRequest) -> bool:
    """Whether a test or the decoding of the object may have met a placeholder."""
    found = request.object
    return isinstance(found, Known) and found.is_redacted and has_withheld(found.value)


def _patched(operations: list[dict[str, Any]], current: Object, kind: KnownKind) -> Object:
    patched = json_patch.apply(as_json(current), operations)
    if kind.has_metadata_alone:
        return _with_metadata(patched, current, kind)
    if kind.custom is None:
        return decode_strictly(patched, kind.kind, kind.shape)
    if not isinstance(patched, dict):
        raise UnknownResultError("a patched document that is no object")
    return patched


def _is_custom_scale(request: AdmissionRequest) -> bool:
    return request.subresource == "scale" and request.resource.group not in BUILT_IN_GROUPS


def _merged(configuration: dict[str, Any], current: Object, kind: KnownKind, takes_duplicates: bool | None) -> Object:
    if kind.has_metadata_alone and configuration.keys() - {"metadata"}:
        raise UnknownResultError(_only_metadata(kind))
    try:
        changed = merge(current, configuration, kind.shape, kind.kind, takes_duplicates=bool(takes_duplicates))
    except DuplicateError as problem:
        if takes_duplicates is None:
            raise UnknownResultError(f"early patch releases refuse it: {problem}") from None
        raise
    if kind.has_metadata_alone:
        return _with_metadata(changed, current, kind)
    return changed if kind.custom is not None else written(changed, kind.shape)


def _with_metadata(changed: Any, current: Object, kind: KnownKind) -> Object:
    """The object with changed metadata; a change of other fields is not known."""
    if not isinstance(changed, dict) or {**changed, "metadata": None} != {**current, "metadata": None}:
        raise UnknownResultError(_only_metadata(kind))
    known = {name: changed[name] for name in ("apiVersion", "kind", "metadata") if name in changed}
    return {**changed, **decode_strictly(known, kind.kind, kind.shape)}


def _only_metadata(kind: KnownKind) -> str:
    return f"of {kind.kind.kind} of {kind.kind.group}/{kind.kind.version} only the metadata are known here"

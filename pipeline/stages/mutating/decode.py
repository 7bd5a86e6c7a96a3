"""From manifests to mutating policies, with the defaults that the API server would write, and its refusals.

Follows kubernetes pkg/apis/admissionregistration/{v1,v1beta1,v1alpha1}/defaults.go and validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...manifests.documents import Document
from ...manifests.fields import Fields
from ...policies.model import Action, Binding
from ...request import Object
from ..validating.decode import BINDING as VALIDATING_BINDING
from ..validating.decode import (
    GROUP,
    MUTATING_BINDING_FIELDS,
    MUTATING_POLICY,
    MUTATING_POLICY_FIELDS,
    VERSIONS,
    binding_of_fields,
    only_known,
    policy_of_fields,
)
from ..validating.decode import POLICY as VALIDATING_POLICY
from ..validating.load import check_unique, given_object, policy_set_of
from ..validating.validate import validate_mutating, validate_mutating_binding
from .model import MutatingPolicy, MutatingRules, Mutation, PatchType, ReinvocationPolicy

POLICY, BINDING = MUTATING_POLICY, "MutatingAdmissionPolicyBinding"
_FIELD_OF = {PatchType.JSON_PATCH: "jsonPatch", PatchType.APPLY_CONFIGURATION: "applyConfiguration"}


def rules_of(documents: Sequence[Document]) -> MutatingRules:
    """The mutating policies and bindings among some manifests, and what goes with them.

    Raises InputError, with file and line, for everything that the API server would reject.
    """
    policies: list[MutatingPolicy] = []
    bindings: list[Binding] = []
    others: list[Document] = []
    for document in documents:
        kind = _kind(document)
        if kind == POLICY:
            policies.append(_policy(document))
        elif kind == BINDING:
            bindings.append(_binding(document))
        else:
            others.append(document)
    check_unique(POLICY, [each.rules for each in policies])
    check_unique(BINDING, bindings)
    later = policy_set_of([each for each in others if _kind(each) in (VALIDATING_POLICY, VALIDATING_BINDING)])
    objects = tuple(given_object(each) for each in others if _kind(each) is None)
    written = tuple(each.value for each in documents if _kind(each) in (POLICY, BINDING))
    return MutatingRules(tuple(policies), tuple(bindings), objects, replace(later, objects=objects), written)


def policy_from_object(obj: Object, source: str) -> MutatingPolicy:
    """A policy as the API server stored it: with defaults, but not validated again. Raises InputError."""
    return _read_policy(Fields(Document(obj, source)))


def binding_from_object(obj: Object, source: str) -> Binding:
    """A binding as the API server stored it. Raises InputError."""
    return _as_acting(binding_of_fields(Fields(Document(obj, source))))


def _kind(document: Document) -> str | None:
    """The kind, if it is one of policies or bindings; None for any other object."""
    root = Fields(document)
    kind, api_version = root.text("kind"), root.text("apiVersion")
    if api_version.partition("/")[0] != GROUP or kind not in (POLICY, BINDING, VALIDATING_POLICY, VALIDATING_BINDING):
        return None
    if api_version not in VERSIONS:
        raise root.error(f" must be one of {', '.join(VERSIONS)}, not {api_version!r}", "apiVersion")
    return kind


def _policy(document: Document) -> MutatingPolicy:
    root = Fields(document)
    only_known(root, MUTATING_POLICY_FIELDS)
    policy = _read_policy(root)
    validate_mutating(policy.rules, root)
    return policy


def _read_policy(root: Fields) -> MutatingPolicy:
    rules = policy_of_fields(root)
    spec = root.object("spec")
    assert spec is not None
    mutations = tuple(_mutation(each) for each in spec.objects("mutations"))
    if not mutations:
        raise spec.error(" must contain at least one item", "mutations")
    reinvocation = ReinvocationPolicy(spec.text("reinvocationPolicy", choices=ReinvocationPolicy))
    return MutatingPolicy(rules, mutations, reinvocation)


def _mutation(fields: Fields) -> Mutation:
    patch_type = PatchType(fields.text("patchType", choices=PatchType))
    field = _FIELD_OF[patch_type]
    for other in _FIELD_OF.values():
        if other != field and fields.has(other):
            raise fields.error(f" must not be specified when patchType is {patch_type}", other)
    given = fields.object(field)
    if given is None:
        raise fields.error(f" is required when patchType is {patch_type}", field)
    expression = given.text("expression")
    if not expression.strip():
        raise given.error(" is required", "expression")
    return Mutation(patch_type, expression, given.where("expression"))


def _binding(document: Document) -> Binding:
    root = Fields(document)
    only_known(root, MUTATING_BINDING_FIELDS)
    binding = binding_of_fields(root)
    validate_mutating_binding(binding, root)
    return _as_acting(binding)


def _as_acting(binding: Binding) -> Binding:
    """A bound mutating policy acts: its binding has no actions to choose from."""
    return replace(binding, validation_actions=(Action.DENY,))
